//! Rows by index, and index maps.

use super::{Bench, Checked, DTYPES, Form, OP, caught, signed, text};
use crate::backend::{Gather, IndexMap, LocalArray, Piece, Primitive};
use crate::conformance::host::HostArray;
use crate::op::{CaseOperand, Fill};
use crate::{DType, Result, Scalar, Shape};

fn indices(shape: impl Into<Shape>, bound: usize, seed: u64) -> HostArray {
    HostArray::of_case(&CaseOperand::new(DType::I64, shape).with_fill(Fill::Below(bound)), seed)
}

fn gathered(table: &Shape, axis: usize, indices: &Shape) -> Shape {
    let (before, after) = (table.iter().take(axis), table.iter().skip(axis + 1));
    before.chain(indices.iter()).chain(after).copied().collect()
}

pub(super) fn gather(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        for (table, axis) in
            [(Shape::from([5]), 0), ([5, 3].into(), 0), ([4, 5, 2].into(), 1), ([2, 5].into(), 1)]
        {
            for list in [Shape::from([]), [0].into(), [4].into(), [2, 3].into()] {
                let (table, list) = (signed(dtype, &table, 1), indices(&list, 5, 2));
                let shape = gathered(&table.shape, axis, &list.shape);
                let whole = Primitive::Gather(Gather { axis, base: 0, bound: 5 });
                bench.compare("gather/whole", &whole, &[&table, &list], dtype, &shape);
                // The local rows 3..8 of 12: the others are zeros here.
                let local = Primitive::Gather(Gather { axis, base: 3, bound: 12 });
                let list = indices(list.shape.clone(), 12, 3);
                bench.compare("gather/local_rows", &local, &[&table, &list], dtype, &shape);
            }
        }
        let (empty, list) = (signed(dtype, [0, 3], 1), indices([4], 9, 2));
        let none = Primitive::Gather(Gather { axis: 0, base: 9, bound: 9 });
        bench.compare("gather/no_local_rows", &none, &[&empty, &list], dtype, &[4, 3].into());
    }
    for index in [5, -1, i64::MAX, i64::MIN] {
        bench.check(format!("gather/out_of_range {index}"), |bench| out_of_range(bench, index));
    }
}

/// An index out of range is an error that names it and the op, now or from the next call on the device; and once.
fn out_of_range(bench: &Bench<'_>, index: i64) -> Checked {
    let table = bench.put(&signed(DType::F32, [5, 2], 1), Form::Dense).map_err(text)?;
    let list =
        HostArray { dtype: DType::I64, shape: [2].into(), values: [1, index].map(Scalar::Int).to_vec() };
    let list = bench.put(&list, Form::Dense).map_err(text)?;
    let gather = Primitive::Gather(Gather { axis: 0, base: 0, bound: 5 });
    let run = |list: &LocalArray| -> Result<LocalArray> {
        let made = bench.launch(&gather, &[&table, list], DType::F32, &[2, 2].into())?;
        bench.backend.synchronize(bench.device)?;
        Ok(made)
    };
    match caught(|| Ok(run(&list)))? {
        Ok(_) if !bench.data => {}
        Ok(_) => return Err(format!("index {index} of 5 rows gives a result")),
        Err(error) => {
            super::typed(&error)?;
            if error.op() != Some(OP) {
                return Err(format!("the error does not name the op: {error}"));
            }
            if !error.to_string().contains(&index.to_string()) {
                return Err(format!("the error does not name the index: {error}"));
            }
        }
    }
    let good = bench.put(&indices([2], 5, 1), Form::Dense).map_err(text)?;
    caught(|| run(&good)).map(|_| ()).map_err(|message| format!("the error comes twice: {message}"))
}

pub(super) fn index_map(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        let a = signed(dtype, [3, 4], 1);
        let (b, none) = (signed(dtype, [2, 4], 2), signed(dtype, [0, 4], 3));
        for (name, map) in single(&a.shape) {
            one(bench, name, map, &[&a], dtype);
        }
        let shapes: Vec<Shape> = [&a, &none, &b].iter().map(|x| x.shape.clone()).collect();
        if let Some(map) = IndexMap::concat(&shapes, 0) {
            one(bench, "concat", map, &[&a, &none, &b], dtype);
        }
        let empty = IndexMap::slice(&none.shape, &[0, 1], &[1, 1], &[0, 2]);
        one(bench, "empty", empty, &[&none], dtype);
        let scalar = signed(dtype, [], 4);
        one(bench, "scalar", IndexMap::reshape(&[1, 1].into()), &[&scalar], dtype);
        let large = signed(dtype, [130, 70, 3], 5);
        one(bench, "large", IndexMap::permute(&large.shape, &[2, 1, 0]), &[&large], dtype);
    }
}

fn single(shape: &Shape) -> Vec<(&'static str, IndexMap)> {
    let piece = |into: [std::ops::Range<usize>; 2], offset, strides: [isize; 2]| Piece {
        operand: 0,
        into: into.into_iter().collect(),
        offset,
        strides: strides.into_iter().collect(),
    };
    vec![
        ("reshape", IndexMap::reshape(&[2, 3, 2].into())),
        ("flatten", IndexMap::reshape(&[12].into())),
        ("permute", IndexMap::permute(shape, &[1, 0])),
        ("slice", IndexMap::slice(shape, &[1, 0], &[1, 2], &[2, 2])),
        ("flip", IndexMap::slice(shape, &[2, 3], &[-1, -1], &[3, 4])),
        (
            "repeat",
            IndexMap {
                shape: [2, 4].into(),
                pieces: vec![piece([0..2, 0..4], 4, [0, 1])],
                fill: Scalar::Int(0),
            },
        ),
        (
            "pad",
            IndexMap {
                shape: [5, 6].into(),
                pieces: vec![piece([1..4, 2..6], 0, [4, 1])],
                fill: Scalar::Int(1),
            },
        ),
        (
            "roll",
            IndexMap {
                shape: [3, 4].into(),
                pieces: vec![piece([0..3, 0..1], 3, [4, 1]), piece([0..3, 1..4], 0, [4, 1])],
                fill: Scalar::Int(0),
            },
        ),
        ("fill", IndexMap { shape: [2, 2].into(), pieces: vec![], fill: Scalar::Int(1) }),
    ]
}

fn one(bench: &mut Bench<'_>, name: &str, mut map: IndexMap, inputs: &[&HostArray], dtype: DType) {
    if dtype == DType::Bool {
        map.fill = Scalar::Bool(map.fill.as_f64() != 0.0);
    }
    let shape = map.shape.clone();
    bench.compare(format!("index_map/{name}"), &Primitive::Copy(map), inputs, dtype, &shape);
}
