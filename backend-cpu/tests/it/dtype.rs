//! Conversions between dtypes, against the crate `half` and Rust's `as`.

use crate::support::{array, launch, values};
use proptest::prelude::*;
use sharding_core::backend::{BinaryOp, Expr, Iota, Primitive, Reduce};
use sharding_core::half::{bf16, f16};
use sharding_core::{DType, Element, ReduceOp, Scalar};

fn cast<T: Element, R: Element>(x: &[T]) -> Vec<R> {
    let expr = Expr::cast(R::DTYPE, Expr::input(0));
    let input = array([x.len()], x);
    values(&launch(&Primitive::Map(expr), &[&input], R::DTYPE, input.shape()).unwrap())
}

/// Every half is the f32 that the crate says, and comes back.
#[test]
fn every_half_is_its_f32() {
    let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
    for (x, wide) in all.iter().zip(cast::<f16, f32>(&all)) {
        assert!(wide.to_bits() == x.to_f32().to_bits() || wide.is_nan() && x.is_nan(), "{x:?} {wide}");
    }
    for (x, back) in all.iter().zip(cast::<f32, f16>(&cast::<f16, f32>(&all))) {
        assert!(back.to_bits() == x.to_bits() || back.is_nan() && x.is_nan(), "{x:?} {back:?}");
    }
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    for (x, wide) in all.iter().zip(cast::<bf16, f32>(&all)) {
        assert!(wide.to_bits() == x.to_f32().to_bits() || wide.is_nan() && x.is_nan(), "{x:?} {wide}");
    }
    for (x, back) in all.iter().zip(cast::<f32, bf16>(&cast::<bf16, f32>(&all))) {
        assert!(back.to_bits() == x.to_bits() || back.is_nan() && x.is_nan(), "{x:?} {back:?}");
    }
}

/// A number is rounded to one of its two neighbours, to the nearer one, of two equally near ones to the even one.
fn is_nearest(x: f64, got: f64, below: f64, above: f64, even: bool) -> bool {
    let (down, up) = ((got - below).abs(), (above - got).abs());
    let off = (got - x).abs();
    let half = if x > got { up / 2.0 } else { down / 2.0 };
    off < half || off == 0.0 || (off == half && even)
}

fn check_f16(x: f64, got: f16) {
    // 65520 lies in the middle of the greatest number and the one that would follow.
    if x.is_nan() || x.abs() >= 65520.0 {
        assert!(got.is_nan() && x.is_nan() || got == f16::INFINITY.copysign(f16::from_f64(x)), "{x} {got}");
        return;
    }
    let bits = got.to_bits() & 0x7fff;
    let at = |bits: u16| if bits == 0x7c00 { 65536.0 } else { f16::from_bits(bits).to_f64() };
    let below = if bits == 0 { -at(1) } else { at(bits - 1) };
    assert!(is_nearest(x.abs(), at(bits), below, at(bits + 1), bits.is_multiple_of(2)), "{x:e} became {got}");
    assert_eq!(got.is_sign_negative(), x.is_sign_negative(), "{x}");
}

fn check_bf16(x: f64, got: bf16) {
    if x.is_nan() || x.abs() > 3.389e38 {
        assert!(got.is_nan() || got.is_infinite() || x.abs() < 3.3962e38, "{x} {got}");
        return;
    }
    let bits = got.to_bits() & 0x7fff;
    let at = |bits: u16| bf16::from_bits(bits).to_f64();
    let below = if bits == 0 { -at(1) } else { at(bits - 1) };
    assert!(is_nearest(x.abs(), at(bits), below, at(bits + 1), bits.is_multiple_of(2)), "{x:e} became {got}");
    assert_eq!(got.is_sign_negative(), x.is_sign_negative(), "{x}");
}

