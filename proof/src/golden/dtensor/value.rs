//! Tensors of the suite: their elements, and how they lie.

use crate::golden::data::Wholes;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use crate::golden::spelling::array_dtype;
use sharding_core::backend::backend_of;
use sharding_core::conformance::host::{HostArray, flat_indices, rounded};
use sharding_core::placement::Interleaved;
use sharding_core::{
    BackendKind, DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Region, Result, Scalar, Shape, Tensor,
    TensorLayout,
};

/// A value of ours, or what we have no form for.
type Read<T> = Parsed<std::result::Result<T, String>>;

/// `{shape, dtype, data}`; floats that are not finite are texts.
pub(super) fn array(node: &Node<'_>) -> Read<HostArray> {
    let dtype = match array_dtype(&node.field("dtype")?)? {
        Ok(dtype) => dtype,
        Err(lacking) => return Ok(Err(lacking)),
    };
    let shape = node.field("shape")?;
    let extents = shape.list_of(Node::size)?;
    room::elements(&shape, &extents)?;
    let shape = Shape::from(extents);
    let data = node.field("data")?;
    let values = data.list_of(|value| element(value, dtype))?;
    if values.len() != shape.elements() {
        return Err(data.expected("an element for each index of the shape"));
    }
    Ok(Ok(HostArray { dtype, shape, values }))
}

fn element(node: &Node<'_>, dtype: DType) -> Parsed<Scalar> {
    let value = node.value();
    Ok(match (value.as_bool(), value.as_i64(), value.as_str()) {
        (Some(truth), _, _) => Scalar::Bool(truth),
        (_, Some(integer), _) if !dtype.is_float() => Scalar::Int(integer),
        (_, _, Some(text)) => {
            rounded(text.parse().map_err(|_| node.expected("a number, nan, inf or -inf"))?, dtype)
        }
        _ => rounded(node.number()?, dtype),
    })
}

/// One placement per mesh axis.
pub(super) struct Placements {
    places: Vec<Place>,
    /// The mesh axes along which the parts are averaged: parts of a sum once divided by their number.
    averaged: Vec<usize>,
    /// The mesh axes that split strided, with how many pieces the tensor axis is cut into before.
    strided: Vec<(usize, usize)>,
}

impl Placements {
    /// `R`, `S(d)`, `_S(d, pieces)`, `P(op)`; masked ones are skipped.
    pub(super) fn read(node: &Node<'_>) -> Read<Self> {
        let mut read = Self { places: Vec::new(), averaged: Vec::new(), strided: Vec::new() };
        for (axis, node) in node.list()?.iter().enumerate() {
            let code = node.text()?;
            let inside = |kind: &str| code.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')');
            let place = if code == "R" {
                Place::Replicated
            } else if let Some(tensor_axis) = inside("S") {
                match tensor_axis.parse() {
                    Ok(axis) => Place::Sharded(axis),
                    Err(_) => return Ok(Err(format!("placements that we have no form for: {code}"))),
                }
            } else if let Some(strided) = inside("_S") {
                let numbers = strided.split_once(',');
                let numbers =
                    numbers.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
                let Some((tensor_axis, pieces)) = numbers else {
                    return Ok(Err(format!("placements that we have no form for: {code}")));
                };
                read.strided.push((axis, pieces));
                Place::Sharded(tensor_axis)
            } else if inside("MaskP").is_some() {
                return Ok(Err("masked placements, which we do not have".to_owned()));
            } else if let Some(op) = inside("P") {
                if op == "avg" {
                    read.averaged.push(axis);
                }
                Place::Partial(match op {
                    "sum" | "avg" => ReduceOp::Sum,
                    "max" => ReduceOp::Max,
                    "min" => ReduceOp::Min,
                    "product" => ReduceOp::Prod,
                    _ => return Ok(Err(format!("parts of an op that we do not have: {op}"))),
                })
            } else {
                return Ok(Err(format!("placements that we have no form for: {code}")));
            };
            read.places.push(place);
        }
        Ok(Ok(read))
    }

    /// Where a tensor of this shape lies. The pieces of a strided split are those of the mesh axes to its right that split the
    /// same tensor axis: with the mesh's axes in that order both are plain splits. Where no mesh axis makes the pieces, a device
    /// holds a part of each.
    pub(super) fn mapping(&self, mesh: &DeviceMesh, shape: &Shape) -> Result<DeviceMapping> {
        let mut places = self.places.clone();
        let mut order: Vec<usize> = (0..mesh.ndim()).collect();
        for &(axis, pieces) in &self.strided {
            let Some(own) = self.places.get(axis) else { continue };
            let before = order.iter().copied().skip_while(|other| *other != axis).skip(1);
            let before: Vec<usize> = before.filter(|other| self.places.get(*other) == Some(own)).collect();
            if let Some(last) = before.last().filter(|_| mesh.axis_size(&before).is_ok_and(|n| n == pieces)) {
                order.retain(|other| *other != axis);
                let at = order.iter().position(|other| other == last).map_or(order.len(), |at| at + 1);
                order.insert(at, axis);
            } else if let Some((tensor_axis, slot)) = own.tensor_axis().zip(places.get_mut(axis)) {
                let extent = shape.extent(tensor_axis);
                let chunk = extent.div_ceil(pieces.max(1));
                let part = |i: usize| extent.saturating_sub(i * chunk).min(chunk);
                *slot = Interleaved::place(tensor_axis, (0..pieces).map(part).collect::<Vec<_>>());
            }
        }
        let places = order.iter().filter_map(|axis| places.get(*axis).copied());
        DeviceMapping::new(&mesh.sub_mesh(0, &order)?, places.collect::<Vec<_>>())
    }
}

