//! What generated code calls: conversions of what authors return, and the errors of what an op does not have.

use super::{OpDef, OperandDef, OperandKind};
use crate::backend::LocalArray;
use crate::kernel::KernelCx;
use crate::stage::Shards;
use crate::{Error, ErrorKind, Metas, Result, TensorMeta};

/// What a shape function may return: a [`TensorMeta`], a tuple of them, `()` for an op without results, or [`Metas`] or a
/// vector for any number of them.
#[diagnostic::on_unimplemented(
    message = "a shape function cannot return `Result<{Self}>`",
    note = "write `Result<TensorMeta>`, `Result<(TensorMeta, TensorMeta)>` for several results, `Result<Vec<TensorMeta>>` for a number that the call decides, or `Result<()>` for none"
)]
pub trait IntoMetas {
    /// The metas in the order of the results.
    fn into_metas(self) -> Metas;
}

impl IntoMetas for Metas {
    fn into_metas(self) -> Metas {
        self
    }
}
impl IntoMetas for Vec<TensorMeta> {
    fn into_metas(self) -> Metas {
        self.into()
    }
}
impl IntoMetas for TensorMeta {
    fn into_metas(self) -> Metas {
        [self].into_iter().collect()
    }
}
impl IntoMetas for () {
    fn into_metas(self) -> Metas {
        Metas::new()
    }
}

/// What a staged function may return: [`Shards`], a tuple of them, or a vector.
#[diagnostic::on_unimplemented(
    message = "a staged function cannot return `Result<{Self}>`",
    note = "write `Result<Shards>`, or `Result<(Shards, Shards)>` for several results"
)]
pub trait IntoShards {
    /// The shards of each result, in order.
    fn into_shards(self) -> Vec<Shards>;
}

impl IntoShards for Vec<Shards> {
    fn into_shards(self) -> Vec<Shards> {
        self
    }
}
impl IntoShards for Shards {
    fn into_shards(self) -> Vec<Shards> {
        vec![self]
    }
}

macro_rules! tuples {
    ($($name:ident: $meta:ident $shards:ident),*) => {
        impl IntoMetas for ($($meta,)*) {
            fn into_metas(self) -> Metas {
                let ($($name,)*) = self;
                [$($name),*].into_iter().collect()
            }
        }
        impl IntoShards for ($($shards,)*) {
            fn into_shards(self) -> Vec<Shards> {
                let ($($name,)*) = self;
                vec![$($name),*]
            }
        }
    };
}
tuples!(a: TensorMeta Shards, b: TensorMeta Shards);
tuples!(a: TensorMeta Shards, b: TensorMeta Shards, c: TensorMeta Shards);
tuples!(a: TensorMeta Shards, b: TensorMeta Shards, c: TensorMeta Shards, d: TensorMeta Shards);

/// The error of an op that is declared without a portable kernel, on a backend that has none of its own.
pub fn no_portable_kernel(cx: &KernelCx<'_>) -> Error {
    let (op, backend) = (cx.op(), cx.backend().kind().name());
    Error::new(
        ErrorKind::Registry,
        format!("the op has kernels per backend only, and none is registered for '{backend}'"),
    )
    .with_op(op)
    .with_fix(format!(
        "link a crate with #[kernel(op = {op}, backend = \"{backend}\")]: use that_crate as _;"
    ))
}

/// The error of a staged row of an op that has no staged function.
pub fn no_stages(op: &'static str) -> Error {
    Error::new(ErrorKind::Internal, "a staged row was chosen, and the op has no staged function")
        .with_op(op)
        .with_fix("declare it: #[sharding_rule(.., stages = path)]")
}

/// The error of a part that a misuse of the attribute left out; such a program does not compile.
pub fn not_compiled(op: &'static str) -> Error {
    Error::new(ErrorKind::Internal, "the op's declaration has an error").with_op(op)
}

/// The written operands of a kernel that declares `N` of them.
///
/// # Errors
/// [`ErrorKind::Internal`] for another number, which dispatch rules out.
pub fn written<const N: usize>(arrays: &mut [LocalArray]) -> Result<&mut [LocalArray; N]> {
    let n = arrays.len();
    arrays
        .try_into()
        .map_err(|_| Error::new(ErrorKind::Internal, format!("{n} written operands were passed, not {N}")))
}

impl OpDef {
    /// Whether the op is declared with this number of results, or with any: what `#[kernel]` checks while compiling.
    pub const fn gives(&self, results: Option<usize>) -> bool {
        match (self.results, results) {
            (Some(declared), Some(given)) => declared == given,
            (declared, given) => declared.is_none() && given.is_none(),
        }
    }
    /// Whether the declared operand of that number has this name and a kind that a kernel takes the same way: what
    /// `#[kernel]` checks while compiling.
    pub const fn declares(&self, number: usize, name: &str, kind: OperandKind) -> bool {
        let (mut rest, mut number) = (self.operands, number);
        while let [first, tail @ ..] = rest {
            if number == 0 {
                return first.fits(name, kind);
            }
            (rest, number) = (tail, number - 1);
        }
        false
    }
}

impl OperandDef {
    const fn fits(&self, name: &str, kind: OperandKind) -> bool {
        use OperandKind::{Many, Optional, Scalar, Tensor, Written};
        let (mut a, mut b) = (self.name.as_bytes(), name.as_bytes());
        while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
            if *x != *y {
                return false;
            }
            (a, b) = (rest_a, rest_b);
        }
        // To a kernel, a number is a zero-dimensional array.
        let kinds = (self.kind, kind);
        a.is_empty()
            && b.is_empty()
            && matches!(
                kinds,
                (Tensor | Scalar, Tensor | Scalar) | (Many, Many) | (Optional, Optional) | (Written, Written)
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_kernels_are_compared_by_name_and_kind() {
        let x = OperandDef { name: "x", kind: OperandKind::Scalar };
        assert!(x.fits("x", OperandKind::Tensor));
        assert!(!x.fits("x", OperandKind::Many));
        assert!(!x.fits("y", OperandKind::Tensor));
        assert!(!x.fits("xs", OperandKind::Tensor));
        assert!(!x.fits("", OperandKind::Tensor));
    }
}
