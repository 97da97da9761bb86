//! Batched matrix products: [panels](panel) for f32 by a transposed matrix, scalar products for only a few rows by
//! one, `gemm` for other floats, blocked loops for small products and for integers.
//!
//! f16 and bf16 are converted to f32 as a whole, multiplied, and rounded once. Integers of every width are multiplied as
//! i64, whose low bits are those of any narrower product, and of u64.

pub(crate) mod panel;
mod rows;
pub(crate) mod together;

use crate::copy::{Transfer, spread};
use crate::device::{self, vectorize};
use crate::element::{Item, Kind, Narrow, is_narrow, kind, with_narrow};
use crate::map::{Lane, apply};
use crate::memory::Block;
use crate::storage::{View, as_slots, internal, overwrite, unsupported, with_word};
use bytemuck::cast_slice;
use gemm::Parallelism;
use panel::{Plan, Side};
use rows::RowJob;
use sharding_core::backend::{LocalArray, LocalMeta, Support};
use sharding_core::{DType, Result, Shape};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;

/// Products of at most this many multiplications skip `gemm`, whose packing costs more than they do.
const SMALL: usize = 16 * 16 * 16;
/// Products of at least this many multiplications split over the pool, as do those whose factors alone take as long to read.
const LARGE: usize = 1 << 20;
/// Matrices of at least this many multiplications split inside rather than over the batch.
const SPLIT: usize = 1 << 25;
/// Rows of a result that loops add up together, so that they share what is read of the right factor.
const ROWS: usize = 4;
/// Columns of such rows that loops add up together, in registers: of one row four times as many.
const COLUMNS: usize = 8;
/// Up to this many rows by a transposed matrix are scalar products.
const FEW_ROWS: usize = 4;
/// Columns of a result per task of the pool, where scalar products of rows are taken.
const COLUMN_TASK: usize = 64;
/// Scalar products shorter than this are left to other loops.
const SHORT: usize = 16;
/// So many rows are worth bringing a matrix into order.
const SOME_ROWS: usize = 16;

/// See [`Backend::supports`](sharding_core::backend::Backend::supports).
pub(crate) fn supports(inputs: &[LocalMeta]) -> Support {
    match inputs {
        [a, b] if a.dtype == b.dtype && is_number(a.dtype) && a.shape.len() >= 2 && b.shape.len() >= 2 => {
            Support::Yes
        }
        _ => Support::No(format!("the cpu backend has no matrix product of {inputs:?}")),
    }
}

fn is_number(dtype: DType) -> bool {
    matches!(kind(dtype), Ok(Kind::Int | Kind::UInt | Kind::Float | Kind::Double))
}

/// An operand in memory, as it is computed in.
struct Factor<'a, T: Clone> {
    data: Cow<'a, [T]>,
    meta: Cow<'a, LocalMeta>,
}

