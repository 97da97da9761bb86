//! Properties of all kinds.

use super::*;

/// A multiple of all ways on every axis: all kinds cut it evenly, and different parts are different indices.
fn fine(shardings: &[&dyn Sharding]) -> Shape {
    let ways = |axis: usize| shardings.iter().map(|s| s.tiling(3).unwrap().ways(axis)).product::<usize>();
    (0..3).map(ways).collect()
}

proptest! {
    #[test]
    fn every_element_is_covered_exactly_as_often_as_it_is_replicated(
        sharding in any_sharding(),
        times in proptest::array::uniform3(0_usize..3),
    ) {
        let fine = fine(&[&*sharding]);
        check(&*sharding, &fine.iter().zip(times).map(|(extent, times)| extent * times).collect());
    }

    #[test]
    fn a_mapping_covers_extents_that_do_not_divide(
        mapping in any_mapping(false),
        shape in proptest::array::uniform3(0_usize..9),
    ) {
        check(&mapping, &Shape::from(shape));
    }

    #[test]
    fn tensors_are_placed_where_every_kind_says(sharding in any_sharding(), pinned: bool) {
        let sharding = if pinned { sharding.with_memory_kind(Some(MemoryKind::PinnedHost)).unwrap() } else { sharding };
        let shape = fine(&[&*sharding]);
        let mapping = sharding.mapping_for(&shape).unwrap();
        let indices = mapping.devices_indices_map(&shape).unwrap();
        prop_assert_eq!(mapping.num_devices(), sharding.num_devices());
        for (device, region) in regions(&*sharding, &shape) {
            prop_assert_eq!(indices.of(device).unwrap(), region, "{} as {}", sharding, mapping);
        }
        prop_assert_eq!(Some(mapping.memory_kind()), sharding.memory_kind());
    }

    #[test]
    fn equivalence_is_having_the_same_indices_device_by_device(a in any_sharding(), b in any_sharding()) {
        let shape = fine(&[&*a, &*b]);
        let same = regions(&*a, &shape) == regions(&*b, &shape);
        prop_assert_eq!(a.is_equivalent_to(&*b, 3).unwrap(), same, "{} {}", a, b);
        prop_assert_eq!(b.is_equivalent_to(&*a, 3).unwrap(), same);
        prop_assert!(a.is_equivalent_to(&*a, 3).unwrap());
        // Another memory is another place, and the only difference.
        let pinned = |sharding: &dyn Sharding| sharding.with_memory_kind(Some(MemoryKind::PinnedHost)).unwrap();
        prop_assert!(!pinned(&*a).is_equivalent_to(&*a, 3).unwrap());
        prop_assert_eq!(pinned(&*a).is_equivalent_to(&*pinned(&*b), 3).unwrap(), same);
        prop_assert!(pinned(&*a).with_memory_kind(None).unwrap().is_equivalent_to(&*a, 3).unwrap());
    }

    #[test]
    fn terms_of_sums_are_told_apart(a in any_named(true), b in any_named(true)) {
        // Coordinates along unreduced axes, beside the indices.
        let terms = |sharding: &NamedSharding| -> Vec<usize> {
            let mesh = sharding.mesh().unwrap();
            let axes = sharding.unreduced_axes();
            (0..mesh.num_devices()).map(|position| mesh.device_coord(position, &axes).unwrap()).collect()
        };
        let indices = |sharding: &NamedSharding| {
            let spec = PartitionSpec::new(sharding.spec().entries().to_vec());
            regions(&sharding.with_spec(spec).unwrap(), &fine(&[&a, &b]))
        };
        let same = terms(&a) == terms(&b) && indices(&a) == indices(&b);
        prop_assert_eq!(a.is_equivalent_to(&b, 3).unwrap(), same, "{} {}", a, b);
        let unreduced = terms(&a).iter().any(|term| *term > 0);
        let map = a.devices_indices_map(&fine(&[&a]));
        prop_assert_eq!(map.map_err(|error| error.kind()).err(), unreduced.then_some(ErrorKind::Unreduced));
        prop_assert!(!(unreduced && a.is_fully_replicated()));
    }
}
