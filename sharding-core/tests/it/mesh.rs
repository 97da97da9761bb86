//! Meshes of the caller's devices, meshes without devices, and the mesh of a scope.

use proptest::prelude::*;
use sharding_core::redistribute::explain_transfer;
use sharding_core::{
    AbstractMesh, AxisType, BackendKind, DType, Device, DeviceMapping, DeviceMesh, ErrorKind, NamedMapping,
    Place, TensorLayout, make_mesh, set_mesh, set_mesh_guard, spec,
};

fn slots(slots: &[u32]) -> Vec<Device> {
    slots.iter().map(|slot| Device::cpu().with_slot(*slot)).collect()
}

/// Refused, with these words.
fn refused(devices: &[u32], shape: &[usize], names: &[&str], types: &[AxisType], words: &str) {
    let error = make_mesh(&slots(devices), shape, names, types).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Mesh | ErrorKind::Overflow), "{error}");
    assert_eq!(error.op(), Some("make_mesh"));
    assert!(error.to_string().contains(words) && error.fix().is_some(), "{error}");
}

#[test]
fn a_mesh_has_the_callers_devices_in_the_callers_order() {
    let devices = slots(&[7, 0, 3, 5, 1, 2, 6, 4]);
    let types = [AxisType::Explicit, AxisType::Manual];
    let mesh = make_mesh(&devices, [4, 2], ["x", "y"], types).unwrap();
    assert_eq!(mesh.devices().collect::<Vec<_>>(), devices);
    assert_eq!(mesh.axis_types(), types);
    for (position, device) in devices.iter().enumerate() {
        assert_eq!(mesh.position_of(*device), Some(position));
    }
    for other in [Device::cpu().with_slot(8), Device::new(BackendKind::SIM, 0).with_slot(3)] {
        assert_eq!(mesh.position_of(other), None);
    }
}

#[test]
fn the_first_thing_wrong_is_named() {
    use AxisType::Auto;
    refused(&[], &[0], &[], &[], "at least one device");
    refused(&[0, 0], &[0], &[], &[], "appears twice");
    refused(&[0], &[], &[], &[], "at least one mesh axis");
    refused(&[0], &[0, 1], &["x", "x"], &[], "sizes of at least 1");
    refused(&[0, 1], &[4, 2], &["x", ""], &[], "empty name");
    refused(&[0, 1], &[4, 2], &["x", "x"], &[], "two mesh axes are named 'x'");
    refused(&[0, 1], &[4, 2], &["x"], &[Auto, Auto], "2 sizes, 1 axis names and 2 axis types");
    refused(&[0, 1], &[2], &["x"], &[], "1 sizes, 1 axis names and 0 axis types");
    refused(&[0, 1], &[1], &["x"], &[Auto], "needs 1 devices, got 2");
    refused(&[0, 1], &[4], &["x"], &[Auto], "needs 4 devices, got 2");
    refused(&[0, 1], &[usize::MAX, 2], &["x", "y"], &[Auto, Auto], "too many devices");
}

#[test]
fn axis_types_are_asked_for_and_changed_by_name() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2, 3], ["a", "b"]).unwrap();
    let manual = mesh.with_axis_type("b", AxisType::Manual).unwrap();
    assert_eq!(manual, mesh, "types are no part of a concrete mesh");
    assert_eq!(manual.axis_types(), [AxisType::Auto, AxisType::Manual]);
    assert_ne!(manual.to_abstract(), mesh.to_abstract());
    assert_eq!(mesh.to_abstract().with_axis_type("b", AxisType::Manual).unwrap(), manual.to_abstract());
    assert_eq!(mesh.with_axis_type("c", AxisType::Manual).unwrap_err().kind(), ErrorKind::Axis);
    assert_eq!(mesh.to_abstract().with_axis_type("c", AxisType::Auto).unwrap_err().kind(), ErrorKind::Axis);
    assert_eq!(mesh.to_abstract().with_axis_types([AxisType::Auto]).unwrap_err().kind(), ErrorKind::Mesh);
}

