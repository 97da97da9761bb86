//! Movement ops move only what must move: on any placements, those of the open trait among them, the result is that of one
//! device, and what is received is counted against what the devices lack of their pieces of the result.

use crate::Numbers;
use sharding_core::backend::StepKind;
use sharding_core::trace::explain;
use sharding_ops::{
    BackendKind, Device, DeviceMapping, DeviceMesh, Index, Interleaved, Place, Ragged, Result, Tensor,
    broadcast_to, chunk, concat, flatten, flip, pad, permute, repeat, reshape, roll, slice, split, squeeze,
    stack, tile, transpose, unsqueeze,
};
use std::collections::HashSet;
use stress::zigzag::Zigzag;

const BYTES: usize = size_of::<i64>();

type Op<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// The same, made for random arguments.
type Made = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

/// An operand: its shape, and where it lies.
type Placed = (Vec<usize>, Vec<Place>);

/// What a call moved.
struct Moved {
    /// Where the results lie.
    places: Vec<Vec<Place>>,
    /// Bytes received by one device, by the report.
    bytes: f64,
    /// The least that the device in need of most has to receive for its pieces of each result.
    least: usize,
    /// The same for what each operand gives: of several that move by themselves each is counted on the device in need of most
    /// of it.
    apart: usize,
    /// Whether bytes are those that one device receives: what an exchange counts. Of other collectives they are the average
    /// over devices, which is the same where all shards of an operand, and of a result, are of one size.
    exact: bool,
    report: String,
}

/// Tensors whose elements are all different, and none of them 0.
fn tensors(operands: &[Placed], on: impl Fn(&[Place]) -> Result<DeviceMapping>) -> Result<Vec<Tensor>> {
    let mut next = 0;
    let one = |(shape, places): &Placed| {
        let n: usize = shape.iter().product();
        let values: Vec<i64> = (next + 1..=next + n as i64).collect();
        next += n as i64;
        Tensor::from_slice(&values, shape.as_slice(), &on(places)?)
    };
    operands.iter().map(one).collect()
}

/// Runs an op on one device and on a mesh, compares, and counts.
fn moved(mesh: &DeviceMesh, operands: &[Placed], op: Op<'_>) -> Result<Moved> {
    let alone = DeviceMesh::single(Device::cpu());
    let want = op(&tensors(operands, |_| Ok(DeviceMapping::replicated(&alone)))?)?;
    let xs = tensors(operands, |places| DeviceMapping::new(mesh, places))?;
    let explained = explain(|| op(&xs));
    let got = explained.value?;
    let owners = xs.iter().map(|x| Ok(x.to_vec::<i64>()?.into_iter().collect::<HashSet<i64>>()));
    let owners = owners.collect::<Result<Vec<_>>>()?;
    let (mut least, mut apart) = (0, 0);
    for (want, got) in want.iter().zip(&got) {
        assert_eq!(got.to_vec::<i64>()?, want.to_vec::<i64>()?, "{operands:?} gave {}", got.layout());
        let (mut most, mut of_each) = (0, vec![0; xs.len()]);
        for position in 0..mesh.num_devices() {
            let mut needs: HashSet<i64> = got.shard_to_vec::<i64>(position)?.into_iter().collect();
            for x in &xs {
                let held: HashSet<i64> = x.shard_to_vec(position)?.into_iter().collect();
                needs.retain(|value| !held.contains(value));
            }
            needs.remove(&0);
            most = most.max(needs.len());
            for (x, most) in owners.iter().zip(&mut of_each) {
                *most = needs.iter().filter(|value| x.contains(value)).count().max(*most);
            }
        }
        least += most * BYTES;
        apart += of_each.iter().sum::<usize>() * BYTES;
    }
    let places = got.iter().map(|got| got.layout().places().to_vec()).collect();
    // A local step has a price, so that none is better, but nobody receives anything.
    let received = || explained.report.steps.iter().filter(|step| step.kind.communicates());
    let bytes = received().map(|step| step.bytes * step.count as f64).fold(0.0, |sum, bytes| sum + bytes);
    let even = xs.iter().chain(&got).all(|x| {
        (1..mesh.num_devices()).all(|position| x.layout().local_shape(position) == x.layout().local_shape(0))
    });
    let exact = even || received().all(|step| step.kind == StepKind::Permute);
    Ok(Moved { places, bytes, least, apart, exact, report: explained.report.to_string() })
}

