//! What a member does by itself before and after a meeting: views, casts and zeros on its own devices.

use super::varies::Varies;
use crate::backend::{Backend, Expr, LocalArray, LocalArrays, LocalMeta, Move};
use crate::tensor::{device_at, resolve};
use crate::{
    AxisType, DType, Device, DeviceMapping, Error, ErrorKind, KernelCx, Mode, Place, Places, Result, Scalar,
    Scope, Shape, Tensor, TensorLayout,
};
use smallvec::SmallVec;

/// A value of this layout on the same devices, shard by shard.
fn each(
    op: &'static str,
    x: &Tensor,
    layout: TensorLayout,
    mut local: impl FnMut(&mut KernelCx<'_>, &LocalArray) -> Result<LocalArray>,
) -> Result<Tensor> {
    let (backend, _) = resolve(x.mesh())?;
    let (operands, results) = ([x.layout().clone()], [layout.clone()]);
    let mut shards = LocalArrays::with_capacity(x.shards().len());
    for (position, shard) in x.positions().iter().zip(x.shards()) {
        let device = device_at(x.mesh(), *position)?;
        let mut cx = KernelCx::new(&**backend, op, device, *position, &operands, &results);
        shards.push(local(&mut cx, shard)?);
    }
    Ok(Tensor::from_parts(layout, x.positions().clone(), shards, x.varies()))
}

/// An elementwise expression of one input.
pub(super) fn map(op: &'static str, x: &Tensor, dtype: DType, expr: &Expr) -> Result<Tensor> {
    let layout = TensorLayout::new(dtype, x.shape(), x.mapping().clone())?;
    each(op, x, layout, |cx, shard| cx.map(expr, &[shard]))
}

/// The same elements as another dtype.
pub(super) fn cast(op: &'static str, x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype { Ok(x.clone()) } else { map(op, x, dtype, &Expr::cast(dtype, Expr::input(0))) }
}

/// The shard of zeros at a position.
pub(super) fn zeros(
    backend: &dyn Backend,
    op: &'static str,
    layout: &TensorLayout,
    position: usize,
) -> Result<LocalArray> {
    let device = device_at(layout.mesh(), position)?;
    let shape = layout.local_shape(position);
    let layouts = std::slice::from_ref(layout);
    let zero = match layout.dtype() {
        DType::Bool => Scalar::Bool(false),
        dtype if dtype.is_float() => Scalar::Float(0.0),
        _ => Scalar::Int(0),
    };
    KernelCx::new(backend, op, device, position, &[], layouts).fill(zero, layout.dtype(), &shape)
}

/// A mapping whose placements are on other tensor axes; `to` gives the new one.
fn moved(x: &Tensor, to: impl Fn(usize) -> usize) -> Result<DeviceMapping> {
    let places: Places = x
        .layout()
        .places()
        .iter()
        .map(|place| place.tensor_axis().map_or(*place, |axis| place.on_axis(to(axis))))
        .collect();
    Ok(DeviceMapping::new(x.mesh(), places)?.with_memory_kind(x.mapping().memory_kind()))
}

/// A new tensor axis of extent 1: a view.
pub(super) fn add_axis(op: &'static str, x: &Tensor, axis: usize) -> Result<Tensor> {
    let shape = with_axis(x.shape(), axis, 1);
    let layout = TensorLayout::new(x.dtype(), shape, moved(x, |own| own + usize::from(own >= axis))?)?;
    each(op, x, layout, |_, shard| {
        let meta = shard.meta();
        let mut strides = meta.strides.clone();
        strides.insert(axis.min(strides.len()), 0);
        let shape = with_axis(&meta.shape, axis, 1);
        let meta = LocalMeta { dtype: meta.dtype, shape, strides, offset: meta.offset };
        Ok(LocalArray::new(meta, shard.storage().clone()))
    })
}

/// Without a tensor axis of extent 1 that nothing splits: a view.
pub(super) fn drop_axis(op: &'static str, x: &Tensor, axis: usize) -> Result<Tensor> {
    let layout = TensorLayout::new(
        x.dtype(),
        x.shape().without(axis),
        moved(x, |own| own - usize::from(own > axis))?,
    )?;
    each(op, x, layout, |_, shard| Ok(shard.without(axis)))
}

/// A tensor axis at another place, the others in their order: a view.
pub(super) fn move_axis(op: &'static str, x: &Tensor, from: usize, to: usize) -> Result<Tensor> {
    let mut axes: Vec<usize> = (0..x.shape().len()).filter(|axis| *axis != from).collect();
    axes.insert(to.min(axes.len()), from);
    let shape: Shape = axes.iter().map(|axis| x.shape().extent(*axis)).collect();
    let place = |own: usize| axes.iter().position(|axis| *axis == own).unwrap_or(own);
    let layout = TensorLayout::new(x.dtype(), shape, moved(x, place)?)?;
    each(op, x, layout, |_, shard| Ok(shard.permute(&axes)))
}

/// One tensor axis as two, the first of this extent; nothing splits it.
pub(super) fn split_axis(op: &'static str, x: &Tensor, axis: usize, first: usize) -> Result<Tensor> {
    let inner = x.shape().extent(axis) / first.max(1);
    let cut = |shape: &Shape| with_axis(&shape.with_extent(axis, inner), axis, first);
    let layout =
        TensorLayout::new(x.dtype(), cut(x.shape()), moved(x, |own| own + usize::from(own > axis))?)?;
    each(op, x, layout, |cx, shard| cx.reshape(shard, &cut(shard.shape())))
}

/// Two neighbouring tensor axes as one; nothing splits them.
pub(super) fn join_axes(op: &'static str, x: &Tensor, axis: usize) -> Result<Tensor> {
    let join = |shape: &Shape| {
        let extent = shape.extent(axis) * shape.extent(axis + 1);
        shape.without(axis + 1).with_extent(axis, extent)
    };
    let layout =
        TensorLayout::new(x.dtype(), join(x.shape()), moved(x, |own| own - usize::from(own > axis))?)?;
    each(op, x, layout, |cx, shard| cx.reshape(shard, &join(shard.shape())))
}

fn with_axis(shape: &Shape, axis: usize, extent: usize) -> Shape {
    let mut extents = shape.to_vec();
    extents.insert(axis.min(extents.len()), extent);
    extents.into()
}

/// The same value with nothing split on these tensor axes, and parts only of the op that is wanted: what the axes that are
/// not manual do must not stand in the way of a collective.
pub(super) fn release(
    op: &'static str,
    x: &Tensor,
    axes: &[usize],
    parts: impl Fn(Place) -> bool,
) -> Result<Tensor> {
    let frees = |place: &Place| match place {
        Place::Partial(_) => !parts(*place),
        other => other.tensor_axis().is_some_and(|axis| axes.contains(&axis)),
    };
    if x.layout().places().contains(&Place::Unknown) {
        return Err(Error::new(ErrorKind::Sharding, "a collective needs to know how its value lies")
            .with_op(op)
            .with_operands([format!("x: {}", x.layout())])
            .with_fix("x.rebind_mapping(&mapping, shape) to claim what the shards are"));
    }
    permitted(op, x, frees)?;
    replicated_where(op, x, frees)
}

/// Whether a collective may first change how its value lies on the axes that are not manual: by the rules that ops reshard
/// by, as it is not what was asked for.
fn permitted(op: &'static str, x: &Tensor, frees: impl Fn(&Place) -> bool) -> Result<()> {
    let (mesh, mode) = (x.mesh(), Scope::current().policy().mode);
    for (axis, place) in x.layout().places().iter().enumerate() {
        let explicit = mesh.axis_types().get(axis) == Some(&AxisType::Explicit);
        if !frees(place) || mesh.size(axis) == 1 || (mode == Mode::Silent && !explicit) {
            continue;
        }
        let whole = |place: &Place| if frees(place) { Place::Replicated } else { *place };
        let places: Vec<String> =
            x.layout().places().iter().map(|place| format!("{:?}", whole(place))).collect();
        let line = format!("x.transfer_to(&DeviceMapping::new(cx.mesh(), [{}])?)?", places.join(", "));
        let name = mesh.axis_name(axis);
        let needs =
            format!("{op} needs its value Replicated over the mesh axis '{name}', where it lies {place:?}");
        if mode == Mode::Warn && !explicit {
            tracing::warn!("{needs}: it is moved; x: {}; write it yourself: {line}", x.layout());
            return Ok(());
        }
        let why = if explicit {
            "which is Explicit: nothing communicates there by itself"
        } else {
            "and the policy is raise"
        };
        return Err(Error::new(ErrorKind::Sharding, format!("{needs}, {why}"))
            .with_op(op)
            .with_operands([format!("x: {}", x.layout())])
            .with_mesh_axis(name, mesh.size(axis))
            .with_fix(line));
    }
    Ok(())
}

/// The same value with nothing split on these tensor axes.
pub(super) fn unsplit(op: &'static str, x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    replicated_where(op, x, |place| place.tensor_axis().is_some_and(|axis| axes.contains(&axis)))
}

fn replicated_where(op: &'static str, x: &Tensor, frees: impl Fn(&Place) -> bool) -> Result<Tensor> {
    if !x.layout().places().iter().any(&frees) {
        return Ok(x.clone());
    }
    let places: Places = x
        .layout()
        .places()
        .iter()
        .map(|place| if frees(place) { Place::Replicated } else { *place })
        .collect();
    let mapping = DeviceMapping::new(x.mesh(), places)?.with_memory_kind(x.mapping().memory_kind());
    x.transfer_as(op, &mapping)
}

/// A copy on another device.
pub(super) fn copied(
    backend: &dyn Backend,
    op: &'static str,
    array: &LocalArray,
    device: Device,
) -> Result<LocalArray> {
    let mut copy = backend.alloc(device, array.dtype(), array.shape())?;
    let pieces = [(array.clone(), SmallVec::from_elem(0, array.shape().len()))];
    backend.copy(&mut [Move { op, pieces: &pieces, into: &mut copy }])?;
    Ok(copy)
}

/// A number on all devices of a mesh.
pub(super) fn number(value: i32, mapping: &DeviceMapping, varies: Varies) -> Result<Tensor> {
    Ok(Tensor::from_slice(&[value], Shape::default(), mapping)?.varying(varies.here()))
}
