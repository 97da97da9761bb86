//! A million devices cost no list.

use super::*;
use crate::spec;
use std::time::Instant;

/// The fastest of many runs, in microseconds.
fn micros<T>(run: impl Fn() -> T) -> f64 {
    let once = || {
        let start = Instant::now();
        for _ in 0..20 {
            std::hint::black_box(run());
        }
        start.elapsed().as_secs_f64() * 1e6 / 20.0
    };
    (0..50).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// All that is asked of one device, and whether two spellings are the same: on 1,048,576 devices at most a few times what it
/// costs on 4. A walk over the devices would take hundreds of microseconds at least.
#[test]
fn one_device_of_a_million_is_one_answer() {
    let ask = |sizes: [usize; 2]| {
        let mesh = mesh(&sizes, &["x", "y"]);
        let grid = NamedSharding::new(&mesh, spec!["x"]).unwrap();
        let cube = self::mesh(&[sizes[0] / 2, 2, sizes[1]], &["a", "b", "c"]);
        let cube = NamedSharding::new(&cube, spec![("a", "b"), None]).unwrap();
        let mapping = DeviceMapping::try_from(&grid).unwrap();
        let (shape, position) = (Shape::from([4096, 8]), mesh.num_devices() - 1);
        let device = mesh.device(position).unwrap();
        let times = [
            micros(|| {
                let map = grid.devices_indices_map(&shape).unwrap();
                (map.of(device).unwrap(), map.replica_id(device).unwrap())
            }),
            micros(|| grid.devices_indices_map(&shape).unwrap().nth(position).unwrap()),
            micros(|| mapping.shard_shape_of(&shape, device).unwrap()),
            micros(|| assert!(grid.is_equivalent_to(&cube, 2).unwrap())),
            micros(|| assert!(mapping.is_equivalent_to(&cube, 2).unwrap())),
            micros(|| (grid.is_fully_replicated(), grid.is_fully_addressable().unwrap())),
        ];
        println!("{sizes:?}: {times:.2?} us");
        times
    };
    let (few, many) = (ask([2, 2]), ask([1024, 1024]));
    for (few, many) in few.into_iter().zip(many) {
        assert!(many < 10.0 * few + 1.0, "{many} us, {few} us for 4 devices");
    }
}