/// An input.
pub(super) struct Given {
    pub(super) layout: TensorLayout,
    pub(super) whole: HostArray,
    /// What is to be combined: one array for each coordinate along the Partial mesh axes.
    parts: Vec<HostArray>,
}

impl Given {
    pub(super) fn read(node: &Node<'_>, mesh: &DeviceMesh) -> Read<Self> {
        let code = node.field("placements")?;
        let placements = match Placements::read(&code)? {
            Ok(placements) => placements,
            Err(lacking) => return Ok(Err(lacking)),
        };
        let whole = match array(&node.field("global")?)? {
            Ok(whole) => whole,
            Err(lacking) => return Ok(Err(lacking)),
        };
        if !placements.averaged.is_empty() && !whole.dtype.is_float() {
            return Ok(Err("averages of integers, which have no parts of a sum".to_owned()));
        }
        let layout = placements
            .mapping(mesh, &whole.shape)
            .and_then(|mapping| TensorLayout::new(whole.dtype, &whole.shape, mapping));
        let layout = match layout {
            Ok(layout) => layout,
            Err(_) => return Ok(Err(format!("placements that we refuse: {}", code.value()))),
        };
        let parts = match layout.places().iter().any(|place| place.is_partial()) {
            false => vec![whole.clone()],
            true => parts(&node.field("locals")?, &layout, &placements.averaged)?,
        };
        Ok(Ok(Self { layout, whole, parts }))
    }

    /// The tensor, every device with its part.
    pub(super) fn place(&self) -> Result<Tensor> {
        Wholes::of(Vec::new(), vec![self.whole.clone()])
            .place_parts(&self.layout, std::slice::from_ref(&self.parts))
    }

    /// The tensor, laid out from the whole as a user would.
    pub(super) fn distributed(&self) -> Result<Tensor> {
        if self.layout.places().iter().all(|place| !place.is_partial()) {
            return Tensor::from_bytes(&self.whole.to_bytes(), self.layout.clone());
        }
        let mesh = self.layout.mesh();
        let everywhere =
            TensorLayout::new(self.whole.dtype, &self.whole.shape, DeviceMapping::replicated(mesh))?;
        Tensor::from_bytes(&self.whole.to_bytes(), everywhere)?.transfer_to(self.layout.mapping())
    }
}

