//! Products of a few f32 rows by a transposed matrix: each element is the scalar product of two slices.

use super::{FEW_ROWS, Product};
use crate::device::{self, dispatch};
use pulp::{Simd, WithSimd};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;

/// One matrix by scalar products of rows, some columns a task.
pub(super) struct RowJob<'a> {
    product: &'a Product<'a, f32>,
    a: isize,
    b: isize,
    width: usize,
    out: device::Start<MaybeUninit<f32>>,
}

impl<'a> RowJob<'a> {
    pub(super) fn new(
        product: &'a Product<'a, f32>,
        a: isize,
        b: isize,
        out: &'a mut [MaybeUninit<f32>],
        width: usize,
    ) -> Self {
        assert!(out.len() == product.m * product.n);
        Self { product, a, b, width, out: device::Start::new(out) }
    }

    pub(super) fn tasks(&self) -> usize {
        self.product.n.div_ceil(self.width)
    }

    /// Runs a task.
    ///
    /// # Safety
    /// No other thread runs the one of this number at the same time.
    pub(super) unsafe fn run(&self, number: usize) {
        let Self { product, a, b, width, .. } = *self;
        let n = product.n;
        let columns = number * width..n.min((number + 1) * width);
        let places = (0..product.m).map(|i| {
            // SAFETY: these columns of a row lie inside the m by n places of `out`, and no other task has them.
            unsafe { std::slice::from_raw_parts_mut(self.out.at(i * n + columns.start), columns.len()) }
        });
        let out = places.collect();
        dispatch(RowProducts { product, a, b, columns: columns.clone(), out });
    }
}

/// Some columns of a result of a few rows: each element is a scalar product of two slices.
struct RowProducts<'a> {
    product: &'a Product<'a, f32>,
    a: isize,
    b: isize,
    columns: Range<usize>,
    /// These columns of every row.
    out: SmallVec<[&'a mut [MaybeUninit<f32>]; FEW_ROWS]>,
}

impl WithSimd for RowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { product, a, b, columns: range, mut out } = self;
        let Product { a: x, b: y, k, .. } = product;
        let row = |i: usize| &x.data[(a + i.min(out.len() - 1) as isize * x.row) as usize..][..*k];
        let column = |j: usize| &y.data[(b + j as isize * y.column) as usize..][..*k];
        let rows = [row(0), row(1), row(2), row(3)];
        let one = out.len() == 1;
        // All rows share what is read of four columns.
        for j in range.clone().step_by(4) {
            let others = columns::<4>(j, range.end, &column);
            let sums = if one {
                [scalar_products(simd, [rows[0]], others)[0]; FEW_ROWS]
            } else {
                scalar_products(simd, rows, others)
            };
            let bias = product.bias_from(j);
            for (sums, out) in sums.iter().zip(&mut out) {
                for (c, (sum, slot)) in sums.iter().zip(&mut out[j - range.start..]).enumerate() {
                    slot.write(bias.get(c).map_or(*sum, |bias| *sum + *bias));
                }
            }
        }
    }
}

/// Columns from the `j`th on; the last one again where there are no more.
#[inline(always)]
fn columns<'a, const C: usize>(j: usize, n: usize, column: &impl Fn(usize) -> &'a [f32]) -> [&'a [f32]; C] {
    let mut found = [column(j); C];
    for (c, slot) in found.iter_mut().enumerate().skip(1) {
        *slot = column((j + c).min(n - 1));
    }
    found
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
        // Loops, not `from_fn`: its closure may become a function of its own, compiled for no instruction set.
        let mut column = [simd.splat_f32s(0.0); C];
        for (slot, other) in column.iter_mut().zip(&others) {
            *slot = other[l];
        }
        for (sums, head) in sums.iter_mut().zip(&heads) {
            for (sum, column) in sums.iter_mut().zip(column) {
                *sum = simd.mul_add_f32s(head[l], column, *sum);
            }
        }
    }
    let mut products = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            let mut tail = 0.0;
            for (x, y) in rows[r].1.iter().zip(columns[c].1) {
                tail += x * y;
            }
            products[r][c] = simd.reduce_sum_f32s(sums[r][c]) + tail;
        }
    }
    products
}
