//! Elements of a file as elements of a tensor: equal, or converted where that was asked for.

use half::{bf16, f16};
use safetensors::Dtype;
use sharding_core::{DType, Scalar};
use std::io;

/// The dtype of tensors that has the same elements, if there is one.
pub(crate) fn dtype_of(file: Dtype) -> Option<DType> {
    Some(match file {
        Dtype::BOOL => DType::Bool,
        Dtype::I8 => DType::I8,
        Dtype::I16 => DType::I16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        // Smaller floats, scales and complex numbers.
        _ => return None,
    })
}

/// The dtype of a file that has the elements of tensors of a dtype.
pub(crate) fn file_dtype_of(dtype: DType) -> Option<Dtype> {
    const KNOWN: [Dtype; 13] = [
        Dtype::BOOL,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
    ];
    KNOWN.into_iter().find(|file| dtype_of(*file) == Some(dtype))
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
        let own = dtype_of(from)?;
        // Bools are bytes of which any but 0 is true; backends take them so.
        let same = own == to && (cfg!(target_endian = "little") || size == 1);
        Some((!same).then_some(Self { from, size, to }))
    }

    /// The bytes that so many bytes of a file become.
    pub(crate) fn bytes_of(self, bytes: usize) -> usize {
        bytes / self.size.max(1) * self.to.size()
    }

    /// Converts elements: floats to integers towards zero, anything but 0 to true.
    ///
    /// # Errors
    /// If a number does not fit the wanted dtype, or an integer is wanted and it is NaN.
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
        (_, Number::Float(value)) if value.is_nan() => return None,
        // Beyond i128 is beyond every dtype.
        (to, Number::Float(value)) => return scalar(Number::Int(value as i128), to),
        (_, Number::Int(value)) => match u64::try_from(value) {
            Ok(value) => Scalar::from(value),
            Err(_) => Scalar::Int(i64::try_from(value).ok()?),
        },
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
        Dtype::F16 => Number::Float(f16::from_le_bytes(array(bytes)?).into()),
        Dtype::BF16 => Number::Float(bf16::from_le_bytes(array(bytes)?).into()),
        Dtype::F32 => Number::Float(f32::from_le_bytes(array(bytes)?).into()),
        Dtype::F64 => Number::Float(f64::from_le_bytes(array(bytes)?)),
        _ => return None,
    })
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
        let float = |value: f64, to| cast(Dtype::F64, &value.to_le_bytes(), to);
        assert_eq!(float(1e19, DType::U64).unwrap(), 10_000_000_000_000_000_000_u64.to_ne_bytes());
        for (value, to) in
            [(1e30, DType::I64), (-1.0, DType::U64), (300.0, DType::I8), (f64::NAN, DType::I64)]
        {
            assert!(float(value, to).is_err(), "{value} as {to}");
        }
        assert!(cast(Dtype::I64, &300_i64.to_le_bytes(), DType::I8).is_err());
        let most = cast(Dtype::U64, &[0xff; 8], DType::F64).unwrap();
        assert_eq!(f64::from_ne_bytes(most.try_into().unwrap()), 2_f64.powi(64));
        assert_eq!(
            cast(Dtype::F32, &0.1_f32.to_le_bytes(), DType::F16).unwrap(),
            f16::from_f32(0.1).to_ne_bytes()
        );
    }

    #[test]
    fn equal_elements_are_no_cast_and_strange_ones_are_not_read() {
        assert!(Cast::between(Dtype::F32, DType::F32).unwrap().is_none());
        assert!(Cast::between(Dtype::BF16, DType::BF16).unwrap().is_none());
        assert!(Cast::between(Dtype::F8_E4M3, DType::F32).is_none());
        assert!(Cast::between(Dtype::C64, DType::F32).is_none());
    }
}
