//! Choice by a condition, elementwise.

use crate::check;
use sharding_core::backend::{Expr, LocalArray, Node};
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, TensorMeta, sharding_rule};

/// Linear in both choices together, while the condition is whole.
fn both_parts(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    rows.add([Place::Replicated, Place::PARTIAL, Place::PARTIAL], cx.results.iter().map(|_| Place::PARTIAL));
    Ok(rows)
}

fn shape(condition: &TensorMeta, x: &TensorMeta, y: &TensorMeta) -> Result<TensorMeta> {
    if condition.dtype != DType::Bool {
        return Err(Error::new(ErrorKind::DType, format!("the condition is {}, not bool", condition.dtype))
            .with_fix("ne(&condition, 0) tells what is not 0"));
    }
    check::same_dtype(("x", x), ("y", y))?;
    let both = TensorMeta::new(x.dtype, check::broadcast_shape(("x", x), ("y", y))?);
    let shape = check::broadcast_shape(("the broadcast of x and y", &both), ("condition", condition))?;
    Ok(TensorMeta::new(x.dtype, shape))
}

fn cases(cases: &mut Cases) {
    for (condition, x, y) in [
        (&[7, 5][..], &[7, 5][..], &[7, 5][..]),
        (&[5], &[4, 5], &[4, 1]),
        (&[2, 4, 6], &[4, 6], &[2, 1, 6]),
        (&[4, 3], &[], &[4, 3]),
        (&[1, 3], &[1, 3], &[1, 3]),
        (&[0, 3], &[3], &[]),
    ] {
        for dtype in [DType::F32, DType::I64] {
            let operand = |shape: &[usize]| CaseOperand::new(dtype, shape);
            cases.add([CaseOperand::new(DType::Bool, condition), operand(x), operand(y)], r#where {});
        }
    }
}

/// `x` where the condition holds, else `y`, elementwise; the three shapes broadcast, aligned at the last axis. `x` and `y`
/// may be numbers.
///
/// Two Partial choices under a Replicated condition stay Partial: every device chooses among its parts. (The op's name is
/// `where`, a word of Rust: this function is also exported as `where_`.)
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let columns = DeviceMapping::new(&mesh, [Sharded(1)])?;
/// let mask = Tensor::from_slice(&[true, false, false, true], [2, 2], &columns)?;
/// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &columns)?;
/// assert_eq!(where_(&mask, &x, -1.0)?.to_vec::<f32>()?, [1.0, -1.0, -1.0, 4.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) if the shapes do not broadcast, [`ErrorKind::DType`](crate::ErrorKind::DType)
/// for a condition that is not bool or choices of two dtypes, else as every op.
#[sharding_rule(["..., ..., ... -> ..."], rule_also = both_parts, shape = shape, cases = cases)]
pub fn r#where(
    cx: &mut KernelCx,
    condition: &LocalArray,
    #[scalar] x: &LocalArray,
    #[scalar] y: &LocalArray,
) -> Result<LocalArray> {
    static NODES: [Node; 4] = [Node::Input(0), Node::Input(1), Node::Input(2), Node::Select(0, 1, 2)];
    cx.map(&Expr::from_static(&NODES), &[condition, x, y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;

    #[test]
    fn both_choices_may_come_in_parts() {
        let of = |dtype| (dtype, &[4][..], &[Place::Replicated][..]);
        let operands = [of(DType::Bool), of(DType::F32), of(DType::F32)];
        ask::check::<r#where>(&r#where {}, &[2], &operands, &["R R R -> R", "S0 S0 S0 -> S0", "R P P -> P"]);
    }
}
