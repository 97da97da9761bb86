//! Tensors: a layout and the local arrays that this process can address.

use crate::backend::{Backend, LocalArray, LocalArrays, Positions, backend_of};
use crate::dispatch::{Outermost, guarded, making};
use crate::manual::Varies;
use crate::redistribute::Program;
use crate::trace::{Event, Seen};
use crate::{
    DType, Device, DeviceMapping, DeviceMesh, Element, Error, ErrorKind, HostData, Place, Region, Result,
    Scope, Shape, Target, TensorLayout, Transfer, bail,
};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// An immutable sharded tensor of any backend. Cloning costs one reference count.
///
/// See [`TensorLayout`] for what it knows without data, and [`TensorBuffer`](crate::TensorBuffer) for one that may be
/// written.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    layout: TensorLayout,
    positions: Positions,
    shards: LocalArrays,
    /// Over which axes of the manual regions on this thread the value may vary; none outside of them.
    varies: Varies,
}

impl Tensor {
    /// For code that makes shards itself: a tensor of this layout from the local arrays at these positions.
    ///
    /// In a manual region nobody knows what the arrays were made from: the value counts as varying over all of its mesh axes,
    /// see [`shard_map`](crate::manual::shard_map).
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if there is not one array of the layout's dtype per position, or one has not the local
    /// shape that the layout says (where no placement is Unknown).
    pub fn from_shards(layout: TensorLayout, positions: Positions, shards: LocalArrays) -> Result<Self> {
        check_shards(&layout, &positions, &shards)
            .map_err(|error| error.with_op("from_shards").with_operands([format!("x: {layout}")]))?;
        Ok(Self::from_checked(layout, positions, shards))
    }

    /// [`Tensor::from_shards`] of arrays that were made from nothing but the layout and numbers of the host: in a manual
    /// region the value varies only as far as the function's way to here does.
    ///
    /// # Errors
    /// As [`Tensor::from_shards`].
    pub fn from_made_shards(layout: TensorLayout, positions: Positions, shards: LocalArrays) -> Result<Self> {
        Ok(Self::from_shards(layout, positions, shards)?.varying(Varies::NONE.here()))
    }

    /// A tensor whose parts are known to fit. Nobody says where the data is from: in a manual region it may vary over all
    /// of its axes.
    pub(crate) fn from_checked(layout: TensorLayout, positions: Positions, shards: LocalArrays) -> Self {
        Self::from_parts(layout, positions, shards, Varies::anywhere())
    }

    /// A tensor whose parts are known to fit, and over which axes of a manual region it varies.
    pub(crate) fn from_parts(
        layout: TensorLayout,
        positions: Positions,
        shards: LocalArrays,
        varies: Varies,
    ) -> Self {
        Self(Arc::new(Inner { layout, positions, shards, varies }))
    }

    /// A tensor from row-major host data, laid out by `target`: every device gets its own piece only.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if the number of values is not that of the shape; [`ErrorKind::Mapping`] for Partial and
    /// Unknown placements; else as [`TensorLayout::new`] and what the backend says.
    #[track_caller]
    pub fn from_slice<T: Element>(
        values: &[T],
        shape: impl Into<Shape>,
        target: &(impl Target + ?Sized),
    ) -> Result<Self> {
        const OP: &str = "from_slice";
        let shape = shape.into();
        let layout = TensorLayout::new(T::DTYPE, &shape, target)
            .map_err(|error| error.with_op(OP).with_operands([format!("value: {}{shape}", T::DTYPE)]))?;
        Self::from_host(OP, HostData::borrowed(values, shape), layout)
    }

    /// A tensor of this layout from row-major host bytes in native order.
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    #[track_caller]
    pub fn from_bytes(bytes: &[u8], layout: TensorLayout) -> Result<Self> {
        Self::from_host("from_bytes", HostData::from_bytes(layout.dtype(), layout.shape(), bytes), layout)
    }

