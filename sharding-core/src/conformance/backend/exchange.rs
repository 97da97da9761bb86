//! Exchanges: index maps over shards, whatever the placements of operands and result.

use super::{Bench, Checked, OP, caught, signed, text};
use crate::backend::{Exchange, IndexMap, LocalArrays, Piece, Primitive};
use crate::conformance::host::{HostArray, Random, parts};
use crate::conformance::naive;
use crate::placement::{Interleaved, Ragged, sharded};
use crate::{DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Result, Scalar, Shape, TensorLayout};
use smallvec::{SmallVec, smallvec};

/// A movement op: its name, the shapes of its operands, and where its elements come from.
struct Moved {
    name: &'static str,
    operands: Vec<Shape>,
    map: IndexMap,
}

/// One of each kind.
fn maps() -> Vec<Moved> {
    let (shape, short) = (Shape::from([6, 4]), Shape::from([3, 4]));
    let strides = shape.strides();
    let piece = |into: SmallVec<[std::ops::Range<usize>; 4]>,
                 offset: isize,
                 strides: SmallVec<[isize; 4]>| {
        Piece { operand: 0, into, offset, strides }
    };
    let one = |name: &'static str, map: IndexMap| Moved { name, operands: vec![shape.clone()], map };
    let pieces = |shape: Shape, pieces: Vec<Piece>, fill: Scalar| IndexMap { shape, pieces, fill };
    let rolled = vec![
        piece(smallvec![0..2, 0..4], 16, strides.clone()),
        piece(smallvec![2..6, 0..4], 0, strides.clone()),
    ];
    let padded = vec![piece(smallvec![1..7, 0..4], 0, strides.clone())];
    let repeated = vec![piece(smallvec![0..3, 0..6, 0..4], 0, smallvec![0, 4, 1])];
    let mut all = vec![
        one("part", IndexMap::slice(&shape, &[1, 3], &[1, -1], &[4, 4])),
        one("every other", IndexMap::slice(&shape, &[5, 0], &[-2, 1], &[3, 3])),
        one("permute", IndexMap::permute(&shape, &[1, 0])),
        one("reshape", IndexMap::reshape(&[4, 6].into())),
        one("flatten", IndexMap::reshape(&[24].into())),
        one("nothing", IndexMap::slice(&shape, &[2, 0], &[1, 1], &[0, 4])),
        one("roll", pieces(shape.clone(), rolled, Scalar::Int(0))),
        one("pad", pieces([9, 4].into(), padded, Scalar::Int(1))),
        one("repeat", pieces([3, 6, 4].into(), repeated, Scalar::Int(0))),
    ];
    if let Some(map) = IndexMap::concat(&[shape.clone(), short.clone()], 0) {
        all.push(Moved { name: "concat", operands: vec![shape, short], map });
    }
    all
}

/// Placements of all operands, and of the result; those that do not fit a shape are left out.
fn placements(mesh: &DeviceMesh, operand: &Shape) -> Vec<(Vec<Place>, Vec<Place>)> {
    let (r, s0, s1, p) = (Place::Replicated, sharded(0), sharded(1), Place::PARTIAL);
    if mesh.ndim() > 1 {
        return vec![
            (vec![r, r], vec![s0, s1]),
            (vec![s0, r], vec![r, s0]),
            (vec![s0, s1], vec![s1, s0]),
            (vec![s0, s0], vec![s0, s0]),
            (vec![s1, s1], vec![r, r]),
            (vec![s1, p], vec![s0, p]),
            (vec![p, s0], vec![p, s0]),
        ];
    }
    let mut sizes = vec![0; mesh.size(0)];
    if let Some(last) = sizes.last_mut() {
        *last = operand.extent(0);
    }
    let operands = [r, s0, s1, Ragged::place(0, sizes), Interleaved::place(0, [2, operand.extent(0) - 2])];
    let pairs = |from: &Place| [r, s0, s1].map(|to| (vec![*from], vec![to]));
    operands.iter().flat_map(pairs).chain([(vec![p], vec![p])]).collect()
}

pub(super) fn exchanges(bench: &mut Bench<'_>) {
    for sizes in [&[2][..], &[3], &[2, 3]] {
        let names: Vec<&str> = ["x", "y"].into_iter().take(sizes.len()).collect();
        let Ok(mesh) = DeviceMesh::simulated(bench.backend.kind(), sizes, names) else { continue };
        for moved in maps() {
            // Every dtype where the value outside of all pieces is written too.
            let every = sizes == [3] && moved.name == "pad";
            let first = moved.operands.first().cloned().unwrap_or_default();
            for (from, to) in placements(&mesh, &first) {
                for dtype in DType::ALL {
                    if every || matches!(dtype, DType::F32 | DType::I64) {
                        one(bench, &mesh, &moved, dtype, &from, &to);
                    }
                }
            }
        }
    }
}

