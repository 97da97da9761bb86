use super::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Meshes of up to 4 axes and what they do to a tensor of up to 4.
pub(in crate::sharding) fn mesh_axes() -> impl Strategy<Value = (Vec<usize>, MeshAxes)> {
    proptest::collection::vec(1_usize..5, 0..5).prop_flat_map(|sizes| {
        let order: Vec<usize> = (0..sizes.len()).collect();
        // What each mesh axis does: 0..4 splits that tensor axis, 4 is unreduced, 5 manual, 6 replicates.
        let roles = proptest::collection::vec(0_usize..7, sizes.len());
        (Just(sizes), Just(order).prop_shuffle(), roles, 0_usize..4).prop_map(
            |(sizes, order, roles, more)| {
                let mut axes = MeshAxes { split: vec![Vec::new(); more], ..MeshAxes::default() };
                for (axis, role) in order.into_iter().zip(roles) {
                    match role {
                        4 => axes.unreduced.push(axis),
                        5 => axes.manual.push(axis),
                        6 => {}
                        tensor_axis => {
                            axes.split.resize(axes.split.len().max(tensor_axis + 1), Vec::new());
                            axes.split[tensor_axis].push(axis);
                        }
                    }
                }
                (sizes, axes)
            },
        )
    })
}

/// Tile assignments in both forms, with subgroups.
fn tiled() -> impl Strategy<Value = HloSharding> {
    let sizes = proptest::collection::vec(1_usize..4, 1..5);
    let parts = sizes.prop_flat_map(|sizes| {
        let n: usize = sizes.iter().product();
        let perm: Vec<usize> = (0..sizes.len()).collect();
        let devices: Vec<usize> = (0..n).collect();
        let dims = Just(sizes.clone()).prop_shuffle();
        (Just(sizes), Just(perm).prop_shuffle(), Just(devices).prop_shuffle(), dims, any::<bool>())
    });
    let kinds = proptest::collection::vec(select(Subgroup::ALL.to_vec()), 0..4);
    (parts, kinds).prop_map(|((sizes, perm, devices, dims, list), mut kinds)| {
        kinds.truncate(dims.len());
        let tiles = match list {
            true => TileAssignment::listed(dims, devices),
            false => TileAssignment::iota(dims, sizes, perm),
        };
        HloSharding::tiled(tiles.unwrap(), kinds).unwrap()
    })
}

fn sharding() -> impl Strategy<Value = HloSharding> {
    let whole = select(vec![
        HloSharding::replicated(),
        HloSharding::manual(),
        HloSharding::unreduced(),
        HloSharding::unknown(),
        HloSharding::maximal(7),
    ]);
    let one = prop_oneof![3 => tiled(), 1 => whole];
    let tuple = proptest::collection::vec(one.clone(), 0..4).prop_map(|all| HloSharding::tuple(all).unwrap());
    prop_oneof![4 => one, 1 => tuple]
}

/// What each device holds, told without the forms: the tile, and the devices that share it in each replicated subgroup
/// count as one.
fn naive(sharding: &HloSharding, devices: usize) -> Vec<Vec<usize>> {
    let mut shared = sharding.subgroups().len() + sharding.data_dims().unwrap().len();
    shared -= usize::from(sharding.subgroups().last() == Some(&Subgroup::Replicated));
    (0..devices).map(|device| sharding.coordinates(device).unwrap()[..shared].to_vec()).collect()
}

/// The same text in and out.
fn kept(text: &str) {
    check(text, text);
}

fn check(text: &str, want: &str) {
    assert_eq!(text.parse::<HloSharding>().unwrap().to_string(), want, "{text}");
}

