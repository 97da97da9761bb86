//! Shapes, and the dtype-and-shape of a whole tensor.

use crate::{DType, Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The most tensor axes a tensor may have.
pub const MAX_TENSOR_AXES: usize = 16;

/// The extent of each tensor axis, outermost first. An extent may be 0.
#[derive(Eq, Default, PartialOrd, Ord)]
pub struct Shape(SmallVec<[usize; 4]>);

// Every call of an op clones and compares shapes. They are short, so what the vector does for any length is too much.

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}
impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| a == b)
    }
}
impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Shape {
    /// A shape of at most [`MAX_TENSOR_AXES`] axes whose number of elements fits `isize`.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] for too many axes, [`ErrorKind::Overflow`] for too many elements.
    pub fn new(extents: impl Into<Shape>) -> Result<Self> {
        let shape = extents.into();
        if shape.len() > MAX_TENSOR_AXES {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("{shape} has {} tensor axes; at most {MAX_TENSOR_AXES} are supported", shape.len()),
            )
            .with_fix("merge axes, as in [a * b, c] for [a, b, c]"));
        }
        // Zero extents must not hide an overflow of the others: strides are computed from those too.
        let product =
            shape.iter().filter(|extent| **extent != 0).try_fold(1_usize, |n, extent| n.checked_mul(*extent));
        match product {
            Some(n) if n <= isize::MAX as usize / 16 => Ok(shape),
            _ => Err(Error::new(
                ErrorKind::Overflow,
                format!("{shape} has more elements than memory can address"),
            )
            .with_fix("use smaller extents, or split the work into several tensors")),
        }
    }

    /// The number of elements; `usize::MAX` where it does not fit.
    #[inline]
    pub fn elements(&self) -> usize {
        // A shape that was not checked may have more; a 0 anywhere makes it 0, also behind a product that does not fit.
        self.iter().fold(1, |n, extent| n.saturating_mul(*extent))
    }

    /// Row-major strides, in elements.
    pub fn strides(&self) -> SmallVec<[isize; 4]> {
        let mut strides: SmallVec<[isize; 4]> = SmallVec::new();
        let mut step = 1_usize;
        for extent in self.iter().rev() {
            strides.push(isize::try_from(step).unwrap_or(isize::MAX));
            step = step.saturating_mul((*extent).max(1));
        }
        strides.reverse();
        strides
    }

    /// `axis` counted from the front; a negative one counts from the back.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] if there is no such axis.
    pub fn axis(&self, axis: isize) -> Result<usize> {
        let n = self.len() as isize;
        let found = if axis < 0 { axis + n } else { axis };
        if (0..n).contains(&found) {
            return Ok(found as usize);
        }
        let fix = if n == 0 {
            "a zero-dimensional tensor has no axis".to_owned()
        } else {
            format!("use an axis in {}..{n}", -n)
        };
        Err(Error::new(ErrorKind::Axis, format!("axis {axis} is out of range for the shape {self}"))
            .with_fix(fix))
    }

    /// This shape with `extent` at `axis`.
    #[must_use]
    pub fn with_extent(&self, axis: usize, extent: usize) -> Self {
        let mut shape = self.clone();
        if let Some(slot) = shape.0.get_mut(axis) {
            *slot = extent;
        }
        shape
    }

    /// This shape without `axis`.
    #[must_use]
    pub fn without(&self, axis: usize) -> Self {
        self.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, n)| *n).collect()
    }

    /// The extent at `axis`, or 1 where there is none (the rule of broadcasting).
    pub fn extent(&self, axis: usize) -> usize {
        self.get(axis).copied().unwrap_or(1)
    }
}

impl std::ops::Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl std::ops::DerefMut for Shape {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(extents: I) -> Self {
        Self(extents.into_iter().collect())
    }
}
impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Self {
        Self(SmallVec::from_slice(extents))
    }
}
impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        Self(SmallVec::from_slice(&extents))
    }
}
impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(extents: &[usize; N]) -> Self {
        Self(SmallVec::from_slice(extents))
    }
}
impl From<Vec<usize>> for Shape {
    fn from(extents: Vec<usize>) -> Self {
        Self(SmallVec::from_vec(extents))
    }
}
impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, extent) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{extent}")?;
        }
        f.write_str("]")
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Dtype and global shape of a whole tensor: what a shape function maps to those of the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMeta {
    /// The element type.
    pub dtype: DType,
    /// The global shape.
    pub shape: Shape,
}

impl TensorMeta {
    /// A meta of any shape; results of shape functions are validated by the dispatcher.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Bytes of the whole tensor; `usize::MAX` where they do not fit.
    pub fn bytes(&self) -> usize {
        self.shape.elements().saturating_mul(self.dtype.size())
    }
}

impl fmt::Display for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// The metas of an op's results.
pub type Metas = SmallVec<[TensorMeta; 2]>;

/// The broadcast of two shapes, aligned at the last axis; `None` where two extents differ and neither is 1.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Shape> {
    let n = a.len().max(b.len());
    let at =
        |s: &[usize], i: usize| (i + s.len()).checked_sub(n).and_then(|j| s.get(j).copied()).unwrap_or(1);
    (0..n)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect::<Option<Vec<usize>>>()
        .map(Shape::from)
}
