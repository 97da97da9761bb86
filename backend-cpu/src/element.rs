//! The dtypes: how their elements lie in memory, what they are computed in, their arithmetic and conversions.
//!
//! There are three layers, so that code is compiled for few types:
//!
//! * **Memory** is [words](crate::storage::with_word) of 1, 2, 4 or 8 bytes: what only moves elements knows no more.
//! * **Computation** is in five *lanes* ([`Item`]): truth values, i64, u64, f32 and f64. The integers below 64 bits are
//!   computed as i64 and wrapped to their width after every step, f16 and bf16 as f32 and rounded where they are
//!   written.
//! * **Conversion** between the two is the only code for each of the eight [`Narrow`] dtypes.
//!
//! A new dtype that is computed in one of the lanes is an implementation of [`Narrow`] and an arm of [`kind`],
//! [`with_narrow`] and the conversions of its lane.

use crate::device::vectorize;
use crate::map::{Lane, Value, apply, zip};
use crate::memory::Beside;
use crate::storage::as_slots;
use bytemuck::{Pod, Zeroable, cast_slice};
use half::{bf16, f16};
use sharding_core::backend::{BinaryOp, UnaryOp};
use sharding_core::{DType, Result, Scalar};
use std::mem::MaybeUninit;

/// A Rust type as which the elements of a storage are read and written: an unsigned integer, or a number of its size of which
/// any bits are a value.
pub(crate) trait Cell: Pod + PartialEq + Send + Sync {}

macro_rules! cells {
    ($($type:ty),*) => {$(impl Cell for $type {})*};
}
cells!(u8, i8, Truth, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64);

/// A truth value in memory: not `bool`, of which only two bytes are values.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Pod, Zeroable)]
pub(crate) struct Truth(u8);

impl Truth {
    #[inline(always)]
    pub(crate) fn new(value: bool) -> Self {
        Self(u8::from(value))
    }
    /// Whether it is true.
    #[inline(always)]
    pub(crate) fn holds(self) -> bool {
        self.0 != 0
    }
}

/// What a dtype is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Truth,
    Int,
    UInt,
    Float,
    Double,
}

/// What a dtype is computed in.
///
/// # Errors
/// For a dtype that is not here.
pub(crate) fn kind(dtype: DType) -> Result<Kind> {
    Ok(match dtype {
        DType::Bool => Kind::Truth,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32 => Kind::Int,
        DType::U64 => Kind::UInt,
        DType::F16 | DType::BF16 | DType::F32 => Kind::Float,
        DType::F64 => Kind::Double,
        other => return Err(crate::storage::unsupported(format_args!("the dtype {other}"))),
    })
}

/// Whether the elements are converted before and after computing.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    !matches!(dtype, DType::Bool | DType::I64 | DType::U64 | DType::F32 | DType::F64)
}