/// Numbers of every size, many of them at or beside the middle of two halves.
fn numbers() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        any::<f32>().prop_map(f64::from),
        (0..0x7c00_u16, -1..=1_i64).prop_map(|(bits, step)| {
            let middle = (f16::from_bits(bits).to_f64() + f16::from_bits(bits + 1).to_f64()) / 2.0;
            f64::from_bits((middle.to_bits() as i64 + step) as u64)
        }),
        (1..0x7f00_u16, -1..=1_i64).prop_map(|(bits, step)| {
            let middle = (bf16::from_bits(bits).to_f64() + bf16::from_bits(bits + 1).to_f64()) / 2.0;
            f64::from_bits((middle.to_bits() as i64 + step) as u64)
        }),
        -70000.0..70000.0_f64,
    ]
}

proptest! {
    #[test]
    fn numbers_become_the_nearest_half(x in prop::collection::vec(numbers(), 1..60)) {
        let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        for (x, got) in x.iter().zip(cast::<f64, f16>(&x)) { check_f16(*x, got); }
        for (x, got) in x.iter().zip(cast::<f64, bf16>(&x)) { check_bf16(*x, got); }
        for (x, got) in single.iter().zip(cast::<f32, f16>(&single)) { check_f16((*x).into(), got); }
        for (x, got) in single.iter().zip(cast::<f32, bf16>(&single)) { check_bf16((*x).into(), got); }
    }

    #[test]
    fn casts_are_those_of_rust(x in prop::collection::vec(numbers(), 1..60), i in prop::collection::vec(any::<i64>(), 1..60)) {
        let single: Vec<f32> = x.iter().map(|x| *x as f32).collect();
        macro_rules! all {
            ($($type:ty),*) => {$(
                prop_assert_eq!(cast::<f64, $type>(&x), x.iter().map(|x| *x as $type).collect::<Vec<_>>());
                prop_assert_eq!(cast::<f32, $type>(&single), single.iter().map(|x| *x as $type).collect::<Vec<_>>());
                let own: Vec<$type> = i.iter().map(|i| *i as $type).collect();
                prop_assert_eq!(cast::<i64, $type>(&i), own.clone());
                prop_assert_eq!(cast::<$type, i64>(&own), own.iter().map(|x| *x as i64).collect::<Vec<_>>());
                prop_assert_eq!(cast::<$type, u8>(&own), own.iter().map(|x| *x as u8).collect::<Vec<_>>());
                prop_assert_eq!(cast::<$type, u64>(&own), own.iter().map(|x| *x as u64).collect::<Vec<_>>());
                prop_assert_eq!(cast::<$type, f64>(&own), own.iter().map(|x| *x as f64).collect::<Vec<_>>());
                prop_assert_eq!(cast::<$type, f32>(&own), own.iter().map(|x| *x as f32).collect::<Vec<_>>());
            )*};
        }
        all!(i8, i16, i32, i64, u8, u16, u32, u64);
    }
}

/// Integers of every size, many at or beside the middle of two numbers of bf16, which f64 does not tell apart.
fn integers() -> impl Strategy<Value = i128> {
    prop_oneof![
        any::<i64>().prop_map(i128::from),
        any::<u64>().prop_map(i128::from),
        (0..56_u32, 0..128_i128, -1..=1_i128, prop::bool::ANY).prop_map(|(shift, digits, step, negative)| {
            let beside = ((257 + 2 * digits) << shift) + step;
            if negative { -beside } else { beside }
        }),
        -70_000..70_000_i128,
    ]
}

/// The bf16 nearest to an integer, by whole numbers only.
fn check_bf16_of_integer(x: i128, got: bf16) {
    let whole = |bits: u16| f32::from_bits(u32::from(bits) << 16) as i128;
    let (size, bits) = (x.abs(), got.to_bits() & 0x7fff);
    if size < 256 {
        return assert_eq!(f32::from(got) as i128, x);
    }
    let (below, at, above) = (whole(bits - 1), whole(bits), whole(bits + 1));
    let (off, half) = (2 * (size - at).abs(), if size > at { above - at } else { at - below });
    assert!(off < half || off == half && bits.is_multiple_of(2), "{x} became {got}");
    assert_eq!(got.is_sign_negative(), x < 0, "{x}");
}

