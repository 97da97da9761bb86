//! Matrix products.

use crate::support::{
    Form, Sample, array, assert_close, assert_same, extent, form, indices, launch, launch_all, number,
    values, view,
};
use proptest::prelude::*;
use sharding_core::backend::{FusedOp, LocalArray, Primitive};
use sharding_core::{DType, Shape, broadcast};
use std::ops::Range;

/// Shapes of the factors and of the result.
type Shapes = (Vec<usize>, Vec<usize>, Shape);

fn shapes() -> impl Strategy<Value = Shapes> {
    let batch = prop::collection::vec((extent(), 0..4_u8), 0..=2);
    (batch, extent(), extent(), extent(), any::<bool>()).prop_map(|(batch, m, k, n, short)| {
        let pick = |side: u8| -> Vec<usize> {
            batch.iter().map(|(extent, one)| if *one == side { 1 } else { *extent }).collect()
        };
        let (mut a, mut b) = (pick(0), pick(1));
        if short && !b.is_empty() {
            b.remove(0);
        } else if short {
            a.clear();
        }
        let mut shape = broadcast(&a, &b).unwrap().to_vec();
        shape.extend([m, n]);
        a.extend([m, k]);
        b.extend([k, n]);
        (a, b, shape.into())
    })
}

fn with_forms(shapes: Shapes) -> impl Strategy<Value = (Shapes, Form, Form)> {
    let (a, b) = (form(shapes.0.len()), form(shapes.1.len()));
    (Just(shapes), a, b)
}

/// The factors of every result, as pairs.
fn terms<T: Copy>((a, b, out): &Shapes, xs: &[T], ys: &[T]) -> Vec<Vec<(T, T)>> {
    let k = a[a.len() - 1];
    let at = |shape: &[usize], index: &[usize]| {
        let lead = index.len() - shape.len();
        let own: Vec<usize> =
            shape.iter().zip(&index[lead..]).map(|(n, i)| if *n == 1 { 0 } else { *i }).collect();
        number(shape, &own)
    };
    let term = |index: &[usize], l: usize| {
        let (batch, ij) = index.split_at(index.len() - 2);
        let left = [batch, &[ij[0], l]].concat();
        let right = [batch, &[l, ij[1]]].concat();
        (xs[at(a, &left)], ys[at(b, &right)])
    };
    indices(out).iter().map(|index| (0..k).map(|l| term(index, l)).collect()).collect()
}

fn check(shapes: &Shapes, a: &Form, b: &Form) {
    let (x, xs) = view::<i64>(&shapes.0, a);
    let (y, ys) = view::<i64>(&shapes.1, b);
    let got = launch(&Primitive::Dot, &[&x, &y], DType::I64, &shapes.2).unwrap();
    let sum =
        |terms: Vec<(i64, i64)>| terms.iter().fold(0_i64, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)));
    let want: Vec<i64> = terms(shapes, &xs, &ys).into_iter().map(sum).collect();
    assert_same(&values::<i64>(&got), &want);

    let (x, xs) = view::<f32>(&shapes.0, a);
    let (y, ys) = view::<f32>(&shapes.1, b);
    let got = launch(&Primitive::Dot, &[&x, &y], DType::F32, &shapes.2).unwrap();
    let terms = terms(shapes, &xs, &ys);
    let sum = |f: fn(f64) -> f64| -> Vec<f64> {
        terms.iter().map(|terms| terms.iter().map(|(x, y)| f(f64::from(*x) * f64::from(*y))).sum()).collect()
    };
    // Added up in a row, the bound grows with the number of terms.
    let k = shapes.0[shapes.0.len() - 1] as f64;
    let scale: Vec<f64> = sum(f64::abs).iter().map(|size| size * (k / 4.0).max(1.0)).collect();
    assert_close(&values::<f32>(&got), &sum(|x| x), &scale);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_views_and_batches((shapes, a, b) in shapes().prop_flat_map(with_forms)) {
        check(&shapes, &a, &b);
    }
}