fn mesh(shape: &[usize]) -> Result<DeviceMesh> {
    DeviceMesh::simulated(BackendKind::CPU, shape, &["x", "y", "z"][..shape.len()])
}

/// A placement of a tensor axis that has none yet.
fn random_place(
    numbers: &mut Numbers,
    shape: &[usize],
    ways: usize,
    taken: &mut Vec<(usize, bool)>,
) -> Place {
    if shape.is_empty() || numbers.chance(4) {
        return Place::Replicated;
    }
    let axis = numbers.below(shape.len());
    let kind = numbers.below(7);
    let custom = kind >= 4;
    if taken.iter().any(|(other, alone)| *other == axis && (*alone || custom)) {
        return Place::Replicated;
    }
    let extent = shape[axis];
    let place = match kind {
        4 => {
            let first = numbers.below(extent + 1);
            Place::custom(Interleaved::new(axis, [first, extent - first]))
        }
        5 => {
            let mut sizes = vec![0; ways];
            (0..extent).for_each(|_| sizes[numbers.below(ways)] += 1);
            Ragged::place(axis, sizes)
        }
        6 => Place::custom(Zigzag { axis }),
        _ => Place::Sharded(axis as u8),
    };
    taken.push((axis, matches!(place, Place::Custom(_))));
    place
}

fn random_places(numbers: &mut Numbers, shape: &[usize], mesh: &DeviceMesh) -> Vec<Place> {
    let mut taken = Vec::new();
    mesh.shape().iter().map(|ways| random_place(numbers, shape, *ways, &mut taken)).collect()
}

fn one(x: Result<Tensor>) -> Result<Vec<Tensor>> {
    Ok(vec![x?])
}

/// A random movement op over operands of this shape: its name, its operands' shapes, and what runs it.
fn random_op(numbers: &mut Numbers, shape: &[usize]) -> (String, Vec<Vec<usize>>, Made) {
    let shape = shape.to_vec();
    let n = shape.len();
    let axis = numbers.below(n);
    let (at, extent) = (axis as isize, shape[axis]);
    let same = vec![shape.clone()];
    match numbers.below(15) {
        0 => {
            let start = numbers.below(extent + 1) as isize;
            let stop = numbers.below(extent + 1) as isize;
            let step = [1, 2, -1, -3][numbers.below(4)];
            let mut indices = vec![Index::ALL; n];
            indices[axis] = Index::from(start.min(stop)..start.max(stop)).step(step);
            if step < 0 {
                indices[axis] = Index::ALL.step(step);
            }
            if extent > 0 && numbers.chance(4) {
                indices[axis] = Index::At(start.min(extent as isize - 1));
            }
            (format!("slice {indices:?}"), same, Box::new(move |x| one(slice(&x[0], &indices))))
        }
        1 => {
            let mut other = shape.clone();
            other[axis] = numbers.below(9);
            (format!("concat {axis}"), vec![shape, other], Box::new(move |x| one(concat(x, at))))
        }
        2 => {
            let first = numbers.below(extent + 1);
            let sizes = [first, extent - first];
            (format!("split {sizes:?} {axis}"), same, Box::new(move |x| split(&x[0], sizes.into(), at)))
        }
        3 => {
            let count = 2 + numbers.below(2);
            let new = numbers.below(n + 1) as isize;
            (format!("stack {new}"), vec![shape; count], Box::new(move |x| one(stack(x, new))))
        }
        4 => (format!("flip {axis}"), same, Box::new(move |x| one(flip(&x[0], &[at])))),
        5 => {
            let shift = numbers.below(12) as isize - 4;
            (format!("roll {shift} {axis}"), same, Box::new(move |x| one(roll(&x[0], shift, at))))
        }
        6 => {
            let mut pads = vec![(0, 0); n];
            pads[axis] = (numbers.below(4), numbers.below(4));
            (format!("pad {pads:?}"), same, Box::new(move |x| one(pad(&x[0], &pads, 0_i64.into()))))
        }
        7 => {
            let repeats: Vec<usize> = shape.iter().map(|_| 1 + numbers.below(3)).collect();
            (format!("tile {repeats:?}"), same, Box::new(move |x| one(tile(&x[0], &repeats))))
        }
        8 => {
            let times = numbers.below(4);
            (format!("repeat {times} {axis}"), same, Box::new(move |x| one(repeat(&x[0], times, at))))
        }
        9 => {
            let mut rest: usize = shape.iter().product();
            let mut dims = Vec::new();
            while dims.len() < 2 {
                let divisors: Vec<usize> = (1..=rest.max(1)).filter(|n| rest.is_multiple_of(*n)).collect();
                let extent = divisors[numbers.below(divisors.len())];
                dims.push(extent as isize);
                rest /= extent;
            }
            dims.push(rest as isize);
            (format!("reshape {dims:?}"), same, Box::new(move |x| one(reshape(&x[0], &dims))))
        }
        10 => (format!("flatten {at} -1"), same, Box::new(move |x| one(flatten(&x[0], at, -1)))),
        11 => {
            let mut axes: Vec<isize> = (0..n as isize).collect();
            axes.rotate_left(axis);
            (format!("permute {axes:?}"), same, Box::new(move |x| one(permute(&x[0], &axes))))
        }
        12 => (format!("transpose {at} -1"), same, Box::new(move |x| one(transpose(&x[0], at, -1)))),
        13 => {
            let chunks = 1 + numbers.below(3);
            (format!("chunk {chunks} {axis}"), same, Box::new(move |x| chunk(&x[0], chunks, at)))
        }
        _ => {
            let dims: Vec<usize> = std::iter::once(2).chain(shape.iter().copied()).collect();
            let name = format!("unsqueeze {at}, squeeze {at}, broadcast_to {dims:?}");
            let run = move |x: &[Tensor]| one(broadcast_to(&squeeze(&unsqueeze(&x[0], at)?, at)?, &dims));
            (name, same, Box::new(run))
        }
    }
}

