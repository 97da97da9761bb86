//! Element types, and typed access at the edges.

use crate::{Error, ErrorKind};
use half::{bf16, f16};
use std::fmt;
use std::str::FromStr;

/// The type of a tensor's elements.
///
/// ```
/// use sharding_core::DType;
/// let dtype: DType = "bf16".parse()?;
/// assert_eq!((dtype, dtype.size(), dtype.is_float()), (DType::BF16, 2, true));
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE 754 half precision: 11 bits of precision, up to 65504.
    F16,
    /// The upper half of an f32: 8 bits of precision, the range of f32.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 13] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Whether the elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    /// Whether the elements are integers; truth values are not.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// Whether there are negative elements: floats and `i8` to `i64`.
    pub const fn is_signed(self) -> bool {
        self.is_float() || matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// The name used in texts: `bool`, `i8`, `i16`, `i32`, `i64`, `u8`, `u16`, `u32`, `u64`, `f16`, `bf16`, `f32`, `f64`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// For floats, the distance from 1 to the next greater element: 2^-10, 2^-7, 2^-23 or 2^-52. One rounding changes
    /// a value by at most half of it, relatively. 0 for the others, whose arithmetic is exact.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F16 => 1.0 / 1024.0,
            DType::BF16 => 1.0 / 128.0,
            DType::F32 => f32::EPSILON as f64,
            DType::F64 => f64::EPSILON,
            _ => 0.0,
        }
    }

    /// The dtype in which sums, means, products and fused kernels of this one are computed: f32 for f16 and bf16, else this
    /// one. What is summed up wraps for integers; it is not widened.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The least element: minus infinity for floats, `false` for bool.
    pub const fn lowest(self) -> Scalar {
        match self {
            DType::Bool => Scalar::Bool(false),
            DType::I8 => Scalar::Int(i8::MIN as i64),
            DType::I16 => Scalar::Int(i16::MIN as i64),
            DType::I32 => Scalar::Int(i32::MIN as i64),
            DType::I64 => Scalar::Int(i64::MIN),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Scalar::Int(0),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Scalar::Float(f64::NEG_INFINITY),
        }
    }

    /// The greatest element: infinity for floats, `true` for bool.
    pub const fn highest(self) -> Scalar {
        match self {
            DType::Bool => Scalar::Bool(true),
            DType::I8 => Scalar::Int(i8::MAX as i64),
            DType::I16 => Scalar::Int(i16::MAX as i64),
            DType::I32 => Scalar::Int(i32::MAX as i64),
            DType::I64 => Scalar::Int(i64::MAX),
            DType::U8 => Scalar::Int(u8::MAX as i64),
            DType::U16 => Scalar::Int(u16::MAX as i64),
            DType::U32 => Scalar::Int(u32::MAX as i64),
            DType::U64 => Scalar::UInt(u64::MAX),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Scalar::Float(f64::INFINITY),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    /// From its [`name`](Self::name).
    ///
    /// # Errors
    /// [`ErrorKind::DType`] for any other text; the error lists the names.
    fn from_str(text: &str) -> Result<Self, Error> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let names = DType::ALL.map(DType::name).join(", ");
            Error::new(ErrorKind::DType, format!("there is no dtype '{text}'"))
                .with_fix(format!("write one of {names}"))
        })
    }
}

/// A Rust type that is the element of a [`DType`]: `bool`, the integers of 8 to 64 bits, [`half::f16`],
/// [`half::bf16`], `f32` and `f64`.
///
/// Sealed: a new dtype is a change of every backend.
pub trait Element: Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static + private::Sealed {
    /// The dtype of this type.
    const DTYPE: DType;
    /// The bytes of a slice in native order.
    fn to_bytes(values: &[Self]) -> Vec<u8>;
    /// The bytes of a slice in native order, where they lie.
    fn as_bytes(values: &[Self]) -> &[u8];
    /// Bytes in native order as elements, where they lie; `None` if they are not aligned, there is a tail shorter than one
    /// element, or they are no elements (a truth value is 0 or 1).
    fn view(bytes: &[u8]) -> Option<&[Self]>;
    /// The same to be written, where any bytes are elements: not truth values.
    fn as_bytes_mut(values: &mut [Self]) -> Option<&mut [u8]>;
    /// Elements from bytes in native order; a tail shorter than one element is ignored.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    /// This value as a scalar operand.
    fn scalar(self) -> Scalar;
}

