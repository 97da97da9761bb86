//! Reductions, matrix products and fused kernels.

use super::{Bench, Checked, DTYPES, FLOATS, Form, caught, signed, text};
use crate::backend::{Attention, FusedOp, LocalMeta, Primitive, Reduce, lower};
use crate::conformance::host::{HostArray, rounded};
use crate::kernel::KernelCx;
use crate::{DType, ReduceOp, Result, Scalar, Shape, broadcast};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod];

pub(super) fn reduce(bench: &mut Bench<'_>) {
    let shapes: [(Shape, &[&[usize]]); 6] = [
        ([].into(), &[&[]]),
        ([1].into(), &[&[0]]),
        ([7].into(), &[&[0], &[]]),
        ([3, 5].into(), &[&[0], &[1], &[0, 1]]),
        ([2, 1, 3, 2].into(), &[&[0, 2], &[1], &[3], &[1, 2, 3]]),
        ([3, 0, 2].into(), &[&[1], &[0], &[0, 1, 2]]),
    ];
    for dtype in DTYPES {
        for op in OPS {
            for (shape, choices) in &shapes {
                for axes in *choices {
                    one_reduce(bench, op, &signed(dtype, shape, 1), axes);
                }
            }
        }
        // Larger than any block; sums of small integers stay exact.
        one_reduce(bench, ReduceOp::Sum, &signed(dtype, [100_003], 2), &[0]);
        one_reduce(bench, ReduceOp::Max, &signed(dtype, [300, 400], 2), &[0]);
        one_reduce(bench, ReduceOp::Sum, &signed(dtype, [300, 400], 2), &[1]);
    }
    for dtype in FLOATS {
        let nan =
            HostArray { dtype, shape: [3].into(), values: [1.0, f64::NAN, 2.0].map(Scalar::Float).to_vec() };
        OPS.into_iter().for_each(|op| one_reduce(bench, op, &nan, &[0]));
        // A sum that its dtype cannot count up to one by one: 4097 ones, in f16 and bf16 not more than 2048 and 256.
        let ones = HostArray::filled(dtype, &[4097].into(), Scalar::Float(1.0));
        one_reduce(bench, ReduceOp::Sum, &ones, &[0]);
        // The sums of pieces leave the range on the way: the whole does not.
        let sizes = [60_000.0, 60_000.0, -60_000.0, -59_000.0].map(|value| rounded(value, dtype));
        one_reduce(
            bench,
            ReduceOp::Sum,
            &HostArray { dtype, shape: [4].into(), values: sizes.to_vec() },
            &[0],
        );
    }
    bench.check("reduce/repeats", |bench| {
        let mut x = signed(DType::F32, [50_021], 3);
        x.values.iter_mut().enumerate().for_each(|(i, value)| {
            *value = Scalar::Float(f64::from((value.as_f64() * 1.1_f64.powi(i as i32 % 40)) as f32));
        });
        let primitive = Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes: [0][..].into() });
        let array = bench.put(&x, Form::Dense).map_err(text)?;
        let run = || caught(|| bench.launch(&primitive, &[&array], DType::F32, &[1].into()));
        let first = run()?;
        if !bench.data {
            return Ok(());
        }
        let want = HostArray::read(bench.backend, &first).map_err(text)?;
        (0..3).try_for_each(|_| bench.holds(&run()?, &want, true))
    });
}

fn one_reduce(bench: &mut Bench<'_>, op: ReduceOp, x: &HostArray, axes: &[usize]) {
    let shape = axes.iter().fold(x.shape.clone(), |shape, axis| shape.with_extent(*axis, 1));
    let primitive = Primitive::Reduce(Reduce { op, axes: axes.into() });
    bench.compare(format!("reduce/{op}{axes:?}"), &primitive, &[x], x.dtype, &shape);
}

pub(super) fn dot(bench: &mut Bench<'_>) {
    let shapes: [(&[usize], &[usize]); 11] = [
        (&[2, 3], &[3, 4]),
        (&[1, 1], &[1, 1]),
        (&[5, 1], &[1, 7]),
        (&[3, 0], &[0, 2]),
        (&[0, 3], &[3, 2]),
        (&[2, 3], &[3, 0]),
        (&[2, 4, 3], &[2, 3, 5]),
        (&[2, 1, 3, 4], &[5, 4, 2]),
        (&[3, 4], &[2, 4, 2]),
        (&[0, 3, 4], &[4, 2]),
        (&[65, 70], &[70, 67]),
    ];
    for dtype in DTYPES {
        for (a, b) in shapes {
            let (a, b) = (signed(dtype, a, 1), signed(dtype, b, 2));
            let split =
                |shape: &Shape| shape.split_last_chunk::<2>().map(|(batch, last)| (batch.to_vec(), *last));
            let (Some((batch_a, [m, _])), Some((batch_b, [_, n]))) = (split(&a.shape), split(&b.shape))
            else {
                continue;
            };
            let mut shape = broadcast(&batch_a, &batch_b).unwrap_or_default().to_vec();
            shape.extend([m, n]);
            bench.compare("dot/product", &Primitive::Dot, &[&a, &b], dtype, &shape.into());
        }
    }
}

