//! Meshes: what can be built, sizes of axes and coordinates of devices.

use super::checked;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use crate::golden::spelling::{mesh as spelled_mesh, sizes, unspellable};
use sharding_core::{Device, DeviceMesh, Result};

pub(super) fn mesh(case: &Node<'_>) -> Parsed<Verdict> {
    let names = case.field("axis_names")?.list_of(Node::text)?;
    let number = case.field("devices")?;
    let number = room::devices(&number, &[number.size()?])?;
    let devices: Vec<Device> = (0..).take(number).map(|slot| Device::cpu().with_slot(slot)).collect();
    let got = sizes(&case.field("mesh_shape")?)?.and_then(|shape| DeviceMesh::new(&devices, shape, &names));
    // What we refuse on purpose, whatever the other system does.
    let sizes = case.field("mesh_shape")?.list_of(Node::integer)?;
    if sizes.iter().any(|size| *size < 1) || names.iter().any(|name| name.is_empty()) {
        return Ok(Verdict::error(&got));
    }
    checked(&case.field("want")?, got, |want, got| {
        let (ndim, devices) = (want.field("ndim")?.size()?, want.field("num_devices")?.size()?);
        Ok(Verdict::equal("mesh axes", ndim, got.ndim())
            .and(|| Verdict::equal("devices", devices, got.num_devices())))
    })
}

/// One axis or several, each a name or a number.
fn axes(node: &Node<'_>, mesh: &DeviceMesh) -> Parsed<Result<Vec<usize>>> {
    let axis = |node: &Node<'_>| -> Parsed<Result<usize>> {
        Ok(match node.value().as_str() {
            Some(name) => mesh.axis_index(name),
            None => usize::try_from(node.integer()?).map_err(|_| unspellable(&node.value().to_string())),
        })
    };
    if node.value().is_array() {
        return Ok(node.list_of(axis)?.into_iter().collect());
    }
    Ok(axis(node)?.map(|axis| vec![axis]))
}

pub(super) fn axis_size_device_coord(case: &Node<'_>) -> Parsed<Verdict> {
    let mesh = match spelled_mesh(&case.field("mesh")?)? {
        Ok(mesh) => mesh,
        Err(error) => return Ok(Verdict::failed("a mesh", error.to_string())),
    };
    let axes = axes(&case.field("axis")?, &mesh)?;
    let mut verdict = Verdict::Passed;
    if let Some(want) = case.optional("axis_size") {
        let got = axes
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|axes| mesh.axis_size(axes).map_err(|error| error.to_string()));
        verdict = compare(&want, got, |want| want.size())?;
    }
    if let (Some(want), Verdict::Passed) = (case.optional("coords"), &verdict) {
        let got = axes.as_ref().map_err(ToString::to_string).and_then(|axes| {
            let coords = (0..mesh.num_devices()).map(|device| mesh.device_coord(device, axes));
            coords.collect::<Result<Vec<_>>>().map_err(|error| error.to_string())
        });
        verdict = compare(&want, got, |want| want.list_of(Node::size))?;
    }
    if let (Some(want), Verdict::Passed) = (case.optional("coord"), &verdict) {
        let device =
            usize::try_from(case.field("device_idx")?.integer()?).map_err(|_| "a negative device".to_owned());
        let got = match (axes, device) {
            (Ok(axes), Ok(device)) => mesh.device_coord(device, &axes).map_err(|error| error.to_string()),
            (Err(error), _) => Err(error.to_string()),
            (_, Err(error)) => Err(error),
        };
        verdict = compare(&want, got, |want| want.size())?;
    }
    Ok(verdict)
}

fn compare<T: PartialEq + std::fmt::Debug>(
    want: &Node<'_>,
    got: std::result::Result<T, String>,
    read: impl FnOnce(&Node<'_>) -> Parsed<T>,
) -> Parsed<Verdict> {
    if want.has("error") {
        return Ok(Verdict::error(&got));
    }
    Ok(match got {
        Ok(got) => Verdict::equal("the number", read(want)?, got),
        Err(error) => Verdict::failed(want.value().to_string(), error),
    })
}