    #[track_caller]
    fn from_host(op: &'static str, data: Result<HostData<'_>>, layout: TensorLayout) -> Result<Self> {
        let at = Location::caller();
        data.and_then(|data| {
            check_host_data(&layout)?;
            making(op, at, &layout, || Self::from_host_pieces(layout.clone(), &data, Region::clone))
        })
        .map_err(|error| error.with_op(op).with_operands([format!("value: {layout}")]))
    }

    /// dtype, global shape and mapping.
    pub fn layout(&self) -> &TensorLayout {
        &self.0.layout
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.layout.dtype()
    }
    /// The global shape.
    pub fn shape(&self) -> &Shape {
        self.0.layout.shape()
    }
    /// The mapping.
    pub fn mapping(&self) -> &DeviceMapping {
        self.0.layout.mapping()
    }
    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        self.0.layout.mesh()
    }
    /// The positions whose shards this process addresses.
    pub fn positions(&self) -> &Positions {
        &self.0.positions
    }
    /// The addressable local arrays, in the order of [`Tensor::positions`].
    pub fn shards(&self) -> &LocalArrays {
        &self.0.shards
    }

    /// Over which axes of the manual regions on this thread it may vary.
    pub(crate) fn varies(&self) -> Varies {
        self.0.varies
    }

    /// The local arrays; this tensor's own ones where nobody else holds it, else copies of the references.
    pub(crate) fn take_shards(&mut self) -> LocalArrays {
        match Arc::get_mut(&mut self.0) {
            Some(inner) => std::mem::take(&mut inner.shards),
            None => self.0.shards.clone(),
        }
    }

    /// The elements of the shard at a row-major position, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::DType`] for another element type, [`ErrorKind::Axis`] for a position that this process does not
    /// address, else what the backend says.
    pub fn shard_to_vec<T: Element>(&self, position: usize) -> Result<Vec<T>> {
        self.expect::<T>("shard_to_vec")?;
        let found = self.0.positions.iter().position(|p| *p == position).and_then(|i| self.0.shards.get(i));
        let Some(shard) = found else {
            return Err(Error::new(
                ErrorKind::Axis,
                format!(
                    "device {position} of {} is not addressable here; this process has {:?}",
                    self.mesh(),
                    self.0.positions
                ),
            )
            .with_op("shard_to_vec")
            .with_operands([format!("x: {}", self.layout())])
            .with_fix("ask for one of x.positions()"));
        };
        let located =
            |error: Error| error.with_op("shard_to_vec").with_operands([format!("x: {}", self.layout())]);
        self.0.varies.seen_by_host();
        read_shard_as(shard).map_err(located)
    }

    /// All elements, row-major; shards are brought together first.
    ///
    /// # Errors
    /// [`ErrorKind::DType`] for another element type, [`ErrorKind::Sharding`] where a placement is Unknown, else what
    /// the backend says.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect::<T>("to_vec")?;
        self.whole("to_vec", read_shard_as)
    }

    /// The bytes of all elements of whatever dtype, row-major in native order, as [`Tensor::from_bytes`] takes them; shards
    /// are brought together first.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`] where a placement is Unknown, else what the backend says.
    #[track_caller]
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.whole("to_bytes", read_shard)
    }

    /// What `read` makes of the whole tensor on one device.
    #[track_caller]
    fn whole<T>(&self, op: &'static str, read: impl FnOnce(&LocalArray) -> Result<T>) -> Result<T> {
        let located = |error: Error| error.with_op(op).with_operands([format!("x: {}", self.layout())]);
        // A reader is no part of what a recorder sees.
        let whole = self.transfer_unrecorded("transfer_to", &DeviceMapping::replicated(self.mesh()))?;
        let first = whole.shards().first().ok_or_else(|| {
            Error::new(ErrorKind::Process, "no shard is addressable in this process").with_fix(
                "read it in a process of the mesh, or x.transfer_to(&mapping) onto this one's devices",
            )
        });
        self.0.varies.seen_by_host();
        first.and_then(read).map_err(located)
    }

    fn expect<T: Element>(&self, op: &'static str) -> Result<()> {
        expect_dtype::<T>(self.dtype())
            .map_err(|error| error.with_op(op).with_operands([format!("x: {}", self.layout())]))
    }

    /// The same tensor under another mapping: on the same mesh, another one, or one device. Nothing is moved if it
    /// already lies so.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`] where there is no such redistribution (see [`Program::search`]), [`ErrorKind::Mapping`]
    /// if the target does not fit the shape, else what the backend says.
    #[track_caller]
    pub fn transfer_to(&self, target: &(impl Target + ?Sized)) -> Result<Self> {
        self.transfer_as("transfer_to", target)
    }

    /// [`Tensor::transfer_to`] on behalf of an op that is a transfer: logs, spans and errors have its name.
    ///
    /// # Errors
    /// As [`Tensor::transfer_to`].
    #[track_caller]
    pub fn transfer_as(&self, op: &'static str, target: &(impl Target + ?Sized)) -> Result<Self> {
        let outermost = Outermost::enter(op, Location::caller());
        let moved = self.transfer_unrecorded(op, target)?;
        if outermost.is_first()
            && let Some(recorder) = Scope::current().recorder()
            && !Arc::ptr_eq(&self.0, &moved.0)
        {
            let transfer = Transfer { op, operand: self, result: &moved };
            guarded("the recorder", || recorder.transfer(&transfer))
                .map_err(|error| error.with_op(op).with_operands([format!("x: {}", self.layout())]))?;
        }
        Ok(moved)
    }

    #[track_caller]
    fn transfer_unrecorded(&self, op: &'static str, target: &(impl Target + ?Sized)) -> Result<Self> {
        let at = Location::caller();
        let _outermost = Outermost::enter(op, at);
        let target = target
            .mapping_for(self.shape())
            .map_err(|error| error.with_op(op).with_operands([format!("x: {}", self.layout())]))?;
        let _span =
            tracing::trace_span!("op", name = op, operands = %self.layout(), bytes = self.layout().bytes())
                .entered();
        let operands = || vec![self.layout().clone()];
        let mut seen = Seen::new(|| Event::Op { name: op, at, operands: operands(), results: Vec::new() });
        let target = target.as_ref();
        if self.mapping() == target {
            return Ok(if self.mesh().axis_types() == target.mesh().axis_types() {
                self.clone()
            } else {
                self.relabelled(target.clone())
            });
        }
        let moved = self
            .transferred(op, target)
            .map_err(|error| error.with_op(op).with_operands([format!("x: {}", self.layout())]))?;
        seen.results(std::iter::once(moved.layout()));
        Ok(moved)
    }

    fn transferred(&self, op: &'static str, target: &DeviceMapping) -> Result<Self> {
        let program = crate::redistribute::program(self.layout(), target)?;
        self.redistributed(op, &program)
    }

    /// Runs a program on this tensor, which must have its source layout.
    pub(crate) fn redistributed(&self, op: &'static str, program: &Program) -> Result<Self> {
        let shards = program.run(op, self.0.shards.clone())?;
        let positions = if self.mesh() == program.target.mesh() {
            self.0.positions.clone()
        } else {
            resolve(program.target.mesh())?.1
        };
        Ok(Self::from_parts(program.target.clone(), positions, shards, self.0.varies.here()))
    }

    /// The same tensor on a mesh that differs in axis types only; free.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if the meshes are not equal.
    pub fn on(&self, mesh: &DeviceMesh) -> Result<Self> {
        if self.mesh() != mesh {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the tensor lies on {}, which is not {mesh}", self.mesh()),
            )
            .with_op("on")
            .with_operands([format!("x: {}", self.layout())])
            .with_fix("x.transfer_to(&mapping) moves it to another mesh"));
        }
        Ok(self.relabelled(DeviceMapping::new(mesh, self.layout().places())?))
    }

    fn relabelled(&self, mapping: DeviceMapping) -> Self {
        let layout = TensorLayout::from_checked(self.layout().meta().clone(), mapping);
        Self::from_parts(layout, self.0.positions.clone(), self.0.shards.clone(), self.0.varies.here())
    }

    /// Claims another mapping on the same mesh for the same local arrays; nothing moves.
    ///
    /// The claim is yours: a tensor claimed `Replicated` whose devices hold different data gives results that depend
    /// on the plan. Builds with debug assertions compare what is newly claimed to be the same by
    /// [`Tensor::check_replicas`]; others do not look, and you may call it yourself.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] for another mesh; [`ErrorKind::Mapping`] if the local shapes are not those of the claim, or, where
    /// that is compared, replicas differ.
    #[track_caller]
    pub fn rebind_mapping(&self, mapping: &DeviceMapping, shape: impl Into<Shape>) -> Result<Self> {
        const OP: &str = "rebind_mapping";
        let at = Location::caller();
        let _outermost = Outermost::enter(OP, at);
        let _span =
            tracing::trace_span!("op", name = OP, operands = %self.layout(), bytes = self.layout().bytes())
                .entered();
        let operands = || vec![self.layout().clone()];
        let mut seen = Seen::new(|| Event::Op { name: OP, at, operands: operands(), results: Vec::new() });
        let claimed = self
            .rebound(mapping, shape.into())
            .map_err(|error| error.with_op(OP).with_operands([format!("x: {}", self.layout())]))?;
        seen.results(std::iter::once(claimed.layout()));
        Ok(claimed)
    }

    fn rebound(&self, mapping: &DeviceMapping, shape: Shape) -> Result<Self> {
        if mapping.mesh() != self.mesh() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("rebind_mapping keeps the mesh {}; the claim is on {}", self.mesh(), mapping.mesh()),
            )
            .with_fix("x.transfer_to(&mapping) moves it to another mesh"));
        }
        let layout = TensorLayout::new(self.dtype(), shape, mapping.clone())?;
        check_shards(&layout, &self.0.positions, &self.0.shards)?;
        let claimed =
            Self::from_parts(layout, self.0.positions.clone(), self.0.shards.clone(), self.0.varies.here());
        if cfg!(debug_assertions) && self.mapping() != mapping {
            // A build without the check goes on as if it had passed: only a refusal tells the host something.
            claimed.compare_replicas().inspect_err(|_| claimed.varies().seen_by_host())?;
        }
        Ok(claimed)
    }
}

