//! Batched matrix products: `gemm` for f32, scalar products of rows for a few rows by a transposed matrix, blocked loops
//! for small products and for integers.

use crate::device::dispatch;
use crate::element::{Item, Slot};
use crate::storage::{View, internal, overwrite, unsupported};
use gemm::Parallelism;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use sharding_core::backend::{LocalArray, LocalMeta, Support};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Products of at most this many multiplications skip `gemm`, whose packing costs more than they do.
const SMALL: usize = 16 * 16 * 16;
/// Products of at least this many multiplications split over the pool.
const LARGE: usize = 1 << 22;
/// Matrices of at least this many multiplications split inside rather than over the batch.
const SPLIT: usize = 1 << 25;
/// Columns of a result row that are added up in registers.
const COLUMNS: usize = 32;
/// Up to this many rows by a transposed matrix, `gemm` spends more on bringing the matrix into order than on the product.
const FEW_ROWS: usize = 128;
/// Rows of a result per task of the pool, where scalar products of rows are taken.
const ROW_TASK: usize = 8;
/// Scalar products shorter than this are left to other loops.
const SHORT: usize = 16;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(inputs: &[LocalMeta]) -> Support {
    match inputs {
        [a, b]
            if a.dtype == b.dtype
                && matches!(a.dtype, DType::F32 | DType::I64)
                && a.shape.len() >= 2
                && b.shape.len() >= 2 =>
        {
            Support::Yes
        }
        _ => Support::No(format!("the cpu backend has no matrix product of {inputs:?}")),
    }
}

/// The matrices of a batch in a storage.
struct Batch<'a, T> {
    data: &'a [T],
    offset: isize,
    /// Strides of the batch axes of the result; 0 where this operand broadcasts.
    batch: SmallVec<[isize; 4]>,
    row: isize,
    column: isize,
}

impl<'a, T: Item> Batch<'a, T> {
    fn new(array: &'a LocalArray, batch: &[usize]) -> Result<Self> {
        let view = View::<T>::of(array)?;
        let (shape, strides) = (array.shape(), &view.meta().strides);
        let misfit = || internal(format!("{array:?} is no batch of matrices over {batch:?}"));
        let own = shape.len().checked_sub(2).ok_or_else(misfit)?;
        let lead = batch.len().checked_sub(own).ok_or_else(misfit)?;
        let mut steps: SmallVec<[isize; 4]> = SmallVec::from_elem(0, batch.len());
        for (axis, step) in steps[lead..].iter_mut().enumerate() {
            if shape[axis] == batch[lead + axis] {
                *step = strides[axis];
            } else if shape[axis] != 1 {
                return Err(misfit());
            }
        }
        let offset = view.meta().offset as isize;
        Ok(Self { data: view.data(), offset, batch: steps, row: strides[own], column: strides[own + 1] })
    }

    /// Where a matrix begins.
    fn start(&self, number: usize, batch: &[usize]) -> isize {
        let (mut rest, mut at) = (number, self.offset);
        for (extent, step) in batch.iter().zip(&self.batch).rev() {
            at += (rest % extent) as isize * step;
            rest /= extent;
        }
        at
    }
}

/// A product of batches: `[count, m, k]` by `[count, k, n]`.
struct Product<'a, T> {
    a: Batch<'a, T>,
    b: Batch<'a, T>,
    batch: SmallVec<[usize; 4]>,
    m: usize,
    k: usize,
    n: usize,
    /// What is added to every row of the result.
    bias: Option<Vec<T>>,
}