proptest! {
    #[test]
    fn integers_become_the_nearest_half(x in prop::collection::vec(integers(), 1..60)) {
        let signed: Vec<i64> = x.iter().map(|x| *x as i64).collect();
        let unsigned: Vec<u64> = x.iter().map(|x| *x as u64).collect();
        for (x, got) in signed.iter().zip(cast::<i64, bf16>(&signed)) { check_bf16_of_integer((*x).into(), got); }
        for (x, got) in unsigned.iter().zip(cast::<u64, bf16>(&unsigned)) { check_bf16_of_integer((*x).into(), got); }
        for (x, got) in signed.iter().zip(cast::<i64, f16>(&signed)) { check_f16(*x as f64, got); }
        for (x, got) in unsigned.iter().zip(cast::<u64, f16>(&unsigned)) { check_f16(*x as f64, got); }
        for x in signed {
            let constant = Scalar::Int(x).to_bytes(DType::BF16).unwrap();
            check_bf16_of_integer(x.into(), bf16::from_ne_bytes([constant[0], constant[1]]));
        }
    }
}

/// A chain on halves is computed in f32 and rounded once: 60000 * 3 / 3 does not overflow; a cast on the way rounds.
#[test]
fn a_chain_is_rounded_once() {
    let x = array([2], &[f16::from_f32(60000.0), f16::from_f32(0.1)]);
    let three = || Expr::constant(3.0, DType::F16);
    let there = Expr::binary(BinaryOp::Mul, Expr::input(0), three());
    let run = |expr| values::<f16>(&launch(&Primitive::Map(expr), &[&x], DType::F16, x.shape()).unwrap());
    let through = run(Expr::binary(BinaryOp::Div, there.clone(), three()));
    assert_eq!(through, [60000.0, 0.1].map(f16::from_f32));
    let stopped = run(Expr::binary(BinaryOp::Div, Expr::cast(DType::F16, there), three()));
    assert_eq!(stopped[0], f16::INFINITY);
}

/// Sums of halves are kept in f32, along rows, columns and in blocks; integers wrap.
#[test]
fn sums_are_kept_in_the_accumulator() {
    let sum = |x: &sharding_core::backend::LocalArray, axes: &[usize], shape: &[usize]| {
        let primitive = Primitive::Reduce(Reduce { op: ReduceOp::Sum, axes: axes.into() });
        launch(&primitive, &[x], x.dtype(), &shape.into()).unwrap()
    };
    let (rows, columns) = (3000, 5);
    let ones = vec![bf16::ONE; rows * columns];
    let x = array([rows, columns], &ones);
    let want = bf16::from_f32(3000.0);
    assert_eq!(values::<bf16>(&sum(&x, &[0], &[1, columns])), vec![want; columns]);
    assert_eq!(values::<bf16>(&sum(&x.permute(&[1, 0]), &[1], &[columns, 1])), vec![want; columns]);
    assert_eq!(values::<bf16>(&sum(&x, &[0, 1], &[1, 1])), [bf16::from_f32(15000.0)]);
    let bytes = array([300], &[1_u8; 300]);
    assert_eq!(values::<u8>(&sum(&bytes, &[0], &[1])), [44]);
}

/// What comes from outside is 0 or 1, and numbers above `i64::MAX` keep their value.
#[test]
fn the_ends_are_kept() {
    assert_eq!(cast::<u64, u64>(&[u64::MAX, 1 << 63]), [u64::MAX, 1 << 63]);
    let fill = Primitive::Map(Expr::constant(Scalar::UInt(u64::MAX), DType::U64));
    assert_eq!(values::<u64>(&launch(&fill, &[], DType::U64, &[2].into()).unwrap()), [u64::MAX; 2]);
    let count = Iota { axis: 0, start: 250.0, step: 3.0, first: 0, dtype: DType::U8 };
    let counted = launch(&Primitive::Iota(count), &[], DType::U8, &[4].into()).unwrap();
    assert_eq!(values::<u8>(&counted), [250, 253, 0, 3]);
}
