//! The dtypes: their arithmetic, elementwise functions and conversions.
//!
//! A new dtype is an arm of [`with_dtype`], a variant of `Buffer` and `Value`, and an implementation of [`Item`].

use crate::device::vectorize;
use crate::map::{Lane, Room, Value};
use crate::storage::{Buffer, Data};
use bytemuck::NoUninit;
use sharding_core::backend::{BinaryOp, UnaryOp};
use sharding_core::{Element, ReduceOp, Scalar};
use std::mem::MaybeUninit;

/// Runs a body with `$T` as the Rust type of a dtype; returns an error from the function for a dtype that is not here.
macro_rules! with_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            sharding_core::DType::Bool => {
                type $T = bool;
                $body
            }
            sharding_core::DType::I64 => {
                type $T = i64;
                $body
            }
            sharding_core::DType::F32 => {
                type $T = f32;
                $body
            }
            other => return Err($crate::storage::unsupported(format_args!("the dtype {other}"))),
        }
    };
}
pub(crate) use with_dtype;

/// A place that takes an element: defined already, or not yet.
pub(crate) trait Slot<T>: Send {
    /// Puts the element there.
    fn put(&mut self, value: T);
}
impl<T: Item> Slot<T> for T {
    #[inline(always)]
    fn put(&mut self, value: T) {
        *self = value;
    }
}
impl<T: Send> Slot<T> for MaybeUninit<T> {
    #[inline(always)]
    fn put(&mut self, value: T) {
        self.write(value);
    }
}

/// The element of a dtype and what can be done with it.
pub(crate) trait Item: Element + NoUninit + PartialOrd {
    /// The value of cleared memory, and of rows that are not there.
    const ZERO: Self;

    /// The elements of a buffer of this dtype.
    fn data(buffer: &Buffer) -> Option<&Data<Self>>;
    /// The elements of a buffer of this dtype, to be written.
    fn data_mut(buffer: &mut Buffer) -> Option<&mut Data<Self>>;
    /// A buffer of these elements.
    fn wrap(data: Data<Self>) -> Buffer;
    /// The operand, if it is of this dtype.
    fn lane<'a>(value: &Value<'a>) -> Option<Lane<'a, Self>>;
    /// An operand of this dtype.
    fn value(lane: Lane<'_, Self>) -> Value<'_>;
    /// Takes `len` elements out of the room.
    fn take<'a>(room: &mut Room<'a>, len: usize) -> Option<&'a mut [Self]>;

    /// One element from its bytes in native order.
    fn from_native(bytes: &[u8]) -> Self;
    /// A number as this dtype, where it keeps its meaning.
    fn from_scalar(value: Scalar) -> Option<Self> {
        value.to_bytes(Self::DTYPE).map(|bytes| Self::from_native(&bytes))
    }

    /// The sum, wrapping; `or` for bool.
    fn plus(a: Self, b: Self) -> Self;
    /// The product, wrapping; `and` for bool.
    fn times(a: Self, b: Self) -> Self;
    /// The greater; NaN if either is NaN, 0 of -0 and 0.
    fn greater(a: Self, b: Self) -> Self;
    /// The lesser; NaN if either is NaN, -0 of -0 and 0.
    fn lesser(a: Self, b: Self) -> Self;

    /// Whether [`unary`](Self::unary) knows the function.
    fn has_unary(op: UnaryOp) -> bool;
    /// A function of one number, on a lane as long as `out`; false if the dtype has no such function.
    fn unary(op: UnaryOp, x: Lane<'_, Self>, out: &mut [MaybeUninit<Self>]) -> bool;
    /// Whether [`binary`](Self::binary) knows the function.
    fn has_binary(op: BinaryOp) -> bool;
    /// A function of two numbers, on lanes as long as `out`; false if the dtype has no such function.
    fn binary(op: BinaryOp, a: Lane<'_, Self>, b: Lane<'_, Self>, out: &mut [MaybeUninit<Self>]) -> bool;
    /// A comparison of operands of one dtype, if this one is bool; false if the op is none.
    fn compare(_op: BinaryOp, _a: &Value<'_>, _b: &Value<'_>, _out: &mut [MaybeUninit<Self>]) -> bool {
        false
    }
    /// Whether every element can be divided by.
    fn can_divide(_by: Lane<'_, Self>) -> bool {
        true
    }
    /// An operand of any dtype converted as Rust's `as` does; to bool, whether it is not 0.
    fn cast(x: &Value<'_>, out: &mut [MaybeUninit<Self>]);
}

/// What every implementation of [`Item`] says alike.
macro_rules! item {
    ($variant:ident, $room:ident) => {
        fn data(buffer: &Buffer) -> Option<&Data<Self>> {
            if let Buffer::$variant(data) = buffer { Some(data) } else { None }
        }
        fn data_mut(buffer: &mut Buffer) -> Option<&mut Data<Self>> {
            if let Buffer::$variant(data) = buffer { Some(data) } else { None }
        }
        fn wrap(data: Data<Self>) -> Buffer {
            Buffer::$variant(data)
        }
        fn lane<'a>(value: &Value<'a>) -> Option<Lane<'a, Self>> {
            if let Value::$variant(lane) = value { Some(*lane) } else { None }
        }
        fn value(lane: Lane<'_, Self>) -> Value<'_> {
            Value::$variant(lane)
        }
        fn take<'a>(room: &mut Room<'a>, len: usize) -> Option<&'a mut [Self]> {
            let (taken, rest) = std::mem::take(&mut room.$room).split_at_mut_checked(len)?;
            room.$room = rest;
            Some(taken)
        }
    };
}