#[test]
fn large_products_agree_with_sums() {
    for (m, k, n) in [(70, 300, 90), (1, 3000, 400), (400, 3000, 1), (300, 1, 300), (257, 511, 129)] {
        let a: Vec<f32> = (0..(m * k) as u64).map(f32::sample).collect();
        let b: Vec<f32> = (0..(k * n) as u64).map(|i| f32::sample(i + 77)).collect();
        let got =
            launch(&Primitive::Dot, &[&array([m, k], &a), &array([k, n], &b)], DType::F32, &[m, n].into());
        let got = values::<f32>(&got.unwrap());
        for (i, j) in [(0, 0), (m - 1, n - 1), (m / 2, n / 3)] {
            let terms = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            assert_close(&[got[i * n + j]], &[sum], &[size * 8.0]);
        }
    }
}

/// Every element of products so large that tiles are tasks of their own, by factors and bias of small integers, whose sums are
/// exact: as integers they are multiplied by loops.
#[test]
fn tiles_fit_together() {
    for (m, k, n) in [(300, 400, 300), (130, 1030, 700), (701, 100, 333), (2000, 9000, 1), (1, 200, 90_000)] {
        let whole = |len: usize, seed: usize| -> Vec<i64> {
            (0..len).map(|i| ((i * 31 + i / 7 + seed) % 17) as i64 - 8).collect()
        };
        let float = |xs: &[i64]| -> Vec<f32> { xs.iter().map(|x| *x as f32).collect() };
        let (x, y, bias) = (whole(m * k, 1), whole(n * k, 5), whole(n, 3));
        let (a, weight) = (array([m, k], &x), array([n, k], &y));
        let product = launch(&Primitive::Dot, &[&a, &weight.permute(&[1, 0])], DType::I64, &[m, n].into());
        let want = float(&values::<i64>(&product.unwrap()));
        let (a, weight) = (array([m, k], &float(&x)), array([n, k], &float(&y)));
        let turned = weight.permute(&[1, 0]);
        let in_order: Vec<f32> = (0..k * n).map(|i| y[i % n * k + i / n] as f32).collect();
        for b in [&turned, &array([k, n], &in_order)] {
            let got = launch(&Primitive::Dot, &[&a, b], DType::F32, &[m, n].into()).unwrap();
            assert_same(&values::<f32>(&got), &want);
        }
        let linear = Primitive::Fused(FusedOp::Linear);
        let got = launch(&linear, &[&a, &weight, &array([n], &float(&bias))], DType::F32, &[m, n].into());
        let want: Vec<f32> = want.iter().enumerate().map(|(i, x)| x + bias[i % n] as f32).collect();
        assert_same(&values::<f32>(&got.unwrap()), &want);
    }
}

/// A matrix that lies in a larger one, its rows in order or backwards; small integers, whose sums are exact.
fn inside(rows: usize, columns: usize, seed: usize, backwards: bool) -> (LocalArray, Vec<f32>) {
    let (height, width) = (rows + 3, columns + 5);
    let data: Vec<f32> = (0..height * width).map(|i| ((i * 29 + i / 11 + seed) % 15) as f32 - 7.0).collect();
    let mut found = array([height, width], &data).slice(0, 2, rows).slice(1, 4, columns);
    if backwards {
        let mut meta = found.meta().clone();
        meta.offset += (rows - 1) * width;
        meta.strides[0] = -(width as isize);
        found = LocalArray::new(meta, found.storage().clone());
    }
    let row = |i: usize| 2 + if backwards { rows - 1 - i } else { i };
    let elements = (0..rows).flat_map(|i| (0..columns).map(move |l| (i, l)));
    (found, elements.map(|(i, l)| data[row(i) * width + 4 + l]).collect())
}

