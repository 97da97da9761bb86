//! Random tensors: the same on every placement and in every process, distributed as they say, and what is refused.

use proptest::prelude::*;
use sharding_core::placement::{Interleaved, Ragged};
use sharding_core::{
    BackendKind, DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, RandomKey, ReduceOp,
    Result, Scope, Tensor,
};
use sharding_ops::{bernoulli, cast, normal, uniform};

fn mesh(shape: &[usize]) -> DeviceMesh {
    let names: Vec<&str> = ["dp", "tp", "pp"].into_iter().take(shape.len()).collect();
    DeviceMesh::simulated(BackendKind::CPU, shape, names).unwrap()
}

fn one() -> DeviceMapping {
    DeviceMapping::replicated(&DeviceMesh::single(Device::cpu()))
}

/// One tensor of every op and dtype.
fn draw(shape: [usize; 3], key: RandomKey, mapping: &DeviceMapping) -> Result<Vec<Tensor>> {
    let mut drawn = vec![bernoulli(shape, 0.4, key, mapping)?];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        drawn.push(uniform(shape, -0.5..2.0, key, dtype, mapping)?);
        drawn.push(normal(shape, 1.0, 3.0, key, dtype, mapping)?);
    }
    Ok(drawn)
}

fn place(kind: u8, axis: usize, shape: [usize; 3], ways: usize, cut: usize) -> Place {
    let extent = shape[axis];
    match kind {
        0 | 1 => Place::Sharded(axis as u8),
        2 => {
            let mut sizes = vec![0; ways];
            sizes[cut % ways] = extent;
            Ragged::place(axis, sizes)
        }
        3 => Interleaved::place(axis, [cut.min(extent), extent - cut.min(extent)]),
        4 => Place::Partial([ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod][cut % 4]),
        _ => Place::Replicated,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_placement_has_the_same_numbers(
        shape in [0_usize..7, 1_usize..5, 0_usize..9],
        sizes in [1_usize..4, 1_usize..4],
        kinds in [0_u8..6, 0_u8..6],
        axes in [0_usize..3, 0_usize..3],
        cut in 0_usize..9,
        (seed, stream) in any::<(u64, u64)>(),
    ) {
        let key = RandomKey { seed, stream };
        let mesh = mesh(&sizes);
        let places = [0, 1].map(|i| place(kinds[i], axes[i], shape, sizes[i], cut));
        // A custom placement has its tensor axis for itself, and sums do not mix with maxima.
        let Ok(mapping) = DeviceMapping::new(&mesh, places) else { return Ok(()) };
        let want = draw(shape, key, &one()).unwrap();
        for (want, got) in want.iter().zip(draw(shape, key, &mapping).unwrap()) {
            prop_assert_eq!(got.layout().places(), places);
            prop_assert_eq!(got.to_bytes().unwrap(), want.to_bytes().unwrap(), "{}", got.layout());
        }
    }
}

#[test]
fn every_process_makes_its_own_piece() {
    // The whole in one process, and each half in a process of its own.
    let devices = |processes: [u32; 4]| {
        let all =
            processes.iter().enumerate().map(|(i, p)| Device::cpu().with_process(*p).with_slot(i as u32));
        DeviceMesh::new(&all.collect::<Vec<_>>(), [2, 2], ["dp", "tp"]).unwrap()
    };
    let places = [Place::Sharded(0), Place::Sharded(2)];
    let of =
        |mesh: &DeviceMesh| draw([5, 3, 7], 9.into(), &DeviceMapping::new(mesh, places).unwrap()).unwrap();
    let want = of(&devices([0; 4]));
    let apart = devices([0, 0, 1, 1]);
    for process in [0, 1] {
        let scope = (*Scope::current()).clone().with_process(process);
        let got = scope.clone().enter(|| of(&apart));
        for (want, got) in want.iter().zip(&got) {
            assert_eq!(**got.positions(), [2 * process as usize, 2 * process as usize + 1]);
            if got.dtype() == DType::F32 {
                for position in got.positions().iter() {
                    let shard = |x: &Tensor| x.shard_to_vec::<f32>(*position).unwrap();
                    assert_eq!(scope.clone().enter(|| shard(got)), shard(want));
                }
            }
        }
    }
}

/// Numbers of a seed are part of the contract: a program's results must not change with a release.
#[test]
fn the_numbers_of_a_seed_stay() {
    let key = RandomKey::new(42);
    let x = uniform([6], 0.0..1.0, key, DType::F32, &one()).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(x, [0.612_959_86, 0.468_586_5, 0.073_231_7, 0.340_861_5, 0.987_718_64, 0.327_063_32]);
    let x = normal([3], 0.0, 1.0, key, DType::F32, &one()).unwrap().to_vec::<f32>().unwrap();
    let want = [-0.287_041_9_f32, 1.860_414, 0.184_607_98];
    assert!(x.iter().zip(want).all(|(x, want)| (x - want).abs() <= 4.0 * f32::EPSILON * want.abs()), "{x:?}");
    let x = bernoulli([8], 0.5, key, &one()).unwrap().to_vec::<bool>().unwrap();
    assert_eq!(x, [false, true, true, true, false, true, false, true]);
}

#[test]
fn keys_give_numbers_that_differ() {
    let of =
        |key: RandomKey| uniform([64], 0.0..1.0, key, DType::F32, &one()).unwrap().to_vec::<f32>().unwrap();
    let key = RandomKey::new(1);
    let all = [key, 2.into(), key.with_stream(1), key.named("a"), key.named("b")].map(of);
    for (i, x) in all.iter().enumerate() {
        for y in &all[..i] {
            assert!(x.iter().zip(y).filter(|(x, y)| x == y).count() < 3);
        }
    }
}

/// The chance of each of `bins` equal ranges, as chi-square: with 99 degrees of freedom 60 to 150 is likely to 0.999.
fn chi_square(values: &[f64], bins: usize) -> f64 {
    let mut counts = vec![0.0; bins];
    values.iter().for_each(|value| counts[((value * bins as f64) as usize).min(bins - 1)] += 1.0);
    let want = values.len() as f64 / bins as f64;
    counts.iter().map(|count| (count - want) * (count - want) / want).sum()
}

fn doubles(x: &Tensor) -> Vec<f64> {
    cast(x, DType::F64).unwrap().to_vec::<f64>().unwrap()
}

/// Mean, variance, third and fourth moment.
fn moments(values: &[f64]) -> [f64; 4] {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let about = |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / n;
    [mean, about(2), about(3), about(4)]
}

const N: usize = 200_000;

#[test]
fn uniform_numbers_are_uniform() {
    for (seed, dtype) in [(1, DType::F32), (2, DType::F64), (3, DType::F16)] {
        let values = doubles(&uniform([N], 0.0..1.0, seed, dtype, &one()).unwrap());
        assert!(values.iter().all(|x| (0.0..1.0).contains(x)));
        let [mean, variance, third, fourth] = moments(&values);
        assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        assert!(third.abs() < 0.0005 && (fourth - 1.0 / 80.0).abs() < 0.0005, "{third} {fourth}");
        // f16 has too few numbers for as many bins of equal width.
        let chi = chi_square(&values, 100);
        assert!(dtype == DType::F16 || (60.0..150.0).contains(&chi), "{dtype}: {chi}");
        // Neighbours, and elements one row of 448 away, have nothing to do with each other.
        for lag in [1, 2, 4, 448] {
            let product = values.windows(lag + 1).map(|w| (w[0] - mean) * (w[lag] - mean)).sum::<f64>();
            let correlation = product / (N as f64 * variance);
            assert!(correlation.abs() < 0.01, "{dtype} {lag}: {correlation}");
        }
    }
}

#[test]
fn normal_numbers_are_normal() {
    for (seed, dtype) in [(4, DType::F32), (5, DType::F64), (6, DType::BF16)] {
        let values = doubles(&normal([N], 3.0, 2.0, seed, dtype, &one()).unwrap());
        let [mean, variance, third, fourth] = moments(&values);
        assert!((mean - 3.0).abs() < 0.02 && (variance - 4.0).abs() < 0.06, "{mean} {variance}");
        assert!((third / 8.0).abs() < 0.03 && (fourth / 16.0 - 3.0).abs() < 0.1, "{third} {fourth}");
        // The chances of quartiles and of two and three deviations.
        let share =
            |below: f64| values.iter().filter(|x| (**x - 3.0) / 2.0 < below).count() as f64 / N as f64;
        for (z, want) in [
            (-3.0, 0.00135),
            (-2.0, 0.02275),
            (-0.674_49, 0.25),
            (0.0, 0.5),
            (1.0, 0.841_34),
            (2.0, 0.977_25),
        ] {
            assert!((share(z) - want).abs() < 0.006, "{dtype} {z}: {}", share(z));
        }
    }
}

#[test]
fn truth_values_have_their_chance() {
    for p in [0.0, 1e-3, 0.25, 0.5, 0.999, 1.0] {
        let values = bernoulli([N], p, 7, &one()).unwrap().to_vec::<bool>().unwrap();
        let share = values.iter().filter(|value| **value).count() as f64 / N as f64;
        let most = 4.0 * (p * (1.0 - p) / N as f64).sqrt();
        assert!((share - p).abs() <= most, "{p}: {share}");
    }
}

/// bf16 has 8 bits: many of the numbers below 1 are nearest to 1.
#[test]
fn the_end_of_a_range_is_never_drawn() {
    for (dtype, range) in [
        (DType::BF16, 0.0..1.0),
        (DType::F16, -3.0..-1.0),
        (DType::F32, 1e6..1e6 + 1.0),
        (DType::F64, -1.0..0.0),
    ] {
        let values = doubles(&uniform([N], range.clone(), 8, dtype, &one()).unwrap());
        assert!(values.iter().all(|x| range.contains(x)), "{dtype}");
        // Where there are few numbers, the last of them is drawn.
        let greatest = values.iter().copied().fold(f64::MIN, f64::max);
        assert!(
            dtype.size() > 2 || range.end - greatest <= 2.0 * dtype.epsilon() * range.end.abs().max(1.0),
            "{dtype}: {greatest}"
        );
    }
}

#[test]
fn mistakes_are_named() {
    let all = one();
    let of = |result: Result<Tensor>| -> Error { result.unwrap_err() };
    let argument = [
        of(uniform([2], 1.0..1.0, 0, DType::F32, &all)),
        of(uniform([2], 2.0..1.0, 0, DType::F64, &all)),
        of(uniform([2], f64::NAN..1.0, 0, DType::F32, &all)),
        of(uniform([2], 0.0..1e6, 0, DType::F16, &all)),
        of(uniform([2], -3e38..3e38, 0, DType::F32, &all)),
        of(uniform([2], f64::MIN..f64::MAX, 0, DType::F64, &all)),
        // One number in bf16.
        of(uniform([2], 1.0..1.001, 0, DType::BF16, &all)),
        of(normal([2], 0.0, -1.0, 0, DType::F32, &all)),
        of(normal([2], 0.0, f64::NAN, 0, DType::F32, &all)),
        of(normal([2], f64::INFINITY, 1.0, 0, DType::F64, &all)),
        of(normal([2], 0.0, 2e4, 0, DType::F16, &all)),
        of(bernoulli([2], 1.5, 0, &all)),
        of(bernoulli([2], -0.0001, 0, &all)),
        of(bernoulli([2], f64::NAN, 0, &all)),
    ];
    for error in argument {
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        assert!(error.fix().is_some() && !error.operands().is_empty(), "{error}");
    }
    for error in
        [of(uniform([2], 0.0..1.0, 0, DType::I64, &all)), of(normal([2], 0.0, 1.0, 0, DType::Bool, &all))]
    {
        assert_eq!(error.kind(), ErrorKind::DType, "{error}");
    }
    let unknown = DeviceMapping::new(&mesh(&[2]), [Place::Unknown]).unwrap();
    assert_eq!(of(uniform([2], 0.0..1.0, 0, DType::F32, &unknown)).kind(), ErrorKind::Mapping);
    let beyond = DeviceMapping::new(&mesh(&[2]), [Place::Sharded(1)]).unwrap();
    assert!(of(bernoulli([2], 0.5, 0, &beyond)).op() == Some("bernoulli"));
}

#[test]
fn a_deviation_of_nothing_is_the_mean() {
    assert_eq!(normal([3], 1.5, 0.0, 3, DType::F32, &one()).unwrap().to_vec::<f32>().unwrap(), [1.5; 3]);
}