pub(super) fn fused(bench: &mut Bench<'_>) {
    FLOATS.into_iter().for_each(|dtype| fused_of(bench, dtype));
    for dtype in DTYPES.into_iter().filter(|dtype| !dtype.is_float()) {
        one_fused(bench, "softmax", &FusedOp::Softmax { axis: 0 }, &[&signed(dtype, [3], 1)]);
    }
    attention(bench);
}

fn fused_of(bench: &mut Bench<'_>, dtype: DType) {
    for shape in [Shape::from([1]), [7].into(), [3, 5].into(), [2, 0].into(), [0, 3].into(), [2, 3, 4].into()]
    {
        let x = signed(dtype, &shape, 1);
        for axis in 0..shape.len() {
            one_fused(bench, "softmax", &FusedOp::Softmax { axis }, &[&x]);
        }
        let last = shape.extent(shape.len().saturating_sub(1));
        let (gamma, beta) = (signed(dtype, [last], 2), signed(dtype, [last], 3));
        one_fused(bench, "layer_norm", &FusedOp::LayerNorm { eps: 1e-5 }, &[&x, &gamma, &beta]);
        one_fused(bench, "rms_norm", &FusedOp::RmsNorm { eps: 1e-5 }, &[&x, &gamma]);
    }
    let linears: [(&[usize], usize); 8] = [
        (&[2, 3], 4),
        (&[1, 1], 1),
        (&[3, 0], 2),
        (&[0, 3], 2),
        (&[2, 3], 0),
        (&[2, 3, 33], 5),
        (&[5, 40], 6),
        (&[70, 65], 67),
    ];
    for (x, n) in linears {
        let x = signed(dtype, x, 1);
        let k = x.shape.extent(x.shape.len().saturating_sub(1));
        let (weight, bias) = (signed(dtype, [n, k], 2), signed(dtype, [n], 3));
        one_fused(bench, "linear", &FusedOp::Linear, &[&x, &weight, &bias]);
        one_fused(bench, "linear.unbiased", &FusedOp::Linear, &[&x, &weight]);
    }
    let large = HostArray {
        dtype,
        shape: [2, 3].into(),
        values: [1000.0, 1001.0, 999.0, -1000.0, -1000.0, 0.0].map(|value| rounded(value, dtype)).to_vec(),
    };
    one_fused(bench, "softmax.large", &FusedOp::Softmax { axis: 1 }, &[&large]);
}

/// Shapes of query, key, value and mask; see [`Attention`].
const ATTENTION: [[&[usize]; 4]; 19] = [
    [&[1, 1, 1, 1], &[1, 1, 1, 1], &[1, 1, 1, 1], &[]],
    [&[1, 1], &[1, 1], &[1, 1], &[1, 1]],
    [&[3, 4], &[5, 4], &[5, 2], &[3, 5]],
    [&[2, 3, 4], &[2, 5, 4], &[2, 5, 6], &[5]],
    [&[2, 3, 1, 4], &[2, 3, 7, 4], &[2, 3, 7, 4], &[2, 1, 1, 7]],
    [&[2, 3, 7, 4], &[2, 3, 1, 4], &[2, 3, 1, 5], &[7, 1]],
    [&[2, 6, 3, 4], &[2, 2, 5, 4], &[2, 2, 5, 3], &[2, 6, 3, 5]],
    [&[2, 4, 3, 4], &[2, 1, 5, 4], &[2, 1, 5, 3], &[1, 4, 1, 5]],
    [&[2, 1, 2, 3, 2], &[2, 1, 2, 4, 2], &[2, 1, 2, 4, 3], &[2, 3, 1]],
    [&[2, 2, 3, 0], &[2, 2, 4, 0], &[2, 2, 4, 2], &[3, 4]],
    [&[2, 2, 3, 2], &[2, 2, 0, 2], &[2, 2, 0, 2], &[3, 0]],
    [&[2, 2, 0, 2], &[2, 2, 3, 2], &[2, 2, 3, 2], &[0, 3]],
    [&[0, 2, 3, 2], &[0, 2, 3, 2], &[0, 2, 3, 2], &[3, 3]],
    [&[2, 0, 3, 2], &[2, 0, 3, 2], &[2, 0, 3, 2], &[3, 3]],
    [&[2, 2, 3, 2], &[2, 2, 3, 2], &[2, 2, 3, 0], &[3, 3]],
    [&[1, 2, 37, 9], &[1, 2, 70, 9], &[1, 2, 70, 33], &[37, 70]],
    [&[1, 2, 70, 5], &[1, 1, 37, 5], &[1, 1, 37, 3], &[1, 1, 1, 37]],
    [&[1, 1, 5, 3], &[1, 1, 300, 3], &[1, 1, 300, 2], &[300]],
    [&[1, 3, 130, 2], &[1, 3, 140, 2], &[1, 3, 140, 1], &[3, 130, 1]],
];