impl<'a, T: Item> Product<'a, T> {
    fn new(
        a: &'a LocalArray,
        b: &'a LocalArray,
        bias: Option<&LocalArray>,
        out: &LocalArray,
    ) -> Result<Self> {
        let misfit = || internal(format!("the matrix product of {a:?} and {b:?} into {out:?}"));
        let (&[.., rows, k], &[.., inner, columns], &[ref batch @ .., m, n]) =
            (&**a.shape(), &**b.shape(), &**out.shape())
        else {
            return Err(misfit());
        };
        if (rows, inner, columns) != (m, k, n) {
            return Err(misfit());
        }
        let (mut batch, mut m) = (SmallVec::<[usize; 4]>::from_slice(batch), m);
        let (mut a, mut b) = (Batch::<T>::new(a, &batch)?, Batch::<T>::new(b, &batch)?);
        // Batch axes on which b does not vary are more rows of a, where memory allows.
        while let Some(extent) = batch.last().copied() {
            let (outer, same) = (a.batch[batch.len() - 1], b.batch[batch.len() - 1] == 0);
            if extent != 1 && !(same && (outer == a.row * m as isize || m == 1)) {
                break;
            }
            if extent != 1 {
                a.row = if m == 1 { outer } else { a.row };
                m *= extent;
            }
            batch.pop();
            a.batch.pop();
            b.batch.pop();
        }
        let bias =
            bias.map(|bias| View::<T>::of(bias).map(|bias| bias.to_dense().into_owned())).transpose()?;
        if bias.as_ref().is_some_and(|bias| bias.len() != n) {
            return Err(internal(format!("a bias that is no row of {out:?}")));
        }
        Ok(Self { a, b, batch, m, k, n, bias })
    }

    /// The elements of the bias from a column on; none without a bias.
    fn bias_from(&self, column: usize) -> &[T] {
        self.bias.as_deref().and_then(|bias| bias.get(column..)).unwrap_or_default()
    }

    /// The multiplications of one matrix.
    fn work(&self) -> usize {
        self.m.saturating_mul(self.k).saturating_mul(self.n)
    }

    /// Runs `matrix` on every matrix of the result; over the pool, if `split`.
    fn each(
        &self,
        split: bool,
        out: &mut [MaybeUninit<T>],
        matrix: impl Fn(isize, isize, &mut [MaybeUninit<T>]) + Send + Sync,
    ) {
        let one = |(i, out): (usize, &mut [MaybeUninit<T>])| {
            matrix(self.a.start(i, &self.batch), self.b.start(i, &self.batch), out);
        };
        if split {
            out.par_chunks_mut(self.m * self.n).enumerate().for_each(one);
        } else {
            out.chunks_mut(self.m * self.n).enumerate().for_each(one);
        }
    }

    /// One matrix by loops; `a` and `b` say where the factors begin.
    fn by_loops(&self, a: isize, b: isize, out: &mut [MaybeUninit<T>]) {
        let place = |start: isize, i: usize, row: isize, j: usize, column: isize| {
            (start + i as isize * row + j as isize * column) as usize
        };
        for (i, out) in out.chunks_mut(self.n).enumerate() {
            for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
                let mut sums = [T::ZERO; COLUMNS];
                let sums = &mut sums[..out.len()];
                for l in 0..self.k {
                    let x = self.a.data[place(a, i, self.a.row, l, self.a.column)];
                    let from = place(b, l, self.b.row, block * COLUMNS, self.b.column);
                    if self.b.column == 1 {
                        for (sum, y) in sums.iter_mut().zip(&self.b.data[from..]) {
                            *sum = T::plus(*sum, T::times(x, *y));
                        }
                    } else {
                        for (j, sum) in sums.iter_mut().enumerate() {
                            let y = self.b.data[(from as isize + j as isize * self.b.column) as usize];
                            *sum = T::plus(*sum, T::times(x, y));
                        }
                    }
                }
                for (sum, bias) in sums.iter_mut().zip(self.bias_from(block * COLUMNS)) {
                    *sum = T::plus(*sum, *bias);
                }
                for (slot, sum) in out.iter_mut().zip(sums) {
                    slot.put(*sum);
                }
            }
        }
    }
}