impl<'a, T: Item> Factor<'a, T> {
    fn new(array: &'a LocalArray) -> Result<Self> {
        let dtype = array.dtype();
        if is_narrow(dtype) {
            return with_word!(dtype, W => {
                let elements = View::<W>::of(array)?.to_dense();
                let mut data = vec![T::ZERO; elements.len()];
                T::load(dtype, cast_slice(&elements), &mut data);
                let meta = LocalMeta::contiguous(dtype, array.shape().clone());
                Ok(Self { data: data.into(), meta: Cow::Owned(meta) })
            });
        }
        let view = View::<T>::of(array)?;
        Ok(Self { data: view.data().into(), meta: Cow::Borrowed(view.meta()) })
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
    #[inline(always)]
    fn new(factor: &'a Factor<'_, T>, batch: &[usize]) -> Result<Self> {
        let LocalMeta { shape, strides, offset, .. } = &*factor.meta;
        let misfit = || internal(format!("{shape} is no batch of matrices over {batch:?}"));
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
        let (row, column) = (strides[own], strides[own + 1]);
        Ok(Self { data: &factor.data, offset: *offset as isize, batch: steps, row, column })
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
    #[inline(always)]
    fn new(
        a: &'a Factor<'_, T>,
        b: &'a Factor<'_, T>,
        bias: Option<&LocalArray>,
        out: &Shape,
    ) -> Result<Self> {
        let (left, right) = (&a.meta.shape, &b.meta.shape);
        let misfit = || internal(format!("the matrix product of {left} and {right} into {out}"));
        let (&[.., rows, k], &[.., inner, columns], &[ref batch @ .., m, n]) = (&**left, &**right, &**out)
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
            return Err(internal(format!("a bias that is no row of {out}")));
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

    /// The elements of the factors of one matrix.
    fn read(&self) -> usize {
        self.k.saturating_mul(self.m.saturating_add(self.n))
    }

    /// Runs `matrix` on every matrix of the result; over the pool, if `split`.
    fn each(
        &self,
        split: bool,
        out: &mut [MaybeUninit<T>],
        matrix: impl Fn(isize, isize, &mut [MaybeUninit<T>]) + Send + Sync,
    ) {
        let one = |i: usize, out: &mut [MaybeUninit<T>]| {
            matrix(self.a.start(i, &self.batch), self.b.start(i, &self.batch), out);
        };
        if split {
            device::chunks(out, self.m * self.n, one);
        } else {
            out.chunks_mut(self.m * self.n).enumerate().for_each(|(i, out)| one(i, out));
        }
    }

    /// One matrix by loops; `a` and `b` say where the factors begin. Every element is added up in the order of `k`, whatever
    /// stands beside it.
    fn by_loops(&self, a: isize, b: isize, out: &mut [MaybeUninit<T>]) {
        vectorize(
            #[inline(always)]
            move || {
                for (number, rows) in out.chunks_mut(ROWS * self.n).enumerate() {
                    let a = a + (number * ROWS) as isize * self.a.row;
                    if rows.len() == ROWS * self.n {
                        self.row_block::<ROWS, COLUMNS>(a, b, rows);
                        continue;
                    }
                    for (i, row) in rows.chunks_mut(self.n).enumerate() {
                        self.row_block::<1, { ROWS * COLUMNS }>(a + i as isize * self.a.row, b, row);
                    }
                }
            },
        );
    }

    /// `R` rows of the result, from row `a` of the left factor on; where there is room, `WIDE` columns at a time.
    #[inline(always)]
    fn row_block<const R: usize, const WIDE: usize>(&self, a: isize, b: isize, out: &mut [MaybeUninit<T>]) {
        let mut j = 0;
        while j < self.n {
            let b = b + j as isize * self.b.column;
            let (left, side_by_side) = (self.n - j, self.b.column == 1);
            if side_by_side && left >= WIDE {
                put(self.products::<R, WIDE>(a, b), j, self, out);
                j += WIDE;
            } else if side_by_side && left >= COLUMNS {
                put(self.products::<R, COLUMNS>(a, b), j, self, out);
                j += COLUMNS;
            } else {
                let width = left.min(COLUMNS);
                put(self.strided_products::<R>(a, b, width), j, self, out);
                j += width;
            }
        }
    }

    /// The scalar products of rows with columns that lie beside each other.
    #[inline(always)]
    fn products<const R: usize, const C: usize>(&self, a: isize, b: isize) -> [[T; C]; R] {
        let mut sums = [[T::ZERO; C]; R];
        for l in 0..self.k as isize {
            let y = &self.b.data[(b + l * self.b.row) as usize..][..C];
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = self.a.data[(a + i as isize * self.a.row + l * self.a.column) as usize];
                for (sum, y) in sums.iter_mut().zip(y) {
                    *sum = T::plus(*sum, T::times(x, *y));
                }
            }
        }
        sums
    }

    /// The same with `width` columns that lie anywhere.
    #[inline(always)]
    fn strided_products<const R: usize>(&self, a: isize, b: isize, width: usize) -> [[T; COLUMNS]; R] {
        let mut sums = [[T::ZERO; COLUMNS]; R];
        for l in 0..self.k as isize {
            let b = b + l * self.b.row;
            for (i, sums) in sums.iter_mut().enumerate() {
                let x = self.a.data[(a + i as isize * self.a.row + l * self.a.column) as usize];
                for (j, sum) in sums[..width].iter_mut().enumerate() {
                    let y = self.b.data[(b + j as isize * self.b.column) as usize];
                    *sum = T::plus(*sum, T::times(x, y));
                }
            }
        }
        sums
    }
}

impl<T: Item> Product<'_, T> {
    /// One matrix by `gemm`, tile by tile; over the pool, if `split`.
    fn by_gemm(&self, one: T, a: isize, b: isize, out: &mut [MaybeUninit<T>], split: bool) {
        let Self { m, k, n, .. } = *self;
        let tiles = if split { Tiles::new(m, k, n) } else { Tiles { rows: m, columns: n } };
        let (down, across) = (m.div_ceil(tiles.rows), n.div_ceil(tiles.columns));
        let right = Right { data: &self.b.data[b as usize..], row: self.b.row, column: self.b.column };
        // Once for all, where several tiles have the same columns; else every tile brings its own into order.
        let block = if down > 1 { right.ordered(m, (k, n), true) } else { None };
        let right = right.or(&block, (k, n));
        let start = device::Start::new(out);
        let tile = |number: usize| {
            let (i, j) = (number / across * tiles.rows, number % across * tiles.columns);
            let (rows, columns) = (tiles.rows.min(m - i), tiles.columns.min(n - j));
            let right = Right { data: &right.data[(j as isize * right.column) as usize..], ..right };
            let block = right.ordered(rows, (k, columns), false);
            let (left, right) = (a + i as isize * self.a.row, right.or(&block, (k, columns)));
            // SAFETY: the tile lies inside the m by n places of `out`, which is borrowed until all tiles are done; `each`
            // gives every number to one thread, and tiles of different numbers do not overlap.
            unsafe { self.tile(one, left, right, start.at(i * n + j), (rows, columns), j) };
        };
        if out.len() == m * n {
            device::each(down * across, tile);
        }
    }

    /// Some rows and columns of a matrix, from column `j` of the whole on, by `gemm`, which knows f32 and f64; `one` is 1.
    ///
    /// # Safety
    /// `a` is where the first row begins, the right factor has these columns, and there are so many of both. From `out` on
    /// there are places for so many rows of a matrix with `n` columns, of which nobody else has these columns.
    unsafe fn tile(
        &self,
        one: T,
        a: isize,
        right: Right<'_, T>,
        out: *mut MaybeUninit<T>,
        (rows, columns): (usize, usize),
        j: usize,
    ) {
        let (n, k) = (self.n, self.k);
        // The product is added to the bias where there is one.
        let bias = self.bias.as_ref().map(|bias| &bias[j..][..columns]);
        if bias.is_some() || k == 0 {
            for i in 0..rows {
                // SAFETY: the caller's promise.
                let row = unsafe { std::slice::from_raw_parts_mut(out.add(i * n), columns) };
                match bias {
                    Some(bias) => {
                        row.write_copy_of_slice(bias);
                    }
                    None => row.fill(MaybeUninit::new(T::ZERO)),
                }
            }
        }
        if k == 0 {
            return;
        }
        let left = &self.a.data[a as usize..];
        // SAFETY: `new` has checked the extents, and `View::of` that every element of both operands, at any index of
        // batch, row and column, lies in its storage (a converted operand is as long as its shape says, an ordered one as
        // its rows and columns), and the caller gives the places of first elements and of results, which are written, and
        // read only if they have just been filled with the bias. `gemm` only multiplies strides by indices below rows, k
        // and columns. The memory of `out` is uniquely owned, so that it does not overlap the operands'.
        unsafe {
            gemm::gemm(
                rows,
                columns,
                k,
                out.cast::<T>(),
                1,
                n as isize,
                bias.is_some(),
                left.as_ptr(),
                self.a.column,
                self.a.row,
                right.data.as_ptr(),
                right.column,
                right.row,
                one,
                one,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }

    /// All matrices, by `gemm` where they are not small; every element of `out` is written.
    fn by_size(&self, one: T, out: &mut [MaybeUninit<T>]) {
        let (work, spread) = (self.work(), self.spread());
        self.each(spread == Spread::Batch, out, |a, b, out| {
            if work <= SMALL {
                self.by_loops(a, b, out);
            } else {
                self.by_gemm(one, a, b, out, spread == Spread::Inside);
            }
        });
    }

    /// How the work is spread over the pool; depends on the shapes only.
    fn spread(&self) -> Spread {
        let count: usize = self.batch.iter().product();
        let work = self.work();
        let large = is_worth_threads(work.saturating_mul(count), self.read().saturating_mul(count));
        match (large, count > 1 && work < SPLIT) {
            (false, _) => Spread::None,
            (true, true) => Spread::Batch,
            (true, false) => Spread::Inside,
        }
    }
}

/// A right factor, or columns of it, from its first element on.
#[derive(Clone, Copy)]
struct Right<'a, T> {
    data: &'a [T],
    row: isize,
    column: isize,
}

impl<'a, T: Item> Right<'a, T> {
    /// The elements in row-major order, where columns lie one after the other, as those of a weight do that is transposed,
    /// and so many rows are multiplied by them that it pays: `gemm` would do it element by element. Over the pool, if `split`.
    fn ordered(self, rows: usize, (k, columns): (usize, usize), split: bool) -> Option<Block> {
        let by_columns = self.row == 1 && self.column > 1;
        if !by_columns || rows < Tiles::STEP || columns < Tiles::STEP || k < SOME_ROWS {
            return None;
        }
        let mut block = Block::new(k.checked_mul(columns)?.checked_mul(size_of::<T>())?)?;
        let (places, shape, strides) = (block.elements_mut::<T>(), [k, columns], [1, self.column]);
        if split {
            spread(&shape, &strides, 0, self.data, places);
        } else {
            Transfer::new(&shape, (&[columns as isize, 1], 0), (&strides, 0)).run(self.data, places, None);
        }
        Some(block)
    }

    /// What [`ordered`](Self::ordered) gave, where it did.
    fn or(self, block: &'a Option<Block>, (k, columns): (usize, usize)) -> Self {
        let Some(block) = block else { return self };
        let elements = &block.elements::<T>()[..k * columns];
        // SAFETY: `ordered` has put a value on every place.
        Self { data: unsafe { elements.assume_init_ref() }, row: columns as isize, column: 1 }
    }
}

/// The parts of a result that are multiplied alone, each a task of the pool.
struct Tiles {
    rows: usize,
    columns: usize,
}

impl Tiles {
    /// So many of a product are enough for the threads of a machine to share it evenly.
    const ENOUGH: usize = 32;
    /// Multiplications of a tile: with fewer, bringing the factors into order, which every tile does for itself, costs too
    /// much; with more, threads would wait for the last one.
    const WORK: RangeInclusive<usize> = 1 << 24..=1 << 27;
    /// Columns that a kernel adds up together.
    const STEP: usize = 64;
    /// Rows that are not cut any more.
    const ROWS: usize = 128;

    /// Of a product of such matrices; depends on the shapes only. Columns are cut first: what is brought into order is those
    /// of the right factor, so that it happens once for each as long as no rows are cut.
    fn new(m: usize, k: usize, n: usize) -> Self {
        let (mut rows, mut columns) = (m, n);
        let work = |rows: usize, columns: usize| rows.saturating_mul(columns).saturating_mul(k);
        let most = (work(m, n) / Self::ENOUGH).clamp(*Self::WORK.start(), *Self::WORK.end());
        while work(rows, columns) > most {
            let half = columns.div_ceil(2).next_multiple_of(Self::STEP);
            // Nearly half: of three steps, two and one would be left.
            if half <= columns / 8 * 5 {
                columns = half;
            } else if rows > Self::ROWS {
                rows = rows.div_ceil(2);
            } else {
                break;
            }
        }
        Self { rows, columns }
    }
}

/// Where a product is split over the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    None,
    Batch,
    Inside,
}

/// What is multiplied.
trait Multiply: Item {
    /// All matrices; every element of `out` is written.
    fn all(product: &Product<'_, Self>, out: &mut [MaybeUninit<Self>]);
}
impl Multiply for f32 {
    fn all(product: &Product<'_, Self>, out: &mut [MaybeUninit<Self>]) {
        let (is_rows, spread) = (product.is_rows(), product.spread());
        if !is_rows && !product.is_panels() {
            return product.by_size(1.0, out);
        }
        product.each(spread == Spread::Batch, out, |a, b, out| {
            let split = spread == Spread::Inside;
            if is_rows {
                product.by_rows(a, b, out, split);
            } else if !product.by_panels(a, b, out, split) {
                product.by_gemm(1.0, a, b, out, split);
            }
        });
    }
}
impl Multiply for f64 {
    fn all(product: &Product<'_, Self>, out: &mut [MaybeUninit<Self>]) {
        product.by_size(1.0, out);
    }
}
impl Multiply for i64 {
    fn all(product: &Product<'_, Self>, out: &mut [MaybeUninit<Self>]) {
        product.each(product.spread() != Spread::None, out, |a, b, out| product.by_loops(a, b, out));
    }
}

impl Product<'_, f32> {
    /// Whether rows of the left factor and columns of the right one are slices.
    fn is_sliced(&self) -> bool {
        self.a.column == 1 && self.b.row == 1
    }

