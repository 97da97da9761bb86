//! How long kernels take: `cargo run --release -p backend-cpu --example kernels [PART OF A NAME]`.
//!
//! Prints the best and the median time of each, and a rate where one says more.

use backend_cpu::CpuBackend;
use sharding_core::backend::{
    Attention, Backend, BinaryOp, Distribution, Expr, FusedOp, Gather, IndexMap, LocalArray, Primitive,
    Random, RandomKey, Reduce, UnaryOp, Work,
};
use sharding_core::{DType, Device, Element, ReduceOp, Result, Shape};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What a rate counts.
enum Rate {
    None,
    Bytes(usize),
    Flops(usize),
}

struct Bench {
    filter: String,
}

impl Bench {
    fn run(&self, name: &str, rate: Rate, mut work: impl FnMut() -> Result<()>) -> Result<()> {
        if !name.contains(&self.filter) {
            return Ok(());
        }
        work()?;
        // Calls too short for the clock are timed in batches of at least 20 microseconds.
        let start = Instant::now();
        work()?;
        let batch = (Duration::from_micros(20).as_nanos() / start.elapsed().as_nanos().max(1)).max(1) as u32;
        let (mut times, began) = (Vec::new(), Instant::now());
        while times.len() < 10 || (began.elapsed() < Duration::from_millis(400) && times.len() < 20_000) {
            let start = Instant::now();
            for _ in 0..batch {
                work()?;
            }
            times.push(start.elapsed() / batch);
        }
        times.sort_unstable();
        let (best, median) = (times[0], times[times.len() / 2]);
        let per = |amount: usize| amount as f64 / best.as_nanos().max(1) as f64;
        let rate = match rate {
            Rate::None => String::new(),
            Rate::Bytes(n) => format!("{:8.1} GB/s", per(n)),
            Rate::Flops(n) => format!("{:8.1} GFLOP/s", per(n)),
        };
        println!("{name:34} best {best:>10.1?}  median {median:>10.1?} {rate}");
        Ok(())
    }
}

fn array(shape: &[usize]) -> Result<LocalArray> {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i % 1013) as f32 / 200.0 - 2.5).collect();
    let mut array = CpuBackend.alloc(Device::cpu(), DType::F32, &shape.into())?;
    CpuBackend.write(&f32::to_bytes(&values), &mut array)?;
    Ok(array)
}

fn launch(primitive: &Primitive, inputs: &[&LocalArray], shape: &Shape) -> Result<()> {
    let (backend, device): (&dyn Backend, _) = (black_box(&CpuBackend), Device::cpu());
    let mut outputs = [backend.alloc(device, DType::F32, shape)?];
    backend.launch(primitive, &mut [Work { op: "bench", device, inputs, outputs: &mut outputs }])?;
    black_box(outputs);
    Ok(())
}