impl Product<'_, f32> {
    /// Whether scalar products of rows are the way: a few rows by a matrix whose columns lie in order.
    fn is_rows(&self) -> bool {
        self.m <= FEW_ROWS && self.k >= SHORT && self.a.column == 1 && self.b.row == 1
    }

    /// One matrix by scalar products of rows, `split` over the pool.
    fn by_rows(&self, a: isize, b: isize, out: &mut [MaybeUninit<f32>], split: bool) {
        let task = |(i, out): (usize, &mut [MaybeUninit<f32>])| {
            let a = a + (i * ROW_TASK) as isize * self.a.row;
            dispatch(RowProducts { product: self, a, b, out });
        };
        if split {
            out.par_chunks_mut(ROW_TASK * self.n).enumerate().for_each(task);
        } else {
            task((0, out));
        }
    }

    /// One matrix by `gemm`.
    fn by_gemm(&self, a: isize, b: isize, out: &mut [MaybeUninit<f32>], threads: Parallelism) {
        let Self { m, k, n, .. } = *self;
        // The product is added to the bias where there is one.
        if let Some(bias) = &self.bias {
            let fill = |out: &mut [MaybeUninit<f32>]| {
                for (slot, bias) in out.iter_mut().zip(bias) {
                    slot.write(*bias);
                }
            };
            match threads {
                Parallelism::None => out.chunks_mut(n).for_each(fill),
                Parallelism::Rayon(_) => out.par_chunks_mut(n).for_each(fill),
            }
        }
        if out.len() != m * n || k == 0 {
            if self.bias.is_none() {
                out.fill(MaybeUninit::new(0.0));
            }
            return;
        }
        let (x, y) = (&self.a.data[a as usize..], &self.b.data[b as usize..]);
        // SAFETY: `new` has checked the extents, and `View::of` that every element of both operands, at any index of batch, row and column,
        // lies in its storage, and `start` gives the places of first elements; `out` holds m * n elements, which are
        // written, and read only if they have just been filled with the bias. `gemm` only multiplies strides by indices
        // below m, k and n.
        // The storage of `out` is uniquely owned, so that it does not overlap the operands'.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                out.as_mut_ptr().cast::<f32>(),
                1,
                n as isize,
                self.bias.is_some(),
                x.as_ptr(),
                self.a.column,
                self.a.row,
                y.as_ptr(),
                self.b.column,
                self.b.row,
                1.0,
                1.0,
                false,
                false,
                false,
                threads,
            );
        }
    }
}

/// Rows of a result from row `a` of the left factor on: each element is a scalar product of two slices.
struct RowProducts<'a> {
    product: &'a Product<'a, f32>,
    a: isize,
    b: isize,
    out: &'a mut [MaybeUninit<f32>],
}

impl WithSimd for RowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { product, a, b, out } = self;
        let Product { a: x, b: y, k, n, .. } = product;
        let row = |i: usize| &x.data[(a + i as isize * x.row) as usize..][..*k];
        let column = |j: usize| &y.data[(b + j as isize * y.column) as usize..][..*k];
        // Four rows at a time share what is read of four columns.
        for (block, out) in out.chunks_mut(4 * n).enumerate() {
            let rows = out.len() / n;
            let first = |i: usize| row(4 * block + i.min(rows - 1));
            let mut j = 0;
            while j < *n {
                if rows == 1 {
                    put(scalar_products(simd, [first(0)], columns::<4>(j, *n, &column)), j, *n, product, out);
                } else {
                    let rows = [first(0), first(1), first(2), first(3)];
                    put(scalar_products(simd, rows, columns::<4>(j, *n, &column)), j, *n, product, out);
                }
                j += 4;
            }
        }
    }
}

/// Columns from the `j`th on; the last one again where there are no more.
#[inline(always)]
fn columns<'a, const C: usize>(j: usize, n: usize, column: &impl Fn(usize) -> &'a [f32]) -> [&'a [f32]; C] {
    std::array::from_fn(|c| column((j + c).min(n - 1)))
}

/// Puts scalar products in their places, from column `j` on; those beyond the last row or column are left out.
#[inline(always)]
fn put<const R: usize, const C: usize>(
    sums: [[f32; C]; R],
    j: usize,
    n: usize,
    product: &Product<'_, f32>,
    out: &mut [MaybeUninit<f32>],
) {
    let bias = product.bias_from(j);
    for (sums, out) in sums.iter().zip(out.chunks_mut(n)) {
        for (c, (sum, slot)) in sums.iter().zip(&mut out[j..]).enumerate() {
            slot.write(sum + bias.get(c).copied().unwrap_or(0.0));
        }
    }
}

