//! Rows of a table by index.

use crate::copy::Walk;
use crate::device::{self, is_large};
use crate::storage::{View, internal, overwrite, with_word};
use sharding_core::backend::{Gather, LocalArray, LocalMeta, Support};
use sharding_core::{DType, Error, ErrorKind, Result};
use std::mem::MaybeUninit;

/// Elements per task of the pool.
const TASK: usize = 1 << 16;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(gather: &Gather, inputs: &[LocalMeta]) -> Support {
    match inputs {
        [table, indices] if indices.dtype == DType::I64 && gather.axis < table.shape.len() => Support::Yes,
        _ => Support::No(format!("{gather:?} of {inputs:?}; indices must be i64")),
    }
}

/// The local row of every index; `None` for a row that another device holds.
fn local_rows(gather: &Gather, rows: usize, indices: &LocalArray) -> Result<Vec<Option<usize>>> {
    let indices = View::<i64>::of(indices)?.to_dense();
    let mut found = Vec::with_capacity(indices.len());
    for (position, index) in indices.iter().enumerate() {
        if !(0..gather.bound).contains(index) {
            return Err(Error::new(
                ErrorKind::Kernel,
                format!(
                    "index {index} (number {position} of {}) is outside the table's extent of {} on axis {}",
                    indices.len(),
                    gather.bound,
                    gather.axis
                ),
            )
            .with_fix(format!("use indices in 0..{}", gather.bound)));
        }
        let local = index.checked_sub(gather.base).and_then(|local| usize::try_from(local).ok());
        found.push(local.filter(|local| *local < rows));
    }
    Ok(found)
}

/// Runs the primitive.
pub(crate) fn run(
    gather: &Gather,
    table: &LocalArray,
    indices: &LocalArray,
    out: &mut LocalArray,
) -> Result<()> {
    let axis = gather.axis;
    if axis >= table.shape().len() || indices.dtype() != DType::I64 || table.dtype() != out.dtype() {
        return Err(internal(format!("a gather of {table:?} by {indices:?} on axis {axis}")));
    }
    let rows = local_rows(gather, table.shape().extent(axis), indices)?;
    let others: usize = table.shape().without(axis).elements();
    if others.checked_mul(rows.len()) != Some(out.elements()) {
        return Err(internal(format!("a gather of {table:?} by {indices:?} into {out:?}")));
    }
    if out.elements() == 0 {
        return Ok(());
    }
    with_word!(table.dtype(), T => {
        let view = View::<T>::of(table)?;
        let (shape, strides) = (&view.meta().shape, &view.meta().strides);
        let offset = view.meta().offset as isize;
        let width: usize = shape[axis + 1..].iter().product();
        let inner = Walk::new(&shape[axis + 1..], &strides[axis + 1..], 0);
        // Where the slice of each index of the axes before begins.
        let outer = Walk::new(&shape[..axis], &strides[..axis], offset);
        let starts = outer.places(shape[..axis].iter().product());
        let fill = |(number, out): (usize, &mut [MaybeUninit<T>])| {
            let start = starts[number / rows.len()];
            match rows[number % rows.len()] {
                Some(row) => {
                    let at = start + row as isize * strides[axis];
                    inner.shifted(at).read(view.data(), 0, out);
                }
                None => out.fill(MaybeUninit::new(0)),
            }
        };
        let write = |out: &mut [MaybeUninit<T>]| {
            if is_large(out.len()) {
                let least = (TASK / width).max(1);
                device::chunks(out, least * width, |i, out| {
                    out.chunks_mut(width).enumerate().for_each(|(j, out)| fill((i * least + j, out)));
                });
            } else {
                out.chunks_mut(width).enumerate().for_each(fill);
            }
            Ok(())
        };
        // SAFETY: the chunks are all of `out`; `fill` and `read` write every element of one.
        unsafe { overwrite::<T>(out, write) }
    })
}