    /// Whether scalar products of rows are the way.
    fn is_rows(&self) -> bool {
        self.m <= FEW_ROWS && self.k >= SHORT && self.is_sliced()
    }

    /// Whether panels are the way. Where rows of the right factor are slices, `gemm` reads them where they lie.
    fn is_panels(&self) -> bool {
        self.is_sliced() && self.work() > SMALL && panel::pays(self.m, self.k, self.n)
    }

    /// One matrix by panels; false where there is no memory for them.
    fn by_panels(&self, a: isize, b: isize, out: &mut [MaybeUninit<f32>], split: bool) -> bool {
        let plan = self.plan(a, b);
        let Some(panels) = plan.fill(split) else { return false };
        let job = plan.job(&panels, out, split);
        if split {
            // SAFETY: `each` gives every number to one thread.
            device::each(job.tasks(), |number| unsafe { job.run(number) });
            panel::forget();
        } else {
            // SAFETY: this thread runs all of them.
            (0..job.tasks()).for_each(|number| unsafe { job.run(number) });
        }
        true
    }

    /// How panels do one matrix.
    fn plan(&self, a: isize, b: isize) -> Plan<'_> {
        let rows = Side { data: self.a.data, at: a, line: self.a.row, count: self.m };
        let columns = Side { data: self.b.data, at: b, line: self.b.column, count: self.n };
        Plan::new(rows, columns, self.k, self.bias.as_deref())
    }

