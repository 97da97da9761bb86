//! Staged rows: local kernels and named collectives on small intermediates.

use crate::backend::{Backend, Exchange, IndexMap, LocalArray, LocalArrays, Step, StepKind};
use crate::kernel::KernelCx;
use crate::rule::StageCollective;
use crate::trace::{Event, Seen};
use crate::{DeviceMapping, Error, ErrorKind, Place, ReduceOp, Result, Shape, TensorLayout};
use smallvec::SmallVec;

/// The local arrays of one operand or intermediate, one per position that the process addresses.
pub type Shards = LocalArrays;

/// What a staged function gets: all positions of the process at once, and collectives over the staged mesh axes.
pub struct StageCx<'a> {
    backend: &'a dyn Backend,
    op: &'static str,
    positions: &'a [usize],
    operands: &'a [TensorLayout],
    results: &'a [TensorLayout],
    axes: &'a [usize],
    collectives: SmallVec<[StageCollective; 2]>,
    /// The maps of the exchanges among them.
    maps: Vec<IndexMap>,
    /// Whether the bytes of exchanges are counted: that takes as long as planning one.
    counts: bool,
}

impl<'a> StageCx<'a> {
    /// The context of a call; `axes` are the mesh axes along which it communicates.
    pub fn new(
        backend: &'a dyn Backend,
        op: &'static str,
        positions: &'a [usize],
        operands: &'a [TensorLayout],
        results: &'a [TensorLayout],
        axes: &'a [usize],
    ) -> Self {
        let (collectives, maps) = (SmallVec::new(), Vec::new());
        Self { backend, op, positions, operands, results, axes, collectives, maps, counts: true }
    }

    /// The same for a call whose collectives nobody asks for.
    pub(crate) fn uncounted(mut self) -> Self {
        self.counts = false;
        self
    }

    /// The mesh axes along which it communicates: those on which a staged row was chosen, and where that is an exchange, those
    /// along which it reads an operand that was not brought to where its row wants it.
    pub fn axes(&self) -> &'a [usize] {
        self.axes
    }
    /// The layout of a flat operand.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if there is none.
    pub fn operand(&self, i: usize) -> Result<&'a TensorLayout> {
        self.operands.get(i).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("there is no operand {i}")).with_op(self.op)
        })
    }

    /// The collectives that ran so far: what the row must have declared. Dispatch does not count them: there it is empty.
    pub fn collectives(&self) -> &[StageCollective] {
        &self.collectives
    }

    /// The maps of the exchanges among them, in order: what the row must have declared, if it declares any.
    pub fn maps(&self) -> &[IndexMap] {
        &self.maps
    }

    /// Runs a local computation at every position; `kernel` gets the context and the number of the shard.
    ///
    /// # Errors
    /// The first error of the kernel.
    pub fn each(
        &mut self,
        mut kernel: impl FnMut(&mut KernelCx<'_>, usize) -> Result<LocalArray>,
    ) -> Result<Shards> {
        let mut shards = Shards::new();
        for (i, position) in self.positions.iter().enumerate() {
            let mesh = self.results.first().or(self.operands.first()).map(TensorLayout::mesh);
            let device = mesh.and_then(|mesh| mesh.device(*position));
            let device = device.ok_or_else(|| {
                Error::new(ErrorKind::Internal, "a position outside the mesh").with_op(self.op)
            })?;
            let mut cx = KernelCx::new(self.backend, self.op, device, *position, self.operands, self.results);
            shards.push(kernel(&mut cx, i)?);
        }
        Ok(shards)
    }

    /// Makes a result whose every element is a copy of one of the operands', moving only what a device does not hold:
    /// `map` speaks of global indices, `shards` are those of all operands that it reads. Row: a `Permute` stage, whose bytes
    /// [`exchange_stage`](crate::rule::exchange_stage) works out.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if the map has not the result's shape, else what the collective says.
    pub fn exchange(&mut self, map: &IndexMap, result: usize, shards: &[Shards]) -> Result<Shards> {
        let Some(layout) = self.results.get(result) else {
            return Err(
                Error::new(ErrorKind::Internal, format!("there is no result {result}")).with_op(self.op)
            );
        };
        if map.shape != *layout.shape() || shards.len() > self.operands.len() {
            return Err(Error::new(
                ErrorKind::Kernel,
                format!(
                    "an index map of shape {} over {} operands cannot make {layout}",
                    map.shape,
                    shards.len()
                ),
            )
            .with_op(self.op));
        }
        let exchange = Exchange { map, operands: self.operands, result: layout, axes: self.axes };
        let received = || exchange.most_received().unwrap_or(0);
        if self.counts {
            self.collectives.push(StageCollective { kind: StepKind::Permute, bytes: received() });
            self.maps.push(map.clone());
        }
        let axes = || exchange.axis_names().collect::<Vec<_>>().join(",");
        let from = || exchange.operands.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let _span = tracing::info_span!(
            "redistribute",
            op = self.op,
            kind = StepKind::Permute.name(),
            axes = axes(),
            from = from(),
            to = %layout.mapping(),
            bytes = received() as f64,
        )
        .entered();
        let _seen = Seen::new(|| Event::Exchange { op: self.op, exchange: &exchange, bytes: received() });
        self.backend.collectives().exchange(self.op, &exchange, shards)
    }

    /// Combines an intermediate over the staged mesh axes on every device. The intermediate has the global shape
    /// `shape` and lies like operand `like` on the other mesh axes.
    ///
    /// # Errors
    /// What the collective says.
    pub fn all_reduce(&mut self, op: ReduceOp, like: usize, shape: &Shape, shards: Shards) -> Result<Shards> {
        let layout = self.operand(like)?;
        let dtype = shards.first().map_or(layout.dtype(), LocalArray::dtype);
        let on = |place: Place| -> Result<TensorLayout> {
            let places: SmallVec<[Place; 4]> = layout
                .places()
                .iter()
                .enumerate()
                .map(|(axis, own)| if self.axes.contains(&axis) { place } else { *own })
                .collect();
            TensorLayout::new(dtype, shape, DeviceMapping::new(layout.mesh(), places)?)
        };
        let (source, target) = (on(Place::Partial(op))?, on(Place::Replicated)?);
        // The row has said what it costs; who watches prices it again.
        let step = Step { kind: StepKind::AllReduce(op), axes: self.axes.into(), source, target, cost: 0.0 };
        let _span = step.span(self.op).entered();
        if self.counts {
            self.collectives.push(StageCollective { kind: step.kind, bytes: step.source.bytes() });
        }
        let _seen = Seen::new(|| Event::Step { op: self.op, step: &step });
        self.backend.collectives().run(self.op, &step, shards)
    }
}
