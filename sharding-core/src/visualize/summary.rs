//! A mesh of many devices: what can be said without asking each of them.

use super::cell;
use super::tree;
use crate::{DeviceMesh, Place, TensorLayout};

/// Up to so many parts of a custom placement are asked for their sizes.
const MAX_PARTS: usize = 4096;

/// The first and the last device, and how many there are.
pub(super) fn mesh(mesh: &DeviceMesh) -> Vec<String> {
    let last = mesh.num_devices() - 1;
    let device = |position: usize| mesh.device(position).map_or_else(String::new, |d| d.to_string());
    let line = |word: &str, position: usize| {
        format!("{word:<5}  device {position}  {}  {}", tree::coordinate(mesh, position), device(position))
    };
    let kind = if mesh.is_simulated() { ", simulated on fewer" } else { "" };
    vec![format!("{} devices{kind}", mesh.num_devices()), line("first", 0), line("last", last)]
}

/// Copies, terms, shard sizes, and the corners of the mesh.
pub(super) fn layout(layout: &TensorLayout) -> Vec<String> {
    let mesh = layout.mesh();
    let devices = mesh.num_devices();
    let product = |holds: &dyn Fn(Place) -> bool| -> usize {
        let axes = layout.places().iter().enumerate().filter(|(_, place)| holds(**place));
        axes.map(|(axis, _)| mesh.size(axis)).product()
    };
    let mut lines = vec![format!("{devices} devices")];
    let pieces = product(&|place| place.tensor_axis().is_some());
    if pieces > 1 {
        lines.push(format!("{pieces} pieces"));
    }
    let copies = product(&|place| place == Place::Replicated);
    if copies > 1 {
        lines.push(format!("{copies} copies of every piece"));
    }
    let terms = product(&Place::is_partial);
    if terms > 1 {
        lines.push(format!("{terms} terms of every piece"));
    }
    if layout.places().contains(&Place::Unknown) {
        lines.push("what a device holds is unknown".to_owned());
    } else {
        lines.extend(sizes(layout));
    }
    for (word, position) in [("first", 0), ("last", devices - 1)] {
        let words = cell::holding(layout, position, None).join("  ");
        lines.push(format!("{word:<5}  device {position}  {}  {words}", tree::coordinate(mesh, position)));
    }
    lines
}

/// The sizes of the pieces of every split axis, and the bytes of the largest and the smallest shard.
fn sizes(layout: &TensorLayout) -> Vec<String> {
    let (mut lines, mut largest, mut smallest, mut filled) = (Vec::new(), 1.0_f64, 1.0_f64, 1.0_f64);
    let mut asked = true;
    for (axis, extent) in layout.shape().iter().enumerate() {
        let by: Vec<usize> = layout.mapping().split_by(axis).collect();
        let ways: usize = by.iter().map(|mesh_axis| layout.mesh().size(*mesh_axis)).product();
        let custom = by.iter().find_map(|mesh_axis| match layout.mapping().place(*mesh_axis) {
            Place::Custom(custom) => Some(custom),
            _ => None,
        });
        let sizes: Vec<(usize, usize)> = match custom {
            None => vec![(extent.div_ceil(ways), extent % ways), (extent / ways, ways - extent % ways)],
            Some(custom) => {
                asked &= ways <= MAX_PARTS;
                let part = |part: usize| {
                    let ranges = custom.placement().ranges(*extent, ways, part);
                    (ranges.iter().map(std::ops::Range::len).sum(), 1)
                };
                (0..ways.min(MAX_PARTS)).map(part).collect()
            }
        };
        let sizes: Vec<(usize, usize)> = sizes.into_iter().filter(|(_, count)| *count > 0).collect();
        let (least, most) = sizes
            .iter()
            .fold((usize::MAX, 0), |(least, most), (size, _)| (least.min(*size), most.max(*size)));
        largest *= most as f64;
        smallest *= least as f64;
        let full: usize = sizes.iter().filter(|(size, _)| *size > 0).map(|(_, count)| count).sum();
        filled *= full as f64 / ways as f64;
        if by.is_empty() {
            continue;
        }
        lines.push(match (custom, &sizes[..]) {
            (None, [(size, count), (other, rest)]) => {
                format!("axis {axis}: {count} pieces of {size}, {rest} of {other}")
            }
            (None, [(size, count)]) => format!("axis {axis}: {count} pieces of {size}"),
            _ if ways > MAX_PARTS => {
                format!("axis {axis}: {ways} pieces, the first {MAX_PARTS} of {least} to {most}")
            }
            _ => format!("axis {axis}: {ways} pieces of {least} to {most}"),
        });
    }
    // What was asked of some parts says nothing of the rest.
    if !asked {
        lines.push(format!("bytes on a device: {} at most", layout.largest_shard_bytes()));
        return lines;
    }
    let bytes = layout.dtype().size() as f64;
    lines.push(format!(
        "bytes on a device: {:.0} at most, {:.0} at least",
        largest * bytes,
        smallest * bytes
    ));
    if filled < 1.0 && layout.shape().elements() > 0 {
        lines.push(format!("{} of the devices hold nothing", cell::percent(1.0 - filled)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Ragged;
    use crate::{BackendKind, DType, DeviceMapping, DeviceMesh};

    #[test]
    fn nothing_is_said_of_parts_that_were_not_asked() {
        let devices = 2 * MAX_PARTS;
        let mesh = DeviceMesh::simulated(BackendKind::SIM, [devices], ["x"]).unwrap();
        let sizes: Vec<usize> = (0..devices).map(|part| if part == devices - 1 { 10 } else { 0 }).collect();
        let mapping = DeviceMapping::new(&mesh, [Ragged::place(0, sizes)]).unwrap();
        let layout = TensorLayout::new(DType::F32, [10], mapping).unwrap();
        let first = format!("axis 0: {devices} pieces, the first {MAX_PARTS} of 0 to 0");
        assert_eq!(super::sizes(&layout), [first.as_str(), "bytes on a device: 40 at most"]);
    }
}
