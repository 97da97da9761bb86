//! Reductions.

use crate::support::{
    Form, Sample, array, assert_close, assert_same, form, indices, launch, number, shape, values, view,
};
use proptest::prelude::*;
use sharding_core::backend::{Primitive, Reduce};
use sharding_core::{DType, Element, ReduceOp, Shape};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod];

fn reduced(shape: &[usize], axes: &[usize]) -> Shape {
    shape.iter().enumerate().map(|(axis, n)| if axes.contains(&axis) { 1 } else { *n }).collect()
}

/// The elements that go into each result, in row-major order.
fn parts<T: Copy>(shape: &[usize], axes: &[usize], x: &[T]) -> Vec<Vec<T>> {
    let to = reduced(shape, axes);
    let mut parts = vec![Vec::new(); to.elements()];
    for (index, x) in indices(shape).iter().zip(x) {
        let index: Vec<usize> = index.iter().zip(to.iter()).map(|(i, n)| i % n).collect();
        parts[number(&to, &index)].push(*x);
    }
    parts
}

fn run<T: Sample>(op: ReduceOp, shape: &[usize], form: &Form, axes: &[usize]) -> (Vec<T>, Vec<Vec<T>>) {
    let (x, xs) = view::<T>(shape, form);
    let primitive = Primitive::Reduce(Reduce { op, axes: axes.into() });
    let got = launch(&primitive, &[&x], T::DTYPE, &reduced(shape, axes)).unwrap();
    (values(&got), parts(shape, axes, &xs))
}

fn check_exact<T: Sample>(
    op: ReduceOp,
    shape: &[usize],
    form: &Form,
    axes: &[usize],
    identity: T,
    combine: impl Fn(T, T) -> T,
) {
    let (got, parts) = run::<T>(op, shape, form, axes);
    let want: Vec<T> = parts.iter().map(|part| part.iter().fold(identity, |a, b| combine(a, *b))).collect();
    assert_same(&got, &want);
}

fn check(op: ReduceOp, shape: &[usize], form: &Form, axes: &[usize]) {
    match op {
        ReduceOp::Sum => {
            check_exact::<i64>(op, shape, form, axes, 0, i64::wrapping_add);
            check_exact::<bool>(op, shape, form, axes, false, |a, b| a | b);
            let (got, parts) = run::<f32>(op, shape, form, axes);
            let sum = |f: fn(f64) -> f64| -> Vec<f64> {
                parts.iter().map(|part| part.iter().map(|x| f(f64::from(*x))).sum()).collect()
            };
            assert_close(&got, &sum(|x| x), &sum(f64::abs));
        }
        ReduceOp::Prod => {
            check_exact::<i64>(op, shape, form, axes, 1, i64::wrapping_mul);
            check_exact::<bool>(op, shape, form, axes, true, |a, b| a & b);
        }
        ReduceOp::Max => {
            check_exact::<i64>(op, shape, form, axes, i64::MIN, i64::max);
            check_exact::<bool>(op, shape, form, axes, false, |a, b| a | b);
            check_exact::<f32>(op, shape, form, axes, f32::NEG_INFINITY, |a, b| {
                if a.total_cmp(&b).is_gt() { a } else { b }
            });
        }
        ReduceOp::Min => {
            check_exact::<i64>(op, shape, form, axes, i64::MAX, i64::min);
            check_exact::<bool>(op, shape, form, axes, true, |a, b| a & b);
            check_exact::<f32>(op, shape, form, axes, f32::INFINITY, |a, b| {
                if a.total_cmp(&b).is_lt() { a } else { b }
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_axes_of_any_view(
        op in prop::sample::select(&OPS[..]),
        (shape, form, chosen) in shape(0..=4).prop_flat_map(|s| {
            let n = s.len();
            (Just(s), form(n), prop::collection::vec(any::<bool>(), n))
        }),
    ) {
        let axes: Vec<usize> = (0..shape.len()).filter(|axis| chosen[*axis]).collect();
        check(op, &shape, &form, &axes);
    }
}

/// Sizes beyond a block, beyond the columns done at once, and beyond what one thread does.
#[test]
fn large_sums_are_right_along_every_axis() {
    for shape in
        [[1, 1, 700_000], [700_000, 1, 1], [3, 130_000, 2], [40, 33, 600], [2, 300, 1100], [1, 97, 1]]
    {
        let n: usize = shape.iter().product();
        let data: Vec<f32> = (0..n as u64).map(f32::sample).collect();
        let x = array(shape, &data);
        for axes in [&[0][..], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]] {
            let primitive = Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes: axes.into() });
            let got = launch(&primitive, &[&x], DType::F32, &reduced(&shape, axes)).unwrap();
            let to = reduced(&shape, axes);
            let (mut want, mut size) = (vec![0.0; to.elements()], vec![0.0; to.elements()]);
            for (i, x) in data.iter().enumerate() {
                let index = [i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]];
                let index: Vec<usize> = index.iter().zip(to.iter()).map(|(i, n)| i % n).collect();
                want[number(&to, &index)] += f64::from(*x);
                size[number(&to, &index)] += f64::from(x.abs());
            }
            assert_close(&values::<f32>(&got), &want, &size);
        }
    }
}

#[test]
fn nan_survives_max_wherever_it_is() {
    for at in [0, 31, 32, 1023, 1024, 4999] {
        let mut data = vec![1.0_f32; 5000];
        data[at] = f32::NAN;
        for op in OPS {
            let primitive = Primitive::Reduce(Reduce { op, axes: [0].into_iter().collect() });
            let got = launch(&primitive, &[&array([5000], &data)], f32::DTYPE, &[1].into()).unwrap();
            assert!(values::<f32>(&got)[0].is_nan(), "{op} loses the NaN at {at}");
        }
    }
}