#[test]
fn any_movement_of_any_placements_moves_what_must_move() -> Result<()> {
    let meshes: Vec<DeviceMesh> = [&[2][..], &[3], &[4], &[2, 2], &[2, 3], &[3, 2], &[2, 1, 2]]
        .iter()
        .map(|shape| mesh(shape))
        .collect::<Result<_>>()?;
    let rounds: usize = std::env::var("MOVES_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let mut numbers = Numbers(
        std::env::var("MOVES_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x9E37_79B9_7F4A_7C15),
    );
    let mut above: Vec<String> = Vec::new();
    for _ in 0..rounds {
        let mesh = &meshes[numbers.below(meshes.len())];
        let extents = [0, 1, 2, 3, 4, 5, 6, 8, 10];
        let shape: Vec<usize> =
            (0..1 + numbers.below(3)).map(|_| extents[numbers.below(extents.len())]).collect();
        let (name, shapes, op) = random_op(&mut numbers, &shape);
        let place = |shape: Vec<usize>| {
            let places = random_places(&mut numbers, &shape, mesh);
            (shape, places)
        };
        let operands: Vec<Placed> = shapes.into_iter().map(place).collect();
        let moved = moved(mesh, &operands, &*op)?;
        if moved.bytes > moved.least as f64 {
            let text = format!(
                "{name} of {operands:?} on {mesh} to {:?}: {} for {}\n{}",
                moved.places, moved.bytes, moved.least, moved.report
            );
            // Where all operands move by themselves, each device receives what it lacks, and the device that lacks most of one
            // may be another than that of the next.
            assert!(!moved.exact || moved.bytes <= moved.apart as f64, "{text}");
            above.push(text);
        }
    }
    println!("{} of {rounds} receive more than they must, as in {:?}", above.len(), above.first());
    assert!(above.len() * 1000 < rounds, "{}", above.join("\n\n"));
    Ok(())
}

/// Parts are combined before an exchange, but no operand is brought together for it: of what is combined, too, a device receives what it lacks.
#[test]
fn parts_are_combined_and_all_else_is_read_where_it_lies() -> Result<()> {
    let mesh = mesh(&[2, 2])?;
    let on = |places: [Place; 2]| DeviceMapping::new(&mesh, places);
    let whole: Vec<i64> = (0..64).collect();
    let lay =
        |places| Tensor::from_slice(&whole, [8, 8], &on([Place::Replicated; 2])?)?.transfer_to(&on(places)?);
    let (r, s0, s1) = (Place::Replicated, Place::Sharded(0), Place::Sharded(1));
    let parts = Place::PARTIAL;
    // Half of the result is one operand, of which a device holds half; or it needs half of the columns of both, and holds a
    // quarter of those of the second.
    for (a, b, want) in [([parts, s0], [s1, r], 32), ([s0, parts], [r, s1], 32), ([parts, s1], [s0, s0], 24)]
    {
        let (a, b) = (lay(a)?, lay(b)?);
        let explained = explain(|| concat(&[a.clone(), b.clone()], 0));
        let got = explained.value?;
        assert_eq!(got.to_vec::<i64>()?, [&whole[..], &whole].concat(), "{}", got.layout());
        let steps = &explained.report.steps;
        let moved: Vec<(&str, f64)> = steps.iter().map(|step| (step.kind.name(), step.bytes)).collect();
        let want = [("all_reduce", 256.0), ("permute", (want * BYTES) as f64)];
        assert_eq!(moved, want, "{} {}\n{}", a.layout(), b.layout(), explained.report);
    }
    Ok(())
}

fn short(place: &Place) -> String {
    match place {
        Place::Replicated => "R".to_owned(),
        Place::Sharded(axis) => format!("S{axis}"),
        other => other.to_string(),
    }
}

/// What each movement op receives along a split axis of 8 or 10 rows, which four devices cut evenly or not, on a line and on
/// a grid: bytes of the device that gets most, of what it lacks.
#[test]
fn bytes_of_each_op() -> Result<()> {
    let (s0, s1) = (Place::Sharded(0), Place::Sharded(1));
    let line = mesh(&[4])?;
    let grid = mesh(&[2, 2])?;
    let layouts: [(&DeviceMesh, &[Place]); 3] = [(&line, &[s0]), (&grid, &[s0, s0]), (&grid, &[s0, s1])];
    let ops: [(&str, usize, Op<'_>); 17] = [
        ("slice 1..7", 1, &|x| one(slice(&x[0], &[Index::from(1..7)]))),
        ("slice ..;-1", 1, &|x| one(slice(&x[0], &[Index::ALL.step(-1)]))),
        ("slice 5", 1, &|x| one(slice(&x[0], &[Index::At(5)]))),
        ("concat 0", 2, &|x| one(concat(x, 0))),
        ("split 3, _", 1, &|x| split(&x[0], [3, x[0].shape()[0] - 3].into(), 0)),
        ("chunk 2", 1, &|x| chunk(&x[0], 2, 0)),
        ("stack 0", 2, &|x| one(stack(x, 0))),
        ("stack 0, mixed", 3, &|x| one(stack(x, 0))),
        ("flip 0", 1, &|x| one(flip(&x[0], &[0]))),
        ("roll 1 0", 1, &|x| one(roll(&x[0], 1, 0))),
        ("pad 1 1", 1, &|x| one(pad(&x[0], &[(1, 1), (0, 0)], 0_i64.into()))),
        ("tile 2", 1, &|x| one(tile(&x[0], &[2, 1]))),
        ("repeat 2 0", 1, &|x| one(repeat(&x[0], 2, 0))),
        ("reshape [-1]", 1, &|x| one(reshape(&x[0], &[-1]))),
        ("reshape [4, -1]", 1, &|x| one(reshape(&x[0], &[4, -1]))),
        ("permute 1 0", 1, &|x| one(permute(&x[0], &[1, 0]))),
        ("squeeze, broadcast", 1, &|x| {
            one(broadcast_to(&squeeze(&unsqueeze(&x[0], 0)?, 0)?, &[2, x[0].shape()[0], 4]))
        }),
    ];
    let mut table = String::new();
    for (name, n, op) in ops {
        for (mesh, places) in layouts {
            for rows in [8, 10] {
                let mut operands: Vec<Placed> = vec![(vec![rows, 4], places.to_vec()); n.min(2)];
                if n == 3 {
                    let other = places.iter().map(|place| if *place == s0 { s1 } else { s0 });
                    operands[1].1 = other.collect();
                }
                let moved = moved(mesh, &operands, op)?;
                assert!(moved.bytes <= moved.least as f64, "{name} of {operands:?}: {}", moved.report);
                let list = |places: &[Place]| places.iter().map(short).collect::<Vec<_>>().join(" ");
                let results: Vec<String> = moved.places.iter().map(|places| list(places)).collect();
                let (before, after) = (list(&operands[0].1), results.join(", "));
                table +=
                    &format!("{name} | {rows} x 4 {before} | {after} | {} of {}\n", moved.bytes, moved.least);
            }
        }
    }
    if std::env::var_os("MOVES_TABLE").is_some() {
        println!("{table}");
    }
    for (got, want) in table.lines().zip(BYTES_OF_EACH_OP.trim().lines()) {
        assert_eq!(got, want.trim());
    }
    assert_eq!(table.lines().count(), BYTES_OF_EACH_OP.trim().lines().count());
    Ok(())
}

/// Op, rows and placements of its operands, placements of its results, bytes received of the least.
const BYTES_OF_EACH_OP: &str = "
slice 1..7 | 8 x 4 S0 | S0 | 32 of 32
slice 1..7 | 10 x 4 S0 | S0 | 32 of 32
slice 1..7 | 8 x 4 S0 S0 | S0 S0 | 32 of 32
slice 1..7 | 10 x 4 S0 S0 | S0 S0 | 32 of 32
slice 1..7 | 8 x 4 S0 S1 | S0 S1 | 0 of 0
slice 1..7 | 10 x 4 S0 S1 | S0 S1 | 16 of 16
slice ..;-1 | 8 x 4 S0 | S0 | 64 of 64
slice ..;-1 | 10 x 4 S0 | S0 | 96 of 96
slice ..;-1 | 8 x 4 S0 S0 | S0 S0 | 64 of 64
slice ..;-1 | 10 x 4 S0 S0 | S0 S0 | 96 of 96
slice ..;-1 | 8 x 4 S0 S1 | S0 S1 | 64 of 64
slice ..;-1 | 10 x 4 S0 S1 | S0 S1 | 80 of 80
slice 5 | 8 x 4 S0 | R | 32 of 32
slice 5 | 10 x 4 S0 | R | 32 of 32
slice 5 | 8 x 4 S0 S0 | R R | 32 of 32
slice 5 | 10 x 4 S0 S0 | R R | 32 of 32
slice 5 | 8 x 4 S0 S1 | R S0 | 16 of 16
slice 5 | 10 x 4 S0 S1 | R S0 | 16 of 16
concat 0 | 8 x 4 S0 | S0 | 128 of 128
concat 0 | 10 x 4 S0 | S0 | 160 of 160
concat 0 | 8 x 4 S0 S0 | S0 S0 | 128 of 128
concat 0 | 10 x 4 S0 S0 | S0 S0 | 160 of 160
concat 0 | 8 x 4 S0 S1 | S0 S1 | 64 of 64
concat 0 | 10 x 4 S0 S1 | S0 S1 | 80 of 80
split 3, _ | 8 x 4 S0 | R, S0 | 160 of 160
split 3, _ | 10 x 4 S0 | R, S0 | 160 of 160
split 3, _ | 8 x 4 S0 S0 | R S0, R S0 | 160 of 160
split 3, _ | 10 x 4 S0 S0 | R R, S0 S0 | 160 of 160
split 3, _ | 8 x 4 S0 S1 | S0 S1, S0 S1 | 48 of 48
split 3, _ | 10 x 4 S0 S1 | S0 S1, S0 S1 | 48 of 48
chunk 2 | 8 x 4 S0 | S0, S0 | 64 of 64
chunk 2 | 10 x 4 S0 | S0, S0 | 96 of 96
chunk 2 | 8 x 4 S0 S0 | S0 S0, S0 S0 | 64 of 64
chunk 2 | 10 x 4 S0 S0 | S0 S0, S0 S0 | 96 of 96
chunk 2 | 8 x 4 S0 S1 | S0 S1, S0 S1 | 64 of 64
chunk 2 | 10 x 4 S0 S1 | S0 S1, S0 S1 | 80 of 80
stack 0 | 8 x 4 S0 | S1 | 0 of 0
stack 0 | 10 x 4 S0 | S1 | 0 of 0
stack 0 | 8 x 4 S0 S0 | S1 S1 | 0 of 0
stack 0 | 10 x 4 S0 S0 | S1 S1 | 0 of 0
stack 0 | 8 x 4 S0 S1 | S1 S2 | 0 of 0
stack 0 | 10 x 4 S0 S1 | S1 S2 | 0 of 0
stack 0, mixed | 8 x 4 S0 | S1 | 48 of 48
stack 0, mixed | 10 x 4 S0 | S2 | 64 of 64
stack 0, mixed | 8 x 4 S0 S0 | S1 S1 | 48 of 48
stack 0, mixed | 10 x 4 S0 S0 | S1 S1 | 72 of 72
stack 0, mixed | 8 x 4 S0 S1 | S1 S2 | 64 of 64
stack 0, mixed | 10 x 4 S0 S1 | S1 S2 | 80 of 80
flip 0 | 8 x 4 S0 | S0 | 64 of 64
flip 0 | 10 x 4 S0 | S0 | 96 of 96
flip 0 | 8 x 4 S0 S0 | S0 S0 | 64 of 64
flip 0 | 10 x 4 S0 S0 | S0 S0 | 96 of 96
flip 0 | 8 x 4 S0 S1 | S0 S1 | 64 of 64
flip 0 | 10 x 4 S0 S1 | S0 S1 | 80 of 80
roll 1 0 | 8 x 4 S0 | S0 | 32 of 32
roll 1 0 | 10 x 4 S0 | S0 | 32 of 32
roll 1 0 | 8 x 4 S0 S0 | S0 S0 | 32 of 32
roll 1 0 | 10 x 4 S0 S0 | S0 S0 | 32 of 32
roll 1 0 | 8 x 4 S0 S1 | S0 S1 | 16 of 16
roll 1 0 | 10 x 4 S0 S1 | S0 S1 | 16 of 16
pad 1 1 | 8 x 4 S0 | S0 | 32 of 32
pad 1 1 | 10 x 4 S0 | S0 | 32 of 32
pad 1 1 | 8 x 4 S0 S0 | S0 S0 | 32 of 32
pad 1 1 | 10 x 4 S0 S0 | S0 S0 | 32 of 32
pad 1 1 | 8 x 4 S0 S1 | S0 S1 | 0 of 0
pad 1 1 | 10 x 4 S0 S1 | S0 S1 | 0 of 0
tile 2 | 8 x 4 S0 | S0 | 128 of 128
tile 2 | 10 x 4 S0 | S0 | 160 of 160
tile 2 | 8 x 4 S0 S0 | S0 S0 | 128 of 128
tile 2 | 10 x 4 S0 S0 | S0 S0 | 160 of 160
tile 2 | 8 x 4 S0 S1 | S0 S1 | 64 of 64
tile 2 | 10 x 4 S0 S1 | S0 S1 | 80 of 80
repeat 2 0 | 8 x 4 S0 | S0 | 0 of 0
repeat 2 0 | 10 x 4 S0 | Ragged(0, [6, 6, 4, 4]) | 0 of 0
repeat 2 0 | 8 x 4 S0 S0 | S0 S0 | 0 of 0
repeat 2 0 | 10 x 4 S0 S0 | S0 S0 | 32 of 32
repeat 2 0 | 8 x 4 S0 S1 | S0 S1 | 0 of 0
repeat 2 0 | 10 x 4 S0 S1 | S0 S1 | 0 of 0
reshape [-1] | 8 x 4 S0 | S0 | 0 of 0
reshape [-1] | 10 x 4 S0 | Ragged(0, [12, 12, 8, 8]) | 0 of 0
reshape [-1] | 8 x 4 S0 S0 | S0 S0 | 0 of 0
reshape [-1] | 10 x 4 S0 S0 | S0 S0 | 32 of 32
reshape [-1] | 8 x 4 S0 S1 | S0 S0 | 32 of 32
reshape [-1] | 10 x 4 S0 S1 | S0 S0 | 32 of 32
reshape [4, -1] | 8 x 4 S0 | S0 | 0 of 0
reshape [4, -1] | 10 x 4 S0 | S0 | 32 of 32
reshape [4, -1] | 8 x 4 S0 S0 | S0 S0 | 0 of 0
reshape [4, -1] | 10 x 4 S0 S0 | S0 S0 | 32 of 32
reshape [4, -1] | 8 x 4 S0 S1 | S0 S0 | 32 of 32
reshape [4, -1] | 10 x 4 S0 S1 | S0 S0 | 32 of 32
permute 1 0 | 8 x 4 S0 | S1 | 0 of 0
permute 1 0 | 10 x 4 S0 | S1 | 0 of 0
permute 1 0 | 8 x 4 S0 S0 | S1 S1 | 0 of 0
permute 1 0 | 10 x 4 S0 S0 | S1 S1 | 0 of 0
permute 1 0 | 8 x 4 S0 S1 | S1 S0 | 0 of 0
permute 1 0 | 10 x 4 S0 S1 | S1 S0 | 0 of 0
squeeze, broadcast | 8 x 4 S0 | S1 | 0 of 0
squeeze, broadcast | 10 x 4 S0 | S1 | 0 of 0
squeeze, broadcast | 8 x 4 S0 S0 | S1 S1 | 0 of 0
squeeze, broadcast | 10 x 4 S0 S0 | S1 S1 | 0 of 0
squeeze, broadcast | 8 x 4 S0 S1 | S1 S2 | 0 of 0
squeeze, broadcast | 10 x 4 S0 S1 | S1 S2 | 0 of 0
";
