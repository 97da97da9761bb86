//! Elementwise expressions: random programs over random views.

use crate::support::{
    Form, array, assert_same, force, form, indices, launch, launch_all, shape, values, view,
};
use backend_cpu::CpuBackend;
use proptest::prelude::*;
use sharding_core::backend::{Backend, BinaryOp, Expr, LocalArray, Node, Primitive, UnaryOp};
use sharding_core::{DType, Element, Scalar, Shape, broadcast};

/// One element of any dtype.
#[derive(Clone, Copy, Debug)]
enum Any {
    Bool(bool),
    I64(i64),
    F32(f32),
}

/// One element's value of the expression, step by step.
fn evaluate(nodes: &[Node], inputs: &[Any]) -> Any {
    let mut known: Vec<Any> = Vec::new();
    for node in nodes {
        let at = |i: u8| known[usize::from(i)];
        known.push(match *node {
            Node::Input(i) => inputs[usize::from(i)],
            Node::Const(Scalar::Bool(x), DType::Bool) => Any::Bool(x),
            Node::Const(x, DType::F32) => Any::F32(x.as_f64() as f32),
            Node::Const(Scalar::Int(x), DType::I64) => Any::I64(x),
            Node::Unary(op, x) => match (op, at(x)) {
                (UnaryOp::Neg, Any::F32(x)) => Any::F32(-x),
                (UnaryOp::Neg, Any::I64(x)) => Any::I64(x.wrapping_neg()),
                (UnaryOp::Abs, Any::F32(x)) => Any::F32(x.abs()),
                (UnaryOp::Abs, Any::I64(x)) => Any::I64(x.wrapping_abs()),
                (UnaryOp::Sqrt, Any::F32(x)) => Any::F32(x.sqrt()),
                (UnaryOp::Rsqrt, Any::F32(x)) => Any::F32(1.0 / x.sqrt()),
                (UnaryOp::Not, Any::Bool(x)) => Any::Bool(!x),
                other => panic!("{other:?}"),
            },
            Node::Binary(op, a, b) => match (at(a), at(b)) {
                (Any::F32(a), Any::F32(b)) => float(op, a, b),
                (Any::I64(a), Any::I64(b)) => int(op, a, b),
                (Any::Bool(a), Any::Bool(b)) => truth(op, a, b),
                other => panic!("{other:?}"),
            },
            Node::Select(c, a, b) => match at(c) {
                Any::Bool(c) => at(if c { a } else { b }),
                other => panic!("{other:?}"),
            },
            Node::Cast(dtype, x) => cast(dtype, at(x)),
            ref other => panic!("{other:?}"),
        });
    }
    *known.last().unwrap()
}

fn float(op: BinaryOp, a: f32, b: f32) -> Any {
    let nan = a.is_nan() || b.is_nan();
    match op {
        BinaryOp::Add => Any::F32(a + b),
        BinaryOp::Sub => Any::F32(a - b),
        BinaryOp::Mul => Any::F32(a * b),
        BinaryOp::Div => Any::F32(a / b),
        BinaryOp::Max | BinaryOp::Min if nan => Any::F32(f32::NAN),
        BinaryOp::Max => Any::F32(if a.total_cmp(&b).is_gt() { a } else { b }),
        BinaryOp::Min => Any::F32(if a.total_cmp(&b).is_lt() { a } else { b }),
        BinaryOp::Eq => Any::Bool(a == b),
        BinaryOp::Lt => Any::Bool(a < b),
        BinaryOp::Le => Any::Bool(a <= b),
        other => panic!("{other:?}"),
    }
}

fn int(op: BinaryOp, a: i64, b: i64) -> Any {
    match op {
        BinaryOp::Add => Any::I64(a.wrapping_add(b)),
        BinaryOp::Sub => Any::I64(a.wrapping_sub(b)),
        BinaryOp::Mul => Any::I64(a.wrapping_mul(b)),
        BinaryOp::Div => Any::I64(a.wrapping_div(b)),
        BinaryOp::Max => Any::I64(a.max(b)),
        BinaryOp::Min => Any::I64(a.min(b)),
        BinaryOp::Eq => Any::Bool(a == b),
        BinaryOp::Lt => Any::Bool(a < b),
        BinaryOp::Le => Any::Bool(a <= b),
        other => panic!("{other:?}"),
    }
}

