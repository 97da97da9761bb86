//! Whole tensors on the host: how the suites make, cut, join and compare data without trusting a backend.

use crate::backend::{Backend, LocalArray};
use crate::mapping::Region;
use crate::op::{CaseOperand, Fill};
use crate::{DType, Device, Element, ReduceOp, Result, Scalar, Shape};

/// A whole or local array in host memory, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct HostArray {
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
    /// One value per element.
    pub values: Vec<Scalar>,
}

impl HostArray {
    /// An array of one value.
    pub fn filled(dtype: DType, shape: &Shape, value: Scalar) -> Self {
        Self { dtype, shape: shape.clone(), values: vec![value; shape.elements()] }
    }

    /// The elements of a case's operand; equal seeds give equal elements.
    pub fn of_case(operand: &CaseOperand, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut last = i64::MIN;
        let elements = operand.meta.shape.elements();
        let values = (0..elements)
            .map(|_| {
                let drawn = match operand.fill {
                    Fill::Signed => random.in_range(-4, 4),
                    Fill::Positive => random.in_range(1, 8),
                    Fill::Below(bound) => random.in_range(0, (bound as i64 - 1).max(0)),
                };
                // Neighbours differ where values are many: equal ones would hide a shift by one.
                let value = match (drawn == last, operand.fill) {
                    (true, Fill::Signed) => drawn % 4 + 1,
                    (true, Fill::Positive) => drawn % 8 + 1,
                    // Where values are few, 0 and 1 would hide a number that counts twice.
                    (false, Fill::Signed) if elements <= 2 && drawn.abs() < 2 => 2 + drawn.abs(),
                    _ => drawn,
                };
                last = value;
                number(operand.meta.dtype, value, random.bits())
            })
            .collect();
        Self { dtype: operand.meta.dtype, shape: operand.meta.shape.clone(), values }
    }

    /// An array read from a backend.
    ///
    /// # Errors
    /// What the backend says.
    pub fn read(backend: &dyn Backend, array: &LocalArray) -> Result<Self> {
        let mut bytes = vec![0; array.bytes()];
        backend.read(array, &mut bytes)?;
        Ok(Self {
            dtype: array.dtype(),
            shape: array.shape().clone(),
            values: scalars(array.dtype(), &bytes),
        })
    }

    /// A new local array of these elements.
    ///
    /// # Errors
    /// What the backend says.
    pub fn put(&self, backend: &dyn Backend, device: Device) -> Result<LocalArray> {
        let mut array = backend.alloc(device, self.dtype, &self.shape)?;
        backend.write(&self.to_bytes(), &mut array)?;
        Ok(array)
    }

    /// The elements in native bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.values.len() * self.dtype.size());
        for value in &self.values {
            match value.to_bytes(self.dtype) {
                Some(element) => bytes.extend_from_slice(&element),
                None => bytes.resize(bytes.len() + self.dtype.size(), 0),
            }
        }
        bytes
    }

    /// The elements of a region, in the order of its ranges.
    pub fn cut(&self, region: &Region) -> Self {
        let shape: Shape =
            region.iter().map(|ranges| ranges.iter().map(|range| range.len()).sum::<usize>()).collect();
        let values = flat_indices(&self.shape, region)
            .into_iter()
            .map(|i| self.values.get(i).copied().unwrap_or(Scalar::Bool(false)))
            .collect();
        Self { dtype: self.dtype, shape, values }
    }

    /// Combines with another array of the same shape, element by element.
    pub fn combine(&mut self, op: ReduceOp, other: &Self) {
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            *mine = combine(op, self.dtype, *mine, *theirs);
        }
    }

    /// The first element that differs, if any; see [`close`].
    pub fn first_difference(&self, got: &Self) -> Option<Difference> {
        let same = |(want, got): (&Scalar, &Scalar)| close(self.dtype, *want, *got);
        let at = self.values.iter().zip(&got.values).position(|pair| !same(pair))?;
        Some(Difference {
            index: unravel(&self.shape, at),
            want: *self.values.get(at)?,
            got: *got.values.get(at)?,
        })
    }
}

/// An element that is not what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its index in the whole.
    pub index: Vec<usize>,
    /// What it should be.
    pub want: Scalar,
    /// What it is.
    pub got: Scalar,
}

/// How far floats of a dtype may be apart that should be equal, in units of [`DType::epsilon`] and of the greater of
/// 1 and their size: 168 for f32 and f64 (2e-5 and 4e-14), 8 for f16 and bf16 (0.008 and 0.0625).
///
/// A result is rounded by half a unit; the sum of up to 6 parts, each rounded and no greater than the result, by 6 more
/// halves; a product of two rounded numbers by one more. The suites' inputs are small integers, so anything but rounding
/// differs by far more.
pub fn tolerance(dtype: DType) -> f64 {
    let units = if matches!(dtype, DType::F16 | DType::BF16) { 8.0 } else { 168.0 };
    units * dtype.epsilon()
}

