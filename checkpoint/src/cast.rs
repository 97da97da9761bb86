//! Elements of a file as elements of a tensor: equal, or converted where that was asked for.

use safetensors::Dtype;
use sharding_core::{DType, Scalar};
use std::io;

/// The dtype of tensors that has the same elements, if there is one.
pub(crate) fn dtype_of(file: Dtype) -> Option<DType> {
    Some(match file {
        Dtype::BOOL => DType::Bool,
        Dtype::I64 => DType::I64,
        Dtype::F32 => DType::F32,
        _ => return None,
    })
}

/// How elements of a file become other ones, or the same in another byte order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    from: Dtype,
    /// Bytes of an element in the file.
    size: usize,
    to: DType,
}

/// An element of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Float(f64),
    Int(i128),
    Bool(bool),
}

impl Cast {
    /// How elements of a file become elements of `to`: `Some(None)` if their bytes are the same, `None` if they cannot be
    /// read.
    pub(crate) fn between(from: Dtype, to: DType) -> Option<Option<Self>> {
        let size = from.bitsize() / 8;
        number(from, &[0; 16])?;
        // Bools are bytes of which any but 0 is true; backends take them so.
        let same = dtype_of(from) == Some(to) && (cfg!(target_endian = "little") || size == 1);
        Some((!same).then_some(Self { from, size, to }))
    }

    /// The bytes that so many bytes of a file become.
    pub(crate) fn bytes_of(self, bytes: usize) -> usize {
        bytes / self.size.max(1) * self.to.size()
    }

    /// Converts elements: floats to integers towards zero, anything but 0 to true, as Rust's `as` does.
    ///
    /// # Errors
    /// If a number is not one of the wanted dtype.
    pub(crate) fn put(self, bytes: &[u8], out: &mut [u8]) -> io::Result<()> {
        let elements = bytes.chunks_exact(self.size.max(1)).zip(out.chunks_exact_mut(self.to.size()));
        for (bytes, out) in elements {
            let number = number(self.from, bytes).unwrap_or(Number::Int(0));
            let element = scalar(number, self.to).and_then(|scalar| scalar.to_bytes(self.to));
            match element {
                Some(element) if element.len() == out.len() => out.copy_from_slice(&element),
                _ => {
                    let text = format!("the element {number:?} is no {}", self.to);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(())
    }
}

/// The number that stands for another dtype's element; `None` if there is none.
fn scalar(number: Number, to: DType) -> Option<Scalar> {
    Some(match (to, number) {
        (DType::Bool, Number::Float(value)) => Scalar::Bool(value != 0.0),
        (DType::Bool, Number::Int(value)) => Scalar::Bool(value != 0),
        (DType::Bool, Number::Bool(value)) => Scalar::Bool(value),
        (to, Number::Float(value)) if to.is_float() => Scalar::Float(value),
        (to, Number::Int(value)) if to.is_float() => Scalar::Float(value as f64),
        (to, Number::Bool(value)) if to.is_float() => Scalar::Float(f64::from(u8::from(value))),
        (_, Number::Float(value)) => Scalar::Int(value as i64),
        (_, Number::Int(value)) => Scalar::Int(i64::try_from(value).ok()?),
        (_, Number::Bool(value)) => Scalar::Int(i64::from(value)),
    })
}

/// The element at the start of little-endian bytes; `None` for a dtype that is not read.
fn number(dtype: Dtype, bytes: &[u8]) -> Option<Number> {
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.first_chunk().copied()
    }
    Some(match dtype {
        Dtype::BOOL => Number::Bool(*bytes.first()? != 0),
        Dtype::U8 => Number::Int(u8::from_le_bytes(array(bytes)?).into()),
        Dtype::I8 => Number::Int(i8::from_le_bytes(array(bytes)?).into()),
        Dtype::U16 => Number::Int(u16::from_le_bytes(array(bytes)?).into()),
        Dtype::I16 => Number::Int(i16::from_le_bytes(array(bytes)?).into()),
        Dtype::U32 => Number::Int(u32::from_le_bytes(array(bytes)?).into()),
        Dtype::I32 => Number::Int(i32::from_le_bytes(array(bytes)?).into()),
        Dtype::U64 => Number::Int(u64::from_le_bytes(array(bytes)?).into()),
        Dtype::I64 => Number::Int(i64::from_le_bytes(array(bytes)?).into()),
        Dtype::F16 => Number::Float(half(u16::from_le_bytes(array(bytes)?))),
        Dtype::BF16 => {
            let upper = u32::from(u16::from_le_bytes(array(bytes)?)) << 16;
            Number::Float(f32::from_bits(upper).into())
        }
        Dtype::F32 => Number::Float(f32::from_le_bytes(array(bytes)?).into()),
        Dtype::F64 => Number::Float(f64::from_le_bytes(array(bytes)?)),
        _ => return None,
    })
}

/// The value of an IEEE 754 half: 1 bit of sign, 5 of exponent, 10 of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let fraction = f64::from(bits & 0x3ff);
    sign * match (bits >> 10) & 0x1f {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2_f64.powi(i32::from(exponent) - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(from: Dtype, bytes: &[u8], to: DType) -> io::Result<Vec<u8>> {
        let cast = Cast::between(from, to).unwrap().unwrap();
        let mut out = vec![9; cast.bytes_of(bytes.len())];
        cast.put(bytes, &mut out).map(|()| out)
    }

    #[test]
    fn halves_have_their_values() {
        let values = [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x3555, 0.333_251_953_125),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x0400, 6.103_515_625e-5),
            (0xfc00, f64::NEG_INFINITY),
        ];
        for (bits, value) in values {
            assert_eq!(half(bits), value, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan() && half(0x8000).is_sign_negative());
    }

    #[test]
    fn numbers_keep_their_value_or_are_an_error() {
        let floats = |bytes: Vec<u8>| -> Vec<f32> {
            bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect()
        };
        assert_eq!(floats(cast(Dtype::F16, &[0, 0x3c, 0, 0xc0], DType::F32).unwrap()), [1.0, -2.0]);
        assert_eq!(floats(cast(Dtype::BF16, &[0x80, 0x3f, 0xc0, 0x7f], DType::F32).unwrap())[0], 1.0);
        assert_eq!(floats(cast(Dtype::F64, &0.1_f64.to_le_bytes(), DType::F32).unwrap()), [0.1_f32]);
        assert_eq!(floats(cast(Dtype::I8, &[0xff, 3], DType::F32).unwrap()), [-1.0, 3.0]);
        assert_eq!(cast(Dtype::F32, &(-2.7_f32).to_le_bytes(), DType::I64).unwrap(), (-2_i64).to_ne_bytes());
        assert_eq!(cast(Dtype::U8, &[0, 7], DType::Bool).unwrap(), [0, 1]);
        assert_eq!(cast(Dtype::U32, &[0xff; 4], DType::I64).unwrap(), i64::from(u32::MAX).to_ne_bytes());
        assert!(cast(Dtype::U64, &[0xff; 8], DType::I64).is_err());
    }

    #[test]
    fn equal_elements_are_no_cast_and_strange_ones_are_not_read() {
        assert!(Cast::between(Dtype::F32, DType::F32).unwrap().is_none());
        assert!(Cast::between(Dtype::F8_E4M3, DType::F32).is_none());
        assert!(Cast::between(Dtype::C64, DType::F32).is_none());
    }
}