/// The functions of one number that a dtype has.
macro_rules! unary {
    ($($op:ident => $function:expr),*) => {
        fn has_unary(op: UnaryOp) -> bool {
            matches!(op, $(UnaryOp::$op)|*)
        }
        fn unary(op: UnaryOp, x: Lane<'_, Self>, out: &mut [MaybeUninit<Self>]) -> bool {
            match op {
                $(UnaryOp::$op => apply(x, out, $function),)*
                _ => return false,
            }
            true
        }
    };
}

/// The functions of two numbers that a dtype has.
macro_rules! binary {
    ($($op:ident => $function:expr),*) => {
        fn has_binary(op: BinaryOp) -> bool {
            matches!(op, $(BinaryOp::$op)|*)
        }
        fn binary(
            op: BinaryOp,
            a: Lane<'_, Self>,
            b: Lane<'_, Self>,
            out: &mut [MaybeUninit<Self>],
        ) -> bool {
            match op {
                $(BinaryOp::$op => zip(a, b, out, $function),)*
                _ => return false,
            }
            true
        }
    };
}

/// The conversions to a dtype from every dtype.
macro_rules! cast {
    ($($variant:ident => $function:expr),*) => {
        fn cast(x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
            match *x {
                $(Value::$variant(x) => apply(x, out, $function),)*
            }
        }
    };
}

impl Item for f32 {
    const ZERO: Self = 0.0;
    item!(F32, floats);
    fn from_native(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0.0, Self::from_ne_bytes)
    }
    #[inline(always)]
    fn plus(a: Self, b: Self) -> Self {
        a + b
    }
    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        a * b
    }
    #[inline(always)]
    fn greater(a: Self, b: Self) -> Self {
        // Equal numbers differ at most in the sign of 0, which `and` drops.
        let same = Self::from_bits(a.to_bits() & b.to_bits());
        let other = if a > b || a.is_nan() { a } else { b };
        if a == b { same } else { other }
    }
    #[inline(always)]
    fn lesser(a: Self, b: Self) -> Self {
        let same = Self::from_bits(a.to_bits() | b.to_bits());
        let other = if a < b || a.is_nan() { a } else { b };
        if a == b { same } else { other }
    }
    unary!(
        Neg => |x| -x,
        Abs => f32::abs,
        Exp => exp,
        Log => log,
        Sqrt => f32::sqrt,
        Rsqrt => |x| 1.0 / x.sqrt(),
        Tanh => tanh,
        Erf => erf
    );
    binary!(
        Add => |a, b| a + b,
        Sub => |a, b| a - b,
        Mul => |a, b| a * b,
        Div => |a, b| a / b,
        Max => Self::greater,
        Min => Self::lesser
    );
    cast!(
        F32 => |x| x,
        I64 => |x| x as f32,
        Bool => |x| f32::from(u8::from(x))
    );
}