mod private {
    pub trait Sealed {}
}

macro_rules! number_element {
    ($($type:ty => $dtype:ident),*) => {$(
        impl private::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(values: &[Self]) -> Vec<u8> {
                bytemuck::cast_slice(values).to_vec()
            }
            fn as_bytes(values: &[Self]) -> &[u8] {
                bytemuck::cast_slice(values)
            }
            fn view(bytes: &[u8]) -> Option<&[Self]> {
                bytemuck::try_cast_slice(bytes).ok()
            }
            fn as_bytes_mut(values: &mut [Self]) -> Option<&mut [u8]> {
                Some(bytemuck::cast_slice_mut(values))
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.chunks_exact(size_of::<$type>()).map(bytemuck::pod_read_unaligned).collect()
            }
            fn scalar(self) -> Scalar {
                self.into()
            }
        }
    )*};
}
number_element!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64
);

impl private::Sealed for bool {}
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().map(|value| u8::from(*value)).collect()
    }
    fn as_bytes(values: &[Self]) -> &[u8] {
        bytemuck::cast_slice(values)
    }
    fn view(bytes: &[u8]) -> Option<&[Self]> {
        bytemuck::checked::try_cast_slice(bytes).ok()
    }
    fn as_bytes_mut(_: &mut [Self]) -> Option<&mut [u8]> {
        None
    }
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

/// A number beside a tensor; it takes the dtype of the tensors it meets.
///
/// [`Int`](Self::Int) and [`UInt`](Self::UInt) of one value are equal.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer that may be above `i64::MAX`. [`From<u64>`] makes one only where it is.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Scalar::Bool(a), Scalar::Bool(b)) => a == b,
            (Scalar::Float(a), Scalar::Float(b)) => a == b,
            (a, b) => matches!((a.as_integer(), b.as_integer()), (Some(a), Some(b)) if a == b),
        }
    }
}

/// Floats from this size on stand for a range of integers; they are taken for none.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number as f32, rounded so that rounding it once more, to f16 or bf16, is right: towards zero, with the last bit set if
/// anything is lost ("rounding to odd"; Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
fn to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    // One step towards zero where the nearest is farther from it.
    let bits = near.to_bits().wrapping_sub(u32::from(back.abs() > x.abs()));
    f32::from_bits(bits | u32::from(back != x && !x.is_nan()))
}

/// The same for an integer: an `f64` on the way would round it before, from 2^53 on.
fn integer_to_odd(x: i128) -> f32 {
    let near = x as f32;
    let back = near as i128;
    let bits = near.to_bits().wrapping_sub(u32::from(back.unsigned_abs() > x.unsigned_abs()));
    f32::from_bits(bits | u32::from(back != x))
}

impl Scalar {
    /// This number as one element of `dtype` in native bytes, or `None` where it would lose its meaning: a fraction, a
    /// number out of range or a float of 2^53 or more as an integer, anything but a truth value as a bool. Floats are
    /// rounded once to the nearest element, and to infinity beyond the greatest.
    pub fn to_bytes(self, dtype: DType) -> Option<smallvec::SmallVec<[u8; 8]>> {
        let mut bytes = smallvec::SmallVec::new();
        macro_rules! integer {
            ($type:ty) => {
                bytes.extend_from_slice(&<$type>::try_from(self.whole()?).ok()?.to_ne_bytes())
            };
        }
        match dtype {
            DType::Bool => match self {
                Scalar::Bool(value) => bytes.push(u8::from(value)),
                _ => return None,
            },
            DType::I8 => integer!(i8),
            DType::I16 => integer!(i16),
            DType::I32 => integer!(i32),
            DType::I64 => integer!(i64),
            DType::U8 => integer!(u8),
            DType::U16 => integer!(u16),
            DType::U32 => integer!(u32),
            DType::U64 => integer!(u64),
            DType::F16 => bytes.extend_from_slice(&f16::from_f32(self.as_odd()).to_ne_bytes()),
            DType::BF16 => bytes.extend_from_slice(&bf16::from_f32(self.as_odd()).to_ne_bytes()),
            DType::F32 => {
                let value = self.as_integer().map_or(self.as_f64() as f32, |value| value as f32);
                bytes.extend_from_slice(&value.to_ne_bytes());
            }
            DType::F64 => bytes.extend_from_slice(&self.as_f64().to_ne_bytes()),
        }
        Some(bytes)
    }

