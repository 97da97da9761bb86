//! Element types, and typed access at the edges.

use std::fmt;

/// The type of a tensor's elements.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// 64-bit signed integer.
    I64,
    /// IEEE 754 single precision.
    F32,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool => 1,
            DType::F32 => 4,
            DType::I64 => 8,
        }
    }

    /// Whether the elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32)
    }

    /// The dtype in which sums of elements are kept: f32 for narrower floating-point numbers, else the dtype itself.
    pub const fn accumulator(self) -> DType {
        if self.is_float() && self.size() < 4 { DType::F32 } else { self }
    }

    /// The name used in texts: `f32`, `i64`, `bool`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I64 => "i64",
            DType::F32 => "f32",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A Rust type that is the element of a [`DType`].
///
/// Sealed: a new dtype is a change of every backend.
pub trait Element: Copy + PartialEq + fmt::Debug + Send + Sync + 'static + private::Sealed {
    /// The dtype of this type.
    const DTYPE: DType;
    /// The bytes of a slice in native order.
    fn to_bytes(values: &[Self]) -> Vec<u8>;
    /// Elements from bytes in native order; a tail shorter than one element is ignored.
    fn from_bytes(bytes: &[u8]) -> Vec<Self>;
    /// This value as a scalar operand.
    fn scalar(self) -> Scalar;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for i64 {}
    impl Sealed for bool {}
}

macro_rules! number_element {
    ($type:ty, $dtype:ident, $scalar:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(values: &[Self]) -> Vec<u8> {
                bytemuck::cast_slice(values).to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Vec<Self> {
                bytes.chunks_exact(size_of::<$type>()).map(bytemuck::pod_read_unaligned).collect()
            }
            fn scalar(self) -> Scalar {
                $scalar(self)
            }
        }
    };
}
number_element!(f32, F32, |value: f32| Scalar::Float(f64::from(value)));
number_element!(i64, I64, Scalar::Int);

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(values: &[Self]) -> Vec<u8> {
        values.iter().map(|value| u8::from(*value)).collect()
    }
    fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|byte| *byte != 0).collect()
    }
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
}

/// A number beside a tensor; it takes the dtype of the tensors it meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl Scalar {
    /// This number as one element of `dtype` in native bytes, or `None` where it would lose its meaning
    /// (a fraction as an integer, anything but a truth value as a bool).
    pub fn to_bytes(self, dtype: DType) -> Option<smallvec::SmallVec<[u8; 8]>> {
        let mut bytes = smallvec::SmallVec::new();
        match (dtype, self) {
            (DType::Bool, Scalar::Bool(value)) => bytes.push(u8::from(value)),
            (DType::I64, Scalar::Int(value)) => bytes.extend_from_slice(&value.to_ne_bytes()),
            (DType::I64, Scalar::Bool(value)) => bytes.extend_from_slice(&i64::from(value).to_ne_bytes()),
            (DType::I64, Scalar::Float(value)) if value.fract() == 0.0 && value.abs() < 9.0e15 => {
                bytes.extend_from_slice(&(value as i64).to_ne_bytes());
            }
            (DType::F32, value) => bytes.extend_from_slice(&(value.as_f64() as f32).to_ne_bytes()),
            _ => return None,
        }
        Some(bytes)
    }

    /// The nearest `f64`; `true` is 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }

    /// The bits that tell two scalars apart, for keys.
    pub fn key_bits(self) -> (u8, u64) {
        match self {
            Scalar::Bool(value) => (0, u64::from(value)),
            Scalar::Int(value) => (1, value as u64),
            Scalar::Float(value) => (2, value.to_bits()),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Int(value) => write!(f, "{value}"),
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
scalar_from!(bool => Bool, i64 => Int, i32 => Int, f64 => Float, f32 => Float);