impl Item for i64 {
    const ZERO: Self = 0;
    item!(I64, ints);
    fn from_native(bytes: &[u8]) -> Self {
        bytes.try_into().map_or(0, Self::from_ne_bytes)
    }
    #[inline(always)]
    fn plus(a: Self, b: Self) -> Self {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        a.wrapping_mul(b)
    }
    #[inline(always)]
    fn greater(a: Self, b: Self) -> Self {
        a.max(b)
    }
    #[inline(always)]
    fn lesser(a: Self, b: Self) -> Self {
        a.min(b)
    }
    unary!(
        Neg => i64::wrapping_neg,
        Abs => i64::wrapping_abs
    );
    binary!(
        Add => Self::plus,
        Sub => i64::wrapping_sub,
        Mul => Self::times,
        // `can_divide` has been asked: 0 is only for the compiler.
        Div => |a, b| if b == 0 { 0 } else { a.wrapping_div(b) },
        Max => Self::greater,
        Min => Self::lesser
    );
    fn can_divide(by: Lane<'_, Self>) -> bool {
        match by {
            Lane::Slice(by) => !by.contains(&0),
            Lane::Splat(by) => by != 0,
        }
    }
    cast!(
        F32 => |x| x as i64,
        I64 => |x| x,
        Bool => i64::from
    );
}

impl Item for bool {
    const ZERO: Self = false;
    item!(Bool, bools);
    fn from_native(bytes: &[u8]) -> Self {
        bytes.iter().any(|byte| *byte != 0)
    }
    #[inline(always)]
    fn plus(a: Self, b: Self) -> Self {
        a | b
    }
    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        a & b
    }
    #[inline(always)]
    fn greater(a: Self, b: Self) -> Self {
        a | b
    }
    #[inline(always)]
    fn lesser(a: Self, b: Self) -> Self {
        a & b
    }
    unary!(Not => |x: bool| !x);
    binary!(
        And => |a, b| a & b,
        Or => |a, b| a | b,
        Max => Self::greater,
        Min => Self::lesser
    );
    fn compare(op: BinaryOp, a: &Value<'_>, b: &Value<'_>, out: &mut [MaybeUninit<Self>]) -> bool {
        match (*a, *b) {
            (Value::Bool(a), Value::Bool(b)) => compare(op, a, b, out),
            (Value::I64(a), Value::I64(b)) => compare(op, a, b, out),
            (Value::F32(a), Value::F32(b)) => compare(op, a, b, out),
            _ => false,
        }
    }
    cast!(
        F32 => |x| x != 0.0,
        I64 => |x| x != 0,
        Bool => |x| x
    );
}

/// `out[i] = f(x[i])` for every element, vectorised.
#[inline]
pub(crate) fn apply<T: Copy, R: Copy>(x: Lane<'_, T>, out: &mut [MaybeUninit<R>], f: impl Fn(T) -> R) {
    match x {
        // A loop, not `for_each`: its closure would be a call of its own where `f` is long.
        Lane::Slice(x) => vectorize(
            #[inline(always)]
            || {
                for (slot, x) in out.iter_mut().zip(x) {
                    slot.write(f(*x));
                }
            },
        ),
        Lane::Splat(x) => out.fill(MaybeUninit::new(f(x))),
    }
}

/// `out[i] = f(a[i], b[i])` for every element, vectorised.
#[inline]
pub(crate) fn zip<T: Copy, R: Copy>(
    a: Lane<'_, T>,
    b: Lane<'_, T>,
    out: &mut [MaybeUninit<R>],
    f: impl Fn(T, T) -> R,
) {
    match (a, b) {
        (Lane::Slice(a), Lane::Slice(b)) => vectorize(
            #[inline(always)]
            || {
                for ((slot, a), b) in out.iter_mut().zip(a).zip(b) {
                    slot.write(f(*a, *b));
                }
            },
        ),
        (a, Lane::Splat(b)) => apply(
            a,
            out,
            #[inline(always)]
            |a| f(a, b),
        ),
        (Lane::Splat(a), b) => apply(
            b,
            out,
            #[inline(always)]
            |b| f(a, b),
        ),
    }
}

/// Comparison of two operands of one dtype; false if the op is none.
fn compare<T: Item>(op: BinaryOp, a: Lane<'_, T>, b: Lane<'_, T>, out: &mut [MaybeUninit<bool>]) -> bool {
    match op {
        BinaryOp::Eq => zip(a, b, out, |a, b| a == b),
        BinaryOp::Lt => zip(a, b, out, |a, b| a < b),
        BinaryOp::Le => zip(a, b, out, |a, b| a <= b),
        _ => return false,
    }
    true
}

/// How two elements combine; see [`ReduceOp`].
pub(crate) trait Fold: Copy + Send + Sync {
    /// The op.
    const OP: ReduceOp;
    /// Combines two elements.
    fn fold<T: Item>(a: T, b: T) -> T;
    /// The value that changes nothing.
    fn identity<T: Item>() -> T {
        T::from_scalar(Self::OP.identity(T::DTYPE)).unwrap_or(T::ZERO)
    }
}

