//! There and back again.

use super::*;
use crate::{NamedMapping, spec};

/// Conversions of a mapping; those of one that names spell give it back.
fn spellable(mapping: &DeviceMapping) -> bool {
    let plain = |place: &Place| {
        matches!(*place, Place::Replicated | Place::Sharded(_) | Place::Partial(ReduceOp::Sum))
    };
    mapping.places().iter().all(plain)
}

proptest! {
    #[test]
    fn a_mapping_comes_back_from_names_as_it_was(mapping in any_mapping(true), pinned: bool) {
        let mapping = if pinned { mapping.with_memory_kind(MemoryKind::PinnedHost) } else { mapping };
        match NamedSharding::try_from(&mapping) {
            Ok(named) => {
                prop_assert!(spellable(&mapping));
                prop_assert!(named.is_equivalent_to(&mapping, 3).unwrap());
                prop_assert_eq!(&DeviceMapping::try_from(&named).unwrap(), &mapping);
                prop_assert_eq!(named.spread().unwrap(), mapping);
            }
            Err(error) => prop_assert!(error.kind() == ErrorKind::Conversion && !spellable(&mapping), "{}", error),
        }
    }

    #[test]
    fn names_come_back_from_a_mapping_or_are_refused(named in any_named(true), pinned: bool) {
        let kind = if pinned { MemoryKind::PinnedHost } else { MemoryKind::Device };
        let named = named.in_memory(kind).unwrap();
        let long = |name: &&str| named.abstract_mesh().axis_size(&[axis(&named, name)]).unwrap() > 1;
        let ordered = |all: bool| named.spec().entries().iter().all(|entry| {
            entry.names().filter(|name| all || long(name)).map(|name| axis(&named, name)).is_sorted()
        });
        match DeviceMapping::try_from(&named) {
            Ok(mapping) => {
                prop_assert!(ordered(false));
                let back = NamedSharding::try_from(&mapping).unwrap();
                prop_assert!(back.is_equivalent_to(&named, 3).unwrap());
                prop_assert_eq!(DeviceMapping::try_from(&back).unwrap(), mapping);
                // A named mapping keeps entries and sets as they are written.
                let mapping = NamedMapping::try_from(&named).unwrap();
                let back = NamedSharding::try_from(&mapping).unwrap();
                prop_assert!(back.is_equivalent_to(&named, 3).unwrap());
                prop_assert_eq!(back == named, ordered(true), "{} {}", back, named);
                let again = NamedMapping::try_from(&back).unwrap();
                prop_assert_eq!(again.mapping(), mapping.mapping());
            }
            Err(error) => {
                prop_assert!(error.kind() == ErrorKind::Conversion && !ordered(false), "{}", error);
                prop_assert_eq!(NamedMapping::try_from(&named).unwrap_err().kind(), ErrorKind::Conversion);
            }
        }
    }

    #[test]
    fn spread_keeps_the_indices_of_every_device(named in any_named(false)) {
        let mapping = named.spread().unwrap();
        let shape: Shape = (0..3).map(|axis| 2 * named.tiling(3).unwrap().ways(axis)).collect();
        let map = mapping.devices_indices_map(&shape).unwrap();
        for (device, region) in regions(&named, &shape) {
            prop_assert_eq!(map.of(device).unwrap(), region);
        }
    }

    #[test]
    fn spread_keeps_the_terms_of_every_device(named in any_named(true)) {
        let (mesh, mapping) = (named.mesh().unwrap(), named.spread().unwrap());
        let of = |mesh: &DeviceMesh, axes: &[usize]| -> Vec<usize> {
            let coord = |device| mesh.device_coord(mesh.position_of(device).unwrap(), axes).unwrap();
            named.device_set().unwrap().map(coord).collect()
        };
        // In the order of the names, which both meshes share.
        let axes = |mesh: &DeviceMesh| -> Vec<usize> {
            named.spec().unreduced().map(|name| mesh.axis_index(name).unwrap()).collect()
        };
        prop_assert_eq!(of(mesh, &axes(mesh)), of(mapping.mesh(), &axes(mapping.mesh())));
        let partial = mapping.places().iter().filter(|place| place.is_partial()).count();
        prop_assert_eq!(partial, named.spec().unreduced().len());
    }
}

