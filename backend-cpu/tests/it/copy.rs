//! Index maps, and regions between arrays.

use crate::support::{
    Form, Sample, array, assert_same, force, form, indices, launch, number, shape, values, view,
};
use backend_cpu::CpuBackend;
use proptest::prelude::*;
use sharding_core::backend::{Backend, BinaryOp, Expr, IndexMap, Move, Piece, Primitive};
use sharding_core::{DType, Scalar, Shape};
use smallvec::SmallVec;

/// What an index map means, element by element.
fn meaning<T: Copy>(map: &IndexMap, operands: &[Vec<T>], fill: T) -> Vec<T> {
    let value = |index: &Vec<usize>| {
        let inside = |piece: &&Piece| piece.into.iter().zip(index).all(|(range, i)| range.contains(i));
        map.pieces.iter().find(inside).map_or(fill, |piece| {
            let steps = piece.into.iter().zip(index).zip(&piece.strides);
            let at =
                steps.fold(piece.offset, |at, ((range, i), stride)| at + stride * (i - range.start) as isize);
            operands[piece.operand][usize::try_from(at).unwrap()]
        })
    };
    indices(&map.shape).iter().map(value).collect()
}

fn check<T: Sample>(map: &IndexMap, shapes: &[Vec<usize>], forms: &[Form], fill: T) {
    let map = IndexMap { fill: fill.scalar(), ..map.clone() };
    let (arrays, operands): (Vec<_>, Vec<_>) =
        shapes.iter().zip(forms).map(|(shape, form)| view::<T>(shape, form)).unzip();
    let inputs: Vec<_> = arrays.iter().collect();
    let got = launch(&Primitive::Copy(map.clone()), &inputs, T::DTYPE, &map.shape).unwrap();
    assert_same(&values::<T>(&got), &meaning(&map, &operands, fill));
}

fn check_all(map: &IndexMap, shapes: &[Vec<usize>], forms: &[Form]) {
    check::<f32>(map, shapes, forms, -2.5);
    check::<i64>(map, shapes, forms, 77);
    check::<bool>(map, shapes, forms, true);
}