    /// One matrix by scalar products of rows, `split` over the pool.
    fn by_rows(&self, a: isize, b: isize, out: &mut [MaybeUninit<f32>], split: bool) {
        let job = RowJob::new(self, a, b, out, if split { COLUMN_TASK } else { self.n });
        if split {
            // SAFETY: `each` gives every number to one thread.
            device::each(job.tasks(), |number| unsafe { job.run(number) });
        } else {
            // SAFETY: this thread runs the only one.
            unsafe { job.run(0) };
        }
    }
}

/// Puts scalar products in their places, from column `j` on; those beyond the last row or column are left out.
#[inline(always)]
fn put<T: Item, const R: usize, const C: usize>(
    sums: [[T; C]; R],
    j: usize,
    product: &Product<'_, T>,
    out: &mut [MaybeUninit<T>],
) {
    let bias = product.bias_from(j);
    for (sums, out) in sums.iter().zip(out.chunks_mut(product.n)) {
        let out = &mut out[j..];
        // Apart, as a read from an empty slice that is only masked out costs hundreds of cycles.
        if !bias.is_empty() {
            for ((sum, slot), bias) in sums.iter().zip(out).zip(bias) {
                slot.write(T::plus(*sum, *bias));
            }
        } else if let Some(slots) = out.first_chunk_mut::<C>() {
            for (sum, slot) in sums.iter().zip(slots) {
                slot.write(*sum);
            }
        } else {
            for (sum, slot) in sums.iter().zip(out) {
                slot.write(*sum);
            }
        }
    }
}

