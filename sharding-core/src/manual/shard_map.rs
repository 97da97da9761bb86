//! `shard_map`: a function over whole tensors from one that runs per device.

use super::cx::ManualCx;
use super::region::Region;
use crate::{DeviceMesh, Error, ErrorKind, PartitionSpec, Result, Tensor};
use std::fmt;
use std::sync::Arc;

/// Begins a manual region over a mesh: a function of tensors that runs once per device, with the device's blocks, and says
/// itself what moves between devices, through its [`ManualCx`].
///
/// * **in_specs** say how each argument is cut into blocks: a tensor axis by the mesh axes its entry names, the first the most
///   significant; every block is equally large, so an extent that does not divide is an error. An argument may lie anywhere on
///   a mesh of the same grid, or on one device: it is transferred.
/// * **out_specs** say how each result is put together: blocks stand side by side along tensor axes whose entries name mesh
///   axes; a mesh axis that is not named claims that all devices along it give the same value.
/// * **axis_names** are the mesh axes that the region takes over, all by default; they must be of type
///   [`AxisType::Manual`](crate::AxisType::Manual), which says who reads a mesh that its ops do not move anything there:
///   `mesh.with_axis_types(..)` is free, and so is `tensor.on(&mesh)`. The other axes stay: inside, tensors lie on them as
///   they do outside, and ops reshard there.
/// * **check_vma** (on by default) refuses a result that may vary over a mesh axis its spec does not name. With
///   `check_vma(false)` the claim is trusted, and the value is that of the first device.
///
/// Results lie on the mesh given here, with its axis types. Where a spec names several mesh axes for one tensor axis in another
/// order than the mesh has them, the result lies on the same devices in a mesh whose axes stand in the spec's order.
///
/// Over which axes a value may vary is followed through ops: arguments vary over the axes in their spec, results of ops over
/// all those of their operands, a reduction's not over its own. **Reading a value to the host** in the region
/// ([`Tensor::to_vec`], [`ManualCx::coord`]) lets the function branch on it, so whatever it makes afterwards counts as varying
/// over that value's axes too, but for what a reduction gives; and results that are each the same on all devices are then
/// compared, bit for bit, as the function may have given one here and another there. Values stay known on threads that the
/// function gives work to. Not followed is what tells devices apart by other ways: channels, locks, files, thread-locals, the
/// devices of [`ManualCx::mesh`]. Builds with debug assertions compare all results that claim to be the same, which finds most of
/// that.
///
/// The function runs concurrently on a thread per device (the first on the caller's), each with the caller's
/// [`Scope`](crate::Scope), and may itself call regions on what remains of the mesh. It is `'static`: tensors that it needs are
/// arguments, or clones that it owns.
///
/// ```no_run
/// use sharding_core::{AxisType, BackendKind, DType, DeviceMesh, manual::shard_map, spec};
/// # let x: sharding_core::Tensor = todo!();
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [4], ["x"])?.with_axis_types([AxisType::Manual])?;
/// let total = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec![]]).wrap(|cx, [x]| Ok([cx.psum(&x, "x")?]))?;
/// let [sum] = total.call([&x])?;
/// # Ok::<(), sharding_core::Error>(())
/// ```
pub fn shard_map(mesh: &DeviceMesh) -> ShardMapBuilder {
    ShardMapBuilder { mesh: mesh.clone(), names: None, ins: Vec::new(), outs: Vec::new(), check_vma: true }
}

/// What [`shard_map`] is told before it wraps a function.
#[derive(Clone, Debug)]
#[must_use = "call `wrap` to make the region"]
pub struct ShardMapBuilder {
    mesh: DeviceMesh,
    names: Option<Vec<String>>,
    ins: Vec<PartitionSpec>,
    outs: Vec<PartitionSpec>,
    check_vma: bool,
}