fn truth(op: BinaryOp, a: bool, b: bool) -> Any {
    Any::Bool(match op {
        BinaryOp::And | BinaryOp::Min => a && b,
        BinaryOp::Or | BinaryOp::Max => a || b,
        BinaryOp::Eq => a == b,
        BinaryOp::Lt => !a && b,
        BinaryOp::Le => !a || b,
        other => panic!("{other:?}"),
    })
}

fn cast(dtype: DType, x: Any) -> Any {
    match (dtype, x) {
        (DType::Bool, Any::F32(x)) => Any::Bool(x != 0.0),
        (DType::Bool, Any::I64(x)) => Any::Bool(x != 0),
        (DType::I64, Any::F32(x)) => Any::I64(x as i64),
        (DType::I64, Any::Bool(x)) => Any::I64(i64::from(x)),
        (DType::F32, Any::I64(x)) => Any::F32(x as f32),
        (DType::F32, Any::Bool(x)) => Any::F32(f32::from(u8::from(x))),
        (_, x) => x,
    }
}

const DTYPES: [DType; 3] = [DType::F32, DType::I64, DType::Bool];

/// An expression of a dtype over inputs 0, 1, 2 of f32, i64 and bool.
fn expr(dtype: DType, depth: u32) -> BoxedStrategy<Expr> {
    let input = Just(Expr::input(DTYPES.iter().position(|other| *other == dtype).unwrap() as u8));
    let constant = any::<i8>().prop_map(move |x| match dtype {
        DType::Bool => Expr::constant(x > 0, DType::Bool),
        DType::I64 => Expr::constant(i64::from(x), DType::I64),
        _ => Expr::constant(f64::from(x) / 8.0, DType::F32),
    });
    if depth == 0 {
        return prop_oneof![3 => input, 1 => constant].boxed();
    }
    let own = || expr(dtype, depth - 1);
    let other = || prop::sample::select(&DTYPES[..]).prop_flat_map(move |dtype| expr(dtype, depth - 1));
    let unary: &[UnaryOp] = match dtype {
        DType::Bool => &[UnaryOp::Not],
        DType::I64 => &[UnaryOp::Neg, UnaryOp::Abs],
        _ => &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sqrt, UnaryOp::Rsqrt],
    };
    let binary: &[BinaryOp] = match dtype {
        DType::Bool => &[BinaryOp::And, BinaryOp::Or, BinaryOp::Max, BinaryOp::Min],
        DType::I64 => &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min],
        _ => &[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Max, BinaryOp::Min],
    };
    let computed = (prop::sample::select(binary), own(), own()).prop_map(|(op, a, b)| Expr::binary(op, a, b));
    let compared = prop::sample::select(&DTYPES[..]).prop_flat_map(move |dtype| {
        let op = prop::sample::select(&[BinaryOp::Eq, BinaryOp::Lt, BinaryOp::Le][..]);
        let side = || expr(dtype, depth - 1);
        (op, side(), side()).prop_map(|(op, a, b)| Expr::binary(op, a, b))
    });
    prop_oneof![
        1 => input,
        1 => constant,
        2 => (prop::sample::select(unary), own()).prop_map(|(op, x)| Expr::unary(op, x)),
        4 => if dtype == DType::Bool { compared.boxed() } else { computed.clone().boxed() },
        2 => computed,
        1 => (expr(DType::Bool, depth - 1), own(), own()).prop_map(|(c, a, b)| Expr::select(c, a, b)),
        1 => other().prop_map(move |x| Expr::cast(dtype, x)),
    ]
    .boxed()
}

