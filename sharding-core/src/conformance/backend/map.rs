//! Elementwise expressions: every function, dtype, broadcast and conversion.

use super::{Bench, DTYPES, signed};
use crate::backend::{BinaryOp, Expr, Iota, Primitive, UnaryOp};
use crate::conformance::host::{HostArray, rounded, wrapped};
use crate::{DType, Scalar, Shape, broadcast};

const UNARY: [UnaryOp; 9] = [
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Sqrt,
    UnaryOp::Rsqrt,
    UnaryOp::Tanh,
    UnaryOp::Erf,
    UnaryOp::Not,
];

const BINARY: [BinaryOp; 12] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Pow,
    BinaryOp::Max,
    BinaryOp::Min,
    BinaryOp::Eq,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::And,
    BinaryOp::Or,
];

fn input(i: u8) -> Expr {
    Expr::input(i)
}

/// Compares an expression; its dtype follows from its steps.
fn expr(bench: &mut Bench<'_>, name: &str, expr: &Expr, inputs: &[&HostArray]) {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
    let dtype = expr.dtypes(&dtypes).and_then(|all| all.last().copied());
    let shape = inputs.iter().try_fold(Shape::default(), |shape, input| broadcast(&shape, &input.shape));
    let (Some(dtype), Some(shape)) = (dtype, shape) else {
        bench.check(name, |_| Err("the suite asks for what does not fit".to_owned()));
        return;
    };
    bench.compare(format!("map/{name}"), &Primitive::Map(expr.clone()), inputs, dtype, &shape);
}

pub(super) fn map(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        for op in UNARY {
            for shape in [Shape::from([]), [7].into(), [3, 5].into(), [0, 4].into(), [2, 1, 3].into()] {
                let mut x = signed(dtype, &shape, 1);
                if matches!(op, UnaryOp::Log | UnaryOp::Sqrt | UnaryOp::Rsqrt) {
                    x.values.iter_mut().for_each(positive);
                }
                expr(bench, &format!("{op:?}"), &Expr::unary(op, input(0)), &[&x]);
            }
        }
        for op in BINARY {
            for (a, b) in broadcasts() {
                let (a, mut b) = (signed(dtype, &a, 1), signed(dtype, &b, 2));
                if op == BinaryOp::Div {
                    b.values.iter_mut().for_each(positive);
                }
                expr(bench, &format!("{op:?}"), &Expr::binary(op, input(0), input(1)), &[&a, &b]);
            }
        }
        let (condition, a, b) =
            (signed(DType::Bool, [3, 4], 1), signed(dtype, [3, 4], 2), signed(dtype, [4], 3));
        expr(bench, "Select", &Expr::select(input(0), input(1), input(2)), &[&condition, &a, &b]);
        for to in DTYPES {
            expr(bench, &format!("Cast({to})"), &Expr::cast(to, input(0)), &[&signed(dtype, [3, 5], 4)]);
        }
        for shape in [Shape::from([]), [3].into(), [0].into(), [2, 3].into()] {
            let value = match (dtype, dtype.is_signed()) {
                (DType::Bool, _) => Scalar::Bool(true),
                (_, true) => Scalar::Int(-3),
                (_, false) => Scalar::Int(3),
            };
            let fill = Primitive::Map(Expr::constant(value, dtype));
            bench.compare(format!("map/fill({dtype})"), &fill, &[], dtype, &shape);
            if dtype != DType::Bool && !shape.is_empty() {
                for axis in 0..shape.len() {
                    let iota = Iota { axis, first: 4, start: 2.0, step: -3.0, dtype };
                    bench.compare(format!("map/iota({dtype})"), &Primitive::Iota(iota), &[], dtype, &shape);
                }
            }
        }
    }
    special(bench);
    compound(bench);
}

fn positive(value: &mut Scalar) {
    *value = match *value {
        Scalar::Float(value) => Scalar::Float(value.abs() + 1.0),
        // Small in every dtype, where -1 may be 255.
        Scalar::Int(value) => Scalar::Int(value % 8 * value.signum() + 1),
        Scalar::UInt(value) => Scalar::UInt(value % 8 + 1),
        other => other,
    };
}

fn broadcasts() -> [(Shape, Shape); 7] {
    [
        ([3, 5].into(), [3, 5].into()),
        ([3, 5].into(), [5].into()),
        ([3, 1].into(), [1, 4].into()),
        ([].into(), [2, 3].into()),
        ([0, 3].into(), [1, 3].into()),
        ([2, 3, 1, 2].into(), [3, 4, 1].into()),
        ([1].into(), [].into()),
    ]
}

fn array(values: &[Scalar], dtype: DType) -> HostArray {
    HostArray { dtype, shape: [values.len()].into(), values: values.to_vec() }
}