/// Zeros in host memory. A tensor of a backend without data may be larger than any memory: that is an error, where an
/// allocation that fails would end the program.
pub(crate) fn host_bytes(n: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    host_room(&mut bytes, n)?;
    Ok(bytes)
}

/// [`host_bytes`] in a buffer that may have room already.
pub(crate) fn host_room(bytes: &mut Vec<u8>, n: usize) -> Result<()> {
    bytes.clear();
    match bytes.try_reserve_exact(n) {
        Ok(()) => bytes.resize(n, 0),
        Err(_) => return Err(no_room(n)),
    }
    Ok(())
}

/// The bytes of a local array.
pub(crate) fn read_shard(shard: &LocalArray) -> Result<Vec<u8>> {
    let mut bytes = host_bytes(shard.bytes())?;
    backend_of(shard.device().kind)?.read(shard, &mut bytes)?;
    Ok(bytes)
}

/// That elements of this dtype are read as what they are.
pub(crate) fn expect_dtype<T: Element>(dtype: DType) -> Result<()> {
    if T::DTYPE == dtype {
        return Ok(());
    }
    Err(Error::new(ErrorKind::DType, format!("the elements are {dtype}, not {}", T::DTYPE))
        .with_fix(format!("read it as {dtype}")))
}

/// The elements of a local array of this dtype.
pub(crate) fn read_shard_as<T: Element>(shard: &LocalArray) -> Result<Vec<T>> {
    let backend = backend_of(shard.device().kind)?;
    read_elements(shard.elements(), |bytes| backend.read(shard, bytes))
}