fn axis(named: &NamedSharding, name: &str) -> usize {
    named.abstract_mesh().axis_index(name).unwrap()
}

#[test]
fn what_names_cannot_say_on_this_mesh_is_a_conversion_error_with_its_cure() {
    let auto = DeviceMapping::new(&grid(), [Place::PARTIAL, Place::Replicated]).unwrap();
    let error = NamedSharding::try_from(&auto).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conversion);
    assert!(error.fix().unwrap().contains("AxisType::Explicit"), "{error}");
    let out_of_order = NamedSharding::new(&grid(), spec![("y", "x")]).unwrap();
    let error = DeviceMapping::try_from(&out_of_order).unwrap_err();
    assert!(error.fix().unwrap().contains("spread()"), "{error}");
    let nowhere = NamedSharding::on_abstract(&grid().to_abstract(), spec!["x"]).unwrap();
    assert_eq!(DeviceMapping::try_from(&nowhere).unwrap_err().kind(), ErrorKind::Conversion);
    let far = (0..16).fold(PartitionSpec::default(), |spec, _| spec.with(None)).with("x");
    let far = NamedSharding::new(&grid(), far).unwrap();
    assert_eq!(DeviceMapping::try_from(&far).unwrap_err().kind(), ErrorKind::Conversion);
}

#[test]
fn a_named_mapping_means_mesh_order_and_may_name_what_is_not_there() {
    let mapping = NamedMapping::new(&grid(), spec![("y", "nowhere", "x"), None]).unwrap();
    let named = NamedSharding::try_from(&mapping).unwrap();
    assert_eq!(*named.spec(), spec![("x", "y"), None]);
    assert_eq!(NamedMapping::try_from(&named).unwrap().mapping(), mapping.mapping());
    let sum = explicit(&grid());
    let mapping = NamedMapping::new(&sum, spec![None].with_unreduced(["x"]).unwrap()).unwrap();
    assert_eq!(mapping.mapping().places(), [Place::PARTIAL, Place::Replicated]);
    // Sums need an axis that is Explicit.
    assert!(NamedSharding::try_from(&mapping).is_ok());
    let mapping = NamedMapping::new(&grid(), spec![None].with_unreduced(["x"]).unwrap()).unwrap();
    assert_eq!(NamedSharding::try_from(&mapping).unwrap_err().kind(), ErrorKind::Conversion);
}

/// It answers questions as none does, and JAX's `device_put` by it is an error, too.
#[test]
fn an_unconstrained_entry_places_nothing() {
    let spec = spec!["x", SpecEntry::unconstrained()];
    let open = NamedSharding::new(&grid(), spec.clone()).unwrap();
    let shape = Shape::from([8, 4]);
    assert_eq!(open.shard_shape(&shape).unwrap(), Shape::from([2, 4]));
    assert!(open.is_equivalent_to(&NamedSharding::new(&grid(), spec!["x"]).unwrap(), 2).unwrap());
    let errors = [
        open.mapping_for(&shape).map(drop),
        open.spread().map(drop),
        DeviceMapping::try_from(&open).map(drop),
        NamedMapping::try_from(&open).map(drop),
        GspmdSharding::try_from(&open).map(drop),
        PositionalSharding::try_from(&open).map(drop),
        NamedMapping::new(&grid(), spec.clone()).map(drop),
        spec.to_mapping(&grid()).map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Conversion);
        assert!(
            error.message().contains("tensor axis 1") && error.fix().unwrap().contains("None"),
            "{error}"
        );
    }
}