fn one(bench: &mut Bench<'_>, mesh: &DeviceMesh, moved: &Moved, dtype: DType, from: &[Place], to: &[Place]) {
    let layout =
        |shape: &Shape, places: &[Place]| TensorLayout::new(dtype, shape, DeviceMapping::new(mesh, places)?);
    // Of several operands only the first has placements made for its extents.
    let on = |(i, shape): (usize, &Shape)| {
        let custom = |place: &Place| i > 0 && matches!(place, Place::Custom(_));
        let places: Vec<Place> =
            from.iter().map(|place| if custom(place) { sharded(0) } else { *place }).collect();
        layout(shape, &places)
    };
    let operands: Result<Vec<TensorLayout>> = moved.operands.iter().enumerate().map(on).collect();
    let (Ok(operands), Ok(result)) = (operands, layout(&moved.map.shape, to)) else { return };
    let axes: Vec<usize> = (0..mesh.ndim()).collect();
    let fill = if dtype == DType::Bool { Scalar::Bool(true) } else { moved.map.fill };
    let map = IndexMap { fill, ..moved.map.clone() };
    let exchange = Exchange { map: &map, operands: &operands, result: &result, axes: &axes };
    let name = format!("exchange/{} {exchange}", moved.name);
    bench.check(name, |bench| run(bench, &exchange));
}

/// The terms of a whole along its Partial mesh axes: one, itself, where there are none.
fn terms(layout: &TensorLayout, seed: u64) -> Vec<HostArray> {
    let whole = signed(layout.dtype(), layout.shape(), seed);
    let partial = layout.places().iter().zip(layout.mesh().shape()).filter(|(place, _)| place.is_partial());
    match partial.map(|(_, size)| *size).product() {
        1 => vec![whole],
        ways => parts(&whole, ReduceOp::Sum, ways, &mut Random::new(seed)),
    }
}

/// Which term a device has a piece of.
fn term(layout: &TensorLayout, position: usize) -> usize {
    let mesh = layout.mesh();
    let partial = layout.places().iter().enumerate().filter(|(_, place)| place.is_partial());
    partial.fold(0, |part, (axis, _)| part * mesh.size(axis) + mesh.coord(position, axis))
}

fn run(bench: &Bench<'_>, exchange: &Exchange<'_>) -> Checked {
    let (result, mesh) = (exchange.result, exchange.result.mesh());
    let operands: Vec<Vec<HostArray>> =
        exchange.operands.iter().zip(5..).map(|(layout, seed)| terms(layout, seed)).collect();
    let cut = |layout: &TensorLayout, terms: &[HostArray], position: usize| {
        terms.get(term(layout, position)).map(|term| term.cut(&layout.region(position)))
    };
    let mut shards: Vec<LocalArrays> = Vec::new();
    for (layout, terms) in exchange.operands.iter().zip(&operands) {
        let put = (0..mesh.num_devices())
            .zip(mesh.devices())
            .filter_map(|(position, device)| Some(cut(layout, terms, position)?.put(bench.backend, device)));
        shards.push(put.collect::<Result<_>>().map_err(text)?);
    }
    let made = caught(|| bench.backend.collectives().exchange(OP, exchange, &shards))?;
    let ways = operands.first().map_or(1, Vec::len);
    let mut wants = Vec::with_capacity(ways);
    for way in 0..ways {
        let inputs: Vec<&HostArray> = operands.iter().filter_map(|terms| terms.get(way)).collect();
        let copy = Primitive::Copy(exchange.map.clone());
        wants.push(naive::primitive(&copy, &inputs, result.dtype(), &exchange.map.shape).map_err(text)?);
    }
    if made.len() != mesh.num_devices() {
        return Err(format!("{} shards for {} devices", made.len(), mesh.num_devices()));
    }
    for (position, (array, device)) in made.iter().zip(mesh.devices()).enumerate() {
        let said = |message: String| format!("device {position}: {message}");
        let want = cut(result, &wants, position).ok_or_else(|| said("no such part".to_owned()))?;
        bench.holds(array, &want, true).map_err(said)?;
        if !bench.backend.shares_memory(array.device(), device) {
            return Err(said(format!("its shard lies on {}", array.device())));
        }
    }
    for ((layout, terms), arrays) in exchange.operands.iter().zip(&operands).zip(&shards) {
        for (position, array) in arrays.iter().enumerate() {
            let Some(own) = cut(layout, terms, position) else { continue };
            bench.holds(array, &own, true).map_err(|message| format!("a source changed: {message}"))?;
        }
    }
    Ok(())
}
