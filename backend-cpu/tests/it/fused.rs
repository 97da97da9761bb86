//! Fused kernels against their formulas.

use crate::support::{
    Form, array, assert_close, assert_same, form, indices, launch, number, shape, values, view,
};
use proptest::prelude::*;
use sharding_core::DType;
use sharding_core::backend::{FusedOp, Primitive};

fn softmax(shape: &[usize], axis: usize, form: &Form) {
    let (x, xs) = view::<f32>(shape, form);
    let got = launch(&Primitive::Fused(FusedOp::Softmax { axis }), &[&x], DType::F32, x.shape()).unwrap();
    let want: Vec<f64> = indices(shape)
        .iter()
        .map(|index| {
            let line = (0..shape[axis]).map(|i| {
                let mut other = index.clone();
                other[axis] = i;
                f64::from(xs[number(shape, &other)])
            });
            let own = f64::from(xs[number(shape, index)]);
            1.0 / line.map(|x| (x - own).exp()).sum::<f64>()
        })
        .collect();
    // The argument of exp has an error of its own, so that the bound grows with its size; results below 1e-38 count
    // as 0.
    let scale: Vec<f64> = want.iter().map(|x| 8.0 * x).collect();
    assert_close(&values::<f32>(&got), &want, &scale);
}

fn layer_norm(shape: &[usize], forms: &[Form; 3], eps: f64) {
    let n = shape[shape.len() - 1];
    let (x, xs) = view::<f32>(shape, &forms[0]);
    let (gamma, gammas) = view::<f32>(&[n], &forms[1]);
    let (beta, betas) = view::<f32>(&[n], &forms[2]);
    let op = Primitive::Fused(FusedOp::LayerNorm { eps });
    let got = launch(&op, &[&x, &gamma, &beta], DType::F32, x.shape()).unwrap();
    let (mut want, mut scale) = (vec![], vec![]);
    for row in xs.chunks(n.max(1)) {
        let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        let mean = row.iter().sum::<f64>() / n as f64;
        let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let largest = row.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        for ((x, gamma), beta) in row.iter().zip(&gammas).zip(&betas) {
            let deviation = (var + eps).sqrt();
            want.push((x - mean) / deviation * f64::from(*gamma) + f64::from(*beta));
            scale.push(4.0 * (largest / deviation * f64::from(gamma.abs()) + f64::from(beta.abs())));
        }
    }
    assert_close(&values::<f32>(&got), &want, &scale);
}

fn rms_norm(shape: &[usize], forms: &[Form; 2], eps: f64) {
    let n = shape[shape.len() - 1];
    let (x, xs) = view::<f32>(shape, &forms[0]);
    let (weight, weights) = view::<f32>(&[n], &forms[1]);
    let got =
        launch(&Primitive::Fused(FusedOp::RmsNorm { eps }), &[&x, &weight], DType::F32, x.shape()).unwrap();
    let mut want = vec![];
    for row in xs.chunks(n.max(1)) {
        let root = (row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / n as f64 + eps).sqrt();
        want.extend(row.iter().zip(&weights).map(|(x, weight)| f64::from(*x) / root * f64::from(*weight)));
    }
    let scale: Vec<f64> = want.iter().map(|x| 4.0 * x.abs()).collect();
    assert_close(&values::<f32>(&got), &want, &scale);
}

proptest! {
    #[test]
    fn softmax_along_any_axis((shape, form, axis) in shape(1..=4).prop_flat_map(|s| {
        let n = s.len();
        (Just(s), form(n), 0..n)
    })) {
        softmax(&shape, axis, &form);
    }

    #[test]
    fn layer_norm_of_any_view((shape, forms) in shape(1..=3).prop_flat_map(|s| {
        let x = form(s.len());
        (Just(s), [x.boxed(), form(1).boxed(), form(1).boxed()])
    })) {
        layer_norm(&shape, &forms, 0.25);
    }

    #[test]
    fn rms_norm_of_any_view((shape, forms) in shape(1..=3).prop_flat_map(|s| {
        let x = form(s.len());
        (Just(s), [x.boxed(), form(1).boxed()])
    })) {
        rms_norm(&shape, &forms, 0.25);
    }
}

#[test]
fn softmax_of_large_values_and_many_rows() {
    let data: Vec<f32> = (0..600 * 70).map(|i| (i % 70) as f32 * 40.0).collect();
    let op = Primitive::Fused(FusedOp::Softmax { axis: 1 });
    let x = array([600, 70], &data);
    let got = values::<f32>(&launch(&op, &[&x], DType::F32, x.shape()).unwrap());
    let row: Vec<f32> = (0..70).map(|i| if i == 69 { 1.0 } else { 0.0 }).collect();
    for got in got.chunks(70) {
        // e^-40 is above 0, but not beside 1.
        assert!((got[68] - (-40.0_f32).exp()).abs() < 1e-22);
        assert_same(&got[..60], &row[..60]);
        assert_same(&got[69..], &row[69..]);
    }
}
