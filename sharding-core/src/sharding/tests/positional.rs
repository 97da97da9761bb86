//! Arrays of device sets.

use super::*;

fn devices(n: u32) -> Vec<Device> {
    (0..n).map(|slot| Device::cpu().with_slot(slot)).collect()
}
fn array(shape: &[usize]) -> PositionalSharding {
    PositionalSharding::new(&devices(shape.iter().product::<usize>() as u32), shape).unwrap()
}
/// The slots of the devices of every set.
fn sets(sharding: &PositionalSharding) -> Vec<Vec<u32>> {
    let sets = sharding.shape().iter().product::<usize>();
    let slots = |at| sharding.device_set_at(at).unwrap().iter().map(|device| device.slot).collect();
    (0..sets).map(slots).collect()
}

#[test]
fn operations_are_those_of_arrays() {
    let check = |sharding: Result<PositionalSharding>, shape: &[usize], want: &[&[u32]]| {
        let sharding = sharding.unwrap();
        assert_eq!(sharding.shape(), shape);
        assert_eq!(sets(&sharding), want);
    };
    let grid = array(&[2, 3]);
    check(grid.reshape(&[-1, 2]), &[3, 2], &[&[0], &[1], &[2], &[3], &[4], &[5]]);
    check(grid.t(), &[3, 2], &[&[0], &[3], &[1], &[4], &[2], &[5]]);
    check(grid.transpose(&[-1, 0]), &[3, 2], &[&[0], &[3], &[1], &[4], &[2], &[5]]);
    check(grid.replicate(Some(&[0]), true), &[1, 3], &[&[0, 3], &[1, 4], &[2, 5]]);
    check(grid.replicate(Some(&[-1]), false), &[2], &[&[0, 1, 2], &[3, 4, 5]]);
    check(grid.replicate(None, true), &[1, 1], &[&[0, 1, 2, 3, 4, 5]]);
    check(grid.replicate(None, false), &[], &[&[0, 1, 2, 3, 4, 5]]);
    check(grid.replicate(Some(&[1, 0]), false), &[], &[&[0, 1, 2, 3, 4, 5]]);
    check(grid.replicate(Some(&[]), false), &[2, 3], &[&[0], &[1], &[2], &[3], &[4], &[5]]);
    let columns = grid.replicate(Some(&[0]), false).unwrap();
    check(columns.reshape(&[3, 1]), &[3, 1], &[&[0, 3], &[1, 4], &[2, 5]]);
    check(columns.replicate(Some(&[0]), true), &[1], &[&[0, 1, 2, 3, 4, 5]]);
    assert_eq!(columns.device_set_at(3), None);
}

#[test]
fn what_arrays_cannot_do_is_refused() {
    let grid = array(&[2, 3]);
    let kinds = |result: Result<PositionalSharding>| result.map(drop).map_err(|error| error.kind());
    for extents in [&[4][..], &[-1, -1], &[-1, 4], &[-2, -3], &[0, -1], &[], &[isize::MAX, 4]] {
        assert_eq!(kinds(grid.reshape(extents)), Err(ErrorKind::Shape), "{extents:?}");
    }
    for order in [&[0][..], &[0, 0], &[0, 2], &[-3, 0], &[0, 1, 2]] {
        assert_eq!(kinds(grid.transpose(order)), Err(ErrorKind::Axis), "{order:?}");
    }
    assert_eq!(kinds(grid.replicate(Some(&[2]), true)), Err(ErrorKind::Axis));
    assert_eq!(kinds(grid.replicate(Some(&[0, -2]), true)), Err(ErrorKind::Axis));
    assert_eq!(kinds(PositionalSharding::new(&[], [0])), Err(ErrorKind::Mesh));
    assert_eq!(kinds(PositionalSharding::new(&devices(4), [3])), Err(ErrorKind::Shape));
    assert_eq!(kinds(PositionalSharding::new(&[Device::cpu(), Device::cpu()], [2])), Err(ErrorKind::Mesh));
    assert_eq!(kinds(PositionalSharding::new(&[Device::cpu()], [])), Ok(()));
}