/// Values at the edges of a dtype.
fn edges(dtype: DType) -> Vec<Scalar> {
    let numbers = |values: &[i64]| values.iter().map(|value| wrapped((*value).into(), dtype)).collect();
    match dtype {
        DType::Bool => vec![Scalar::Bool(true), Scalar::Bool(false)],
        float if float.is_float() => {
            // The last is subnormal in f32 and bf16, or next to 0 in f16.
            let last = if float == DType::F16 { 6e-8 } else { 3e-39 };
            [0.0, -0.0, 1.5, -2.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 6e4, 1e30, last]
                .map(|value| rounded(value, float))
                .to_vec()
        }
        integer => {
            // The last is beside the middle of two numbers of bf16, in the middle itself once it is rounded to f64.
            let mut values: Vec<Scalar> = numbers(&[0, 1, -1, 3, (1 << 53) + 1, (1 << 62) + (1 << 54) + 1]);
            values.extend([integer.lowest(), integer.highest()]);
            values
        }
    }
}

/// Every function and conversion at the edges.
fn special(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        let values = edges(dtype);
        let reversed: Vec<Scalar> = values.iter().rev().copied().collect();
        let (all, mut other) = (array(&values, dtype), array(&reversed, dtype));
        for op in UNARY {
            expr(bench, &format!("{op:?}.special"), &Expr::unary(op, input(0)), &[&all]);
        }
        for op in BINARY {
            if op == BinaryOp::Div && dtype.is_integer() {
                other
                    .values
                    .iter_mut()
                    .filter(|by| **by == Scalar::Int(0))
                    .for_each(|by| *by = Scalar::Int(2));
            }
            expr(bench, &format!("{op:?}.special"), &Expr::binary(op, input(0), input(1)), &[&all, &other]);
        }
        for to in DTYPES {
            expr(bench, &format!("Cast({to}).special"), &Expr::cast(to, input(0)), &[&all]);
        }
        if dtype.is_integer() {
            by_zero(bench, dtype);
        }
    }
}

/// An integer division by zero has no value: an error or any number, but no panic.
fn by_zero(bench: &mut Bench<'_>, dtype: DType) {
    let (all, zero) = (array(&[1, 2].map(Scalar::Int), dtype), array(&[0; 2].map(Scalar::Int), dtype));
    let divide = Primitive::Map(Expr::binary(BinaryOp::Div, input(0), input(1)));
    bench.check(format!("map/Div.by_zero {dtype}"), |bench| {
        let put = |host| bench.put(host, super::Form::Dense).map_err(super::text);
        let (a, b) = (put(&all)?, put(&zero)?);
        match super::caught(|| bench.launch(&divide, &[&a, &b], dtype, &[2].into())) {
            Err(message) if message == "it panics" => Err(message),
            _ => Ok(()),
        }
    });
}

/// Expressions of several steps and inputs in one pass.
fn compound(bench: &mut Bench<'_>) {
    let constant = |value: f64| Expr::constant(value, DType::F32);
    let x = signed(DType::F32, [4, 6], 1);
    let half = Expr::binary(BinaryOp::Mul, input(0), constant(0.5));
    let erf = Expr::unary(UnaryOp::Erf, Expr::binary(BinaryOp::Mul, input(0), constant(0.5_f64.sqrt())));
    let gelu = Expr::binary(BinaryOp::Mul, half, Expr::binary(BinaryOp::Add, erf, constant(1.0)));
    expr(bench, "gelu", &gelu, &[&x]);
    let inputs: Vec<HostArray> =
        (0..5).map(|i| signed(DType::F32, if i % 2 == 0 { [4, 6] } else { [1, 6] }, i)).collect();
    let sum = (1..5).fold(input(0), |sum, i| Expr::binary(BinaryOp::Add, sum, input(i)));
    expr(bench, "five_inputs", &sum, &inputs.iter().collect::<Vec<_>>());
    let deep = (0..40).fold(input(0), |sum, _| Expr::binary(BinaryOp::Add, sum, input(1)));
    expr(bench, "deep", &deep, &[&x, &signed(DType::F32, [], 9)]);
    // Steps that leave the dtype on the way: integers wrap after each, halves keep what they have.
    for dtype in DTYPES.into_iter().filter(|dtype| *dtype != DType::Bool) {
        let (x, y) = (array(&edges(dtype), dtype), signed(dtype, [], 9));
        let there = Expr::binary(BinaryOp::Mul, input(0), Expr::constant(3_i64, dtype));
        let back = Expr::binary(BinaryOp::Div, there, Expr::constant(3_i64, dtype));
        expr(bench, "there_and_back", &Expr::binary(BinaryOp::Max, back, input(1)), &[&x, &y]);
    }
    let mixed = Expr::select(
        Expr::binary(BinaryOp::Lt, input(0), input(1)),
        Expr::cast(DType::I64, input(0)),
        Expr::constant(7_i64, DType::I64),
    );
    expr(bench, "mixed_dtypes", &mixed, &[&x, &signed(DType::F32, [6], 3)]);
    // Larger than any block that a kernel works in.
    let (a, b) = (signed(DType::F32, [70_001], 1), signed(DType::F32, [70_001], 2));
    expr(bench, "large", &Expr::binary(BinaryOp::Sub, input(0), input(1)), &[&a, &b]);
}
