//! What the function of a region gets: its place, and the collectives.

use super::call::{Call, Collective};
use super::collective;
use super::grid::{Axes, Grid, Group};
use super::local;
use super::over::Over;
use super::rendezvous::Rendezvous;
use super::varies::Varies;
use crate::backend::{BinaryOp, Expr};
use crate::dispatch::Outermost;
use crate::{DType, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, ReduceOp, Result, Scope, Tensor};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// What a member brings to a meeting.
pub(super) struct Given {
    tensor: Tensor,
    /// Over which axes it may vary, the member's way to here included.
    varies: Varies,
    /// What is in force for the member, who watches it among that.
    scope: Arc<Scope>,
    /// The member's line.
    at: &'static Location<'static>,
}

/// What the members of one call of a region share.
pub(super) struct Shared {
    pub(super) grid: Arc<Grid>,
    pub(super) rendezvous: Rendezvous<Call, Given, Tensor>,
    /// A bit per mesh axis of the region; none for an axis that is not manual, or has one device only.
    pub(super) bits: Vec<Varies>,
    /// All of them, and those of the regions outside.
    pub(super) axes: Varies,
}

impl Shared {
    pub(super) fn bits_of(&self, axes: &[usize]) -> Varies {
        axes.iter().filter_map(|axis| self.bits.get(*axis)).fold(Varies::NONE, |all, bit| all.union(*bit))
    }
}

/// One device's side of a manual region: what [`shard_map`](super::shard_map) gives to its function.
///
/// The device is one coordinate of the manual mesh axes. Its tensors lie on what remains of the mesh ([`ManualCx::mesh`]):
/// one device if all axes are manual, so that every op works on them and moves nothing. What moves between the devices is
/// said here: collectives take the name of a mesh axis, or several (`["y", "x"]`: the first is the most significant), and
/// a **group** is all devices that differ only along those. Tensor axes may be negative, counted from the back.
///
/// A collective waits for the other devices of the group. All must call it, with equal arguments, and in the same order as
/// others of that group; a device that does not gives every device of the region an error that names both.
pub struct ManualCx {
    shared: Arc<Shared>,
    member: usize,
    // It may not be shared by threads: a device is at one place of its program.
    one_thread: PhantomData<Cell<()>>,
}

/// What a collective does, and how its result counts.
struct Wanted {
    name: &'static str,
    at: &'static Location<'static>,
    collective: Collective,
}

impl ManualCx {
    pub(super) fn new(shared: Arc<Shared>, member: usize) -> Self {
        Self { shared, member, one_thread: PhantomData }
    }

    fn grid(&self) -> &Grid {
        &self.shared.grid
    }

    /// The mesh that remains for this device: the mesh axes that are not manual, or one device.
    pub fn mesh(&self) -> &DeviceMesh {
        match self.grid().members.get(self.member) {
            Some(member) => &member.mesh,
            None => &self.grid().mesh,
        }
    }

    /// The number of devices over some mesh axes together.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for a mesh axis that is not manual in this region, [`ErrorKind::DuplicateAxis`] for one given twice.
    pub fn axis_size(&self, over: impl Into<Over>) -> Result<usize> {
        let over = over.into();
        let axes = self.axes("axis_size", &over)?;
        self.grid().mesh.axis_size(&axes)
    }

    /// The place of this device along some mesh axes together, as a tensor of dtype i32 without axes; it varies over them.
    ///
    /// # Errors
    /// As [`ManualCx::axis_size`].
    pub fn axis_index(&self, over: impl Into<Over>) -> Result<Tensor> {
        let over = over.into();
        let axes = self.axes("axis_index", &over)?;
        let index = i32::try_from(self.number(&axes)?).unwrap_or(i32::MAX);
        local::number(index, &DeviceMapping::replicated(self.mesh()), self.shared.bits_of(&axes))
    }

    /// [`ManualCx::axis_index`] as a number of the host, to branch on: whatever is made afterwards counts as varying over
    /// these mesh axes, but for what a reduction over them gives.
    ///
    /// # Errors
    /// As [`ManualCx::axis_size`].
    pub fn coord(&self, over: impl Into<Over>) -> Result<usize> {
        let over = over.into();
        let axes = self.axes("coord", &over)?;
        self.shared.bits_of(&axes).seen_by_host();
        self.number(&axes)
    }

    fn axes(&self, op: &'static str, over: &Over) -> Result<Axes> {
        if over.has_groups() {
            return Err(Error::new(ErrorKind::Argument, "groups mean nothing here")
                .with_op(op)
                .with_fix("name mesh axes only"));
        }
        self.grid().axes(over.names()).map_err(|error| error.with_op(op))
    }