/// The scalar products of rows and columns of one length. Each is added up alike whatever stands beside it.
#[inline(always)]
fn scalar_products<S: Simd, const R: usize, const C: usize>(
    simd: S,
    rows: [&[f32]; R],
    columns: [&[f32]; C],
) -> [[f32; C]; R] {
    let (rows, columns) = (rows.map(S::as_simd_f32s), columns.map(S::as_simd_f32s));
    let len = columns[0].0.len();
    // Slices of one known length: the loop needs no checks of bounds.
    let (heads, others) = (rows.map(|row| &row.0[..len]), columns.map(|column| &column.0[..len]));
    let mut sums = [[simd.splat_f32s(0.0); C]; R];
    for l in 0..len {
        let column: [S::f32s; C] = std::array::from_fn(|c| others[c][l]);
        for (sums, head) in sums.iter_mut().zip(&heads) {
            for (sum, column) in sums.iter_mut().zip(column) {
                *sum = simd.mul_add_f32s(head[l], column, *sum);
            }
        }
    }
    std::array::from_fn(|r| {
        std::array::from_fn(|c| {
            let tail = rows[r].1.iter().zip(columns[c].1).map(|(x, y)| x * y);
            simd.reduce_sum_f32s(sums[r][c]) + tail.sum::<f32>()
        })
    })
}

/// Runs [`Primitive::Dot`](sharding_core::backend::Primitive::Dot).
pub(crate) fn run(a: &LocalArray, b: &LocalArray, out: &mut LocalArray) -> Result<()> {
    product(a, b, None, out)
}

/// Runs [`FusedOp::Linear`](sharding_core::backend::FusedOp::Linear).
pub(crate) fn linear(
    x: &LocalArray,
    weight: &LocalArray,
    bias: &LocalArray,
    out: &mut LocalArray,
) -> Result<()> {
    product(x, &weight.permute(&[1, 0]), Some(bias), out)
}

fn product(a: &LocalArray, b: &LocalArray, bias: Option<&LocalArray>, out: &mut LocalArray) -> Result<()> {
    if out.elements() == 0 {
        // There may be no data to look at: an operand with an extent of 0 may be a view of anything.
        return match out.dtype() {
            DType::F32 | DType::I64 => Ok(()),
            other => Err(unsupported(format_args!("a matrix product of {other}"))),
        };
    }
    match out.dtype() {
        DType::F32 => {
            let product = Product::<f32>::new(a, b, bias, out)?;
            let count: usize = product.batch.iter().product();
            let work = product.work();
            let large = work.saturating_mul(count) >= LARGE;
            let over_batch = large && count > 1 && work < SPLIT;
            let split = large && !over_batch;
            let threads = if split { Parallelism::Rayon(0) } else { Parallelism::None };
            let write = |out: &mut [MaybeUninit<f32>]| {
                product.each(over_batch, out, |a, b, out| {
                    if product.is_rows() {
                        product.by_rows(a, b, out, split);
                    } else if work <= SMALL {
                        product.by_loops(a, b, out);
                    } else {
                        product.by_gemm(a, b, out, threads);
                    }
                });
                Ok(())
            };
            // SAFETY: the chunks of `each` are all of `out`; each way writes every element of a chunk.
            unsafe { overwrite::<f32>(out, write) }
        }
        DType::I64 => {
            let product = Product::<i64>::new(a, b, bias, out)?;
            let count: usize = product.batch.iter().product();
            let large = product.work().saturating_mul(count) >= LARGE;
            let write = |out: &mut [MaybeUninit<i64>]| {
                product.each(large, out, |a, b, out| product.by_loops(a, b, out));
                Ok(())
            };
            // SAFETY: the chunks of `each` are all of `out`; `by_loops` writes every element of a chunk.
            unsafe { overwrite::<i64>(out, write) }
        }
        other => Err(unsupported(format_args!("a matrix product of {other}"))),
    }
}
