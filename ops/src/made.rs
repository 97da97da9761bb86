//! Tensors that no operand goes into: every device makes its own piece.

use sharding_core::backend::{LocalArray, LocalArrays, backend_of};
use sharding_core::{
    DType, DeviceMapping, Error, ErrorKind, KernelCx, Place, Result, Shape, Target, Tensor, TensorLayout,
    making,
};
use std::borrow::Cow;
use std::panic::Location;

/// What is made: for the words of errors, and to be laid out.
pub(crate) struct Wanted<'a> {
    pub(crate) op: &'static str,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) mapping: &'a DeviceMapping,
}

/// The mapping that a target says for this shape.
pub(crate) fn mapping_of(
    op: &'static str,
    dtype: DType,
    shape: &Shape,
    target: &(impl Target + ?Sized),
) -> Result<DeviceMapping> {
    target
        .mapping_for(shape)
        .map(Cow::into_owned)
        .map_err(|error| error.with_op(op).with_operands([format!("value: {dtype}{shape}")]))
}

impl Wanted<'_> {
    /// The tensor whose shards `make` makes, as an op called where the caller was. Pieces of one key share one buffer where
    /// memory is shared.
    #[track_caller]
    pub(crate) fn make<K: PartialEq>(
        self,
        key: impl Fn(&KernelCx<'_>) -> Result<K>,
        make: impl Fn(&mut KernelCx<'_>, &K) -> Result<LocalArray>,
    ) -> Result<Tensor> {
        let Self { op, dtype, shape, mapping } = &self;
        let at = Location::caller();
        TensorLayout::new(*dtype, shape, (*mapping).clone())
            .and_then(|layout| making(op, at, &layout, || pieces(op, &layout, key, make)))
            .map_err(|error| self.located(error))
    }

    /// The error with op and layout.
    pub(crate) fn located(&self, error: Error) -> Error {
        let Self { op, dtype, shape, mapping } = self;
        error.with_op(*op).with_operands([format!("value: {dtype}{shape} {mapping}")])
    }
}

fn pieces<K: PartialEq>(
    op: &'static str,
    layout: &TensorLayout,
    key: impl Fn(&KernelCx<'_>) -> Result<K>,
    make: impl Fn(&mut KernelCx<'_>, &K) -> Result<LocalArray>,
) -> Result<Tensor> {
    let mesh = layout.mesh();
    if let Some(axis) = layout.places().iter().position(|place| *place == Place::Unknown) {
        return Err(Error::new(ErrorKind::Mapping, "no value can be placed Unknown")
            .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis))
            .with_fix("place it Replicated"));
    }
    let kind = mesh.device(0).map(|device| device.kind);
    let kind = kind.ok_or_else(|| Error::new(ErrorKind::Internal, "a mesh without devices"))?;
    let backend = backend_of(kind)?;
    let positions = backend.positions(mesh)?;
    let layouts = [layout.clone()];
    let mut made: Vec<(K, LocalArray)> = Vec::new();
    let mut shards = LocalArrays::new();
    for position in positions.iter() {
        let device = mesh.device(*position).ok_or_else(|| {
            Error::new(ErrorKind::Internal, format!("there is no device {position} in {mesh}"))
        })?;
        let mut cx = KernelCx::new(backend.as_ref(), op, device, *position, &[], &layouts);
        let own = key(&cx)?;
        let twin =
            made.iter().find(|(key, array)| *key == own && backend.shares_memory(array.device(), device));
        shards.push(match twin {
            Some((_, array)) => array.clone(),
            None => {
                let array = make(&mut cx, &own)?;
                made.push((own, array.clone()));
                array
            }
        });
    }
    Tensor::from_made_shards(layout.clone(), positions, shards)
}