    fn number(&self, axes: &[usize]) -> Result<usize> {
        let origin = self.grid().members.get(self.member).map_or(0, |member| member.origin);
        self.grid().mesh.device_coord(origin, axes)
    }

    /// The sum over the group, on every device of it. Truth values are counted in i32. A value that is the same on all devices
    /// is multiplied by their number.
    ///
    /// # Errors
    /// [`ErrorKind::Manual`] if the devices disagree or one ended; [`ErrorKind::Axis`] as [`ManualCx::axis_size`];
    /// [`ErrorKind::Argument`] for groups that do not hold every index once; [`ErrorKind::Mesh`] if `x` does not lie on
    /// [`ManualCx::mesh`]; else what redistribution says.
    #[track_caller]
    pub fn psum(&self, x: &Tensor, over: impl Into<Over>) -> Result<Tensor> {
        let at = Location::caller();
        let x = self.counted("psum", x, at)?;
        self.reduce("psum", at, ReduceOp::Sum, &x, &over.into())
    }

    /// The greatest over the group, on every device of it; NaN if any is.
    ///
    /// # Errors
    /// As [`ManualCx::psum`].
    #[track_caller]
    pub fn pmax(&self, x: &Tensor, over: impl Into<Over>) -> Result<Tensor> {
        self.reduce("pmax", Location::caller(), ReduceOp::Max, x, &over.into())
    }

    /// The least over the group, on every device of it; NaN if any is.
    ///
    /// # Errors
    /// As [`ManualCx::psum`].
    #[track_caller]
    pub fn pmin(&self, x: &Tensor, over: impl Into<Over>) -> Result<Tensor> {
        self.reduce("pmin", Location::caller(), ReduceOp::Min, x, &over.into())
    }

    /// The mean over the group, on every device of it. Of integers and truth values it is f32, f64 for those of 64 bits;
    /// f16 and bf16 are summed in f32.
    ///
    /// # Errors
    /// As [`ManualCx::psum`].
    #[track_caller]
    pub fn pmean(&self, x: &Tensor, over: impl Into<Over>) -> Result<Tensor> {
        const OP: &str = "pmean";
        let (over, at) = (over.into(), Location::caller());
        let located = |error: Error| located(error, OP, x, at);
        let dtype = x.dtype();
        // The sum of integers in f64: exact up to 2^53, where their own dtype would wrap.
        let (wide, result) = match dtype {
            DType::Bool => (DType::F32, DType::F32),
            _ if dtype.is_float() => (dtype.accumulator(), dtype),
            _ => (DType::F64, if dtype.size() == 8 { DType::F64 } else { DType::F32 }),
        };
        let n = self.group(&over).map_err(located)?.size;
        let whole = if dtype == DType::Bool {
            local::release(OP, x, &[], |_| false).map_err(located)?
        } else {
            x.clone()
        };
        let whole = local::cast(OP, &whole, wide).map_err(located)?;
        let sum = self.reduce(OP, at, ReduceOp::Sum, &whole, &over)?;
        let divided = Expr::binary(BinaryOp::Div, Expr::input(0), Expr::constant(n as f64, wide));
        let expr = if wide == result { divided } else { Expr::cast(result, divided) };
        local::map(OP, &sum, result, &expr).map_err(located)
    }

    /// Truth values as numbers that can be counted.
    fn counted(&self, op: &'static str, x: &Tensor, at: &'static Location<'static>) -> Result<Tensor> {
        if x.dtype() != DType::Bool {
            return Ok(x.clone());
        }
        local::release(op, x, &[], |_| false)
            .and_then(|whole| local::cast(op, &whole, DType::I32))
            .map_err(|error| located(error, op, x, at))
    }

    fn reduce(
        &self,
        name: &'static str,
        at: &'static Location<'static>,
        op: ReduceOp,
        x: &Tensor,
        over: &Over,
    ) -> Result<Tensor> {
        self.meet(Wanted { name, at, collective: Collective::Reduce(op) }, x, over, &[], true)
    }