fn attention(bench: &mut Bench<'_>) {
    for [query, key, value, mask] in ATTENTION {
        let qkv = [(query, 1), (key, 2), (value, 3)].map(|(shape, seed)| signed(DType::F32, shape, seed));
        let masks = [DType::Bool, DType::F32].map(|dtype| signed(dtype, mask, 4));
        let (mut offsets, scale) = (vec![None, Some(0)], 0.25);
        if matches!(query, [_, 3, _, _]) {
            offsets.extend([Some(2), Some(-2), Some(-1000), Some(1000)]);
        }
        for causal in offsets {
            let op = |parts| FusedOp::Attention(Attention { scale, causal, parts });
            let name = match causal {
                None => "attention".to_owned(),
                Some(offset) => format!("attention.causal{offset}"),
            };
            let [query, key, value] = &qkv;
            one_fused(bench, &name, &op(false), &[query, key, value]);
            one_fused(bench, &format!("{name}.parts"), &op(true), &[query, key, value]);
            for mask in &masks {
                one_fused(bench, &format!("{name}.masked"), &op(false), &[query, key, value, mask]);
            }
        }
    }
    for dtype in FLOATS.into_iter().filter(|dtype| *dtype != DType::F32) {
        for [query, key, value, mask] in ATTENTION.into_iter().skip(4).take(4) {
            let [query, key, value, mask] =
                [(query, 1), (key, 2), (value, 3), (mask, 4)].map(|(shape, seed)| signed(dtype, shape, seed));
            let op = |parts| FusedOp::Attention(Attention { scale: 0.25, causal: Some(1), parts });
            one_fused(bench, "attention", &op(false), &[&query, &key, &value, &mask]);
            one_fused(bench, "attention.parts", &op(true), &[&query, &key, &value, &mask]);
        }
    }
    // Rows without a key to attend to, scores that overflow an exponential, and what is not finite.
    let of = |shape: [usize; 2], values: &[f64]| HostArray {
        dtype: DType::F32,
        shape: shape.into(),
        values: values.iter().copied().map(Scalar::Float).collect(),
    };
    let plain = FusedOp::Attention(Attention { scale: 1.0, causal: None, parts: false });
    let (query, key) = (of([2, 1], &[300.0, -1.0]), of([3, 1], &[1.0, 2.0, -3.0]));
    let value = signed(DType::F32, [3, 2], 3);
    one_fused(bench, "attention.large", &plain, &[&query, &key, &value]);
    let never = f64::NEG_INFINITY;
    let mask = of([2, 3], &[never, never, never, 0.0, never, 1.0]);
    one_fused(bench, "attention.nothing", &plain, &[&query, &key, &value, &mask]);
    let bools = HostArray {
        dtype: DType::Bool,
        shape: [2, 3].into(),
        values: [false, false, false, true, false, false].map(Scalar::Bool).to_vec(),
    };
    one_fused(bench, "attention.nothing", &plain, &[&query, &key, &value, &bools]);
    let nan = of([2, 1], &[f64::NAN, 1.0]);
    one_fused(bench, "attention.nan", &plain, &[&nan, &key, &value]);
}

/// Against the definition, and against the lowering on the same backend.
fn one_fused(bench: &mut Bench<'_>, name: &str, op: &FusedOp, inputs: &[&HostArray]) {
    let Some((dtype, shape)) = result(op, inputs) else {
        bench.check(format!("fused/{name}"), |_| Err("the op does not take its inputs".to_owned()));
        return;
    };
    let primitive = Primitive::Fused(op.clone());
    bench.compare(format!("fused/{name}"), &primitive, inputs, dtype, &shape);
    if !dtype.is_float() {
        return;
    }
    let shapes: Vec<String> = inputs.iter().map(|input| input.shape.to_string()).collect();
    bench.check(format!("lowering/{name} {}", shapes.join(",")), |bench| {
        lowering(bench, op, inputs, dtype, &shape)
    });
}

fn result(op: &FusedOp, inputs: &[&HostArray]) -> Option<(DType, Shape)> {
    let metas: Vec<LocalMeta> =
        inputs.iter().map(|input| LocalMeta::contiguous(input.dtype, input.shape.clone())).collect();
    op.result(&metas.iter().collect::<Vec<_>>())
}

fn lowering(bench: &Bench<'_>, op: &FusedOp, inputs: &[&HostArray], dtype: DType, shape: &Shape) -> Checked {
    let arrays: Vec<_> =
        inputs.iter().map(|input| bench.put(input, Form::Dense)).collect::<Result<_>>().map_err(text)?;
    let arrays: Vec<_> = arrays.iter().collect();
    let mut cx = KernelCx::new(bench.backend, super::OP, bench.device, 0, &[], &[]);
    let lowered = caught(|| lower(&mut cx, op, &arrays))?;
    let primitive = Primitive::Fused(op.clone());
    let want = crate::conformance::naive::primitive(&primitive, inputs, dtype, shape).map_err(text)?;
    bench.holds(&lowered, &want, false)
}