/// Shapes that broadcast to the first one.
fn shapes() -> impl Strategy<Value = [Vec<usize>; 3]> {
    shape(0..=4).prop_flat_map(|whole| {
        let part = |whole: Vec<usize>| {
            let ones = prop::collection::vec(prop::bool::weighted(0.25), whole.len());
            (0..=whole.len(), ones).prop_map(move |(cut, ones)| {
                let pick = |(n, one): (&usize, &bool)| if *one { 1 } else { *n };
                whole.iter().zip(&ones).map(pick).skip(cut * usize::from(cut % 2 == 0)).collect::<Vec<_>>()
            })
        };
        (Just(whole.clone()), part(whole.clone()), part(whole)).prop_map(|(a, b, c)| [a, b, c])
    })
}

fn arguments() -> impl Strategy<Value = ([Vec<usize>; 3], [Form; 3])> {
    shapes().prop_flat_map(|shapes| {
        let [a, b, c] = [shapes[0].len(), shapes[1].len(), shapes[2].len()].map(form);
        (Just(shapes), [a.boxed(), b.boxed(), c.boxed()])
    })
}

fn check(expr: &Expr, dtype: DType, shapes: &[Vec<usize>; 3], forms: &[Form; 3]) {
    let (x, xs) = view::<f32>(&shapes[0], &forms[0]);
    let (y, ys) = view::<i64>(&shapes[1], &forms[1]);
    let (z, zs) = view::<bool>(&shapes[2], &forms[2]);
    let shape = broadcast(&broadcast(&shapes[0], &shapes[1]).unwrap(), &shapes[2]).unwrap();
    let got = launch(&Primitive::Map(expr.clone()), &[&x, &y, &z], dtype, &shape).unwrap();
    let at = |own: &[usize], index: &[usize]| {
        let lead = index.len() - own.len();
        let index: Vec<usize> =
            own.iter().zip(&index[lead..]).map(|(n, i)| if *n == 1 { 0 } else { *i }).collect();
        crate::support::number(own, &index)
    };
    let want = indices(&shape).into_iter().map(|index| {
        let inputs = [
            Any::F32(xs[at(&shapes[0], &index)]),
            Any::I64(ys[at(&shapes[1], &index)]),
            Any::Bool(zs[at(&shapes[2], &index)]),
        ];
        evaluate(expr.nodes(), &inputs)
    });
    macro_rules! same {
        ($($variant:ident: $type:ty),*) => {
            match dtype {
                $(DType::$variant => assert_same(
                    &values::<$type>(&got),
                    &want.map(|x| if let Any::$variant(x) = x { x } else { panic!("{x:?}") }).collect::<Vec<_>>(),
                ),)*
                other => panic!("{other}"),
            }
        };
    }
    same!(F32: f32, I64: i64, Bool: bool);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn any_expression_over_any_views(
        (dtype, expr) in prop::sample::select(&DTYPES[..]).prop_flat_map(|dtype| (Just(dtype), expr(dtype, 3))),
        (shapes, forms) in arguments(),
    ) {
        check(&expr, dtype, &shapes, &forms);
    }
}

#[test]
fn longer_than_a_chunk_and_than_a_task() {
    let expr = Expr::select(
        Expr::binary(BinaryOp::Lt, Expr::input(0), Expr::constant(0.25, DType::F32)),
        Expr::binary(BinaryOp::Mul, Expr::input(0), Expr::input(0)),
        Expr::unary(UnaryOp::Neg, Expr::input(0)),
    );
    for n in [1023, 1024, 1025, 5000, 300_000] {
        let data: Vec<f32> = (0..n).map(|i| (i % 777) as f32 / 777.0).collect();
        let x = array([n], &data);
        let got = launch(&Primitive::Map(expr.clone()), &[&x], DType::F32, x.shape()).unwrap();
        let want: Vec<f32> = data.iter().map(|x| if *x < 0.25 { x * x } else { -x }).collect();
        assert_same(&values::<f32>(&got), &want);
    }
}

