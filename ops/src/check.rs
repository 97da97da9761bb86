//! What shape functions check of dtypes and shapes, with the words of their errors.
//!
//! Op and operands are added by the dispatcher: messages here say what does not fit and which line mends it.

use sharding_core::rule::RuleCx;
use sharding_core::{DType, Error, ErrorKind, Result, Shape, TensorMeta, broadcast};

/// Refuses truth values where a number is needed.
pub(crate) fn number(name: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype == DType::Bool {
        return Err(Error::new(ErrorKind::DType, format!("{name} holds truth values, not numbers"))
            .with_fix(format!("cast(&{name}, DType::I64) makes numbers of them")));
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
        .with_fix(format!("cast(&{name}, DType::F32)")));
    }
    Ok(())
}

/// Refuses anything but i64 indices.
pub(crate) fn indices(name: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype != DType::I64 {
        return Err(Error::new(ErrorKind::DType, format!("{name} is {}; indices are i64", meta.dtype))
            .with_fix(format!("cast(&{name}, DType::I64)")));
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
        .with_fix(format!("cast(&{}, DType::{:?}) gives both one dtype", b.0, a.1.dtype)));
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

/// Refuses anything but truth values.
pub(crate) fn truth(name: &str, meta: &TensorMeta) -> Result<()> {
    if meta.dtype != DType::Bool {
        return Err(Error::new(
            ErrorKind::DType,
            format!("{name} is {}, where truth values are needed", meta.dtype),
        )
        .with_fix(format!("ne(&{name}, 0) tells what is not 0")));
    }
    Ok(())
}

/// The meta of an elementwise function of one number.
pub(crate) fn unary_number(x: &TensorMeta) -> Result<TensorMeta> {
    number("x", x).map(|()| x.clone())
}

/// The meta of an elementwise function of one floating-point number.
pub(crate) fn unary_float(x: &TensorMeta) -> Result<TensorMeta> {
    float("x", x).map(|()| x.clone())
}

/// The meta of an elementwise function of one truth value.
pub(crate) fn unary_truth(x: &TensorMeta) -> Result<TensorMeta> {
    truth("x", x).map(|()| x.clone())
}

/// The meta of whether two elements are equal.
pub(crate) fn equality(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    same_dtype(("lhs", lhs), ("rhs", rhs))?;
    Ok(TensorMeta::new(DType::Bool, broadcast_shape(("lhs", lhs), ("rhs", rhs))?))
}

/// The meta of a comparison of two numbers.
pub(crate) fn comparison(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    number("lhs", lhs)?;
    equality(lhs, rhs)
}

/// The meta of an elementwise op of two truth values.
pub(crate) fn logical(lhs: &TensorMeta, rhs: &TensorMeta) -> Result<TensorMeta> {
    truth("lhs", lhs)?;
    truth("rhs", rhs)?;
    equality(lhs, rhs)
}

/// Refuses a vector of factors or terms that does not have the extent of the last axis of `x`; gives that extent.
pub(crate) fn last_axis_vectors(x: &TensorMeta, vectors: &[(&str, &TensorMeta)]) -> Result<usize> {
    let Some(last) = x.shape.last() else {
        return Err(Error::new(ErrorKind::Shape, "x has no axis to normalise over")
            .with_fix("reshape(&x, &[1]) gives it one"));
    };
    for (name, vector) in vectors {
        same_dtype(("x", x), (name, vector))?;
        if *vector.shape != [*last] {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("{name} must have the extent of the last axis of x, [{last}], got {}", vector.shape),
            )
            .with_fix(format!("reshape(&{name}, &[{last}])")));
        }
    }
    Ok(*last)
}

/// Refuses what is no small number to add to a variance.
pub(crate) fn eps(eps: f64) -> Result<()> {
    if eps >= 0.0 && eps.is_finite() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Argument, format!("eps must be a finite number from 0, got {eps}"))
        .with_fix("give an eps such as 1e-5"))
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