/// Rows by rows, of sizes at which panels, tiles and stretches end.
#[test]
fn panels_fit_together() {
    for (m, n) in
        [4, 5, 7, 16, 17, 24, 63, 64, 65, 130].into_iter().flat_map(|m| [16, 19, 64, 81].map(|n| (m, n)))
    {
        for k in [32, 35, 512, 517, 1030] {
            let ((a, xs), (weight, ys)) = (inside(m, k, 1, n % 2 == 0), inside(n, k, 4, m % 2 == 0));
            let bias: Vec<f32> = (0..n).map(|j| j as f32).collect();
            let sum = |i: usize, j: usize| (0..k).map(|l| xs[i * k + l] * ys[j * k + l]).sum::<f32>();
            let want: Vec<f32> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
            let got = launch(&Primitive::Dot, &[&a, &weight.permute(&[1, 0])], DType::F32, &[m, n].into());
            assert_same(&values::<f32>(&got.unwrap()), &want);
            let want: Vec<f32> = want.iter().enumerate().map(|(at, x)| x + bias[at % n]).collect();
            let linear = Primitive::Fused(FusedOp::Linear);
            let got = launch(&linear, &[&a, &weight, &array([n], &bias)], DType::F32, &[m, n].into());
            assert_same(&values::<f32>(&got.unwrap()), &want);
        }
    }
}

/// Whatever part of a linear layer is computed, and so whichever factor is in panels and however the work is cut, its elements
/// are those of the whole, bit for bit.
#[test]
fn parts_of_a_linear_layer_are_those_of_the_whole() {
    let (m, k, n) = (300, 700, 520);
    let sampled =
        |count: usize, seed: u64| -> Vec<f32> { (0..count as u64).map(|i| f32::sample(seed + i)).collect() };
    let (x, weight, bias) = (
        array([m, k], &sampled(m * k, 1)),
        array([n, k], &sampled(n * k, 1 << 20)),
        array([n], &sampled(n, 1 << 30)),
    );
    let linear = |rows: Range<usize>, columns: Range<usize>| -> Vec<u32> {
        let x = x.slice(0, rows.start, rows.len());
        let (weight, bias) =
            (weight.slice(0, columns.start, columns.len()), bias.slice(0, columns.start, columns.len()));
        let shape = Shape::from([rows.len(), columns.len()]);
        let got = launch(&Primitive::Fused(FusedOp::Linear), &[&x, &weight, &bias], DType::F32, &shape);
        values::<f32>(&got.unwrap()).into_iter().map(f32::to_bits).collect()
    };
    let whole = linear(0..m, 0..n);
    for (rows, columns) in [
        (0..150, 0..n),
        (7..13, 0..n),
        (40..57, 3..519),
        (0..m, 100..130),
        (290..300, 500..517),
        (1..300, 64..128),
    ] {
        let want: Vec<u32> = rows
            .clone()
            .flat_map(|i| columns.clone().map(move |j| (i, j)))
            .map(|(i, j)| whole[i * n + j])
            .collect();
        assert!(linear(rows.clone(), columns.clone()) == want, "rows {rows:?}, columns {columns:?}");
    }
}

/// Whatever rows and columns are added up together, each element is that of a loop over `k`, bit for bit.
#[test]
fn small_products_are_added_up_in_order() {
    for (m, k) in (1..=9).flat_map(|m| [1, 2, 5].map(|k| (m, k))) {
        for n in [1, 7, 8, 9, 31, 32, 33, 41] {
            let a: Vec<f32> = (0..(m * k) as u64).map(f32::sample).collect();
            let b: Vec<f32> = (0..(k * n) as u64).map(|i| f32::sample(i + 1000)).collect();
            let (x, y) = (array([m, k], &a), array([k, n], &b));
            let across: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
            let across = array([n, k], &across).permute(&[1, 0]);
            let sum = |i: usize, j: usize| (0..k).fold(0.0, |sum, l| sum + a[i * k + l] * b[l * n + j]);
            let want: Vec<u32> = (0..m * n).map(|at| sum(at / n, at % n).to_bits()).collect();
            for y in [&y, &across] {
                let got = launch(&Primitive::Dot, &[&x, y], DType::F32, &[m, n].into()).unwrap();
                let got: Vec<u32> = values::<f32>(&got).into_iter().map(f32::to_bits).collect();
                assert_eq!(got, want, "{m}x{k}x{n}");
            }
        }
    }
}

