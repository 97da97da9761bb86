//! Results do not depend on the number of threads.

use crate::support::{Sample, array, assert_same, launch, values};
use rayon::ThreadPoolBuilder;
use sharding_core::backend::{BinaryOp, Expr, FusedOp, LocalArray, Primitive, Reduce, UnaryOp};
use sharding_core::{DType, ReduceOp, Shape};

fn floats(shape: &[usize], seed: u64) -> LocalArray {
    let n = shape.iter().product::<usize>() as u64;
    array(shape, &(0..n).map(|i| f32::sample(i.wrapping_add(seed << 32))).collect::<Vec<_>>())
}

/// Runs on 1, 2, 3 and 7 threads, and outside of any pool.
fn check(primitive: &Primitive, inputs: &[&LocalArray], shape: impl Into<Shape>) {
    let shape = shape.into();
    let run = || values::<f32>(&launch(primitive, inputs, DType::F32, &shape).unwrap());
    let want = run();
    for threads in [1, 2, 3, 7] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_same(&pool.install(run), &want);
    }
}

#[test]
fn products() {
    for (m, k, n) in [(300, 700, 150), (1024, 384, 96), (65, 2000, 65), (1, 5000, 1500), (2, 4000, 1000)] {
        check(&Primitive::Dot, &[&floats(&[m, k], 1), &floats(&[k, n], 2)], [m, n]);
    }
    check(&Primitive::Dot, &[&floats(&[24, 64, 64], 1), &floats(&[24, 64, 64], 2)], [24, 64, 64]);
    let transposed = floats(&[150, 700], 3).permute(&[1, 0]);
    check(&Primitive::Dot, &[&floats(&[300, 700], 1), &transposed], [300, 150]);
    let wide = floats(&[384, 700], 3).permute(&[1, 0]);
    check(&Primitive::Dot, &[&floats(&[300, 700], 1), &wide], [300, 384]);
}

#[test]
fn sums() {
    let x = floats(&[3, 1000, 301], 4);
    for (axes, shape) in
        [(&[2][..], [3, 1000, 1]), (&[1], [3, 1, 301]), (&[0, 2], [1, 1000, 1]), (&[0, 1, 2], [1, 1, 1])]
    {
        check(&Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes: axes.into() }), &[&x], shape);
    }
}

#[test]
fn maps_and_fused_kernels() {
    let x = floats(&[1111, 300], 5);
    let tanh = Expr::unary(UnaryOp::Tanh, Expr::binary(BinaryOp::Mul, Expr::input(0), Expr::input(0)));
    check(&Primitive::Map(tanh), &[&x], [1111, 300]);
    check(&Primitive::Fused(FusedOp::Softmax { axis: 1 }), &[&x], [1111, 300]);
    let (gamma, beta) = (floats(&[300], 6), floats(&[300], 7));
    check(&Primitive::Fused(FusedOp::LayerNorm { eps: 1e-5 }), &[&x, &gamma, &beta], [1111, 300]);
}