/// Whether two elements of a dtype are equal: exactly for integers and bools, to [`tolerance`] for floats (NaN equals
/// NaN).
pub fn close(dtype: DType, want: Scalar, got: Scalar) -> bool {
    match (want, got) {
        (Scalar::Float(want), Scalar::Float(got)) => {
            let near = want.is_finite() && (want - got).abs() <= tolerance(dtype) * want.abs().max(1.0);
            want == got || (want.is_nan() && got.is_nan()) || near
        }
        _ => want == got,
    }
}

/// An integer wrapped to an integer dtype: its low bits.
pub fn wrapped(value: i128, dtype: DType) -> Scalar {
    let unused = 128 - 8 * dtype.size() as u32;
    let bits = value << unused;
    if dtype.is_signed() {
        Scalar::Int((bits >> unused) as i64)
    } else {
        Scalar::from((bits as u128 >> unused) as u64)
    }
}

/// A float rounded to the nearest of a float dtype.
pub fn rounded(value: f64, dtype: DType) -> Scalar {
    nearest(Scalar::Float(value), dtype)
}

/// A number as the nearest element of a dtype that has one.
pub(crate) fn nearest(value: Scalar, dtype: DType) -> Scalar {
    let element = value.to_bytes(dtype).unwrap_or_default();
    scalars(dtype, &element).first().copied().unwrap_or(value)
}

/// Two elements of a dtype combined as parts of a Partial are. Integers wrap; floats are combined in f64 and not rounded.
pub fn combine(op: ReduceOp, dtype: DType, a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => Scalar::Bool(match op {
            ReduceOp::Sum | ReduceOp::Max => a || b,
            ReduceOp::Min | ReduceOp::Prod => a && b,
        }),
        (a, b) => match (a.as_integer(), b.as_integer()) {
            (Some(a), Some(b)) => wrapped(
                match op {
                    ReduceOp::Sum => a + b,
                    ReduceOp::Prod => a.wrapping_mul(b),
                    ReduceOp::Max => a.max(b),
                    ReduceOp::Min => a.min(b),
                },
                dtype,
            ),
            _ => {
                let (a, b) = (a.as_f64(), b.as_f64());
                Scalar::Float(match op {
                    ReduceOp::Sum => a + b,
                    ReduceOp::Prod => a * b,
                    _ if a.is_nan() || b.is_nan() => f64::NAN,
                    ReduceOp::Max => a.max(b),
                    ReduceOp::Min => a.min(b),
                })
            }
        },
    }
}

/// Parts that combine to `whole`: unequal, of both signs for sums and products.
pub fn parts(whole: &HostArray, op: ReduceOp, ways: usize, random: &mut Random) -> Vec<HostArray> {
    let mut parts = vec![whole.clone(); ways];
    for (i, value) in whole.values.iter().enumerate() {
        for (part, value) in parts.iter_mut().zip(element_parts(whole.dtype, *value, op, ways, random)) {
            if let Some(slot) = part.values.get_mut(i) {
                *slot = value;
            }
        }
    }
    parts
}

fn element_parts(dtype: DType, whole: Scalar, op: ReduceOp, ways: usize, random: &mut Random) -> Vec<Scalar> {
    // One device, not always the same, gets what the others leave over.
    let keeper = random.below(ways);
    let same_type = |value: i64| match whole {
        Scalar::Float(_) => Scalar::Float(value as f64),
        _ => wrapped(value.into(), dtype),
    };
    // Parts of an extremum lie beyond it, and inside the dtype.
    let beyond = |distance: i64| match (whole.as_integer(), dtype.lowest(), dtype.highest()) {
        (Some(value), Scalar::Int(low), high) => {
            let high = high.as_integer().unwrap_or(i128::MAX);
            wrapped((value + i128::from(distance)).clamp(low.into(), high), dtype)
        }
        _ => combine(ReduceOp::Sum, dtype, whole, same_type(distance)),
    };
    let mut rest = whole;
    let mut drawn = Vec::with_capacity(ways);
    for i in 0..ways {
        if i == keeper {
            drawn.push(whole);
            continue;
        }
        drawn.push(match (op, whole) {
            (ReduceOp::Sum | ReduceOp::Max, Scalar::Bool(whole)) => {
                Scalar::Bool(whole && random.below(2) == 1)
            }
            (ReduceOp::Min | ReduceOp::Prod, Scalar::Bool(whole)) => {
                Scalar::Bool(whole || random.below(2) == 1)
            }
            (ReduceOp::Sum, _) => {
                // Sums of a few products of them are whole numbers in bf16 too, which has 8 bits.
                let most = if dtype == DType::BF16 { 2 } else { 9 };
                let part = random.in_range(1, most) * random.sign();
                rest = combine(ReduceOp::Sum, dtype, rest, same_type(-part));
                same_type(part)
            }
            (ReduceOp::Prod, _) => {
                let part = random.sign();
                rest = combine(ReduceOp::Prod, dtype, rest, same_type(part));
                same_type(part)
            }
            (ReduceOp::Max, _) => beyond(-random.in_range(1, 9)),
            (ReduceOp::Min, _) => beyond(random.in_range(1, 9)),
        });
    }
    if let (Some(slot), ReduceOp::Sum | ReduceOp::Prod, false) =
        (drawn.get_mut(keeper), op, matches!(whole, Scalar::Bool(_)))
    {
        *slot = rest;
    }
    drawn
}