#[test]
fn a_linear_layer_adds_its_bias_once_at_every_size() {
    for (m, n) in [1, 2, 3, 4, 5, 9, 130].into_iter().flat_map(|m| [1, 3, 4, 5, 9].map(|n| (m, n))) {
        for k in [0, 1, 15, 16, 17, 100] {
            check_linear(&[m], k, n);
        }
    }
    check_linear(&[2, 3], 40, 7);
    check_linear(&[700], 96, 100);
    check_linear(&[64], 300, 700);
}

fn check_linear(lead: &[usize], k: usize, n: usize) {
    let sampled = |shape: &[usize], seed: u64| {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count as u64).map(|i| f32::sample(seed + i)).collect();
        (array(shape, &values), values)
    };
    let (x, xs) = sampled(&[lead, &[k]].concat(), 1);
    let (weight, ws) = sampled(&[n, k], 1 << 20);
    let (bias, bs) = sampled(&[n], 1 << 30);
    let op = Primitive::Fused(FusedOp::Linear);
    let got = launch(&op, &[&x, &weight, &bias], DType::F32, &[lead, &[n]].concat().into()).unwrap();
    let (mut want, mut scale) = (vec![], vec![]);
    for i in 0..lead.iter().product() {
        for j in 0..n {
            let terms = (0..k).map(|l| f64::from(xs[i * k + l]) * f64::from(ws[j * k + l]));
            let terms: Vec<f64> = terms.chain([f64::from(bs[j])]).collect();
            want.push(terms.iter().sum());
            scale.push(terms.iter().map(|x| x.abs()).sum::<f64>() * (k as f64 / 4.0).max(1.0));
        }
    }
    assert_close(&values::<f32>(&got), &want, &scale);
}

/// Several products that are launched together are what each is alone, bit for bit: of one left factor or of several, with a
/// bias or without, of few rows and of some, small ones and such as are split by themselves.
#[test]
fn products_launched_together_are_those_of_each() {
    let sampled = |shape: &[usize], seed: u64| -> LocalArray {
        let elements: Vec<f32> =
            (0..shape.iter().product::<usize>() as u64).map(|i| f32::sample(seed + i)).collect();
        array(Shape::from(shape), &elements)
    };
    let bits =
        |array: &LocalArray| -> Vec<u32> { values::<f32>(array).into_iter().map(f32::to_bits).collect() };
    let linear = Primitive::Fused(FusedOp::Linear);
    for (m, k, columns) in [
        (16, 384, [192, 192]),
        (16, 200, [700, 3]),
        (2, 500, [1000, 600]),
        (100, 1030, [130, 131]),
        (5, 64, [20, 30]),
        (600, 400, [200, 100]),
    ] {
        let x = sampled(&[1, m, k], 1);
        let apart = sampled(&[1, m, k], 99);
        for (first, second) in [(&x, &x), (&x, &apart)] {
            for bias in [0, 1, 2] {
                let weights = columns.map(|n| sampled(&[n, k], n as u64));
                let biases = columns.map(|n| sampled(&[n], 7 + n as u64));
                let turned = weights.each_ref().map(|weight| weight.permute(&[1, 0]));
                let mut inputs = vec![vec![first, &weights[0]], vec![second, &weights[1]]];
                (0..bias).for_each(|i| inputs[i].push(&biases[i]));
                let shapes = columns.map(|n| Shape::from([1, m, n]));
                let got = launch_all(&linear, &inputs, DType::F32, &shapes);
                for ((inputs, shape), got) in inputs.iter().zip(&shapes).zip(&got) {
                    let want = launch(&linear, inputs, DType::F32, shape).unwrap();
                    assert_eq!(bits(got), bits(&want), "{m} {k} {columns:?}");
                }
                if bias == 0 {
                    let inputs = [vec![first, &turned[0]], vec![second, &turned[1]]];
                    let by_dot = launch_all(&Primitive::Dot, &inputs, DType::F32, &shapes);
                    assert!(got.iter().zip(&by_dot).all(|(a, b)| bits(a) == bits(b)), "{m} {k} {columns:?}");
                }
            }
        }
    }
}