macro_rules! folds {
    ($($name:ident: $function:ident),*) => {$(
        /// See [`Fold`].
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Fold for $name {
            const OP: ReduceOp = ReduceOp::$name;
            #[inline(always)]
            fn fold<T: Item>(a: T, b: T) -> T {
                T::$function(a, b)
            }
        }
    )*};
}
folds!(Sum: plus, Prod: times, Max: greater, Min: lesser);

/// Runs a body with `$F` as the [`Fold`] of a [`ReduceOp`].
macro_rules! with_fold {
    ($op:expr, $F:ident => $body:expr) => {
        match $op {
            sharding_core::ReduceOp::Sum => {
                type $F = $crate::element::Sum;
                $body
            }
            sharding_core::ReduceOp::Prod => {
                type $F = $crate::element::Prod;
                $body
            }
            sharding_core::ReduceOp::Max => {
                type $F = $crate::element::Max;
                $body
            }
            sharding_core::ReduceOp::Min => {
                type $F = $crate::element::Min;
                $body
            }
        }
    };
}
pub(crate) use with_fold;

// Elementary functions of f32 without branches, so that loops over them vectorise, and without fused products, so that
// every instruction set gives the same bits. The polynomials are weighted minimax fits made for this crate; the
// reductions of the argument are the usual ones (Cody and Waite, "Software Manual for the Elementary Functions", 1980).

/// `c[0] + c[1] x + ..`, by Horner's rule.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    c.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// ln 2 in two parts, the first with few bits: its product with a small integer is exact.
const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);

/// `e^x` within 2 units in the last place; also where the result is subnormal.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these the result is infinite or 0; NaN passes through both comparisons.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2.0) - n * LN2.1;
    let q = polynomial(r, [0.499_999_94, 0.166_665_15, 0.041_668_456, 0.008_369_411, 0.001_381_316]);
    let e = 1.0 + (r + r * r * q);
    // 2^n may leave the range of normal numbers, its halves do not.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |k: i32| f32::from_bits((k.wrapping_add(127) as u32) << 23);
    e * power(half) * power(n.wrapping_sub(half))
}

/// The natural logarithm within 2 units in the last place.
#[inline(always)]
fn log(x: f32) -> f32 {
    // Subnormal numbers are scaled into the normal range.
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits();
    // The mantissa is taken from [sqrt(1/2), sqrt(2)), where the series converges fastest.
    let shift = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shift as i32 >> 23) - if tiny { 23 } else { 0 };
    let m = f32::from_bits((shift & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let (r, e) = (m - 1.0, exponent as f32);
    let p = polynomial(
        r,
        [
            0.333_333_13,
            -0.250_000_1,
            0.200_021_19,
            -0.166_679_96,
            0.142_195_45,
            -0.124_055_736,
            0.118_882_09,
            -0.116_757_72,
            0.067_466_84,
        ],
    );
    let z = r * r;
    let y = r * z * p + e * LN2.1 - 0.5 * z;
    let y = r + y + e * LN2.0;
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 || x.is_nan() { f32::NAN } else { y }
}

/// The hyperbolic tangent within 2 units in the last place.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let (a, s) = (x.abs(), x * x);
    let p = polynomial(s, [-0.333_332_75, 0.133_312_75, -0.053_725_123, 0.020_589_817, -0.005_648_307_5]);
    let near = x + x * s * p;
    let far = (1.0 - 2.0 / (exp(2.0 * a) + 1.0)).copysign(x);
    if a < 0.625 { near } else { far }
}

/// The error function within 2 units in the last place.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let (a, s) = (x.abs(), x * x);
    // erf(x) / x - 1: what is added to x is small, and so is its rounding.
    let near = polynomial(
        s,
        [
            0.128_379_17,
            -0.376_126_26,
            0.112_835_854,
            -0.026_853_81,
            0.005_188_327_7,
            -0.000_801_019_25,
            0.000_078_538_58,
        ],
    );
    // -ln(erfc(a)), a smooth function up to 4, from where on the result is 1.
    let b = if a > 4.0 { 4.0 } else { a };
    let q = polynomial(
        b,
        [
            0.000_256_436_64,
            1.127_426_1,
            0.637_599_95,
            0.103_566_95,
            -0.022_052_03,
            0.002_999_549,
            -0.000_191_505_04,
        ],
    );
    let far = (1.0 - exp(-q)).copysign(x);
    if a < 1.0 { x + x * near } else { far }
}
