//! Rows by index, and counting.

use crate::support::{
    Form, Sample, array, assert_same, extent, form, indices, launch, number, shape, values, view,
};
use proptest::prelude::*;
use sharding_core::backend::{Gather, Iota, Primitive};
use sharding_core::{DType, ErrorKind, Shape};

#[derive(Clone, Debug)]
struct Case {
    table: Vec<usize>,
    form: Form,
    axis: usize,
    base: i64,
    bound: i64,
    shape: Vec<usize>,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    (shape(1..=3), shape(0..=2)).prop_flat_map(|(table, shape)| {
        let axes = table.len();
        (Just(table), form(axes), 0..axes, 0..5_i64, 1..9_i64, Just(shape), any::<u64>()).prop_map(
            |(table, form, axis, base, more, shape, seed)| {
                let bound = base + table[axis] as i64 + more;
                Case { table, form, axis, base, bound, shape, seed }
            },
        )
    })
}

fn check<T: Sample>(case: &Case, zero: T) {
    let (table, xs) = view::<T>(&case.table, &case.form);
    let count: usize = case.shape.iter().product();
    let rows: Vec<i64> = (0..count as u64)
        .map(|i| crate::support::mix(case.seed.wrapping_add(i)) as i64)
        .map(|i| i.rem_euclid(case.bound))
        .collect();
    let (before, after) = (&case.table[..case.axis], &case.table[case.axis + 1..]);
    let shape: Shape = [before, &case.shape, after].concat().into();
    let gather = Gather { axis: case.axis, base: case.base, bound: case.bound };
    let by = array(case.shape.as_slice(), &rows);
    let got = launch(&Primitive::Gather(gather), &[&table, &by], T::DTYPE, &shape).unwrap();
    let want: Vec<T> = indices(&shape)
        .iter()
        .map(|index| {
            let (a, rest) = index.split_at(before.len());
            let (i, b) = rest.split_at(case.shape.len());
            let row = rows[number(&case.shape, i)] - case.base;
            match usize::try_from(row) {
                Ok(row) if row < case.table[case.axis] => xs[number(&case.table, &[a, &[row], b].concat())],
                _ => zero,
            }
        })
        .collect();
    assert_same(&values::<T>(&got), &want);
}

proptest! {
    #[test]
    fn any_table_and_indices(case in case()) {
        check::<f32>(&case, 0.0);
        check::<i64>(&case, 0);
        check::<bool>(&case, false);
    }

    #[test]
    fn counts_along_any_axis(
        (shape, axis) in prop::collection::vec(extent(), 1..=3)
            .prop_flat_map(|s| { let n = s.len(); (Just(s), 0..n) }),
        start in -9..9_i64,
        step in -3..4_i64,
        first in 0..5_usize,
    ) {
        let shape = Shape::from(shape);
        let iota = |dtype| Primitive::Iota(Iota { axis, first, start: start as f64, step: step as f64, dtype });
        let want: Vec<i64> = indices(&shape).iter().map(|i| start + step * (first + i[axis]) as i64).collect();
        let ints = launch(&iota(DType::I64), &[], DType::I64, &shape).unwrap();
        assert_same(&values::<i64>(&ints), &want);
        let floats = launch(&iota(DType::F32), &[], DType::F32, &shape).unwrap();
        assert_same(&values::<f32>(&floats), &want.iter().map(|x| *x as f32).collect::<Vec<_>>());
    }
}

#[test]
fn an_index_out_of_bound_is_named() {
    let table = array([3, 2], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for bad in [-1, 9, i64::MIN, i64::MAX] {
        let by = array([3], &[4, bad, 5]);
        let gather = Primitive::Gather(Gather { axis: 0, base: 4, bound: 9 });
        let error = launch(&gather, &[&table, &by], DType::F32, &[3, 2].into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Kernel);
        assert!(error.message().contains(&format!("index {bad} (number 1 of 3)")), "{error}");
        // A result without columns does not hide it.
        let error = launch(&gather, &[&table.slice(1, 0, 0), &by], DType::F32, &[3, 0].into());
        assert!(error.is_err());
    }
}