/// The parts, put together from what each of their devices holds: pieces lie there as DTensor cuts, which is not as we do.
fn parts(locals: &Node<'_>, layout: &TensorLayout, averaged: &[usize]) -> Parsed<Vec<HostArray>> {
    let mesh = layout.mesh();
    let number = |axes: &[usize]| mesh.axis_size(axes).map_err(|_| locals.expected("a list of this mesh"));
    let partial: Vec<usize> =
        (0..mesh.ndim()).filter(|axis| layout.mapping().place(*axis).is_partial()).collect();
    let divisor = number(averaged)? as f64;
    let empty = HostArray::filled(layout.dtype(), layout.shape(), Scalar::Int(0));
    let mut parts = vec![empty; number(&partial)?];
    let given = locals.list()?;
    if given.len() != mesh.num_devices() {
        return Err(locals.expected("an array for each device"));
    }
    for (position, node) in given.iter().enumerate() {
        let local = array(node)?.map_err(|_| node.expected("a dtype of the whole"))?;
        let at = mesh.device_coord(position, &partial).map_err(|_| node.expected("a device of the mesh"))?;
        let indices = flat_indices(layout.shape(), &their_region(layout, position));
        if indices.len() != local.values.len() {
            return Err(node.expected("the piece that the placements say"));
        }
        for (index, value) in indices.into_iter().zip(local.values) {
            let value = if averaged.is_empty() { value } else { Scalar::Float(value.as_f64() / divisor) };
            if let Some(slot) = parts.get_mut(at).and_then(|part| part.values.get_mut(index)) {
                *slot = value;
            }
        }
    }
    Ok(parts)
}

/// What a device holds there: chunks of the rounded-up size, cut again for each mesh axis from left to right.
fn their_region(layout: &TensorLayout, position: usize) -> Region {
    let mesh = layout.mesh();
    let mut held: Vec<std::ops::Range<usize>> = layout.shape().iter().map(|extent| 0..*extent).collect();
    for (axis, place) in layout.places().iter().enumerate() {
        let Some(range) = place.tensor_axis().and_then(|tensor_axis| held.get_mut(tensor_axis)) else {
            continue;
        };
        let chunk = range.len().div_ceil(mesh.size(axis));
        let part = mesh.device_coord(position, &[axis]).unwrap_or(0);
        let start = range.end.min(range.start + part * chunk);
        *range = start..range.end.min(start + chunk);
    }
    held.into_iter().map(|range| std::iter::once(range).collect()).collect()
}

/// Passed if every device holds what it holds there, where both cut alike: they cut in chunks of the rounded-up size.
pub(super) fn compare_shards(locals: &Node<'_>, mesh: &DeviceMesh, got: &Tensor) -> Parsed<Verdict> {
    let theirs = locals.list_of(array)?;
    let ours = || -> Result<Vec<HostArray>> {
        let positions = mesh.devices().filter_map(|device| got.mesh().position_of(device));
        let shards = positions.filter_map(|position| {
            let at = got.positions().iter().position(|own| *own == position)?;
            got.shards().get(at)
        });
        let backend = backend_of(BackendKind::CPU)?;
        shards.map(|shard| HostArray::read(backend.as_ref(), shard)).collect()
    };
    let ours = match ours() {
        Ok(ours) => ours,
        Err(error) => return Ok(Verdict::failed("the shards", error.to_string())),
    };
    let mut verdict = Verdict::equal("a number of shards", theirs.len(), ours.len());
    let alike = theirs.iter().flatten().zip(&ours).all(|(want, got)| want.shape == got.shape);
    for (want, got) in theirs.iter().flatten().zip(&ours).filter(|_| alike) {
        verdict = verdict.and(|| match want.first_difference(got) {
            None => Verdict::Passed,
            Some(difference) => Verdict::failed("the shards", format!("{difference:?}")),
        });
    }
    Ok(verdict)
}

/// Passed if every device of a tensor holds what this whole and the tensor's own placements say.
pub(super) fn compare(want: &HostArray, got: &Tensor) -> Verdict {
    match Wholes::of(Vec::new(), vec![want.clone()]).difference(got) {
        Ok(None) => Verdict::Passed,
        Ok(Some(difference)) => Verdict::failed("the values", difference),
        Err(error) => Verdict::failed("the values", error.to_string()),
    }
}