    /// The values of the group on a new tensor axis at `axis` (0 to the number of axes), on every device of it.
    ///
    /// The result counts as varying over the mesh axes, as in JAX; over [`Over::invarying`] it does not.
    ///
    /// # Errors
    /// As [`ManualCx::psum`], and [`ErrorKind::Axis`] for a tensor axis out of range; [`ErrorKind::Argument`] for groups of
    /// several sizes.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, over: impl Into<Over>, axis: isize) -> Result<Tensor> {
        const OP: &str = "all_gather";
        let (over, at) = (over.into(), Location::caller());
        let new = x.shape().iter().copied().chain([1]).collect::<crate::Shape>();
        let axis = new.axis(axis).map_err(|error| located(error, OP, x, at))?;
        let x = local::add_axis(OP, x, axis).map_err(|error| located(error, OP, x, at))?;
        self.meet(Wanted { name: OP, at, collective: Collective::Gather(axis) }, &x, &over, &[axis], false)
    }

    /// The values of the group one after the other along `axis`, on every device of it (`tiled=True` in JAX).
    ///
    /// # Errors
    /// As [`ManualCx::all_gather`].
    #[track_caller]
    pub fn all_gather_tiled(&self, x: &Tensor, over: impl Into<Over>, axis: isize) -> Result<Tensor> {
        const OP: &str = "all_gather_tiled";
        let (over, at) = (over.into(), Location::caller());
        let axis = x.shape().axis(axis).map_err(|error| located(error, OP, x, at))?;
        self.meet(Wanted { name: OP, at, collective: Collective::Gather(axis) }, x, &over, &[axis], false)
    }

    /// The sum over the group, of which each device gets its element of `axis`; the axis, whose extent is the size of the
    /// group, goes.
    ///
    /// # Errors
    /// As [`ManualCx::psum`], and [`ErrorKind::Axis`] for a tensor axis out of range; [`ErrorKind::Indivisible`] if its extent
    /// is not the size of the group; [`ErrorKind::Argument`] for groups of several sizes.
    #[track_caller]
    pub fn psum_scatter(&self, x: &Tensor, over: impl Into<Over>, axis: isize) -> Result<Tensor> {
        const OP: &str = "psum_scatter";
        let (over, at) = (over.into(), Location::caller());
        let located = |error: Error| located(error, OP, x, at);
        let axis = x.shape().axis(axis).map_err(located)?;
        self.one_each(x, axis, &over).map_err(located)?;
        let piece = self.scatter(OP, at, x, &over, axis)?;
        local::drop_axis(OP, &piece, axis).map_err(located)
    }

    /// The sum over the group, of which each device gets its piece of `axis` (`tiled=True` in JAX).
    ///
    /// # Errors
    /// As [`ManualCx::psum`], and [`ErrorKind::Axis`] for a tensor axis out of range; [`ErrorKind::Indivisible`] if its extent
    /// does not divide by the size of the group; [`ErrorKind::Argument`] for groups of several sizes.
    #[track_caller]
    pub fn psum_scatter_tiled(&self, x: &Tensor, over: impl Into<Over>, axis: isize) -> Result<Tensor> {
        const OP: &str = "psum_scatter_tiled";
        let (over, at) = (over.into(), Location::caller());
        let located = |error: Error| located(error, OP, x, at);
        let axis = x.shape().axis(axis).map_err(located)?;
        self.even(x, axis, &over).map_err(located)?;
        self.scatter(OP, at, x, &over, axis)
    }

    fn scatter(
        &self,
        name: &'static str,
        at: &'static Location<'static>,
        x: &Tensor,
        over: &Over,
        axis: usize,
    ) -> Result<Tensor> {
        let x = self.counted(name, x, at)?;
        self.meet(Wanted { name, at, collective: Collective::Scatter(axis) }, &x, over, &[axis], false)
    }

    /// Each device gives element `k` of axis `split` to device `k` of the group; the axis, whose extent is the size of the
    /// group, goes, and the senders stand on a new axis at `concat` of the result.
    ///
    /// # Errors
    /// As [`ManualCx::psum_scatter`].
    #[track_caller]
    pub fn all_to_all(
        &self,
        x: &Tensor,
        over: impl Into<Over>,
        split: isize,
        concat: isize,
    ) -> Result<Tensor> {
        const OP: &str = "all_to_all";
        let (over, at) = (over.into(), Location::caller());
        let located = |error: Error| located(error, OP, x, at);
        let (split, concat) =
            (x.shape().axis(split).map_err(located)?, x.shape().axis(concat).map_err(located)?);
        self.one_each(x, split, &over).map_err(located)?;
        let own = local::release(OP, x, &[split], |_| true).map_err(located)?;
        self.by_sender(OP, at, &own, &over, split, concat).map_err(located)
    }

    /// `x` has an element for each device on axis `split`: it goes, and the senders stand at `concat`.
    fn by_sender(
        &self,
        name: &'static str,
        at: &'static Location<'static>,
        x: &Tensor,
        over: &Over,
        split: usize,
        concat: usize,
    ) -> Result<Tensor> {
        let stacked = local::add_axis(name, x, 0)?;
        let collective = Collective::Exchange { split: split + 1, concat: 0 };
        let got = self.meet(Wanted { name, at, collective }, &stacked, over, &[split + 1], false)?;
        local::move_axis(name, &local::drop_axis(name, &got, split + 1)?, 0, concat)
    }

    /// Each device gives piece `k` of axis `split` to device `k` of the group, and joins what it gets along `concat`, in the
    /// order of the senders (`tiled=True` in JAX).
    ///
    /// # Errors
    /// As [`ManualCx::psum_scatter_tiled`].
    #[track_caller]
    pub fn all_to_all_tiled(
        &self,
        x: &Tensor,
        over: impl Into<Over>,
        split: isize,
        concat: isize,
    ) -> Result<Tensor> {
        const OP: &str = "all_to_all_tiled";
        let (over, at) = (over.into(), Location::caller());
        let located = |error: Error| located(error, OP, x, at);
        let (split, concat) =
            (x.shape().axis(split).map_err(located)?, x.shape().axis(concat).map_err(located)?);
        let n = self.even(x, split, &over).map_err(located)?;
        if split != concat {
            let collective = Collective::Exchange { split, concat };
            return self.meet(Wanted { name: OP, at, collective }, x, &over, &[split, concat], false);
        }
        let exchanged = || {
            let own = local::release(OP, x, &[split], |_| true)?;
            let pieces = local::split_axis(OP, &own, split, n)?;
            let got = self.by_sender(OP, at, &pieces, &over, split, split)?;
            local::join_axes(OP, &got, split)
        };
        exchanged().map_err(located)
    }

    /// Moves values within the group: for each pair `(source, destination)` of places in it, the destination gets the
    /// source's value. A device that gets none has zeros.
    ///
    /// With several mesh axes, places are counted in the order written, as everywhere; JAX ignores the order here.
    ///
    /// # Errors
    /// As [`ManualCx::psum`], and [`ErrorKind::Argument`] for a place that is no source or destination of the group, or is one
    /// twice.
    #[track_caller]
    pub fn ppermute(
        &self,
        x: &Tensor,
        over: impl Into<Over>,
        pairs: impl AsRef<[(usize, usize)]>,
    ) -> Result<Tensor> {
        self.permuted("ppermute", x, &over.into(), pairs.as_ref(), Location::caller())
    }

    fn permuted(
        &self,
        name: &'static str,
        x: &Tensor,
        over: &Over,
        pairs: &[(usize, usize)],
        at: &'static Location<'static>,
    ) -> Result<Tensor> {
        let located = |error: Error| located(error, name, x, at);
        let n = self.group(over).map_err(located)?.size;
        let (mut from, mut to) = (vec![false; n], vec![false; n]);
        for (source, destination) in pairs {
            for (seen, place, role) in [(&mut from, source, "source"), (&mut to, destination, "destination")]
            {
                let wrong = match seen.get_mut(*place) {
                    None => format!("the {role} {place} is out of range for a group of {n} devices"),
                    Some(true) => format!("{place} is the {role} of two pairs"),
                    Some(slot) => {
                        *slot = true;
                        continue;
                    }
                };
                return Err(located(
                    Error::new(ErrorKind::Argument, format!("{wrong}: {pairs:?}")).with_fix(format!(
                        "give pairs of places in 0..{n}, each at most once a source and once a destination"
                    )),
                ));
            }
        }
        // The order of the pairs says nothing: devices may list them differently.
        let mut pairs = pairs.to_vec();
        pairs.sort_unstable();
        self.meet(Wanted { name, at, collective: Collective::Permute(pairs.into()) }, x, over, &[], false)
    }

    /// Device `i` of the group gets the value of device `perm[i]`.
    ///
    /// # Errors
    /// As [`ManualCx::ppermute`], and [`ErrorKind::Argument`] if there is not one number per device.
    #[track_caller]
    pub fn pshuffle(&self, x: &Tensor, over: impl Into<Over>, perm: impl AsRef<[usize]>) -> Result<Tensor> {
        const OP: &str = "pshuffle";
        let (over, at, perm) = (over.into(), Location::caller(), perm.as_ref());
        let n = self.group(&over).map_err(|error| located(error, OP, x, at))?.size;
        if perm.len() != n {
            let message = format!("{} numbers for a group of {n} devices: {perm:?}", perm.len());
            let error =
                Error::new(ErrorKind::Argument, message).with_fix("give a permutation of the group's places");
            return Err(located(error, OP, x, at));
        }
        let pairs: Vec<(usize, usize)> = perm.iter().enumerate().map(|(to, from)| (*from, to)).collect();
        self.permuted(OP, x, &over, &pairs, at)
    }

    fn group(&self, over: &Over) -> Result<Arc<Group>> {
        self.grid().group(self.member, over)
    }

    /// The size of the group, by which the extent must divide.
    fn even(&self, x: &Tensor, axis: usize, over: &Over) -> Result<usize> {
        let (n, extent) = (self.group(over)?.size, x.shape().extent(axis));
        if extent % n == 0 {
            return Ok(n);
        }
        Err(Error::new(
            ErrorKind::Indivisible,
            format!("axis {axis} of {} has the extent {extent}, which does not divide by the {n} devices over {over}", x.shape()),
        )
        .with_fix(format!("pad it to {}", extent.div_ceil(n) * n)))
    }

    /// The extent must be the size of the group.
    fn one_each(&self, x: &Tensor, axis: usize, over: &Over) -> Result<()> {
        let (n, extent) = (self.group(over)?.size, x.shape().extent(axis));
        if extent == n {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Indivisible,
            format!("axis {axis} of {} has the extent {extent}, not one element for each of the {n} devices over {over}", x.shape()),
        )
        .with_fix("use the form that ends with _tiled for pieces of more than one element"))
    }

    /// Meets the group; `axes` are the tensor axes that the collective cuts or joins.
    fn meet(&self, wanted: Wanted, x: &Tensor, over: &Over, axes: &[usize], uneven: bool) -> Result<Tensor> {
        let Wanted { name, at, collective } = wanted;
        let _outermost = Outermost::enter(name, at);
        self.met(name, at, collective, x, over, axes, uneven).map_err(|error| located(error, name, x, at))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one call, taken apart once")]
    fn met(
        &self,
        name: &'static str,
        at: &'static Location<'static>,
        collective: Collective,
        x: &Tensor,
        over: &Over,
        axes: &[usize],
        uneven: bool,
    ) -> Result<Tensor> {
        if x.mesh() != self.mesh() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("x lies on {}, not on this device's {}", x.mesh(), self.mesh()),
            )
            .with_fix("pass it to the region as an argument, or x.transfer_to(&DeviceMapping::replicated(cx.mesh()))"));
        }
        if !uneven && !over.is_even() {
            return Err(Error::new(ErrorKind::Argument, format!("groups of several sizes over {over}"))
                .with_fix("use groups of one size: only reductions take others"));
        }
        let gathers = matches!(collective, Collective::Gather(_));
        if over.is_invarying() && (!gathers || over.has_groups()) {
            return Err(Error::new(
                ErrorKind::Argument,
                "only what all_gather gives without groups is the same on all",
            )
            .with_fix("leave .invarying() away: what a reduction gives is known to be the same"));
        }
        let group = self.group(over)?;
        let parts = |place: Place| match &collective {
            Collective::Reduce(op) => place == Place::Partial(*op),
            Collective::Scatter(_) => place == Place::PARTIAL,
            _ => true,
        };
        let x = local::release(name, x, axes, parts)?;
        let bits = self.shared.bits_of(&self.grid().axes(over.names())?);
        let same = over.is_invarying() || (matches!(collective, Collective::Reduce(_)) && !over.has_groups());
        let call = Call {
            name,
            over: over.clone(),
            collective,
            dtype: x.dtype(),
            shape: x.shape().clone(),
            places: x.layout().places().into(),
            at,
        };
        let varies = x.varies().union(Varies::taint());
        let given = Given { tensor: x, varies, scope: Scope::current(), at };
        let (met, mut agreed) = (group.clone(), call.clone());
        self.shared.rendezvous.meet(self.member, group.key, &group.members, call, given, move |all| {
            let before = all.iter().fold(Varies::NONE, |any, given| any.union(given.varies));
            let varies = if same { before.without(bits) } else { before.union(bits) };
            // Which thread this is depends on who came last; what is in force and what is seen may not.
            agreed.at = all.first().map_or(at, |given| given.at);
            let scope = Scope::together(all.iter().map(|given| &given.scope));
            let tensors = all.into_iter().map(|given| given.tensor).collect();
            scope.enter_shared(|| collective::run(&met, &agreed, tensors, varies))
        })
    }
}

fn located(error: Error, op: &'static str, x: &Tensor, at: &'static Location<'static>) -> Error {
    error.with_op(op).with_operands([format!("x: {}", x.layout())]).with_location(at)
}
