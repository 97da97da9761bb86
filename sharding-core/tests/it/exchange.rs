//! Index maps over shards in any placements give what they give on one device.

use crate::host::{ALONE, HOST};
use crate::transfer::{lay, mesh_of, meshes, places, slots, words};
use crate::value;
use proptest::prelude::*;
use sharding_core::backend::{Exchange, IndexMap, LocalArrays, Piece, backend_of};
use sharding_core::{DType, DeviceMapping, DeviceMesh, Place, ReduceOp, Scalar, Shape, Tensor, TensorLayout};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// What a map makes of whole operands.
fn naive(map: &IndexMap, operands: &[value::Whole], fill: i64) -> value::Whole {
    let strides = map.shape.strides();
    let mut whole = vec![fill; map.shape.elements()];
    for (flat, slot) in whole.iter_mut().enumerate() {
        let index: Vec<usize> =
            map.shape.iter().zip(&strides).map(|(extent, stride)| flat / *stride as usize % extent).collect();
        let inside = |piece: &&Piece| piece.into.iter().zip(&index).all(|(range, i)| range.contains(i));
        if let Some(piece) = map.pieces.iter().find(inside) {
            let steps = piece.into.iter().zip(&index).zip(&piece.strides);
            let number = piece.offset
                + steps.map(|((range, i), stride)| (i - range.start) as isize * stride).sum::<isize>();
            *slot = operands[piece.operand][number as usize];
        }
    }
    whole
}

/// A map from a few random words: one of every kind of movement op.
fn map(kind: usize, words: &[usize], shape: &Shape) -> IndexMap {
    let word = |i: usize| words[i % words.len()];
    let axis = word(0) % shape.len();
    let strides = shape.strides();
    let boxed = |shape: &Shape| shape.iter().map(|n| 0..*n).collect();
    match kind {
        // A part by steps, forward or backward.
        0 => {
            let of = |a: usize| {
                let (n, step) = (shape[a], word(a + 1) % 3 + 1);
                let start = word(a + 2) % (n + 1);
                let len = (n - start).div_ceil(step).min(word(a + 3) % 7);
                let back = word(a + 4) % 2 == 1 && len > 0;
                let start = if back { start + (len - 1) * step } else { start };
                (start.min(n.max(1) - 1), if back { -(step as isize) } else { step as isize }, len)
            };
            let parts: Vec<_> = (0..shape.len()).map(of).collect();
            let starts: Vec<usize> = parts.iter().map(|part| part.0).collect();
            let steps: Vec<isize> = parts.iter().map(|part| part.1).collect();
            let extents: Vec<usize> = parts.iter().map(|part| part.2).collect();
            IndexMap::slice(shape, &starts, &steps, &extents)
        }
        1 => {
            let mut axes: Vec<usize> = (0..shape.len()).collect();
            axes.rotate_left(word(1) % shape.len());
            IndexMap::permute(shape, &axes)
        }
        // Any other shape of as many elements.
        2 => {
            let mut rest = shape.elements();
            let mut to = Vec::new();
            for word in words {
                let divisors: Vec<usize> = (1..=rest.max(1)).filter(|n| rest.is_multiple_of(*n)).collect();
                let extent = divisors[word % divisors.len()];
                to.push(extent);
                rest /= extent.max(1);
                if to.len() == 3 {
                    break;
                }
            }
            to.push(rest);
            IndexMap::reshape(&Shape::from(to))
        }
        // Roll.
        3 => {
            let (n, by) = (shape[axis], word(1) % (shape[axis] + 1));
            let mut pieces = Vec::new();
            for (range, from) in [(0..by, n - by), (by..n, 0)] {
                let mut into: smallvec::SmallVec<[std::ops::Range<usize>; 4]> = boxed(shape);
                into[axis] = range;
                let offset = strides[axis] * from as isize;
                pieces.push(Piece { operand: 0, into, offset, strides: strides.iter().copied().collect() });
            }
            IndexMap { shape: shape.clone(), pieces, fill: Scalar::Int(0) }
        }
        // Pad with 9.
        4 => {
            let (before, after) = (word(1) % 3, word(2) % 3);
            let mut into: smallvec::SmallVec<[std::ops::Range<usize>; 4]> = boxed(shape);
            into[axis] = before..before + shape[axis];
            let piece = Piece { operand: 0, into, offset: 0, strides: strides.iter().copied().collect() };
            IndexMap {
                shape: shape.with_extent(axis, before + shape[axis] + after),
                pieces: vec![piece],
                fill: Scalar::Int(9),
            }
        }
        // Repeat along a new first axis.
        5 => {
            let to: Shape = std::iter::once(word(1) % 4).chain(shape.iter().copied()).collect();
            let piece = Piece {
                operand: 0,
                into: boxed(&to),
                offset: 0,
                strides: std::iter::once(0).chain(strides.iter().copied()).collect(),
            };
            IndexMap { shape: to, pieces: vec![piece], fill: Scalar::Int(0) }
        }
        // Joined with itself.
        _ => IndexMap::concat(&[shape.clone(), shape.clone()], axis).unwrap(),
    }
}