/// As many elements, from the bytes that `fill` writes.
pub(crate) fn read_elements<T: Element>(
    n: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<Vec<T>> {
    let mut values: Vec<T> = Vec::new();
    values.try_reserve_exact(n).map_err(|_| no_room(n.saturating_mul(T::DTYPE.size())))?;
    values.resize(n, T::default());
    match T::as_bytes_mut(&mut values) {
        Some(bytes) => fill(bytes)?,
        None => {
            let mut bytes = host_bytes(n)?;
            fill(&mut bytes)?;
            values = T::from_bytes(&bytes);
        }
    }
    Ok(values)
}

fn no_room(bytes: usize) -> Error {
    Error::new(ErrorKind::Backend, format!("not enough host memory for {bytes} bytes"))
        .with_fix("read or transfer a part of it: slice(&x, ..)")
}

/// There is one local array of the right dtype and shape per position.
fn check_shards(layout: &TensorLayout, positions: &Positions, shards: &LocalArrays) -> Result<()> {
    if positions.len() != shards.len() {
        return Err(Error::new(
            ErrorKind::Mapping,
            format!("{} local arrays for {} addressable shards", shards.len(), positions.len()),
        )
        .with_fix("give one local array per position that this process addresses"));
    }
    let known = !layout.places().contains(&Place::Unknown);
    for (position, shard) in positions.iter().zip(shards) {
        let want = layout.local_shape(*position);
        if shard.dtype() != layout.dtype() || (known && *shard.shape() != want) {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "the shard at device {position} of {layout} must be {}{want}, got {}{}",
                    layout.dtype(),
                    shard.dtype(),
                    shard.shape()
                ),
            )
            .with_fix("claim the shape and placements whose pieces the devices hold"));
        }
    }
    Ok(())
}