/// Runs [`Primitive::Dot`](sharding_core::backend::Primitive::Dot).
pub(crate) fn run(a: &LocalArray, b: &LocalArray, out: &mut LocalArray) -> Result<()> {
    product(a, b, None, out)
}

/// Runs [`FusedOp::Linear`](sharding_core::backend::FusedOp::Linear).
pub(crate) fn linear(
    x: &LocalArray,
    weight: &LocalArray,
    bias: Option<&LocalArray>,
    out: &mut LocalArray,
) -> Result<()> {
    product(x, &weight.permute(&[1, 0]), bias, out)
}

/// Whether so many multiplications, of factors of so many elements, are worth the pool.
fn is_worth_threads(work: usize, read: usize) -> bool {
    work >= LARGE || device::is_large(read)
}

fn product(a: &LocalArray, b: &LocalArray, bias: Option<&LocalArray>, out: &mut LocalArray) -> Result<()> {
    let dtype = out.dtype();
    if !is_number(dtype) {
        return Err(unsupported(format_args!("a matrix product of {dtype}")));
    }
    if a.dtype() != dtype || b.dtype() != dtype || bias.is_some_and(|bias| bias.dtype() != dtype) {
        return Err(internal(format!("the matrix product of {a:?} and {b:?} into {out:?}")));
    }
    if out.elements() == 0 {
        // There may be no data to look at: an operand with an extent of 0 may be a view of anything.
        return Ok(());
    }
    if is_narrow(dtype) {
        if bias.is_some() {
            return Err(unsupported(format_args!("a bias of {dtype}")));
        }
        return with_narrow!(dtype, S => converted::<S>(a, b, out));
    }
    match kind(dtype)? {
        Kind::Float => direct::<f32>(a, b, bias, out),
        Kind::Double => direct::<f64>(a, b, bias, out),
        _ => direct::<i64>(a, b, bias, out),
    }
}