#[test]
fn canonical_forms_are_those_of_xla() {
    kept("{replicated}");
    kept("{manual}");
    kept("{unreduced}");
    kept("{unknown}");
    kept("{maximal device=3}");
    kept("{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    kept("{devices=[2,2]0,2,1,3}");
    kept("{devices=[2,2,2]<=[8] last_tile_dims={manual, replicated}}");
    kept("{{devices=[2,1]<=[2]}, {replicated}}");
    kept("{}");
    kept("{devices=[1,1,8]<=[8]}");
    let spaced = " { devices = [ 4 , 2 ] <= [ 2 , 4 ] T ( 1 , 0 ) last_tile_dims = { replicated } } ";
    check(spaced, "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
    check("{{manual}, /*index=5*/{replicated}}", "{{manual}, {replicated}}");
    check("{devices=[4,2]<=[4,2]}", "{devices=[4,2]<=[8]}");
    // What XLA makes of the same.
    check(
        "{devices=[2,4]<=[2,2,2]T(1,2,0) last_tile_dim_replicate}",
        "{devices=[2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}",
    );
    check(
        "{devices=[3,4]<=[2,6]T(1,0) last_tile_dim_replicate}",
        "{devices=[3,4]<=[2,3,2]T(1,0,2) last_tile_dim_replicate}",
    );
    kept("{devices=[4,3]<=[6,2]T(1,0) last_tile_dim_replicate}");
    check("{devices=[4,3,1]<=[6,2]T(1,0) last_tile_dim_replicate}", "{devices=[4,3]<=[6,2]T(1,0)}");
    check(
        "{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
        "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}",
    );
    check(
        "{devices=[2,2,2]3,1,2,0,4,5,6,7 last_tile_dims={unreduced, manual}}",
        "{devices=[2,2,2]3,2,1,0,4,6,5,7 last_tile_dims={manual, unreduced}}",
    );
    check(
        "{devices=[1,2,4]3,1,2,0,4,5,6,7 last_tile_dims={manual, replicated}}",
        "{devices=[1,2,4]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}",
    );
    check("{devices=[1,2,4]3,1,2,0,4,5,6,7 last_tile_dims={manual, manual}}", "{manual}");
    check("{devices=[1,8]<=[8] last_tile_dims={unreduced}}", "{unreduced}");
    check("{devices=[1,8]<=[8] last_tile_dim_replicate}", "{replicated}");
    check("{devices=[1,1]0}", "{replicated}");
    // Subgroups of one device say nothing, wherever they stand.
    check(
        "{devices=[3,2,1,1,1,1]<=[3,2]T(1,0) last_tile_dims={replicated, unreduced, replicated}}",
        "{devices=[3,2,1]<=[3,2]T(1,0)}",
    );
    check("{devices=[1,1,4]0,1,3,2 last_tile_dims={manual, unreduced}}", "{unreduced}");
    check("{devices=[1,1,1]<=[1] last_tile_dims={manual, unreduced}}", "{replicated}");
    check("{devices=[2,1,1]0,1 last_tile_dims={manual, replicated}}", "{devices=[2]0,1}");
    check("{devices=[2,4]<=[2,1,4]T(2,1,0)}", "{devices=[2,4]<=[2,4]T(1,0)}");
    check(
        "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dims={manual, manual}}",
        "{devices=[2,4]<=[2,2,2]T(2,1,0) last_tile_dims={manual}}",
    );
    check(
        "{devices=[2,9]<=[3,2,3]T(2,1,0) last_tile_dim_replicate}",
        "{devices=[2,9]0,1,3,6,7,9,12,13,15,2,4,5,8,10,11,14,16,17 last_tile_dim_replicate}",
    );
    check(
        "{devices=[2,3,2,3]<=[4,9]T(1,0) last_tile_dims={replicated, manual, replicated}}",
        "{devices=[2,2,9]0,2,3,9,12,18,19,21,28,1,4,10,11,13,20,27,29,30,5,6,8,15,22,24,25,31,34,7,14,16,17,23,26,32,33,35 last_tile_dims={manual, replicated}}",
    );
}

#[test]
fn what_is_no_sharding_is_refused_with_its_place() {
    let refused = |text: &str, kind: ErrorKind, at: usize| {
        let error = text.parse::<HloSharding>().unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(&format!("at byte {at}")), "{text}: {error}");
        assert!(error.fix().is_some(), "{text}");
    };
    let text = |text, at| refused(text, ErrorKind::Argument, at);
    text("", 0);
    text("replicated", 0);
    text("{replicated", 11);
    text("{replicated} x", 13);
    text("{rep}", 1);
    text("{maximal device=}", 16);
    text("{maximal device=99999999999999999999}", 16);
    text("{devices=[2,2]}", 14);
    text("{devices=[2,]0,1}", 12);
    text("{devices=[2]<=[2]T}", 18);
    text("{devices=[2]-1,0}", 12);
    text("{devices=[2]0,1 last_tile_dims={}}", 32);
    text("{devices=[2]0,1 last_tile_dims={maximal}}", 32);
    text("{devices=[2]0,1 metadata={op_name=\"a\"}}", 16);
    text("{{{replicated}}}", 2);
    text("{replicated é}", 12);
    text("{/* open", 1);
    let tiles = |text| refused(text, ErrorKind::Mapping, 1);
    tiles("{devices=[2,2]0,1,2}");
    tiles("{devices=[2,2]0,1,2,3,4}");
    tiles("{devices=[2,2]0,1,2,2}");
    tiles("{devices=[2,2]0,1,2,4}");
    tiles("{devices=[2,0]<=[2]}");
    tiles("{devices=[2,2]<=[3]}");
    tiles("{devices=[2,2]<=[2,2]T(0,0)}");
    tiles("{devices=[2,2]<=[2,2]T(0,2)}");
    tiles("{devices=[2,2]<=[2,2]T(0)}");
    tiles("{devices=[2]0,1 last_tile_dims={manual, replicated}}");
    tiles("{devices=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]<=[2]}");
    refused("{devices=[4294967296,4294967296]<=[1]}", ErrorKind::Overflow, 1);
    // A list of so many devices is not made.
    let uneven = "{devices=[3486784401,1048576]<=[1048576,3486784401]T(1,0)}";
    uneven.parse::<HloSharding>().unwrap();
    refused(
        "{devices=[1048576,3486784401]<=[1048576,3486784401]T(1,0) last_tile_dim_replicate}",
        ErrorKind::Overflow,
        1,
    );
}

#[test]
fn one_device_of_a_million_costs_no_list() {
    let text = "{devices=[1024,512,2]<=[2,512,1024]T(2,1,0) last_tile_dim_replicate}";
    let sharding: HloSharding = text.parse().unwrap();
    assert_eq!(sharding.num_devices(), Some(1 << 20));
    let begin = std::time::Instant::now();
    // Device 512 * 1024 + 3 * 1024 + 5.
    for _ in 0..1000 {
        assert_eq!(sharding.coordinates(524_288 + 3072 + 5).unwrap()[..], [5, 3, 1]);
    }
    // A list would take milliseconds each; the bound leaves room for a busy machine.
    assert!(begin.elapsed().as_millis() < 500);
    assert_eq!(sharding.to_string(), text);
}

proptest! {
    #[test]
    fn the_text_is_read_back(sharding in sharding()) {
        let text = sharding.to_string();
        let back: HloSharding = text.parse().unwrap();
        prop_assert_eq!(&back, &sharding);
        prop_assert_eq!(back.to_string(), text);
    }

    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = text.parse::<HloSharding>();
    }

    #[test]
    fn no_text_of_its_words_panics(words in proptest::collection::vec(select(vec![
        "{", "}", "[", "]", "(", ")", ",", "=", "<=", "T", "0", "1", "2", "8", "18446744073709551615", "devices", "=", "maximal",
        "device", "replicated", "manual", " last_tile_dims", " last_tile_dim_replicate", " ", "/*", "*/", "{devices=[", "2,4]", "<=[8]",
    ]), 0..24)) {
        if let Ok(sharding) = words.concat().parse::<HloSharding>() {
            prop_assert_eq!(sharding.to_string().parse::<HloSharding>().unwrap(), sharding);
        }
    }

    #[test]
    fn a_changed_text_is_refused_or_read_back(sharding in sharding(), at in any::<prop::sample::Index>(), with in "[0-9,T<={}\\[\\]a-z]?") {
        let mut text = sharding.to_string();
        let at = at.index(text.len());
        text.replace_range(at..at + 1, &with);
        if let Ok(sharding) = text.parse::<HloSharding>() {
            prop_assert_eq!(sharding.to_string().parse::<HloSharding>().unwrap(), sharding);
        }
    }

    #[test]
    fn equal_means_the_same_in_the_same_places(a in tiled(), b in tiled()) {
        let (Some(n), Some(m)) = (a.num_devices(), b.num_devices()) else { return Ok(()) };
        let alike = n == m
            && a.tiles().unwrap().dims() == b.tiles().unwrap().dims()
            && a.subgroups() == b.subgroups();
        prop_assert_eq!(a == b, alike && naive(&a, n) == naive(&b, m));
    }

    #[test]
    fn a_list_of_the_same_devices_is_equal(sharding in tiled()) {
        let Some(tiles) = sharding.tiles() else { return Ok(()) };
        let devices: Vec<usize> = tiles.devices().collect();
        let listed = TileAssignment::listed(tiles.dims(), devices).unwrap();
        prop_assert_eq!(&listed, tiles);
        let listed = HloSharding::tiled(listed, sharding.subgroups()).unwrap();
        prop_assert_eq!(&listed, &sharding);
        let hash = |sharding: &HloSharding| {
            use std::hash::{BuildHasher, BuildHasherDefault};
            BuildHasherDefault::<rustc_hash::FxHasher>::default().hash_one(sharding)
        };
        prop_assert_eq!(hash(&listed), hash(&sharding));
    }

    #[test]
    fn positions_and_devices_are_inverse(sharding in tiled()) {
        let Some(tiles) = sharding.tiles() else { return Ok(()) };
        for position in 0..tiles.num_devices() {
            prop_assert_eq!(tiles.position(tiles.device(position).unwrap()), Some(position));
        }
        prop_assert_eq!(tiles.device(tiles.num_devices()), None);
        prop_assert_eq!(tiles.position(tiles.num_devices()), None);
    }

    #[test]
    fn mesh_axes_come_back((sizes, axes) in mesh_axes()) {
        let sharding = HloSharding::from_mesh_axes(&sizes, &axes).unwrap();
        let back = sharding.mesh_axes(&sizes).unwrap();
        // Axes of size 1 split nothing, and a sharding of one kind has no dimensions.
        let longer = |axes: &Vec<usize>| -> Vec<usize> { axes.iter().copied().filter(|axis| sizes[*axis] > 1).collect() };
        let sorted = |axes: &Vec<usize>| { let mut axes = longer(axes); axes.sort_unstable(); axes };
        let mut split: Vec<_> = axes.split.iter().map(longer).collect();
        if sharding.tiles().is_none() {
            prop_assert!(split.iter().all(|entry| entry.is_empty()));
            split.clear();
        }
        let want = MeshAxes { split, unreduced: sorted(&axes.unreduced), manual: sorted(&axes.manual) };
        prop_assert_eq!(back, want);
    }

    #[test]
    fn each_device_has_the_tile_of_its_mesh_coordinates((sizes, axes) in mesh_axes()) {
        let sharding = HloSharding::from_mesh_axes(&sizes, &axes).unwrap();
        let Some(data_dims) = sharding.data_dims() else { return Ok(()) };
        let strides = runs::strides(&sizes);
        for device in 0..sizes.iter().product() {
            let coordinates = sharding.coordinates(device).unwrap();
            for (dim, entry) in axes.split.iter().enumerate() {
                let tile = entry.iter().fold(0, |tile, axis| tile * sizes[*axis] + device / strides[*axis] % sizes[*axis]);
                prop_assert_eq!(coordinates[dim], tile);
                prop_assert_eq!(data_dims[dim], entry.iter().map(|axis| sizes[*axis]).product::<usize>());
            }
        }
    }

    #[test]
    fn tiles_convert_to_mesh_axes_without_loss_or_not_at_all(sharding in tiled(), sizes in proptest::collection::vec(1_usize..5, 0..4)) {
        let n: usize = sizes.iter().product();
        match sharding.mesh_axes(&sizes) {
            Ok(axes) if sharding.kind() == HloKind::Tiled => {
                prop_assert_eq!(HloSharding::from_mesh_axes(&sizes, &axes).unwrap(), sharding);
            }
            Ok(_) => prop_assert!(sharding.tiles().is_none()),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Conversion);
                prop_assert!(sharding.num_devices().is_some_and(|devices| devices != n) || !spelled(&sharding, &sizes));
            }
        }
    }
}