    /// The value, if this is an integer.
    pub fn as_integer(self) -> Option<i128> {
        match self {
            Scalar::Int(value) => Some(value.into()),
            Scalar::UInt(value) => Some(value.into()),
            Scalar::Bool(_) | Scalar::Float(_) => None,
        }
    }

    /// The whole number that this stands for, if any.
    fn whole(self) -> Option<i128> {
        match self {
            Scalar::Bool(value) => Some(value.into()),
            Scalar::Float(value) => (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i128),
            integer => integer.as_integer(),
        }
    }

    /// The nearest `f64`; `true` is 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::UInt(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }

    /// What f16 and bf16 are rounded from; see [`to_odd`].
    fn as_odd(self) -> f32 {
        self.as_integer().map_or_else(|| to_odd(self.as_f64()), integer_to_odd)
    }

    /// The bits that tell two scalars apart, for keys.
    pub fn key_bits(self) -> (u8, u64) {
        match self {
            Scalar::Bool(value) => (0, u64::from(value)),
            Scalar::Int(value) => (1, value as u64),
            Scalar::Float(value) => (2, value.to_bits()),
            Scalar::UInt(value) if value <= i64::MAX as u64 => (1, value),
            Scalar::UInt(value) => (3, value),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::UInt(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value}"),
        }
    }
}

