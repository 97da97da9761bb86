//! Shapes: balanced splits, local shapes of a global one, and back.

use super::checked;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use crate::golden::spelling::{mesh, nameless_mesh, places, shape, sizes};
use sharding_core::{
    BackendKind, DType, DeviceMapping, DeviceMesh, GlobalDim, Place, Shape, TensorLayout, global_dims,
};

/// The sizes of the pieces of one tensor axis on a mesh of one axis.
pub(super) fn even_shard_sizes(case: &Node<'_>) -> Parsed<Verdict> {
    let want = case.field("want")?;
    let pieces = case.field("pieces")?;
    if case.field("size")?.integer()? < 0 {
        return Ok(Verdict::Passed);
    }
    let size = case.field("size")?.size()?;
    let Ok(number) = usize::try_from(pieces.integer()?) else { return Ok(Verdict::Passed) };
    room::devices(&pieces, &[number])?;
    let got = DeviceMesh::simulated(BackendKind::CPU, [number], ["pieces"])
        .and_then(|mesh| DeviceMapping::new(&mesh, [Place::Sharded(0)]))
        .and_then(|mapping| TensorLayout::new(DType::F32, [size], mapping))
        .map(|layout| (0..number).map(|piece| layout.local_shape(piece).extent(0)).collect::<Vec<_>>());
    checked(&want, got, |want, got| Ok(Verdict::equal("sizes", want.list_of(Node::size)?, got)))
}

/// The layout that a case describes, with the shape and placements as it spells them; `None` where one of them has
/// no spelling in our API.
fn layout(
    case: &Node<'_>,
    mesh: sharding_core::Result<DeviceMesh>,
) -> Parsed<Option<sharding_core::Result<TensorLayout>>> {
    let (Ok(shape), Ok(places)) = (shape(&case.field("shape")?)?, places(&case.field("placements")?)?) else {
        return Ok(None);
    };
    Ok(Some(
        mesh.and_then(|mesh| DeviceMapping::new(&mesh, places))
            .and_then(|mapping| TensorLayout::new(DType::F32, shape, mapping)),
    ))
}

/// The local shape on every device.
pub(super) fn local_shapes(case: &Node<'_>) -> Parsed<Verdict> {
    let Some(layout) = layout(case, mesh(&case.field("mesh")?)?)? else { return Ok(Verdict::Passed) };
    let got = layout.map(|layout| {
        (0..layout.mesh().num_devices()).map(|device| layout.local_shape(device).to_vec()).collect::<Vec<_>>()
    });
    checked(&case.field("want")?, got, |want, got| {
        Ok(Verdict::equal("local shapes", want.list_of(|shape| shape.list_of(Node::size))?, got))
    })
}

/// The global size of every tensor axis, from the local shapes.
pub(super) fn global_shape(case: &Node<'_>) -> Parsed<Verdict> {
    let locals = case.field("local_shapes")?.list_of(sizes)?;
    let locals: sharding_core::Result<Vec<Shape>> =
        locals.into_iter().map(|sizes| sizes.and_then(Shape::new)).collect();
    let (Ok(locals), Ok(places)) = (locals, places(&case.field("placements")?)?) else {
        return Ok(Verdict::Passed);
    };
    let got = mesh(&case.field("mesh")?)?
        .and_then(|mesh| DeviceMapping::new(&mesh, places))
        .and_then(|mapping| global_dims(&locals, &mapping));
    checked(&case.field("want")?, got, |want, got| {
        Ok(Verdict::equal("global sizes", want.list_of(global_dim)?, got))
    })
}

fn global_dim(want: &Node<'_>) -> Parsed<GlobalDim> {
    if want.value().is_number() {
        return Ok(GlobalDim::Known(want.size()?));
    }
    Ok(GlobalDim::PerShard {
        sizes: want.field("per_shard")?.list_of(Node::size)?,
        global: want.optional("global").map(|global| global.size()).transpose()?,
    })
}

/// Whether a layout is valid, its bytes, and whether it is replicated.
pub(super) fn layout_checks(case: &Node<'_>) -> Parsed<Verdict> {
    let Some(layout) = layout(case, nameless_mesh(&case.field("mesh")?)?)? else {
        return Ok(Verdict::Passed);
    };
    checked(&case.field("want")?, layout, |want, layout| {
        let bytes = want.optional("bytes").map_or(Ok(layout.bytes() as f64), |bytes| bytes.number())?;
        let replicated = want.field("fully_replicated")?.truth()?;
        Ok(Verdict::equal("bytes", bytes, layout.bytes() as f64)
            .and(|| Verdict::equal("fully replicated", replicated, layout.mapping().is_fully_replicated())))
    })
}