#[test]
fn fills_without_inputs() {
    let shape = Shape::from([2, 3]);
    let fill =
        |value: Scalar, dtype| launch(&Primitive::Map(Expr::constant(value, dtype)), &[], dtype, &shape);
    assert_eq!(values::<f32>(&fill(Scalar::Float(2.5), DType::F32).unwrap()), [2.5; 6]);
    assert_eq!(values::<i64>(&fill(Scalar::Int(-7), DType::I64).unwrap()), [-7; 6]);
    assert_eq!(values::<bool>(&fill(Scalar::Bool(true), DType::Bool).unwrap()), [true; 6]);
}

#[test]
fn max_and_min_propagate_nan_and_order_zeros() {
    let (a, b) = ([f32::NAN, 1.0, -0.0, 0.0], [1.0, f32::NAN, 0.0, -0.0]);
    let run = |op| {
        let expr = Expr::binary(op, Expr::input(0), Expr::input(1));
        let got = launch(&Primitive::Map(expr), &[&array([4], &a), &array([4], &b)], DType::F32, &[4].into());
        values::<f32>(&got.unwrap())
    };
    assert_same(&run(BinaryOp::Max), &[f32::NAN, f32::NAN, 0.0, 0.0]);
    assert_same(&run(BinaryOp::Min), &[f32::NAN, f32::NAN, -0.0, -0.0]);
}

#[test]
fn integer_division_truncates_and_wraps() {
    let (a, b) = ([7_i64, -7, i64::MIN, i64::MAX], [2_i64, 2, -1, -1]);
    let expr = Expr::binary(BinaryOp::Div, Expr::input(0), Expr::input(1));
    let run = |a: &LocalArray, b: &LocalArray| {
        launch(&Primitive::Map(expr.clone()), &[a, b], DType::I64, &[4].into())
    };
    let got = run(&array([4], &a), &array([4], &b)).unwrap();
    assert_eq!(values::<i64>(&got), [3, -3, i64::MIN, -i64::MAX]);
    assert!(run(&array([4], &a), &array([4], &[1_i64, 0, 1, 1])).is_err());
    assert!(run(&array([4], &a), &array([1], &[0_i64])).is_err());
}

#[test]
fn what_is_not_supported_does_not_run() {
    fn refused<T: Element>(expr: Expr, x: T, dtype: DType) {
        for n in [0_usize, 3] {
            let x = array([n], &vec![x; n]);
            let primitive = Primitive::Map(expr.clone());
            assert!(!CpuBackend.supports(&primitive, &[x.meta().clone()]).is_yes(), "{expr:?}");
            assert!(force(&primitive, &[&x], dtype, x.shape()).is_err(), "{expr:?}");
        }
    }
    let twice = |op| Expr::binary(op, Expr::input(0), Expr::input(0));
    refused(Expr::unary(UnaryOp::Exp, Expr::input(0)), 1_i64, DType::I64);
    refused(Expr::unary(UnaryOp::Not, Expr::input(0)), 1.0_f32, DType::F32);
    refused(twice(BinaryOp::And), 1.0_f32, DType::F32);
    refused(twice(BinaryOp::Add), true, DType::Bool);
    refused(Expr::constant(0.5, DType::I64), 1_i64, DType::I64);
    refused(Expr::input(1), 1_i64, DType::I64);
}

/// Expressions on several devices at once, too small to be split and together worth several threads, are what each is alone.
#[test]
fn results_made_together_are_those_of_each() {
    let expr = Expr::unary(UnaryOp::Exp, Expr::unary(UnaryOp::Erf, Expr::input(0)));
    let primitive = Primitive::Map(expr);
    for lengths in [[12_000, 9000, 1], [40_000, 20_000, 5], [3, 0, 7]] {
        let all = lengths.map(|n| array([n], &(0..n).map(|i| i as f32 * 1e-3 - 2.0).collect::<Vec<f32>>()));
        let inputs: Vec<Vec<&LocalArray>> = all.iter().map(|x| vec![x]).collect();
        let got = launch_all(&primitive, &inputs, DType::F32, &lengths.map(|n| Shape::from([n])));
        for ((x, n), got) in all.iter().zip(lengths).zip(&got) {
            let want = launch(&primitive, &[x], DType::F32, &[n].into()).unwrap();
            assert_same(&values::<f32>(got), &values::<f32>(&want));
        }
    }
}
