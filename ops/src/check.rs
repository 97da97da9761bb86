//! What shape functions check of dtypes and shapes, with the words of their errors.
//!
//! Op and operands are added by the dispatcher: messages here say what does not fit and which line mends it.

use sharding_core::rule::RuleCx;
use sharding_core::{DType, Error, ErrorKind, Result, Shape, TensorMeta, broadcast};

/// Refuses truth values where a number is needed.
pub(crate) fn number(name: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype == DType::Bool {
        return Err(Error::new(ErrorKind::DType, format!("{name} holds truth values, not numbers"))
            .with_fix(format!("where_(&{name}, &ones, 0.0) makes numbers of them, of the dtype of ones")));
    }
    Ok(())
}

/// Refuses anything but floating-point numbers.
pub(crate) fn float(name: &str, meta: &TensorMeta) -> Result<()> {
    if !meta.dtype.is_float() {
        return Err(Error::new(
            ErrorKind::DType,
            format!("{name} is {}, where floating-point numbers are needed", meta.dtype),
        )
        .with_fix(format!("make {name} of f32 values: Tensor::from_slice::<f32>(..)")));
    }
    Ok(())
}

/// Refuses anything but i64 indices.
pub(crate) fn indices(name: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype != DType::I64 {
        return Err(Error::new(ErrorKind::DType, format!("{name} is {}; indices are i64", meta.dtype))
            .with_fix(format!("make {name} of i64 values: Tensor::from_slice::<i64>(..)")));
    }
    Ok(())
}

/// Refuses two dtypes.
pub(crate) fn same_dtype(a: (&str, &TensorMeta), b: (&str, &TensorMeta)) -> Result<()> {
    if a.1.dtype != b.1.dtype {
        return Err(Error::new(
            ErrorKind::DType,
            format!("{} is {} and {} is {}", a.0, a.1.dtype, b.0, b.1.dtype),
        )
        .with_fix(format!("give both one dtype: {} decides, make {} of it", a.0, b.0)));
    }
    Ok(())
}

/// The broadcast of two shapes.
pub(crate) fn broadcast_shape(a: (&str, &TensorMeta), b: (&str, &TensorMeta)) -> Result<Shape> {
    broadcast(&a.1.shape, &b.1.shape).ok_or_else(|| {
        Error::new(
            ErrorKind::Shape,
            format!(
                "{} {} and {} {} do not broadcast: aligned at the last axis, extents must be equal or 1",
                a.0, a.1.shape, b.0, b.1.shape
            ),
        )
        .with_fix(format!("reshape(&{}, ..) so that the axes line up", b.0))
    })
}

/// The meta of an elementwise op of two numbers of one dtype.
pub(crate) fn binary(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    number("lhs", lhs)?;
    number("rhs", rhs)?;
    same_dtype(("lhs", lhs), ("rhs", rhs))?;
    Ok(TensorMeta::new(lhs.dtype, broadcast_shape(("lhs", lhs), ("rhs", rhs))?))
}

/// An axis of a rule's first operand, or the error of [`Shape::axis`].
pub(crate) fn operand_axis(cx: &RuleCx<'_>, axis: isize) -> Result<usize> {
    cx.operands.first().map_or_else(|| Shape::default().axis(axis), |x| x.meta.shape.axis(axis))
}

/// `shape` with `axis` reduced: of extent 1, or gone.
pub(crate) fn reduced(shape: &Shape, axis: usize, keepdims: bool) -> Shape {
    if keepdims { shape.with_extent(axis, 1) } else { shape.without(axis) }
}

/// Refuses to reduce nothing where the reduction has no identity.
pub(crate) fn not_empty(what: &str, meta: &TensorMeta, axis: usize) -> Result<()> {
    if meta.shape.extent(axis) == 0 {
        return Err(Error::new(
            ErrorKind::Shape,
            format!("there is no {what} of nothing: axis {axis} of {} has extent 0", meta.shape),
        )
        .with_fix("reduce an axis that has elements"));
    }
    Ok(())
}