#[test]
fn the_number_of_axes_is_that_of_the_array_unless_all_is_replicated() {
    let grid = array(&[4, 2]);
    for shape in [Shape::from([]), Shape::from([8]), Shape::from([8, 4, 2])] {
        assert_eq!(grid.shard_shape(&shape).unwrap_err().kind(), ErrorKind::Dimensions);
    }
    assert_eq!(grid.shard_shape(&Shape::from([6, 4])).unwrap_err().kind(), ErrorKind::Indivisible);
    for keepdims in [true, false] {
        let all = grid.replicate(None, keepdims).unwrap();
        for shape in [Shape::from([]), Shape::from([0, 3]), Shape::from([5])] {
            check(&all, &shape);
        }
        let by_name = NamedSharding::new(&self::grid(), PartitionSpec::default()).unwrap();
        assert!(all.is_equivalent_to(&by_name, 2).unwrap());
    }
    check(&grid, &Shape::from([0, 4]));
}

#[test]
fn another_memory_forgets_nothing() {
    let columns = array(&[4, 2]).replicate(Some(&[0]), true).unwrap();
    let pinned = columns.with_memory_kind(Some(MemoryKind::PinnedHost)).unwrap();
    let shape = Shape::from([3, 4]);
    assert_eq!(regions(&*pinned, &shape), regions(&columns, &shape));
    assert_eq!(pinned.memory_kind(), Some(MemoryKind::PinnedHost));
    assert!(!pinned.is_equivalent_to(&columns, 2).unwrap());
}

#[test]
fn a_million_devices_are_reshaped_without_a_list() {
    let mesh = mesh(&[1024, 1024], &["x", "y"]);
    let begin = std::time::Instant::now();
    let array =
        PositionalSharding::on(&mesh).unwrap().reshape(&[512, 2, 1024]).unwrap().transpose(&[2, 0, 1]);
    let columns = array.unwrap().replicate(Some(&[-1]), false).unwrap();
    let map = columns.devices_indices_map(&Shape::from([1024, 1024])).unwrap();
    let region = map.of(mesh.device(3 * 1024 + 5).unwrap()).unwrap();
    assert_eq!((region[0][0].clone(), region[1][0].clone()), (5..6, 2..4));
    // Lists would take hundreds of milliseconds in a build for tests.
    assert!(begin.elapsed().as_millis() < 100, "{:?}", begin.elapsed());
}

proptest! {
    /// The same with sets, as an array of lists.
    #[test]
    fn sets_are_united_and_moved(order in Just(vec![0_isize, 1, 2]).prop_shuffle(), axis in 0..3_usize, keepdims: bool) {
        let shape = [2_usize, 3, 2];
        let moved = array(&shape).transpose(&order).unwrap();
        let united = moved.replicate(Some(&[axis as isize]), keepdims).unwrap();
        let extents: Vec<usize> = order.iter().map(|axis| shape[*axis as usize]).collect();
        let mut want = vec![Vec::new(); 12 / extents[axis]];
        for device in 0..12_usize {
            let coordinates = [device / 6, device / 2 % 3, device % 2];
            let place = (0..3).filter(|at| *at != axis).fold(0, |place, at| place * extents[at] + coordinates[order[at] as usize]);
            want[place].push(device as u32);
        }
        prop_assert_eq!(sets(&united), want);
    }
}

#[test]
fn what_it_does_not_take_it_does_not_place() {
    let array = PositionalSharding::on(&grid()).unwrap();
    let kind = |shape: &[usize]| array.mapping_for(&Shape::from(shape)).unwrap_err().kind();
    assert_eq!((kind(&[7, 2]), kind(&[8])), (ErrorKind::Indivisible, ErrorKind::Dimensions));
    // On the mesh it was made on, so that ops find its operands on one.
    assert_eq!(array.mapping_for(&Shape::from([8, 2])).unwrap().mesh(), &grid());
}