/// The row-major numbers of the elements of a region, in the order of its ranges.
pub fn flat_indices(shape: &Shape, region: &Region) -> Vec<usize> {
    let mut starts = vec![0_usize];
    for (ranges, stride) in region.iter().zip(shape.strides()) {
        starts = starts
            .iter()
            .flat_map(|start| {
                ranges.iter().cloned().flatten().map(move |i| start + i * stride.unsigned_abs())
            })
            .collect();
    }
    starts
}

/// The index of the element of a row-major number.
pub fn unravel(shape: &Shape, mut flat: usize) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|extent| {
            let i = flat % (*extent).max(1);
            flat /= (*extent).max(1);
            i
        })
        .collect();
    index.reverse();
    index
}

/// Elements from native bytes.
pub fn scalars(dtype: DType, bytes: &[u8]) -> Vec<Scalar> {
    fn all<T: Element>(bytes: &[u8]) -> Vec<Scalar> {
        T::from_bytes(bytes).into_iter().map(Element::scalar).collect()
    }
    match dtype {
        DType::Bool => all::<bool>(bytes),
        DType::I8 => all::<i8>(bytes),
        DType::I16 => all::<i16>(bytes),
        DType::I32 => all::<i32>(bytes),
        DType::I64 => all::<i64>(bytes),
        DType::U8 => all::<u8>(bytes),
        DType::U16 => all::<u16>(bytes),
        DType::U32 => all::<u32>(bytes),
        DType::U64 => all::<u64>(bytes),
        DType::F16 => all::<half::f16>(bytes),
        DType::BF16 => all::<half::bf16>(bytes),
        DType::F32 => all::<f32>(bytes),
        DType::F64 => all::<f64>(bytes),
    }
}

/// A small integer as an element: its low bits where the dtype has no negative ones; bools take a bit of `bits`, or every
/// operand would alternate.
fn number(dtype: DType, value: i64, bits: u64) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(bits & 1 == 1),
        float if float.is_float() => Scalar::Float(value as f64),
        integer => wrapped(value.into(), integer),
    }
}

/// A small deterministic generator (splitmix64, by Steele, Lea and Flood): runs repeat.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }
    /// A number in `low..=high`.
    pub fn in_range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low).unsigned_abs() as usize + 1) as i64
    }
    /// 1 or -1.
    pub fn sign(&mut self) -> i64 {
        if self.bits() & 1 == 0 { 1 } else { -1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, DeviceMapping, DeviceMesh, Place};

    #[test]
    fn parts_combine_to_the_whole_and_differ() {
        for dtype in DType::ALL {
            let whole = HostArray::of_case(&CaseOperand::new(dtype, [5, 7]), 3);
            for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod] {
                let parts = parts(&whole, op, 3, &mut Random::new(9));
                let mut joined = parts[0].clone();
                parts[1..].iter().for_each(|part| joined.combine(op, part));
                assert_eq!(joined, whole, "{dtype} {op}");
                assert_ne!(parts[0], parts[1], "{dtype} {op}");
            }
        }
    }

    #[test]
    fn cutting_covers_everything_once() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 3], ["x", "y"]).unwrap();
        let mapping = DeviceMapping::new(&mesh, [Place::Sharded(1), Place::Sharded(0)]).unwrap();
        let shape = Shape::from([5, 7]);
        let mut seen = [0; 35];
        for position in 0..6 {
            flat_indices(&shape, &mapping.region(&shape, position)).iter().for_each(|i| seen[*i] += 1);
        }
        assert!(seen.iter().all(|n| *n == 1));
    }

    #[test]
    fn infinities_are_close_to_themselves_only() {
        let inf = Scalar::Float(f64::INFINITY);
        assert!(close(DType::F32, inf, inf));
        for other in [0.0, 1.0, f64::NEG_INFINITY, f64::NAN].map(Scalar::Float) {
            assert!(!close(DType::F32, inf, other) && !close(DType::F32, other, inf), "{other}");
        }
    }

    #[test]
    fn neighbours_of_a_case_differ() {
        let array = HostArray::of_case(&CaseOperand::new(DType::I64, [200]), 1);
        assert!(array.values.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(array.values.iter().any(|value| value.as_f64() < 0.0));
    }
}
