//! Elementwise functions against their formulas, special values, and what happens to the parts of extremes.

use sharding_ops::*;

fn rows() -> DeviceMapping {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [3], ["tp"]).unwrap();
    DeviceMapping::new(&mesh, [Sharded(0)]).unwrap()
}

fn place(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, [values.len()], &rows()).unwrap()
}

/// Numbers over the range where most happens, and the special ones.
fn numbers() -> Vec<f32> {
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN, 1e-40];
    (-400..=400).map(|i| i as f32 / 37.0).chain(special).collect()
}

/// `f` of all numbers, within so many units of f32 in the last place, or of 1 where `absolute`.
#[track_caller]
fn check(f: fn(&Tensor) -> Result<Tensor>, want: fn(f64) -> f64, units: f64, absolute: bool) {
    let x = numbers();
    let got = f(&place(&x)).unwrap().to_vec::<f32>().unwrap();
    for (x, got) in x.iter().zip(got) {
        let want = want(f64::from(*x));
        let rounded = want as f32;
        let unit = f64::from(f32::EPSILON) * if absolute { want.abs().max(1.0) } else { want.abs() };
        let close = want.is_finite()
            && (f64::from(got) - want).abs() <= units * unit + 2.0 * f64::from(f32::MIN_POSITIVE);
        assert!(
            got == rounded || (got.is_nan() && want.is_nan()) || close,
            "of {x}: {got} instead of {want}"
        );
    }
}

#[test]
fn functions_are_their_formulas() {
    check(neg, |x| -x, 0.0, false);
    check(abs, f64::abs, 0.0, false);
    check(sqrt, f64::sqrt, 0.5, false);
    check(rsqrt, |x| 1.0 / x.sqrt(), 2.0, false);
    check(exp, f64::exp, 2.0, false);
    check(log, f64::ln, 2.0, true);
    check(tanh, f64::tanh, 2.0, false);
    // Beyond 88 the exponential is infinite, and the result 0 instead of less than 1e-38.
    check(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 4.0, false);
    check(silu, |x| if x < -88.0 && x.is_finite() { -0.0 } else { x / (1.0 + (-x).exp()) }, 5.0, false);
    check(
        gelu_tanh,
        |x| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            x / 2.0 * (1.0 + inner.tanh())
        },
        8.0,
        true,
    );
    check(|x| x.pow(3.0), |x| x.powf(3.0), 1.0, false);
    check(|x| pow(1.5, x), |x| 1.5_f64.powf(x), 1.0, false);
}

#[test]
fn comparisons_are_those_of_rust() {
    let x = numbers();
    let mut y = x.clone();
    y.rotate_left(3);
    y[10..20].copy_from_slice(&x[10..20]);
    let (a, b) = (place(&x), place(&y));
    let same = |got: Tensor, want: fn(&f32, &f32) -> bool| {
        let want: Vec<bool> = x.iter().zip(&y).map(|(x, y)| want(x, y)).collect();
        assert_eq!(got.to_vec::<bool>().unwrap(), want);
    };
    same(a.eq(&b).unwrap(), |x, y| x == y);
    same(a.ne(&b).unwrap(), |x, y| x != y);
    same(a.lt(&b).unwrap(), |x, y| x < y);
    same(a.le(&b).unwrap(), |x, y| x <= y);
    same(a.gt(&b).unwrap(), |x, y| x > y);
    same(a.ge(&b).unwrap(), |x, y| x >= y);
    same(lt(0.5, &b).unwrap(), |_, y| 0.5 < *y);
    // A mask of two bounds, put together.
    let inside = a.gt(-1.0).unwrap().logical_and(&a.lt(1.0).unwrap()).unwrap();
    same(inside, |x, _| *x > -1.0 && *x < 1.0);
}

#[test]
fn casts_are_those_of_rust() {
    let x = numbers();
    let integers = place(&x).cast(DType::I64).unwrap();
    assert_eq!(integers.to_vec::<i64>().unwrap(), x.iter().map(|x| *x as i64).collect::<Vec<_>>());
    let back = integers.cast(DType::F32).unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), x.iter().map(|x| *x as i64 as f32).collect::<Vec<_>>());
    let truths = place(&x).cast(DType::Bool).unwrap();
    assert_eq!(truths.to_vec::<bool>().unwrap(), x.iter().map(|x| *x != 0.0).collect::<Vec<_>>());
}

/// The parts of a maximum stay parts where the function keeps order exactly; a result is never in parts of two kinds.
#[test]
fn parts_of_extremes() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["a", "b"]).unwrap();
    let on = |places: [Place; 2]| DeviceMapping::new(&mesh, places).unwrap();
    let of = |places| {
        let x = Tensor::from_slice(&[1.0_f32, -5.0, 3.0, 2.0], [2, 2], &on(places)).unwrap();
        auto_reshard(Policy::raise(), || max(&x, 0, false)).unwrap()
    };
    let greatest = of([Sharded(0), Replicated]);
    let (max_parts, min_parts) = (Partial(ReduceOp::Max), Partial(ReduceOp::Min));
    assert_eq!(greatest.layout().places(), [max_parts, Replicated]);
    let negative = auto_reshard(Policy::raise(), || -&greatest).unwrap();
    assert_eq!(negative.layout().places(), [min_parts, Replicated]);
    assert_eq!(negative.to_vec::<f32>().unwrap(), [-3.0, -2.0]);
    let clamped = auto_reshard(Policy::raise(), || greatest.clamp(0.0, 2.5)).unwrap();
    assert_eq!(clamped.layout().places(), [max_parts, Replicated]);
    assert_eq!(clamped.to_vec::<f32>().unwrap(), [2.5, 2.0]);
    let least = neg(&of([Replicated, Sharded(0)])).unwrap();
    assert_eq!(least.layout().places(), [Replicated, min_parts]);
    let greater = greatest.maximum(&least).unwrap();
    assert_eq!(greater.layout().places(), [max_parts, Replicated]);
    assert_eq!(greater.to_vec::<f32>().unwrap(), [3.0, 2.0]);
    // Elementary functions are rounded: the parts are combined first.
    assert!(auto_reshard(Policy::raise(), || exp(&greatest)).is_err());
}
