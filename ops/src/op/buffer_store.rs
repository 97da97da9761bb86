//! Writing a whole buffer.

use crate::check;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::rule::{Rows, RuleCx, match_operand_placement};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, TensorMeta, sharding_rule};
use smallvec::SmallVec;

/// Nothing moves: both are placed alike, or one is Unknown.
fn rule(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    match_operand_placement(cx, 0, &mut rows)?;
    Ok(rows)
}

fn shape(destination: &TensorMeta, source: &TensorMeta) -> Result<()> {
    check::same_dtype(("destination", destination), ("source", source))?;
    if destination.shape != source.shape {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "the source {} is stored into all of the destination {}",
                source.shape, destination.shape
            ),
        )
        .with_fix("buffer_store_slice(&mut destination, &source, &index![..]) stores into a part"));
    }
    Ok(())
}

fn cases(cases: &mut Cases) {
    for shape in [&[7, 5][..], &[6], &[1, 3], &[0, 2], &[]] {
        cases
            .add([CaseOperand::new(DType::F32, shape), CaseOperand::new(DType::F32, shape)], buffer_store {});
    }
}

/// Writes `source` into all of `destination`, in place. The two have one shape and dtype, and lie alike: nothing moves.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Sharded(0)])?;
/// let mut cache = TensorBuffer::new(full([3], 0.0, DType::F32, &rows)?);
/// buffer_store(&mut cache, &Tensor::from_slice(&[1.0_f32, 2.0, 3.0], [3], &rows)?)?;
/// assert_eq!(cache.to_tensor().to_vec::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) if they lie differently, [`ErrorKind::Shape`](crate::ErrorKind::Shape)
/// or [`ErrorKind::DType`](crate::ErrorKind::DType) if they do not fit.
#[sharding_rule(rule = rule, shape = shape, cases = cases)]
pub fn buffer_store(cx: &mut KernelCx, destination: &mut LocalArray, source: &LocalArray) -> Result<()> {
    let start: SmallVec<[usize; 4]> = SmallVec::from_elem(0, source.shape().len());
    cx.store(destination, source, &start)
}