/// Runs a body with `$T` as the [`Item`] in which a dtype is computed; returns an error from the function for a dtype
/// that is not here.
macro_rules! with_lane {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $crate::element::kind($dtype)? {
            $crate::element::Kind::Truth => {
                type $T = $crate::element::Truth;
                $body
            }
            $crate::element::Kind::Int => {
                type $T = i64;
                $body
            }
            $crate::element::Kind::UInt => {
                type $T = u64;
                $body
            }
            $crate::element::Kind::Float => {
                type $T = f32;
                $body
            }
            $crate::element::Kind::Double => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_lane;

/// Runs a body with `$S` as the [`Narrow`] type of a dtype; returns an error from the function for any other dtype.
macro_rules! with_narrow {
    ($dtype:expr, $S:ident => $body:expr) => {
        $crate::element::with_narrow!(
            @match $dtype, $S => $body; I8 i8, I16 i16, I32 i32, U8 u8, U16 u16, U32 u32, F16 half::f16, BF16 half::bf16
        )
    };
    (@match $dtype:expr, $S:ident => $body:expr; $($variant:ident $type:ty),*) => {
        match $dtype {
            $(sharding_core::DType::$variant => {
                type $S = $type;
                $body
            })*
            other => return Err($crate::storage::unsupported(format_args!("the dtype {other}"))),
        }
    };
}
pub(crate) use with_narrow;

/// A place that takes an element: defined already, or not yet.
pub(crate) trait Slot<T>: Send + Sized {
    /// Puts the element there.
    fn put(&mut self, value: T);
    /// Puts as many elements there as there are places, past the caches; see [`Beside`].
    fn put_beside(places: &mut [Self], values: &[T], beside: &Beside);
}
impl<T: Cell> Slot<T> for T {
    #[inline(always)]
    fn put(&mut self, value: T) {
        *self = value;
    }
    fn put_beside(places: &mut [Self], values: &[T], beside: &Beside) {
        // SAFETY: the copy puts nothing but values there.
        beside.copy(values, unsafe { as_slots(places) });
    }
}
impl<T: Cell> Slot<T> for MaybeUninit<T> {
    #[inline(always)]
    fn put(&mut self, value: T) {
        self.write(value);
    }
    fn put_beside(places: &mut [Self], values: &[T], beside: &Beside) {
        beside.copy(values, places);
    }
}

/// The element of a dtype that is converted to compute with it.
pub(crate) trait Narrow: Cell {
    /// What it is computed in; every element is one of it.
    type Lane: Item;
    /// The same number.
    fn load(self) -> Self::Lane;
    /// The number wrapped to this width, or rounded to the nearest, ties to even.
    fn store(lane: Self::Lane) -> Self;
}

macro_rules! narrow_integers {
    ($($type:ty),*) => {$(
        impl Narrow for $type {
            type Lane = i64;
            #[inline(always)]
            fn load(self) -> i64 {
                self.into()
            }
            #[inline(always)]
            fn store(lane: i64) -> Self {
                lane as Self
            }
        }
    )*};
}
narrow_integers!(i8, i16, i32, u8, u16, u32);

// Conversions by bits and without branches, so that loops over them vectorise on every machine; those of `half` ask for
// instructions at run time, one call for each element. The method for f16 is that of Marat Dukhan's "FP16" library.

impl Narrow for f16 {
    type Lane = f32;
    #[inline(always)]
    fn load(self) -> f32 {
        let word = u32::from(self.to_bits()) << 16;
        let (sign, twice) = (word & 0x8000_0000, word.wrapping_add(word));
        // Exponent and mantissa in their places of f32, the exponent too large by 112: 2^-112 mends it, infinities and
        // NaN stay what they are.
        let normal = f32::from_bits((twice >> 4).wrapping_add(0xe0 << 23)) * f32::from_bits(15 << 23);
        // A subnormal is its mantissa times 2^-24.
        let subnormal = f32::from_bits((twice >> 17) | (126 << 23)) - 0.5;
        let size = if twice < (1 << 27) { subnormal } else { normal };
        f32::from_bits(sign | size.to_bits())
    }
    #[inline(always)]
    fn store(lane: f32) -> Self {
        // Too large a number becomes infinite by the first factor; the second brings the others back to 4 times theirs.
        let scaled = lane.abs() * f32::from_bits(0x7780_0000) * f32::from_bits(0x0880_0000);
        let word = lane.to_bits();
        let (sign, twice) = (word & 0x8000_0000, word.wrapping_add(word));
        // Adding a power of two chosen by the exponent rounds at the last bit that f16 keeps.
        let bias = twice & 0xff00_0000;
        let bias = if bias < 0x7100_0000 { 0x7100_0000 } else { bias };
        let bits = (f32::from_bits((bias >> 1).wrapping_add(0x0780_0000)) + scaled).to_bits();
        let size = ((bits >> 13) & 0x7c00).wrapping_add(bits & 0x0fff);
        let size = if twice > 0xff00_0000 { 0x7e00 } else { size };
        f16::from_bits(((sign >> 16) | size) as u16)
    }
}

impl Narrow for bf16 {
    type Lane = f32;
    #[inline(always)]
    fn load(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn store(lane: f32) -> Self {
        let bits = lane.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        // Rounding could make an infinity of a NaN.
        let nan = (bits >> 16) | 0x40;
        bf16::from_bits(if lane.is_nan() { nan } else { rounded } as u16)
    }
}

/// An f64 as f32, rounded so that rounding the result once more, to f16 or bf16, is right: towards zero, the last bit set
/// if anything is lost ("rounding to odd").
#[inline(always)]
pub(crate) fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    // One step towards zero where the nearest is farther from it.
    let bits = near.to_bits().wrapping_sub(u32::from(back.abs() > x.abs()));
    f32::from_bits(bits | u32::from(back != x && !x.is_nan()))
}

/// [`to_odd`] of an integer: an f64 on the way would round it before, from 2^53 on. (The greatest integer passes for exact,
/// as 2^63 comes back as it; both become 2^63.)
#[inline(always)]
fn int_to_odd(x: i64) -> f32 {
    let near = x as f32;
    let back = near as i64;
    let bits = near.to_bits().wrapping_sub(u32::from(back.unsigned_abs() > x.unsigned_abs()));
    f32::from_bits(bits | u32::from(back != x))
}

/// The same for an unsigned one.
#[inline(always)]
fn uint_to_odd(x: u64) -> f32 {
    let near = x as f32;
    let back = near as u64;
    f32::from_bits(near.to_bits().wrapping_sub(u32::from(back > x)) | u32::from(back != x))
}

/// What is computed in, and what can be computed.
pub(crate) trait Item: Cell + PartialOrd {
    /// The dtype that lies in memory as it is computed in.
    const DTYPE: DType;
    /// The value of cleared memory, and of rows that are not there: what changes no sum.
    const ZERO: Self;
    /// What changes no product.
    const ONE: Self;
    /// What is no greater than any.
    const LOWEST: Self;
    /// What is no lesser than any.
    const HIGHEST: Self;

    /// The operand, if it is of this type.
    fn lane<'a>(value: &Value<'a>) -> Option<Lane<'a, Self>>;
    /// An operand of this type.
    fn value(lane: Lane<'_, Self>) -> Value<'_>;

    /// As many elements of a dtype as `out` takes, from the memory of a slice of its cells.
    fn load(dtype: DType, bytes: &[u8], out: &mut [Self]);
    /// Wraps or rounds elements to a dtype that is computed in this type.
    fn settle(dtype: DType, elements: &mut [Self]);
    /// A number as this type, where it keeps its meaning.
    fn from_scalar(value: Scalar) -> Option<Self> {
        value.to_bytes(Self::DTYPE).map(|bytes| bytemuck::pod_read_unaligned(&bytes))
    }

    /// The sum, wrapping; `or` for truth values.
    fn plus(a: Self, b: Self) -> Self;
    /// The product, wrapping; `and` for truth values.
    fn times(a: Self, b: Self) -> Self;
    /// The greater; NaN if either is NaN, 0 of -0 and 0.
    fn greater(a: Self, b: Self) -> Self;
    /// The lesser; NaN if either is NaN, -0 of -0 and 0.
    fn lesser(a: Self, b: Self) -> Self;

    /// Whether [`unary`](Self::unary) knows the function.
    fn has_unary(op: UnaryOp) -> bool;
    /// A function of one number, on a lane as long as `out`; false if the type has no such function.
    fn unary(op: UnaryOp, x: Lane<'_, Self>, out: &mut [MaybeUninit<Self>]) -> bool;
    /// Whether [`binary`](Self::binary) knows the function.
    fn has_binary(op: BinaryOp) -> bool;
    /// A function of two numbers, on lanes as long as `out`; false if the type has no such function.
    fn binary(op: BinaryOp, a: Lane<'_, Self>, b: Lane<'_, Self>, out: &mut [MaybeUninit<Self>]) -> bool;
    /// A comparison of operands of one type, if this one is [`Truth`]; false if the op is none.
    fn compare(_op: BinaryOp, _a: &Value<'_>, _b: &Value<'_>, _out: &mut [MaybeUninit<Self>]) -> bool {
        false
    }
    /// Whether every element can be divided by.
    fn can_divide(_by: Lane<'_, Self>) -> bool {
        true
    }
    /// An operand of any type converted to a dtype that is computed in this type, as Rust's `as` does; to bool, whether it
    /// is not 0. Integers are not wrapped yet, and floats not rounded: see [`settle`](Self::settle).
    fn cast(dtype: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]);
}

/// What every implementation of [`Item`] says alike: its dtype, its operand, and the narrow dtypes computed in it.
macro_rules! item {
    ($variant:ident: $($narrow:ident $type:ty),*) => {
        fn lane<'a>(value: &Value<'a>) -> Option<Lane<'a, Self>> {
            if let Value::$variant(lane) = value { Some(*lane) } else { None }
        }
        fn value(lane: Lane<'_, Self>) -> Value<'_> {
            Value::$variant(lane)
        }
        fn load(dtype: DType, bytes: &[u8], out: &mut [Self]) {
            match dtype {
                $(DType::$narrow => load(cast_slice::<u8, $type>(bytes), out, Narrow::load),)*
                _ => load(cast_slice::<u8, Self>(bytes), out, |x| x),
            }
        }
        fn settle(dtype: DType, elements: &mut [Self]) {
            match dtype {
                $(DType::$narrow => settle::<$type>(elements),)*
                _ => debug_assert!(!is_narrow(dtype), "{} elements of {dtype}", elements.len()),
            }
        }
    };
}

#[inline]
fn load<S: Copy, T>(x: &[S], out: &mut [T], f: impl Fn(S) -> T) {
    vectorize(
        #[inline(always)]
        move || {
            for (slot, x) in out.iter_mut().zip(x) {
                *slot = f(*x);
            }
        },
    );
}

#[inline]
fn settle<S: Narrow>(elements: &mut [S::Lane]) {
    vectorize(
        #[inline(always)]
        move || {
            for x in elements {
                *x = S::store(*x).load();
            }
        },
    );
}

/// The functions of one number that a type has.
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

/// The functions of two numbers that a type has.
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

/// What f32 and f64 say alike.
macro_rules! float {
    ($dtype:ident) => {
        const DTYPE: DType = DType::$dtype;
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const LOWEST: Self = Self::NEG_INFINITY;
        const HIGHEST: Self = Self::INFINITY;
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
        binary!(
            Add => |a, b| a + b,
            Sub => |a, b| a - b,
            Mul => |a, b| a * b,
            Div => |a, b| a / b,
            Pow => Self::powf,
            Max => Self::greater,
            Min => Self::lesser
        );
    };
}

impl Item for f32 {
    float!(F32);
    item!(Float: F16 f16, BF16 bf16);
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
    fn cast(dtype: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
        let narrow = is_narrow(dtype);
        match *x {
            Value::Float(x) => apply(x, out, |x| x),
            Value::Truth(x) => apply(x, out, |x| f32::from(u8::from(x.holds()))),
            Value::Int(x) if narrow => apply(x, out, int_to_odd),
            Value::UInt(x) if narrow => apply(x, out, uint_to_odd),
            Value::Double(x) if narrow => apply(x, out, to_odd),
            Value::Int(x) => apply(x, out, |x| x as f32),
            Value::UInt(x) => apply(x, out, |x| x as f32),
            Value::Double(x) => apply(x, out, |x| x as f32),
        }
    }
}

impl Item for f64 {
    float!(F64);
    item!(Double:);
    unary!(
        Neg => |x| -x,
        Abs => f64::abs,
        Exp => f64::exp,
        Log => f64::ln,
        Sqrt => f64::sqrt,
        Rsqrt => |x| 1.0 / x.sqrt(),
        Tanh => f64::tanh,
        Erf => libm::erf
    );
    fn cast(_: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
        match *x {
            Value::Float(x) => apply(x, out, f64::from),
            Value::Truth(x) => apply(x, out, |x| f64::from(u8::from(x.holds()))),
            Value::Int(x) => apply(x, out, |x| x as f64),
            Value::UInt(x) => apply(x, out, |x| x as f64),
            Value::Double(x) => apply(x, out, |x| x),
        }
    }
}

/// What i64 and u64 say alike.
macro_rules! integer {
    ($dtype:ident, $type:ident) => {
        const DTYPE: DType = DType::$dtype;
        const ZERO: Self = 0;
        const ONE: Self = 1;
        const LOWEST: Self = Self::MIN;
        const HIGHEST: Self = Self::MAX;
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
        binary!(
            Add => Self::plus,
            Sub => $type::wrapping_sub,
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
    };
}

impl Item for i64 {
    integer!(I64, i64);
    item!(Int: I8 i8, I16 i16, I32 i32, U8 u8, U16 u16, U32 u32);
    unary!(
        Neg => i64::wrapping_neg,
        Abs => i64::wrapping_abs
    );
    fn cast(dtype: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
        // Floats beyond the ends of a dtype become its ends; wrapping would make anything of them.
        let end = |end: Scalar| Self::from_scalar(end).unwrap_or_default();
        let (low, high) = (end(dtype.lowest()), end(dtype.highest()));
        match *x {
            Value::Float(x) => apply(x, out, |x| (x as i64).clamp(low, high)),
            Value::Double(x) => apply(x, out, |x| (x as i64).clamp(low, high)),
            Value::Truth(x) => apply(x, out, |x| i64::from(x.holds())),
            Value::Int(x) => apply(x, out, |x| x),
            Value::UInt(x) => apply(x, out, |x| x as i64),
        }
    }
}

impl Item for u64 {
    integer!(U64, u64);
    item!(UInt:);
    unary!(
        Neg => u64::wrapping_neg,
        Abs => |x| x
    );
    fn cast(_: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
        match *x {
            Value::Float(x) => apply(x, out, |x| x as u64),
            Value::Double(x) => apply(x, out, |x| x as u64),
            Value::Truth(x) => apply(x, out, |x| u64::from(x.holds())),
            Value::Int(x) => apply(x, out, |x| x as u64),
            Value::UInt(x) => apply(x, out, |x| x),
        }
    }
}

impl Item for Truth {
    const DTYPE: DType = DType::Bool;
    const ZERO: Self = Truth(0);
    const ONE: Self = Truth(1);
    const LOWEST: Self = Truth(0);
    const HIGHEST: Self = Truth(1);
    item!(Truth:);
    #[inline(always)]
    fn plus(a: Self, b: Self) -> Self {
        Self(a.0 | b.0)
    }
    #[inline(always)]
    fn times(a: Self, b: Self) -> Self {
        Self(a.0 & b.0)
    }
    #[inline(always)]
    fn greater(a: Self, b: Self) -> Self {
        Self(a.0 | b.0)
    }
    #[inline(always)]
    fn lesser(a: Self, b: Self) -> Self {
        Self(a.0 & b.0)
    }
    unary!(Not => |x: Truth| Truth(x.0 ^ 1));
    binary!(
        And => Self::times,
        Or => Self::plus,
        Max => Self::greater,
        Min => Self::lesser
    );
    fn compare(op: BinaryOp, a: &Value<'_>, b: &Value<'_>, out: &mut [MaybeUninit<Self>]) -> bool {
        match (*a, *b) {
            (Value::Truth(a), Value::Truth(b)) => compare(op, a, b, out),
            (Value::Int(a), Value::Int(b)) => compare(op, a, b, out),
            (Value::UInt(a), Value::UInt(b)) => compare(op, a, b, out),
            (Value::Float(a), Value::Float(b)) => compare(op, a, b, out),
            (Value::Double(a), Value::Double(b)) => compare(op, a, b, out),
            _ => false,
        }
    }
    fn cast(_: DType, x: &Value<'_>, out: &mut [MaybeUninit<Self>]) {
        match *x {
            Value::Float(x) => apply(x, out, |x| Truth::new(x != 0.0)),
            Value::Double(x) => apply(x, out, |x| Truth::new(x != 0.0)),
            Value::Truth(x) => apply(x, out, |x| x),
            Value::Int(x) => apply(x, out, |x| Truth::new(x != 0)),
            Value::UInt(x) => apply(x, out, |x| Truth::new(x != 0)),
        }
    }
}

/// Comparison of two operands of one type; false if the op is none.
fn compare<T: Item>(op: BinaryOp, a: Lane<'_, T>, b: Lane<'_, T>, out: &mut [MaybeUninit<Truth>]) -> bool {
    match op {
        BinaryOp::Eq => zip(a, b, out, |a, b| Truth::new(a == b)),
        BinaryOp::Lt => zip(a, b, out, |a, b| Truth::new(a < b)),
        BinaryOp::Le => zip(a, b, out, |a, b| Truth::new(a <= b)),
        _ => return false,
    }
    true
}

// Elementary functions of f32 without branches, so that loops over them vectorise, and without fused products, so that
// every instruction set gives the same bits. The polynomials are weighted minimax fits made for this crate; the
// reductions of the argument are the usual ones (Cody and Waite, "Software Manual for the Elementary Functions", 1980).

/// `c[0] + c[1] x + ..`, by Horner's rule.
#[inline(always)]
pub(crate) fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
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
pub(crate) fn log(x: f32) -> f32 {
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
