//! Elementary functions against f64, in units in the last place.

use crate::support::{array, launch, values};
use sharding_core::DType;
use sharding_core::backend::{Expr, Primitive, UnaryOp};

fn run(op: UnaryOp, x: &[f32]) -> Vec<f32> {
    let input = array([x.len()], x);
    let expr = Expr::unary(op, Expr::input(0));
    values(&launch(&Primitive::Map(expr), &[&input], DType::F32, input.shape()).unwrap())
}

/// The distance of neighbouring f32 at a value.
fn ulp(x: f64) -> f64 {
    let exponent = x.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (exponent - 23.0).exp2()
}

/// Every 997th f32 of both signs.
fn every() -> Vec<f32> {
    (0..=u32::MAX).step_by(997).map(f32::from_bits).collect()
}

/// The largest error in units in the last place, over f32 of every size.
fn check(op: UnaryOp, exact: impl Fn(f64) -> f64, bound: f64) {
    let x = every();
    let (mut worst, mut at) = (0.0, 0.0);
    for (x, got) in x.iter().zip(run(op, &x)) {
        let want = exact(f64::from(*x));
        if want.is_nan() || got.is_nan() {
            assert!(want.is_nan() && got.is_nan(), "{op:?}({x}) is {got}, not {want}");
        } else if got.is_infinite() || want.abs() > f64::from(f32::MAX) {
            assert!(
                f64::from(got) == want || want.abs() > f64::from(f32::MAX) && got.is_infinite(),
                "{op:?}({x}) is {got}, not {want}"
            );
        } else {
            let error = (f64::from(got) - want).abs() / ulp(want);
            if error > worst {
                (worst, at) = (error, *x);
            }
        }
    }
    println!("{op:?}: {worst:.3} ulp at {at}");
    assert!(worst < bound, "{op:?} is {worst} ulp off at {at}");
}

#[test]
fn exp() {
    check(UnaryOp::Exp, f64::exp, 2.0);
    assert_eq!(run(UnaryOp::Exp, &[0.0, f32::NEG_INFINITY, f32::INFINITY]), [1.0, 0.0, f32::INFINITY]);
}

#[test]
fn log() {
    check(UnaryOp::Log, f64::ln, 2.0);
    assert_eq!(run(UnaryOp::Log, &[1.0, 0.0, f32::INFINITY]), [0.0, f32::NEG_INFINITY, f32::INFINITY]);
}

#[test]
fn tanh() {
    check(UnaryOp::Tanh, f64::tanh, 2.0);
}

#[test]
fn square_roots() {
    check(UnaryOp::Sqrt, f64::sqrt, 0.501);
    check(UnaryOp::Rsqrt, |x| 1.0 / x.sqrt(), 1.5);
}

/// The error function: its series near 0, the continued fraction of its complement beyond.
fn erf_exact(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    let root = std::f64::consts::PI.sqrt();
    let value = if a < 2.5 {
        let (mut sum, mut term) = (a, a);
        for k in 1..100 {
            term *= -a * a / f64::from(k);
            sum += term / f64::from(2 * k + 1);
        }
        2.0 / root * sum
    } else if a < 30.0 {
        let fraction = (1..=200).rev().fold(0.0, |rest, k| f64::from(k) / 2.0 / (a + rest));
        1.0 - (-a * a).exp() / root / (a + fraction)
    } else {
        1.0
    };
    value.copysign(x)
}

#[test]
fn erf() {
    assert!((erf_exact(0.5) - 0.520_499_877_813_046_5).abs() < 1e-15);
    assert!((erf_exact(2.5) - 0.999_593_047_982_555).abs() < 1e-14);
    check(UnaryOp::Erf, erf_exact, 2.0);
}