/// Whether some order of mesh axes gives this sharding, by trying all.
fn spelled(sharding: &HloSharding, sizes: &[usize]) -> bool {
    fn orders(left: &[usize]) -> Vec<Vec<usize>> {
        if left.is_empty() {
            return vec![Vec::new()];
        }
        let rest = |axis: &usize| left.iter().copied().filter(|other| other != axis).collect::<Vec<_>>();
        let with = |axis: &usize| {
            orders(&rest(axis)).into_iter().map(|order| [vec![*axis], order].concat()).collect::<Vec<_>>()
        };
        left.iter().flat_map(with).collect()
    }
    let longer: Vec<usize> = (0..sizes.len()).filter(|axis| sizes[*axis] > 1).collect();
    let dims = sharding.tiles().unwrap().dims().to_vec();
    orders(&longer).into_iter().any(|order| {
        let mut order = order.into_iter();
        let mut groups = Vec::new();
        for dim in &dims {
            let (mut group, mut n) = (Vec::new(), 1);
            while n < *dim {
                let Some(axis) = order.next() else { return false };
                n *= sizes[axis];
                group.push(axis);
            }
            if n != *dim {
                return false;
            }
            groups.push(group);
        }
        let mut axes =
            MeshAxes { split: groups[..sharding.data_dims().unwrap().len()].to_vec(), ..MeshAxes::default() };
        for (kind, group) in sharding.subgroups().iter().zip(&groups[axes.split.len()..]) {
            match kind {
                Subgroup::Manual => axes.manual = group.clone(),
                Subgroup::Unreduced => axes.unreduced = group.clone(),
                Subgroup::Replicated => {}
            }
        }
        HloSharding::from_mesh_axes(sizes, &axes).unwrap() == *sharding
    })
}