/// Host data has a place on every device: it is whole or split.
pub(crate) fn check_host_data(layout: &TensorLayout) -> Result<()> {
    match layout.places().iter().find(|place| **place != Place::Replicated && place.tensor_axis().is_none()) {
        None => Ok(()),
        Some(place) => Err(Error::new(ErrorKind::Mapping, format!("host data cannot be placed {place}"))
            .with_fix("place it Replicated or Sharded, then transfer_to the other placement")),
    }
}

/// The backend of a mesh's devices, and the positions that this process addresses.
pub(crate) fn resolve(mesh: &DeviceMesh) -> Result<(&'static Arc<dyn Backend>, Positions)> {
    let backend = backend_of(device_at(mesh, 0)?.kind)?;
    Ok((backend, backend.positions(mesh)?))
}

pub(crate) fn device_at(mesh: &DeviceMesh, position: usize) -> Result<Device> {
    mesh.device(position)
        .ok_or_else(|| Error::new(ErrorKind::Internal, format!("{mesh} has no device {position}")))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.layout())
    }
}
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The results of a call.
#[derive(Debug)]
pub struct Results(SmallVec<[Tensor; 2]>);

impl Results {
    pub(crate) fn new(tensors: SmallVec<[Tensor; 2]>) -> Self {
        Self(tensors)
    }
    /// All of them.
    pub fn all(self) -> SmallVec<[Tensor; 2]> {
        self.0
    }
    /// The only result.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if there is another number of them.
    pub fn one(mut self) -> Result<Tensor> {
        match (self.0.len(), self.0.pop()) {
            (1, Some(one)) => Ok(one),
            (n, _) => bail!(Internal, "the op returned {n} results, not 1"),
        }
    }
    /// All results as an array.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if there is another number of them.
    pub fn array<const N: usize>(self) -> Result<[Tensor; N]> {
        let n = self.0.len();
        <[Tensor; N]>::try_from(self.0.into_vec())
            .map_err(|_| Error::new(ErrorKind::Internal, format!("the op returned {n} results, not {N}")))
    }
}