impl ShardMapBuilder {
    /// How each argument is cut into blocks.
    pub fn in_specs(mut self, specs: impl IntoIterator<Item = PartitionSpec>) -> Self {
        self.ins = specs.into_iter().collect();
        self
    }
    /// How each result is put together from the devices' blocks.
    pub fn out_specs(mut self, specs: impl IntoIterator<Item = PartitionSpec>) -> Self {
        self.outs = specs.into_iter().collect();
        self
    }
    /// The mesh axes that the region takes over; all if this is not called, or without names.
    pub fn axis_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        self.names = (!names.is_empty()).then_some(names);
        self
    }
    /// Whether a result that may vary over a mesh axis its spec does not name is refused; it is by default.
    pub fn check_vma(mut self, check: bool) -> Self {
        self.check_vma = check;
        self
    }

    /// Wraps a function of `N` blocks that gives `M`. All that does not depend on arguments is checked here.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if there are not `N` in_specs and `M` out_specs; [`ErrorKind::Axis`] for a mesh axis that the
    /// mesh lacks, or that a spec names and the region does not take over; [`ErrorKind::DuplicateAxis`] for one named twice;
    /// [`ErrorKind::Mapping`] for what a region has no use for in a spec (unreduced, reduced, unconstrained);
    /// [`ErrorKind::Mesh`] for an axis that is not `Manual`, or more than 4,096 devices along the manual axes;
    /// [`ErrorKind::Process`] if this process has no device of the mesh; else what the backend says.
    pub fn wrap<const N: usize, const M: usize, F>(self, function: F) -> Result<ShardMap<N, M>>
    where
        F: Fn(&ManualCx, [Tensor; N]) -> Result<[Tensor; M]> + Send + Sync + 'static,
    {
        for (what, given, n) in [("in_specs", self.ins.len(), N), ("out_specs", self.outs.len(), M)] {
            if given != n {
                let whose = if what == "in_specs" { "arguments" } else { "results" };
                return Err(Error::new(
                    ErrorKind::Argument,
                    format!("{given} {what} for a function of {n} {whose}"),
                )
                .with_op("shard_map")
                .with_fix(format!("give one spec for each of the {n} {whose}")));
            }
        }
        let many = self.wrap_many(move |cx, args| {
            let n = args.len();
            let args = <[Tensor; N]>::try_from(args)
                .map_err(|_| Error::new(ErrorKind::Internal, format!("{n} blocks for {N} arguments")))?;
            Ok(function(cx, args)?.into())
        })?;
        Ok(ShardMap(many))
    }

    /// [`ShardMapBuilder::wrap`] of a function of any number of blocks, such as the parameters of a model.
    ///
    /// # Errors
    /// As [`ShardMapBuilder::wrap`], but for the numbers of arguments and results, which are compared with the specs by each
    /// call.
    pub fn wrap_many<F>(self, function: F) -> Result<ShardMapMany>
    where
        F: Fn(&ManualCx, Vec<Tensor>) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    {
        let Self { mesh, names, ins, outs, check_vma } = self;
        let region = Region::new(&mesh, names.as_deref(), ins, outs, check_vma, Arc::new(function))?;
        Ok(ShardMapMany(region))
    }
}

/// A manual region of `N` arguments and `M` results; [`shard_map`] makes it.
pub struct ShardMap<const N: usize, const M: usize>(ShardMapMany);

impl<const N: usize, const M: usize> ShardMap<N, M> {
    /// Runs the region.
    ///
    /// # Errors
    /// For arguments: [`ErrorKind::Dimensions`] if a spec has more entries than its value has axes;
    /// [`ErrorKind::Indivisible`] for an extent that does not divide by its ways; [`ErrorKind::Mesh`] for another grid; what
    /// the transfer says.
    ///
    /// From the devices: what the function says on one of them, of the same kind; [`ErrorKind::Manual`] if it panics, the
    /// devices do not call the same collectives, they give different shapes, or a result may vary over a mesh axis that its
    /// spec does not name; [`ErrorKind::Mesh`] for a result that does not lie on what remains for its device;
    /// [`ErrorKind::Backend`] if the system gives no more threads.
    #[track_caller]
    pub fn call(&self, args: [&Tensor; N]) -> Result<[Tensor; M]> {
        let results = self.0.call(&args)?;
        let n = results.len();
        <[Tensor; M]>::try_from(results)
            .map_err(|_| Error::new(ErrorKind::Internal, format!("the region gave {n} results, not {M}")))
    }
}

/// A manual region of any number of arguments and results; [`ShardMapBuilder::wrap_many`] makes it.
pub struct ShardMapMany(Region);

impl ShardMapMany {
    /// Runs the region.
    ///
    /// # Errors
    /// As [`ShardMap::call`], and [`ErrorKind::Argument`] if there is not one argument per in_spec, or a device gives not one
    /// result per out_spec.
    #[track_caller]
    pub fn call(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.0.call(args)
    }
}

impl<const N: usize, const M: usize> fmt::Debug for ShardMap<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Debug for ShardMapMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
