//! Regions: what is checked when wrapping, and what a call does.

use super::agreement::Break;
use super::call;
use super::cx::{ManualCx, Shared};
use super::grid::Grid;
use super::rendezvous::Rendezvous;
use super::results::Seen;
use super::spec::Spec;
use super::varies::{Running, Varies};
use super::work::Outcome;
use crate::backend::LocalArray;
use crate::{DeviceMesh, Error, ErrorKind, PartitionSpec, Result, Tensor};
use std::fmt;
use std::sync::Arc;

pub(super) const OP: &str = "shard_map";

/// The function of a region, whatever the number of its arguments.
pub(super) type Function = dyn Fn(&ManualCx, Vec<Tensor>) -> Result<Vec<Tensor>> + Send + Sync;

/// A region whose mesh, specs and function are known to fit.
pub(super) struct Region {
    pub(super) grid: Arc<Grid>,
    ins: Vec<Spec>,
    outs: Vec<Spec>,
    pub(super) check_vma: bool,
    pub(super) function: Arc<Function>,
}

impl Region {
    pub(super) fn new(
        mesh: &DeviceMesh,
        names: Option<&[String]>,
        ins: Vec<PartitionSpec>,
        outs: Vec<PartitionSpec>,
        check_vma: bool,
        function: Arc<Function>,
    ) -> Result<Self> {
        let grid = Grid::new(mesh, names).map_err(|error| error.with_op(OP))?;
        let specs = |specs: Vec<PartitionSpec>, what: &str| -> Result<Vec<Spec>> {
            specs.into_iter().enumerate().map(|(i, spec)| Spec::new(&grid, spec, what, i)).collect()
        };
        let (ins, outs) = (specs(ins, "in_specs")?, specs(outs, "out_specs")?);
        Ok(Self { grid: Arc::new(grid), ins, outs, check_vma, function })
    }

    #[track_caller]
    pub(super) fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        let at = std::panic::Location::caller();
        let operands = || args.iter().enumerate().map(|(i, x)| format!("args[{i}]: {}", x.layout()));
        self.run(args).map_err(|error| error.with_op(OP).with_operands(operands()).with_location(at))
    }

    /// What moves to bring the arguments in place is charged to the line of the call; the function's own ops to theirs.
    #[track_caller]
    fn run(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        if args.len() != self.ins.len() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("{} arguments for {} in_specs", args.len(), self.ins.len()),
            )
            .with_fix("give one tensor per in_spec"));
        }
        let running = Running::begin();
        let outer = Varies::around(args);
        let mut free = outer.free();
        let mut bits = vec![Varies::NONE; self.grid.mesh.ndim()];
        for axis in &self.grid.manual {
            // A value cannot vary over one device.
            if self.grid.mesh.size(*axis) > 1
                && let Some(bit) = bits.get_mut(*axis)
            {
                *bit = Varies::bit(free);
                free += 1;
            }
        }
        if free > u64::BITS {
            return Err(Error::new(ErrorKind::Manual, "regions of more than 64 mesh axes are nested"));
        }
        let own = bits.iter().fold(Varies::NONE, |all, bit| all.union(*bit));
        let shared = Arc::new(Shared {
            grid: self.grid.clone(),
            rendezvous: Rendezvous::new(self.grid.members.len(), {
                let grid = self.grid.clone();
                move |why| call::broken(&grid, why)
            }),
            bits,
            axes: outer.union(own),
        });
        let n = self.grid.members.len();
        let mut given: Vec<Vec<Tensor>> = (0..n).map(|_| Vec::with_capacity(args.len())).collect();
        for (i, (x, spec)) in args.iter().zip(&self.ins).enumerate() {
            let named: Vec<usize> = (0..self.grid.mesh.ndim()).filter(|axis| spec.names(*axis)).collect();
            let varies = x.varies().only(outer).union(shared.bits_of(&named));
            let blocks = self.blocks(x, spec, varies).map_err(|error| {
                error.with_op(OP).with_operands([format!("args[{i}]: {} by {}", x.layout(), spec.text())])
            })?;
            given.iter_mut().zip(blocks).for_each(|(given, block)| given.push(block));
        }
        let taint = Varies::taint();
        let outcomes = self.on_threads(&shared, given, taint)?;
        let taint = outcomes.iter().fold(taint, |all, outcome| all.union(outcome.taint));
        let seen = Seen { taint, elsewhere: running.read_elsewhere() };
        let taint = taint.only(outer);
        taint.seen_by_host();
        let values = self.agreed(&shared, outcomes)?;
        let mut results = Vec::with_capacity(self.outs.len());
        for (i, spec) in self.outs.iter().enumerate() {
            let each: Vec<&Tensor> = values.iter().filter_map(|values| values.get(i)).collect();
            results.push(self.result(&shared, spec, &each, &seen, outer).map_err(|error| {
                let layout = each.first().map(|value| format!(" of {}", value.layout())).unwrap_or_default();
                error.with_op(OP).with_operands([format!("results[{i}]{layout} by {}", spec.text())])
            })?);
        }
        Ok(results)
    }

    /// The members' results, if all came to their ends.
    fn agreed(&self, shared: &Shared, outcomes: Vec<Outcome>) -> Result<Vec<Vec<Tensor>>> {
        if let Some(why) = shared.rendezvous.broken() {
            let error = call::broken(&self.grid, &why);
            let ended = match &*why {
                Break::Ended { member, .. } => Some(*member),
                _ => None,
            };
            let cause =
                ended.and_then(|member| Some((member, outcomes.into_iter().nth(member)?.given.err()?)));
            return Err(match cause {
                None => error,
                Some((member, cause)) => {
                    let whole =
                        Error::new(cause.kind(), format!("{} ended the region", self.grid.name(member)));
                    let whole = match cause.mesh_axis() {
                        Some((name, size)) => whole.with_mesh_axis(name, size),
                        None => whole,
                    };
                    let whole = match cause.fix() {
                        Some(fix) => whole.with_fix(fix.to_owned()),
                        None => whole,
                    };
                    whole.with_source(cause)
                }
            });
        }
        let values: Result<Vec<Vec<Tensor>>> = outcomes.into_iter().map(|outcome| outcome.given).collect();
        let values = values?;
        for (member, values) in values.iter().enumerate() {
            if values.len() != self.outs.len() {
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!(
                        "{} gave {} results for {} out_specs",
                        self.grid.name(member),
                        values.len(),
                        self.outs.len()
                    ),
                )
                .with_fix("return one tensor per out_spec"));
            }
        }
        Ok(values)
    }
}

pub(super) fn shard_of(x: &Tensor, position: usize) -> Option<&LocalArray> {
    x.shards().get(x.positions().binary_search(&position).ok()?)
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list =
            |specs: &[Spec]| specs.iter().map(|spec| spec.text().to_string()).collect::<Vec<_>>().join(", ");
        write!(f, "ShardMap({}, [{}] to [{}])", self.grid.mesh, list(&self.ins), list(&self.outs))
    }
}