macro_rules! scalar_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Scalar {
            fn from(value: $type) -> Self { Scalar::$variant(value.into()) }
        }
    )*};
}
scalar_from!(
    bool => Bool, i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => Int, u16 => Int, u32 => Int,
    f16 => Float, bf16 => Float, f32 => Float, f64 => Float
);
impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Scalar::UInt(value), Scalar::Int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The scalar of an element gives the element back, and has its value.
    fn round_trip<T: Element>(values: &[T]) {
        let dtype = T::DTYPE;
        for value in values {
            let bytes = T::to_bytes(&[*value]);
            assert_eq!(bytes.len(), dtype.size(), "{dtype}");
            let scalar = value.scalar();
            assert_eq!(scalar.to_bytes(dtype).as_deref(), Some(&bytes[..]), "{dtype} {scalar}");
            assert_eq!(T::from_bytes(&bytes), [*value]);
        }
    }

    #[test]
    fn every_element_is_its_scalar() {
        round_trip(&[true, false]);
        round_trip(&(i8::MIN..=i8::MAX).collect::<Vec<_>>());
        round_trip(&(u8::MIN..=u8::MAX).collect::<Vec<_>>());
        round_trip(&(i16::MIN..=i16::MAX).collect::<Vec<_>>());
        round_trip(&(u16::MIN..=u16::MAX).collect::<Vec<_>>());
        round_trip(&[i32::MIN, -1, 0, 1, i32::MAX]);
        round_trip(&[0, 1, u32::MAX]);
        round_trip(&[i64::MIN, -1, 0, (1 << 53) + 1, i64::MAX]);
        round_trip(&[0, (1 << 53) + 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX]);
        round_trip(&(0..=u16::MAX).map(f16::from_bits).filter(|x| !x.is_nan()).collect::<Vec<_>>());
        round_trip(&(0..=u16::MAX).map(bf16::from_bits).filter(|x| !x.is_nan()).collect::<Vec<_>>());
        round_trip(&[0.0, -0.0, 1.0e-45, f32::MAX, f32::NEG_INFINITY]);
        round_trip(&[0.0, -0.0, 5.0e-324, f64::MAX, f64::NEG_INFINITY]);
    }

    #[test]
    fn names_are_read_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        for wrong in ["", "F32", "f32 ", "float", "i128"] {
            let error = wrong.parse::<DType>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DType);
            assert!(error.to_string().contains("bf16"), "{error}");
        }
    }

    #[test]
    fn the_ends_of_a_dtype_are_elements() {
        for dtype in DType::ALL {
            for end in [dtype.lowest(), dtype.highest()] {
                assert!(end.to_bytes(dtype).is_some(), "{dtype} {end}");
            }
            if let (Some(low), Some(high)) = (dtype.lowest().as_integer(), dtype.highest().as_integer()) {
                assert_eq!(high - low, (1 << (8 * dtype.size())) - 1, "{dtype}");
                assert_eq!(low < 0, dtype.is_signed());
            }
            assert_eq!(dtype.is_integer(), dtype.lowest().as_integer().is_some());
        }
    }

    #[test]
    fn what_has_no_meaning_is_none() {
        for (value, dtype) in [
            (Scalar::Int(128), DType::I8),
            (Scalar::Int(-1), DType::U64),
            (Scalar::UInt(1 << 63), DType::I64),
            (Scalar::Float(0.5), DType::I32),
            (Scalar::Float(f64::NAN), DType::I64),
            (Scalar::Float(f64::INFINITY), DType::U8),
            (Scalar::Float(EXACT), DType::I64),
            (Scalar::Int(1), DType::Bool),
        ] {
            assert!(value.to_bytes(dtype).is_none(), "{value} {dtype}");
        }
        assert!(Scalar::Float(255.0).to_bytes(DType::U8).is_some());
        assert_eq!(
            Scalar::from(u64::MAX).to_bytes(DType::F32).as_deref(),
            Some(&(u64::MAX as f32).to_ne_bytes()[..])
        );
    }

    #[test]
    fn halves_are_rounded_once() {
        // Just above the middle of two neighbours; f32 would round it to the middle, from where it goes to the even one.
        for (dtype, digits) in [(DType::F16, 10), (DType::BF16, 7)] {
            let half = 0.5_f64.powi(digits + 1);
            let above = Scalar::Float(1.0 + half + 0.5_f64.powi(40)).to_bytes(dtype);
            assert_eq!(above, Scalar::Float(1.0 + 2.0 * half).to_bytes(dtype), "{dtype}");
            assert_eq!(
                Scalar::Float(1.0 + half).to_bytes(dtype),
                Scalar::Float(1.0).to_bytes(dtype),
                "{dtype}"
            );
            let (huge, infinite) = (Scalar::Float(1e300), Scalar::Float(f64::INFINITY));
            assert_eq!(huge.to_bytes(dtype), infinite.to_bytes(dtype), "{dtype}");
        }
        // Integers beside the middle of two neighbours, which f64 would round to it.
        let (at, next) = (1_i64 << 62, 1_i64 << 55);
        for (value, want) in
            [(next / 2, 0), (next / 2 + 1, next), (next * 3 / 2, 2 * next), (next * 3 / 2 - 1, next)]
        {
            let float = |value: i64| Scalar::Float(value as f64).to_bytes(DType::BF16);
            for sign in [1, -1] {
                let got = Scalar::Int(sign * (at + value)).to_bytes(DType::BF16);
                assert_eq!(got, float(sign * (at + want)), "{value}");
            }
        }
        let unsigned = Scalar::UInt((1 << 63) + (1 << 55) + 1).to_bytes(DType::BF16);
        assert_eq!(unsigned, Scalar::Float(((1_u64 << 63) + (1 << 56)) as f64).to_bytes(DType::BF16));
    }

    proptest! {
        #[test]
        fn integers_are_equal_by_value(a: u64, b in any::<i64>()) {
            let pairs = [(Scalar::UInt(a), i128::from(a)), (Scalar::from(a), i128::from(a)), (Scalar::Int(b), i128::from(b))];
            for (x, x_value) in pairs {
                for (y, y_value) in pairs {
                    prop_assert_eq!(x == y, x_value == y_value);
                    prop_assert_eq!(x.key_bits() == y.key_bits(), x_value == y_value);
                }
            }
            prop_assert!(Scalar::Int(1) != Scalar::Float(1.0) && Scalar::Int(1) != Scalar::Bool(true));
        }
    }
}