/// Partial stays on both sides or on neither.
fn without_parts(mut places: Vec<Place>) -> Vec<Place> {
    places.iter_mut().filter(|place| place.is_partial()).for_each(|place| *place = Place::Replicated);
    places
}

fn check(map: &IndexMap, operands: &[TensorLayout], result: &TensorLayout, seed: u64) {
    let wholes: Vec<value::Whole> = operands
        .iter()
        .enumerate()
        .map(|(i, layout)| value::random(layout.shape().elements(), layout.dtype(), seed + i as u64))
        .collect();
    let tensors: Vec<Tensor> =
        operands.iter().zip(&wholes).map(|(layout, whole)| value::place(layout, whole)).collect();
    let shards: Vec<LocalArrays> = tensors.iter().map(|tensor| tensor.shards().clone()).collect();
    let mesh = result.mesh();
    let axes: Vec<usize> = (0..mesh.ndim()).collect();
    let exchange = Exchange { map, operands, result, axes: &axes };
    let backend = backend_of(mesh.device(0).unwrap().kind).unwrap();
    let made = backend.collectives().exchange("test", &exchange, &shards).unwrap();
    let made = Tensor::from_shards(result.clone(), (0..mesh.num_devices()).collect(), made).unwrap();
    assert_eq!(value::value(&made), naive(map, &wholes, 9), "{exchange}");
    for position in 0..mesh.num_devices() {
        let most = result.local_shape(position).elements() * 8;
        assert!(exchange.received(position).unwrap() <= most, "{exchange}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn any_map_of_any_placements(
        mesh in meshes(),
        shape in prop::collection::vec(0_usize..7, 1..4),
        kind in 0_usize..7,
        picks in prop::collection::vec(0_usize..1000, 8),
        from in words(),
        also in words(),
        to in words(),
        alone in any::<bool>(),
        slots in slots(),
        seed in 0_u64..1 << 40,
    ) {
        let grid = mesh_of(if alone { ALONE } else { HOST }, &mesh, &NAMES[..mesh.len()], &slots);
        let map = map(kind, &picks, &Shape::from(shape.clone()));
        let place = |words: &[Vec<usize>], shape: &[usize]| without_parts(places(words, shape, &mesh, ReduceOp::Sum));
        let mut operands = vec![lay(DType::I64, &shape, &grid, place(&from, &shape))];
        if kind == 6 {
            operands.push(lay(DType::I64, &shape, &grid, place(&also, &shape)));
        }
        let result = lay(DType::I64, &map.shape, &grid, place(&to, &map.shape));
        check(&map, &operands, &result, seed);
    }
}

#[test]
fn parts_are_moved_as_parts() {
    let mesh = DeviceMesh::simulated(ALONE, [2, 3], ["a", "b"]).unwrap();
    let layout = |shape: &[usize], places: [Place; 2]| lay(DType::I64, shape, &mesh, places.to_vec());
    let operand = layout(&[7, 4], [Place::Partial(ReduceOp::Max), Place::Sharded(0)]);
    let map = IndexMap::slice(operand.shape(), &[1, 3], &[1, -1], &[5, 4]);
    check(&map, &[operand], &layout(&[5, 4], [Place::Partial(ReduceOp::Max), Place::Sharded(1)]), 4);
}

#[test]
fn only_what_is_elsewhere_is_received() {
    let mesh = DeviceMesh::simulated(HOST, [4], ["a"]).unwrap();
    let split = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
    let layout = |rows: usize| TensorLayout::new(DType::F32, [rows, 5], split.clone()).unwrap();
    let received = |map: &IndexMap, operands: &[TensorLayout], rows: usize| {
        let result = layout(rows);
        let exchange = Exchange { map, operands, result: &result, axes: &[0] };
        (0..4).map(|position| exchange.received(position).unwrap() / 20).collect::<Vec<_>>()
    };
    // Rows 2..10 of 16: 2, 3 | 4, 5 | 6, 7 | 8, 9 of 0..4 | 4..8 | 8..12 | 12..16.
    let shape = Shape::from([16, 5]);
    let part = IndexMap::slice(&shape, &[2, 0], &[1, 1], &[8, 5]);
    assert_eq!(received(&part, &[layout(16)], 8), [0, 0, 2, 2]);
    let joined = IndexMap::concat(&[shape.clone(), shape], 0).unwrap();
    assert_eq!(received(&joined, &[layout(16), layout(16)], 32), [4, 8, 8, 4]);
}
