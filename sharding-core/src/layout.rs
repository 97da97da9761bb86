//! Layouts: dtype, global shape and mapping of a tensor.

use crate::{DType, DeviceMapping, DeviceMesh, Place, Result, Shape, Target, TensorMeta};
use rustc_hash::FxHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// dtype, global shape and mapping. Cloning costs one reference count; the hash is computed once.
#[derive(Clone)]
pub struct TensorLayout(Arc<Inner>);

struct Inner {
    meta: TensorMeta,
    mapping: DeviceMapping,
    hash: u64,
}

impl TensorLayout {
    /// A validated layout of what [`Target`] says: a mapping, or a spec on the mesh in force.
    ///
    /// # Errors
    /// As [`Shape::new`], [`Target::mapping_for`] and [`DeviceMapping::check`].
    pub fn new(dtype: DType, shape: impl Into<Shape>, target: impl Target) -> Result<Self> {
        let shape = Shape::new(shape)?;
        let mapping = target.mapping_for(&shape)?.into_owned();
        mapping.check(&shape)?;
        Ok(Self::from_checked(TensorMeta { dtype, shape }, mapping))
    }

    /// A layout whose parts are known to fit.
    pub(crate) fn from_checked(meta: TensorMeta, mapping: DeviceMapping) -> Self {
        let mut hasher = FxHasher::default();
        meta.hash(&mut hasher);
        mapping.hash(&mut hasher);
        // Axis types decide about plans though they are not part of a mesh's identity.
        mapping.mesh().axis_types().hash(&mut hasher);
        Self(Arc::new(Inner { meta, mapping, hash: hasher.finish() }))
    }

    /// Whether no device holds more elements than the first one: true of all balanced splits, and not of every placement
    /// of the open trait. Unknown says nothing, so it counts as true.
    pub fn first_holds_most(&self) -> bool {
        (0..self.shape().len()).all(|axis| self.longest_piece(axis) == self.piece(axis, 0))
    }

    /// Bytes of the largest shard; `usize::MAX` where they do not fit. Where a placement is Unknown, as if it were Replicated.
    ///
    /// ```
    /// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, TensorLayout, placement::Ragged};
    /// let mesh = DeviceMesh::simulated(BackendKind::SIM, [3], ["tp"])?;
    /// let layout = TensorLayout::new(DType::F32, [10, 2], DeviceMapping::new(&mesh, [Ragged::place(0, [1, 7, 2])])?)?;
    /// assert_eq!(layout.largest_shard_bytes(), 7 * 2 * 4);
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    pub fn largest_shard_bytes(&self) -> usize {
        let pieces: Shape = (0..self.shape().len()).map(|axis| self.longest_piece(axis)).collect();
        TensorMeta::new(self.dtype(), pieces).bytes()
    }

    /// How many indices of a tensor axis the device at a position holds.
    fn piece(&self, axis: usize, position: usize) -> usize {
        let ranges = self.mapping().ranges(axis, self.shape().extent(axis), position);
        ranges.iter().map(ExactSizeIterator::len).sum()
    }

    /// The most indices of a tensor axis that one device holds.
    fn longest_piece(&self, axis: usize) -> usize {
        // The first part of a balanced split is the largest.
        let custom = self.custom_split(axis);
        let parts = custom.map_or(1, |by| self.mesh().size(by));
        let stride = custom.map_or(1, |by| self.mesh().stride(by));
        (0..parts).map(|part| self.piece(axis, part * stride)).max().unwrap_or(0)
    }

    /// The elements of the smallest shard. Where a placement is Unknown, as if it were Replicated.
    pub(crate) fn smallest_shard_elements(&self) -> usize {
        // The last part of a balanced split is the smallest.
        let last = self.mesh().num_devices() - 1;
        let shortest = |axis: usize| {
            let custom = self.custom_split(axis);
            let by = |by: usize| {
                (0..self.mesh().size(by)).map(|part| self.piece(axis, part * self.mesh().stride(by))).min()
            };
            custom.and_then(by).unwrap_or_else(|| self.piece(axis, last))
        };
        (0..self.shape().len()).map(shortest).product()
    }

    /// The mesh axis along which a placement of the open trait splits a tensor axis: it has the axis for itself.
    fn custom_split(&self, axis: usize) -> Option<usize> {
        self.mapping().split_by(axis).find(|by| matches!(self.mapping().place(*by), Place::Custom(_)))
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.0.meta.dtype
    }
    /// The global shape.
    pub fn shape(&self) -> &Shape {
        &self.0.meta.shape
    }
    /// dtype and global shape.
    pub fn meta(&self) -> &TensorMeta {
        &self.0.meta
    }
    /// The mapping.
    pub fn mapping(&self) -> &DeviceMapping {
        &self.0.mapping
    }
    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        self.0.mapping.mesh()
    }
    /// The placement on each mesh axis.
    pub fn places(&self) -> &[Place] {
        self.0.mapping.places()
    }
    /// The precomputed hash.
    pub fn hash64(&self) -> u64 {
        self.0.hash
    }
    /// Bytes of the whole tensor.
    pub fn bytes(&self) -> usize {
        self.0.meta.bytes()
    }
    /// The shape of the shard on the device at a row-major position.
    pub fn local_shape(&self, position: usize) -> Shape {
        self.mapping().local_shape(self.shape(), position)
    }
    /// The index ranges on the device at a row-major position, per tensor axis.
    pub fn region(&self, position: usize) -> crate::Region {
        self.mapping().region(self.shape(), position)
    }

    /// The same tensor under another mapping.
    ///
    /// # Errors
    /// As [`DeviceMapping::check`].
    pub fn with_mapping(&self, mapping: DeviceMapping) -> Result<Self> {
        mapping.check(self.shape())?;
        Ok(Self::from_checked(self.meta().clone(), mapping))
    }

    /// Whether plans made for one hold for the other: equal, with the same axis types.
    pub(crate) fn plans_like(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.hash == other.0.hash
                && self == other
                && self.mesh().axis_types() == other.mesh().axis_types())
    }
}

impl PartialEq for TensorLayout {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.meta == other.0.meta && self.0.mapping == other.0.mapping)
    }
}
impl Eq for TensorLayout {}
impl Hash for TensorLayout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.meta.hash(state);
        self.0.mapping.hash(state);
    }
}

impl fmt::Display for TensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.meta(), self.mapping())
    }
}
impl fmt::Debug for TensorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorLayout({}, {:?})", self.meta(), self.mapping())
    }
}

/// The layout of a tensor that may be written through.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BufferLayout(TensorLayout);

impl BufferLayout {
    /// A writable layout.
    pub fn new(layout: TensorLayout) -> Self {
        Self(layout)
    }
    /// As a tensor's layout.
    pub fn as_tensor(&self) -> &TensorLayout {
        &self.0
    }
}

impl fmt::Debug for BufferLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferLayout({}, {:?})", self.0.meta(), self.0.mapping())
    }
}