fn one() -> impl Strategy<Value = (Vec<usize>, Form)> {
    shape(1..=4).prop_flat_map(|s| {
        let n = s.len();
        (Just(s), form(n))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn permutes(((shape, form), axes) in one().prop_flat_map(|(s, f)| {
        let axes = Just((0..s.len()).collect::<Vec<_>>()).prop_shuffle();
        (Just((s, f)), axes)
    })) {
        check_all(&IndexMap::permute(&shape.as_slice().into(), &axes), &[shape], &[form]);
    }

    #[test]
    fn flattens((shape, form) in one()) {
        let map = IndexMap::reshape(&Shape::from([shape.iter().product::<usize>()]));
        check_all(&map, &[shape], &[form]);
    }

    #[test]
    fn slices_with_steps_and_flips(((shape, form), seeds) in one().prop_flat_map(|(s, f)| {
        let seeds = prop::collection::vec((0..40_usize, 0..40_usize, prop::sample::select(&[-3_isize, -2, -1, 0, 1, 2, 3][..])), s.len());
        (Just((s, f)), seeds)
    })) {
        let (mut starts, mut steps, mut extents) = (vec![], vec![], vec![]);
        for (extent, (start, count, step)) in shape.iter().zip(seeds) {
            let start = if *extent == 0 { 0 } else { start % extent };
            let most = match step {
                _ if *extent == 0 => 0,
                0 => 3,
                1.. => (extent - 1 - start) / step.unsigned_abs() + 1,
                _ => start / step.unsigned_abs() + 1,
            };
            starts.push(start);
            steps.push(step);
            extents.push(if most == 0 { 0 } else { count % (most + 1) });
        }
        let map = IndexMap::slice(&shape.as_slice().into(), &starts, &steps, &extents);
        check_all(&map, &[shape], &[form]);
    }

    #[test]
    fn concatenates_with_gaps(
        ((shape, axis), sizes) in shape(1..=3).prop_flat_map(|s| { let n = s.len(); (Just(s), 0..n) })
            .prop_flat_map(|s| (Just(s), prop::collection::vec((0..5_usize, 0..3_usize), 1..4))),
        forms in prop::collection::vec(form(3), 4),
        gaps in any::<bool>(),
    ) {
        // The forms are made for three axes.
        let mut shape = shape;
        shape.resize(3, 2);
        let shapes: Vec<Vec<usize>> = sizes.iter().map(|(n, _)| {
            let mut shape = shape.clone();
            shape[axis] = *n;
            shape
        }).collect();
        let own: Vec<Shape> = shapes.iter().map(|s| s.as_slice().into()).collect();
        let mut map = IndexMap::concat(&own, axis).unwrap();
        if gaps {
            let mut shift = 0;
            for (piece, (_, gap)) in map.pieces.iter_mut().zip(&sizes) {
                shift += gap;
                piece.into[axis] = piece.into[axis].start + shift..piece.into[axis].end + shift;
            }
            map.shape = map.shape.with_extent(axis, map.shape.extent(axis) + shift + 1);
        }
        check_all(&map, &shapes, &forms[..shapes.len()]);
    }

    #[test]
    fn regions_land_where_they_should(
        (shape, into, from, cut) in shape(0..=4).prop_flat_map(|s| {
            let n = s.len();
            (Just(s), form(n), form(n), prop::collection::vec((0..40_usize, 0..40_usize), n))
        }),
    ) {
        region::<f32>(&shape, &into, &from, &cut);
        region::<i64>(&shape, &into, &from, &cut);
        region::<bool>(&shape, &into, &from, &cut);
    }
}

fn region<T: Sample>(shape: &[usize], into: &Form, from: &Form, cut: &[(usize, usize)]) {
    let at: SmallVec<[usize; 4]> = cut.iter().zip(shape).map(|((at, _), n)| at % (n + 1)).collect();
    let size: Vec<usize> =
        cut.iter().zip(shape).zip(&at).map(|(((_, len), n), at)| len % (n - at + 1)).collect();
    let (mut target, before) = view::<T>(shape, &into.without_broadcast());
    let (source, xs) = view::<T>(&size, from);
    let bystander = target.clone();
    CpuBackend.copy(&mut [Move { op: "test", pieces: &[(source, at.clone())], into: &mut target }]).unwrap();
    let mut want = before.clone();
    for (index, x) in indices(&size).iter().zip(xs) {
        let index: Vec<usize> = index.iter().zip(&at).map(|(i, at)| i + at).collect();
        want[number(shape, &index)] = x;
    }
    assert_same(&values::<T>(&target), &want);
    assert_same(&values::<T>(&bystander), &before);
}

#[test]
fn a_move_inside_one_storage_reads_before_it_writes() {
    let mut x = array([4], &[1_i64, 2, 3, 4]);
    let source = x.slice(0, 0, 3);
    CpuBackend
        .copy(&mut [Move { op: "test", pieces: &[(source, [1].into_iter().collect())], into: &mut x }])
        .unwrap();
    assert_eq!(values::<i64>(&x), [1, 1, 2, 3]);
}

#[test]
fn a_move_beyond_the_end_is_an_error() {
    let mut x = array([4], &[1_i64, 2, 3, 4]);
    for at in [2, usize::MAX] {
        let pieces = [(array([3], &[7_i64; 3]), [at].into_iter().collect())];
        assert!(CpuBackend.copy(&mut [Move { op: "test", pieces: &pieces, into: &mut x }]).is_err());
    }
    assert_eq!(values::<i64>(&x), [1, 2, 3, 4]);
}

#[test]
fn a_map_that_reads_outside_is_an_error() {
    let x = array([4], &[1_i64, 2, 3, 4]);
    for (offset, stride) in [(1, 1), (-1, 1), (2, -1), (0, isize::MAX)] {
        let piece = Piece {
            operand: 0,
            into: std::iter::once(0..4).collect(),
            offset,
            strides: [stride].into_iter().collect(),
        };
        let map = IndexMap { shape: [4].into(), pieces: vec![piece], fill: Scalar::Int(0) };
        assert!(force(&Primitive::Copy(map), &[&x], DType::I64, &[4].into()).is_err());
    }
}

/// A piece that seems to cover the result in its first axes and writes nothing: the result would be memory never written.
#[test]
fn a_piece_of_more_axes_than_the_result_is_an_error() {
    let x = array([4], &[1_i64, 2, 3, 4]);
    for (shape, ends) in [(Shape::from([4]), &[4, 0][..]), (Shape::from([]), &[0])] {
        let into = ends.iter().map(|end| 0..*end).collect();
        let piece = Piece { operand: 0, into, offset: 0, strides: ends.iter().map(|_| 1).collect() };
        let map = IndexMap { shape: shape.clone(), pieces: vec![piece], fill: Scalar::Int(0) };
        assert!(force(&Primitive::Copy(map), &[&x], DType::I64, &shape).is_err());
    }
}

#[test]
fn large_concat_along_each_axis() {
    let (a, b) = (vec![500, 3, 300], vec![500, 3, 300]);
    let flat = |shape: &[usize], seed: u64| -> Vec<f32> {
        (0..shape.iter().product::<usize>() as u64).map(|i| f32::sample(i + seed)).collect()
    };
    let (xs, ys) = (flat(&a, 0), flat(&b, 1));
    let (x, y) = (array(a.as_slice(), &xs), array(b.as_slice(), &ys));
    for axis in 0..3 {
        let map = IndexMap::concat(&[x.shape().clone(), y.shape().clone()], axis).unwrap();
        let got = launch(&Primitive::Copy(map.clone()), &[&x, &y], DType::F32, &map.shape).unwrap();
        assert_same(&values::<f32>(&got), &meaning(&map, &[xs.clone(), ys.clone()], 0.0));
    }
}

/// Beyond what one thread does, and through tiles that are not full.
#[test]
fn large_transpositions() {
    for shape in [[1, 1030, 517], [7, 300, 131], [1030, 5, 61]] {
        let n: usize = shape.iter().product();
        let x = array(shape, &(0..n as u64).map(f32::sample).collect::<Vec<_>>());
        for axes in [[0, 2, 1], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let map = IndexMap::permute(x.shape(), &axes);
            let got = launch(&Primitive::Copy(map.clone()), &[&x], DType::F32, &map.shape).unwrap();
            // Reading a view goes through each element on its own.
            assert_same(&values::<f32>(&got), &values::<f32>(&x.permute(&axes)));
            let twice = Expr::binary(BinaryOp::Add, Expr::input(0), Expr::input(0));
            let got = launch(&Primitive::Map(twice), &[&x.permute(&axes)], DType::F32, &map.shape).unwrap();
            let want: Vec<f32> = values::<f32>(&x.permute(&axes)).iter().map(|x| x + x).collect();
            assert_same(&values::<f32>(&got), &want);
        }
    }
}