/// A product that is computed as it lies in memory.
fn direct<T: Multiply>(
    a: &LocalArray,
    b: &LocalArray,
    bias: Option<&LocalArray>,
    out: &mut LocalArray,
) -> Result<()> {
    let (a, b) = (Factor::new(a)?, Factor::new(b)?);
    let product = Product::<T>::new(&a, &b, bias, out.shape())?;
    // SAFETY: `all` writes every element.
    unsafe {
        overwrite::<T>(out, |out| {
            T::all(&product, out);
            Ok(())
        })
    }
}

/// A product of factors that are converted first.
fn converted<S: Narrow>(a: &LocalArray, b: &LocalArray, out: &mut LocalArray) -> Result<()>
where
    S::Lane: Multiply,
{
    let (a, b) = (Factor::new(a)?, Factor::new(b)?);
    let product = Product::<S::Lane>::new(&a, &b, None, out.shape())?;
    let mut results = vec![S::Lane::ZERO; out.elements()];
    // SAFETY: `all` only puts values into the slots.
    S::Lane::all(&product, unsafe { as_slots(&mut results) });
    let write = |out: &mut [MaybeUninit<S>]| {
        apply(Lane::Slice(&results), out, S::store);
        Ok(())
    };
    // SAFETY: there are as many results as elements of `out`.
    unsafe { overwrite::<S>(out, write) }
}