#[test]
fn a_mesh_of_several_processes_knows_it() {
    let near = slots(&[0, 1]);
    let far: Vec<Device> =
        near.iter().chain(&near).enumerate().map(|(i, d)| d.with_process(i as u32 / 2)).collect();
    let grid = AbstractMesh::new([2, 2], ["x", "y"]).unwrap();
    assert!(grid.with_devices(&far).unwrap().is_multi_process());
    assert!(!DeviceMesh::new(&far[2..], [2], ["x"]).unwrap().is_multi_process());
    assert_eq!(grid.with_devices(&near).unwrap_err().kind(), ErrorKind::Mesh);
}

#[test]
fn a_bare_spec_resolves_on_the_innermost_mesh() {
    let [outer, inner] = [2, 4].map(|n| DeviceMesh::simulated(BackendKind::SIM, [n], ["x"]).unwrap());
    let size = || NamedMapping::scoped(spec!["x"]).map(|named| named.mesh().num_devices());
    assert_eq!(size().unwrap_err().kind(), ErrorKind::Mesh);
    set_mesh(&outer, || {
        assert_eq!(size().unwrap(), 2);
        let guard = set_mesh_guard(&inner);
        assert_eq!(size().unwrap(), 4);
        drop(guard);
        assert_eq!(size().unwrap(), 2);
    });
    assert!(size().is_err());
    // Also where it is left by a panic.
    let left = std::panic::catch_unwind(|| set_mesh(&inner, || panic!("on purpose")));
    assert!(left.is_err() && size().is_err());
}

proptest! {
    /// Without devices the grid answers as with them.
    #[test]
    fn a_mesh_without_devices_knows_the_same(
        shape in proptest::collection::vec(1_usize..4, 1..4),
        axes in proptest::collection::vec(0_usize..4, 0..4),
        position in 0_usize..30,
    ) {
        let names = &["a", "b", "c"][..shape.len()];
        let concrete = DeviceMesh::simulated(BackendKind::SIM, &shape, names).unwrap();
        let grid = AbstractMesh::new(&shape, names).unwrap();
        prop_assert_eq!(&concrete.to_abstract(), &grid);
        prop_assert_eq!((grid.ndim(), grid.num_devices()), (concrete.ndim(), concrete.num_devices()));
        prop_assert_eq!(grid.axis_size(&axes).ok(), concrete.axis_size(&axes).ok());
        prop_assert_eq!(grid.device_coord(position, &axes).ok(), concrete.device_coord(position, &axes).ok());
        for axis in 0..4 {
            prop_assert_eq!(grid.size(axis), concrete.size(axis));
            prop_assert_eq!(grid.axis_name(axis), concrete.axis_name(axis));
            prop_assert_eq!(grid.stride(axis), concrete.stride(axis));
            prop_assert_eq!(grid.coord(position, axis), concrete.coord(position, axis));
        }
        if position < grid.num_devices() && axes.iter().all(|axis| *axis < shape.len()) {
            prop_assert_eq!(grid.group(position, &axes), concrete.group(position, &axes));
        }
        let kept = grid.sub_mesh(&axes);
        let concrete = concrete.sub_mesh(0, &axes).map(|mesh| mesh.to_abstract());
        prop_assert_eq!(kept.as_ref().map_err(|e| e.kind()), concrete.as_ref().map_err(|e| e.kind()));
    }
}

/// Names are the user's, and lines are ours: what a name cannot do in a text that people read.
#[test]
fn names_break_no_lines_of_texts() {
    let name = "t\n\u{202e}p";
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [2], [name]).unwrap();
    assert_eq!(mesh.axis_index(name).unwrap(), 0, "it is still called so");
    let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
    let layout = TensorLayout::new(DType::F32, [4], rows).unwrap();
    let whole = layout.with_mapping(DeviceMapping::replicated(&mesh)).unwrap();
    let error = layout.with_mapping(DeviceMapping::new(&mesh, [Place::Sharded(3)]).unwrap()).unwrap_err();
    for text in [
        mesh.to_string(),
        mesh.to_abstract().to_string(),
        format!("{mesh:?}"),
        layout.to_string(),
        format!("{layout:?}"),
        explain_transfer(&layout, &whole).unwrap().to_string().replace("\n  ", " | "),
        error.to_string().replace("\n  ", " | "),
    ] {
        assert!(text.contains("t\u{fffd}\u{fffd}p") && !text.contains(['\n', '\u{202e}']), "{text:?}");
    }
}