fn main() -> Result<()> {
    let bench = Bench { filter: std::env::args().nth(1).unwrap_or_default() };
    let add = Primitive::Map(Expr::from_static(&[
        sharding_core::backend::Node::Input(0),
        sharding_core::backend::Node::Input(1),
        sharding_core::backend::Node::Binary(BinaryOp::Add, 0, 1),
    ]));
    let unary = |op| Primitive::Map(Expr::unary(op, Expr::input(0)));
    let x = || Expr::input(0);
    let number = |value: f64| Expr::constant(value, DType::F32);
    let erf =
        Expr::unary(UnaryOp::Erf, Expr::binary(BinaryOp::Mul, x(), number(std::f64::consts::FRAC_1_SQRT_2)));
    let gelu = Primitive::Map(Expr::binary(
        BinaryOp::Mul,
        Expr::binary(BinaryOp::Mul, x(), number(0.5)),
        Expr::binary(BinaryOp::Add, erf, number(1.0)),
    ));

    let (a, b) = (array(&[8, 4])?, array(&[8, 4])?);
    bench.run("alloc 8x4", Rate::None, || {
        black_box(CpuBackend.alloc(Device::cpu(), DType::F32, a.shape())?);
        Ok(())
    })?;
    bench.run("add 8x4", Rate::None, || launch(&add, &[&a, &b], a.shape()))?;
    bench.run("gelu 8x4", Rate::None, || launch(&gelu, &[&a], a.shape()))?;
    let (a, b) = (array(&[4, 8])?, array(&[8, 2])?);
    bench.run("dot 4x8x2", Rate::None, || launch(&Primitive::Dot, &[&a, &b], &[4, 2].into()))?;

    const MILLION: usize = 1 << 20;
    let (a, b) = (array(&[1024, 1024])?, array(&[1024, 1024])?);
    let bias = array(&[1024])?;
    bench.run("add 1M", Rate::Bytes(12 * MILLION), || launch(&add, &[&a, &b], a.shape()))?;
    bench.run("add 1M bias", Rate::Bytes(8 * MILLION), || launch(&add, &[&a, &bias], a.shape()))?;
    bench.run("add 1M transposed", Rate::Bytes(12 * MILLION), || {
        launch(&add, &[&a, &b.permute(&[1, 0])], a.shape())
    })?;
    for op in [UnaryOp::Exp, UnaryOp::Log, UnaryOp::Tanh, UnaryOp::Erf] {
        bench
            .run(&format!("{op:?} 1M"), Rate::Bytes(8 * MILLION), || launch(&unary(op), &[&a], a.shape()))?;
    }
    bench.run("gelu 1M", Rate::Bytes(8 * MILLION), || launch(&gelu, &[&a], a.shape()))?;
    for (axis, shape) in [(0, [1, 1024]), (1, [1024, 1])] {
        let sum = Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes: [axis].into_iter().collect() });
        bench.run(&format!("sum 1M axis {axis}"), Rate::Bytes(4 * MILLION), || {
            launch(&sum, &[&a], &shape.into())
        })?;
        let max = Primitive::Reduce(Reduce { op: ReduceOp::Max, axes: [axis].into_iter().collect() });
        bench.run(&format!("max 1M axis {axis}"), Rate::Bytes(4 * MILLION), || {
            launch(&max, &[&a], &shape.into())
        })?;
    }

    let million = Shape::from([1024, 1024]);
    let all = |columns: std::ops::Range<usize>| {
        [0..1024, columns].into_iter().map(|range| std::iter::once(range).collect()).collect()
    };
    for (name, distribution, dtype, columns) in [
        ("uniform 1M", Distribution::Uniform { low: -1.0, high: 1.0 }, DType::F32, 0..1024),
        ("uniform 1M, rows of 8", Distribution::Uniform { low: -1.0, high: 1.0 }, DType::F32, 0..8),
        ("uniform 1M bf16", Distribution::Uniform { low: -1.0, high: 1.0 }, DType::BF16, 0..1024),
        ("uniform 1M f64", Distribution::Uniform { low: -1.0, high: 1.0 }, DType::F64, 0..1024),
        ("normal 1M", Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F32, 0..1024),
        ("normal 1M f64", Distribution::Normal { mean: 0.0, std: 1.0 }, DType::F64, 0..1024),
        ("bernoulli 1M", Distribution::Bernoulli { p: 0.1 }, DType::Bool, 0..1024),
    ] {
        let (key, whole) = (RandomKey::new(42), million.clone());
        let random = Random { distribution, key, whole, region: all(columns), dtype };
        let shape = random.shape();
        let mut outputs = [CpuBackend.alloc(Device::cpu(), dtype, &shape)?];
        let drawn = Primitive::Random(random);
        bench.run(name, Rate::Bytes(dtype.size() * shape.elements()), || {
            let work =
                Work { op: "bench", device: Device::cpu(), inputs: &[], outputs: black_box(&mut outputs) };
            CpuBackend.launch(black_box(&drawn), &mut [work])
        })?;
    }

    let scores = array(&[12 * 128, 128])?;
    let softmax = Primitive::Fused(FusedOp::Softmax { axis: 1 });
    let bytes = 8 * scores.elements();
    bench.run("softmax [1536, 128]", Rate::Bytes(bytes), || launch(&softmax, &[&scores], scores.shape()))?;
    let (rows, gamma) = (array(&[128, 384])?, array(&[384])?);
    let norm = Primitive::Fused(FusedOp::LayerNorm { eps: 1e-12 });
    let bytes = 8 * rows.elements();
    bench.run("layer_norm [128, 384]", Rate::Bytes(bytes), || {
        launch(&norm, &[&rows, &gamma, &gamma], rows.shape())
    })?;

    for (name, [b, h, l, e], causal) in [
        ("attention 1x16", [1, 12, 16, 32], None),
        ("attention 8x64", [8, 12, 64, 32], None),
        ("attention 32x128", [32, 12, 128, 32], None),
        ("attention 1 query of 4096", [1, 16, 1, 64], None),
        ("attention 4096 16x64", [1, 16, 4096, 64], None),
        ("attention 4096 16x64 causal", [1, 16, 4096, 64], Some(0)),
    ] {
        let keys = if l == 1 { 4096 } else { l };
        let heads =
            |tokens: usize| -> Result<LocalArray> { Ok(array(&[b, tokens, h, e])?.permute(&[0, 2, 1, 3])) };
        let (q, k, v) = (heads(l)?, heads(keys)?, heads(keys)?);
        let mask = array(&[b, 1, 1, keys])?;
        let scale = 1.0 / (e as f64).sqrt();
        let op = Primitive::Fused(FusedOp::Attention(Attention { scale, causal, parts: false }));
        let flops = 4 * b * h * l * keys * e / if causal.is_some() { 2 } else { 1 };
        bench.run(name, Rate::Flops(flops), || launch(&op, &[&q, &k, &v], q.shape()))?;
        if causal.is_none() {
            bench.run(&format!("{name} masked"), Rate::Flops(flops), || {
                launch(&op, &[&q, &k, &v, &mask], q.shape())
            })?;
        }
    }

    for (m, k, n) in [
        (64, 64, 64),
        (128, 384, 384),
        (128, 384, 1536),
        (128, 1536, 384),
        (512, 512, 512),
        (1024, 1024, 1024),
        (1, 384, 1536),
    ] {
        let (a, b) = (array(&[m, k])?, array(&[k, n])?);
        bench.run(&format!("dot {m}x{k}x{n}"), Rate::Flops(2 * m * k * n), || {
            launch(&Primitive::Dot, &[&a, &b], &[m, n].into())
        })?;
    }
    let (q, k) = (array(&[128, 12, 32])?.permute(&[1, 0, 2]), array(&[128, 12, 32])?.permute(&[1, 2, 0]));
    bench.run("dot 12 heads 128x32x128", Rate::Flops(2 * 12 * 128 * 32 * 128), || {
        launch(&Primitive::Dot, &[&q, &k], &[12, 128, 128].into())
    })?;

    let permute = Primitive::Copy(IndexMap::permute(&Shape::from([128, 12, 32]), &[1, 0, 2]));
    let heads = array(&[128, 12, 32])?;
    bench.run("permute [128, 12, 32]", Rate::Bytes(8 * heads.elements()), || {
        launch(&permute, &[&heads], &[12, 128, 32].into())
    })?;
    let transpose = Primitive::Copy(IndexMap::permute(a.shape(), &[1, 0]));
    bench.run("transpose 1M", Rate::Bytes(8 * MILLION), || launch(&transpose, &[&a], a.shape()))?;
    let table = array(&[30522, 384])?;
    let mut ids = CpuBackend.alloc(Device::cpu(), DType::I64, &[128].into())?;
    let list: Vec<i64> = (0..128).map(|i| i * 7919 % 30522).collect();
    CpuBackend.write(&i64::to_bytes(&list), &mut ids)?;
    let gather = Primitive::Gather(Gather { axis: 0, base: 0, bound: 30522 });
    bench.run("gather 128 of [30522, 384]", Rate::Bytes(8 * 128 * 384), || {
        launch(&gather, &[&table, &ids], &[128, 384].into())
    })
}
