//! Attention without the scores in memory: each block of queries goes over blocks of keys with a running maximum and
//! sum (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//!
//! The queries of a block lie side by side in vector lanes, those of all heads that share a key head together. So no sum
//! goes across lanes, the elements of key and value are read where they are, whatever the strides, and the result for a
//! query does not depend on the queries beside it.

use crate::device::{self, dispatch, is_large};
use crate::dot::panel::turn_all;
use crate::element::{Cell, Slot, Truth};
use crate::storage::{View, internal, overwrite, unsupported};
use pulp::{Simd, WithSimd};
use sharding_core::backend::{Attention, AttentionExtents, LocalArray, LocalMeta, Support};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::f32::consts::{LN_2, LOG2_E};
use std::mem::MaybeUninit;

/// Keys of a block: their scores for a block of queries stay in the first cache.
const KEYS: usize = 64;
/// Floats of a [`Line`].
const LANES: usize = 16;
/// How many tasks the blocks of a call are, about.
const TASKS: usize = 32;
/// The most lines of queries of a block: three accumulators beside each other hide the time of an addition.
const LINES: usize = 3;

/// Queries side by side, aligned for every instruction set.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// See [`Backend::supports`](sharding_core::backend::Backend::supports). f64 runs by the lowering, f16 and
/// bf16 come here as f32.
pub(crate) fn supports(op: &Attention, inputs: &[LocalMeta]) -> Support {
    let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().collect();
    match inputs.first() {
        Some(query) if query.dtype == DType::F32 && op.extents(&metas).is_some() => Support::Yes,
        _ => Support::No(format!("{op:?} of {inputs:?}")),
    }
}

/// An operand seen by heads: where an element lies.
struct Heads<'a, T> {
    data: &'a [T],
    offset: isize,
    batch: SmallVec<[isize; 4]>,
    head: isize,
    row: isize,
    column: isize,
}

impl<'a, T: Cell> Heads<'a, T> {
    /// Every index within the shape of `array` lies in `data`: [`View::of`] has checked it.
    fn new(array: &'a LocalArray) -> Result<Self> {
        let view = View::<T>::of(array)?;
        let meta = view.meta();
        let [lead @ .., row, column] = &*meta.strides else {
            return Err(internal(format!("attention to {array:?}")));
        };
        let (head, batch) = lead.split_last().map_or((0, lead), |(head, batch)| (*head, batch));
        Ok(Self {
            data: view.data(),
            offset: meta.offset as isize,
            batch: batch.into(),
            head,
            row: *row,
            column: *column,
        })
    }

    /// Where the first element of a head lies.
    fn start(&self, batch: &[usize], entry: usize, head: usize) -> isize {
        let (mut rest, mut at) = (entry, self.offset + head as isize * self.head);
        for (extent, step) in batch.iter().zip(&self.batch).rev() {
            at += (rest % extent) as isize * step;
            rest /= extent;
        }
        at
    }
}

enum Mask<'a> {
    None,
    Bool(Heads<'a, Truth>),
    Float(Heads<'a, f32>),
}

/// One call.
struct Call<'a> {
    query: Heads<'a, f32>,
    key: Heads<'a, f32>,
    value: Heads<'a, f32>,
    mask: Mask<'a>,
    extents: AttentionExtents,
    /// Of scores in powers of 2.
    scale: f32,
    causal: Option<i64>,
    parts: bool,
}

/// Memory for one block of queries, `lines` wide.
struct Room {
    query: Vec<Line>,
    scores: Vec<Line>,
    mixed: Vec<Line>,
    max: Vec<Line>,
    sum: Vec<Line>,
    base: Vec<Line>,
    keep: Vec<Line>,
    limit: Vec<Line>,
}

impl Room {
    fn new(extents: &AttentionExtents, lines: usize) -> Self {
        let of = |rows: usize| vec![Line([0.0; LANES]); rows * lines];
        Self {
            query: of(extents.width),
            scores: of(KEYS.min(extents.keys)),
            mixed: of(extents.value_width),
            max: of(1),
            sum: of(1),
            base: of(1),
            keep: of(1),
            limit: of(1),
        }
    }
}

fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a `Line` is 16 floats without padding, as its size is a multiple of its alignment.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}

fn vectors<S: Simd>(lines: &mut [Line]) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(floats(lines)).0
}

/// `2^x` for `x <= 0` within 2 units in the last place; below the normal numbers 0.
#[inline(always)]
fn exp2<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    let round = simd.splat_f32s(12_582_912.0);
    let least = simd.splat_f32s(-126.0);
    let shifted = simd.add_f32s(x, round);
    let r = simd.sub_f32s(x, simd.sub_f32s(shifted, round));
    // Chebyshev interpolation of (2^r - 1) / r on [-1/2, 1/2], off by 1e-8.
    let mut p = simd.splat_f32s(0.000_154_531_63);
    for c in [0.001_339_086_3, 0.009_618_083, 0.055_503_57, 0.240_226_5, LN_2, 1.0] {
        p = simd.mul_add_e_f32s(p, r, simd.splat_f32s(c));
    }
    let bits = simd.add_u32s(
        simd.transmute_u32s_f32s(shifted),
        simd.splat_u32s(127_u32.wrapping_sub(12_582_912.0_f32.to_bits())),
    );
    let power = simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(bits, simd.splat_u32s(23)));
    let y = simd.mul_f32s(p, power);
    simd.select_f32s(simd.less_than_f32s(x, least), simd.splat_f32s(0.0), y)
}

/// A matrix that is read element by element.
#[derive(Clone, Copy)]
struct Left {
    at: *const f32,
    row: isize,
    step: isize,
}

/// `out[i] = out[i] * keep + sum over t of left[i][t] * right[t]` for `rows` rows of `width` vectors; without `keep`
/// what stood in `out` is dropped.
///
/// # Safety
/// `left` has an element for each of `rows` and each row of `right`.
#[inline(always)]
unsafe fn product<S: Simd>(
    simd: S,
    left: Left,
    rows: usize,
    right: &[S::f32s],
    width: usize,
    out: &mut [S::f32s],
    keep: Option<&[S::f32s]>,
) {
    let mut from = 0;
    while from < width {
        // SAFETY: as of this function.
        unsafe {
            match width - from {
                1 => columns::<S, 1>(simd, left, rows, right, (width, from), out, keep),
                2 => columns::<S, 2>(simd, left, rows, right, (width, from), out, keep),
                _ => columns::<S, 3>(simd, left, rows, right, (width, from), out, keep),
            }
        }
        from += 3;
    }
}

/// `N` vectors of each row of [`product`].
///
/// # Safety
/// As of [`product`].
#[inline(always)]
unsafe fn columns<S: Simd, const N: usize>(
    simd: S,
    left: Left,
    rows: usize,
    right: &[S::f32s],
    (width, from): (usize, usize),
    out: &mut [S::f32s],
    keep: Option<&[S::f32s]>,
) {
    let mut row = 0;
    while row < rows {
        let left = Left { at: left.at.wrapping_offset(row as isize * left.row), ..left };
        let out = &mut out[row * width..];
        // SAFETY: rows `row..row + M` are below `rows`.
        row += unsafe {
            if S::REGISTER_COUNT >= 32 && rows - row >= 8 {
                tile::<S, 8, N>(simd, left, right, (width, from), out, keep)
            } else if rows - row >= 4 {
                tile::<S, 4, N>(simd, left, right, (width, from), out, keep)
            } else {
                tile::<S, 1, N>(simd, left, right, (width, from), out, keep)
            }
        };
    }
}

/// `M` rows of [`columns`], summed in registers; gives `M`.
///
/// # Safety
/// As of [`product`], for `M` rows.
#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const N: usize>(
    simd: S,
    left: Left,
    right: &[S::f32s],
    (width, from): (usize, usize),
    out: &mut [S::f32s],
    keep: Option<&[S::f32s]>,
) -> usize {
    let mut sums = [[simd.splat_f32s(0.0); N]; M];
    if let Some(keep) = keep {
        let keep = &keep[from..from + N];
        for (sums, out) in sums.iter_mut().zip(out.chunks(width)) {
            for ((sum, out), keep) in sums.iter_mut().zip(&out[from..from + N]).zip(keep) {
                *sum = simd.mul_f32s(*out, *keep);
            }
        }
    }
    let mut at = left.at;
    for right in right.chunks_exact(width) {
        let right = &right[from..from + N];
        for (i, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller says that row `i` has an element for this row of `right`.
            let x = simd.splat_f32s(unsafe { *at.wrapping_offset(i as isize * left.row) });
            for (sum, y) in sums.iter_mut().zip(right) {
                *sum = simd.mul_add_e_f32s(x, *y, *sum);
            }
        }
        at = at.wrapping_offset(left.step);
    }
    for (sums, out) in sums.iter().zip(out.chunks_mut(width)) {
        out[from..from + N].copy_from_slice(sums);
    }
    M
}

/// What goes along with the queries of a block, one line after the other.
struct Running<'a, V> {
    /// The greatest score so far.
    max: &'a mut [V],
    /// The sum of the powers so far, relative to it.
    sum: &'a mut [V],
    /// What is taken off the scores of this block.
    base: &'a mut [V],
    /// What earlier sums are to be multiplied by.
    keep: &'a mut [V],
}

/// Makes weights of the scores of a block of keys, and brings maximum and sum up to date.
#[inline(always)]
fn weigh<S: Simd>(simd: S, scores: &mut [S::f32s], running: Running<'_, S::f32s>) {
    let Running { max, sum, base, keep } = running;
    let width = max.len();
    keep.copy_from_slice(max);
    for row in scores.chunks_exact(width) {
        for (max, score) in max.iter_mut().zip(row) {
            *max = simd.max_f32s(*max, *score);
        }
    }
    let (never, zero) = (simd.splat_f32s(f32::NEG_INFINITY), simd.splat_f32s(0.0));
    for (((keep, max), sum), base) in keep.iter_mut().zip(&*max).zip(sum.iter_mut()).zip(base.iter_mut()) {
        // Without a key so far nothing is taken off: all powers are 0.
        *base = simd.select_f32s(simd.equal_f32s(*max, never), zero, *max);
        *keep = exp2(simd, simd.sub_f32s(*keep, *base));
        *sum = simd.mul_f32s(*sum, *keep);
    }
    for row in scores.chunks_exact_mut(width) {
        for ((score, base), sum) in row.iter_mut().zip(&*base).zip(sum.iter_mut()) {
            *score = exp2(simd, simd.sub_f32s(*score, *base));
            *sum = simd.add_f32s(*sum, *score);
        }
    }
}

/// What a mask adds to a score in powers of 2. The least number stays one, or a row of it would be a row of nothing.
#[inline(always)]
fn bias(mask: f32) -> f32 {
    let bias = mask * LOG2_E;
    if bias < f32::MIN && mask > f32::NEG_INFINITY { f32::MIN } else { bias }
}

/// Queries `first..` of those that share a key head, as many as the result has rows.
struct Block<'a> {
    call: &'a Call<'a>,
    /// The number of the key head, over all batch entries.
    number: usize,
    first: usize,
    room: &'a mut Room,
    out: &'a mut [MaybeUninit<f32>],
}

impl WithSimd for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { call, number, first, room, out } = self;
        let extents = &call.extents;
        let (keys, width, value_width) = (extents.keys, extents.width, extents.value_width);
        let out_width = value_width + if call.parts { 2 } else { 0 };
        let rows = out.len() / out_width;
        let lines = rows.div_ceil(LANES);
        let lanes = lines * LANES;
        let wide = lanes / S::F32_LANES;
        let (entry, key_head) = (number / extents.key_heads, number % extents.key_heads);
        // The query head and the number of a row.
        let place = |row: usize| {
            let row = first + row;
            (key_head * extents.group + row / extents.queries, row % extents.queries)
        };

        // Components go down, queries to the right. Lanes without a query have zeros.
        let query = &mut floats(&mut room.query[..width * lines])[..];
        if rows < lanes {
            query.fill(0.0);
        }
        let mut row = 0;
        while row < rows {
            // As many as are of one head.
            let (head, i) = place(row);
            let count = (rows - row).min(extents.queries - i);
            let start = call.query.start(&extents.batch, entry, head) + i as isize * call.query.row;
            if call.query.column == 1 {
                // SAFETY: queries `i..i + count` and all their components are within the extents of the query, all of whose elements
                // lie in its data; and these rows are in the room.
                unsafe {
                    let from = call.query.data.as_ptr().offset(start);
                    let to = query.as_mut_ptr().add(row);
                    turn_all(from, call.query.row, to, lanes as isize, (count, width));
                }
            } else {
                for (t, column) in query.chunks_exact_mut(lanes).enumerate() {
                    for (i, slot) in column[row..row + count].iter_mut().enumerate() {
                        let at = start + i as isize * call.query.row + t as isize * call.query.column;
                        *slot = call.query.data[at as usize];
                    }
                }
            }
            row += count;
        }
        let scale = simd.splat_f32s(call.scale);
        for query in S::as_mut_simd_f32s(query).0 {
            *query = simd.mul_f32s(*query, scale);
        }

        let last = keys as i64 - 1;
        let mut limit = [last; LINES * LANES];
        let mut end = keys;
        let mut all = keys;
        if let Some(offset) = call.causal {
            for (row, limit) in limit.iter_mut().enumerate().take(lanes) {
                let (_, i) = place(row.min(rows - 1));
                *limit = offset.saturating_add(i as i64).clamp(-1, last);
            }
            let seen = |limit: Option<&i64>| limit.map_or(0, |limit| (limit + 1) as usize);
            // Keys that some query sees, and keys that every query sees.
            end = seen(limit[..lanes].iter().max());
            all = seen(limit[..lanes].iter().min());
        }

        vectors::<S>(&mut room.max[..lines]).fill(simd.splat_f32s(f32::NEG_INFINITY));
        vectors::<S>(&mut room.sum[..lines]).fill(simd.splat_f32s(0.0));
        vectors::<S>(&mut room.mixed[..value_width * lines]).fill(simd.splat_f32s(0.0));
        let key = call.key.start(&extents.batch, entry, key_head);
        let value = call.value.start(&extents.batch, entry, key_head);
        for start in (0..end).step_by(KEYS) {
            let count = KEYS.min(end - start);
            let scores = &mut room.scores[..count * lines];
            let left = |from: isize, row: isize, step: isize, data: &[f32]| Left {
                at: data.as_ptr().wrapping_offset(from),
                row,
                step,
            };
            let heads = &call.key;
            let keys = left(key + start as isize * heads.row, heads.row, heads.column, heads.data);
            // SAFETY: keys `start..start + count` and all their components are within the extents of the key, all of
            // whose elements lie in its data.
            unsafe {
                let query = vectors::<S>(&mut room.query[..width * lines]);
                product(simd, keys, count, query, wide, vectors::<S>(scores), None);
            }
            call.mask(simd, scores, lines, start, rows, entry, place);
            if start + count > all {
                let limits = floats(&mut room.limit[..lines]);
                for (slot, limit) in limits.iter_mut().zip(limit) {
                    *slot = (limit - start as i64).clamp(-1, KEYS as i64) as f32;
                }
                let (limits, never) =
                    (&*vectors::<S>(&mut room.limit[..lines]), simd.splat_f32s(f32::NEG_INFINITY));
                for (j, row) in vectors::<S>(scores).chunks_exact_mut(wide).enumerate() {
                    let j = simd.splat_f32s(j as f32);
                    for (score, limit) in row.iter_mut().zip(limits) {
                        *score = simd.select_f32s(simd.less_than_f32s(*limit, j), never, *score);
                    }
                }
            }
            let keep = vectors::<S>(&mut room.keep[..lines]);
            let running = Running {
                max: vectors::<S>(&mut room.max[..lines]),
                sum: vectors::<S>(&mut room.sum[..lines]),
                base: vectors::<S>(&mut room.base[..lines]),
                keep: &mut *keep,
            };
            weigh(simd, vectors::<S>(scores), running);
            let heads = &call.value;
            let values = left(value + start as isize * heads.row, heads.column, heads.row, heads.data);
            // SAFETY: as above, for the value; its components are the rows here.
            unsafe {
                let mixed = vectors::<S>(&mut room.mixed[..value_width * lines]);
                product(simd, values, value_width, vectors::<S>(scores), wide, mixed, Some(keep));
            }
        }

        let sum = vectors::<S>(&mut room.sum[..lines]);
        if !call.parts {
            let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
            for sum in sum.iter_mut() {
                *sum = simd.select_f32s(simd.equal_f32s(*sum, zero), zero, simd.div_f32s(one, *sum));
            }
            for row in vectors::<S>(&mut room.mixed[..value_width * lines]).chunks_exact_mut(wide) {
                for (mixed, share) in row.iter_mut().zip(&*sum) {
                    *mixed = simd.mul_f32s(*mixed, *share);
                }
            }
        }
        let mixed = &*floats(&mut room.mixed[..value_width * lines]);
        let (sum, max) = (&*floats(&mut room.sum[..lines]), &*floats(&mut room.max[..lines]));
        // SAFETY: there are so many rows in the room and in the result.
        unsafe {
            let to = out.as_mut_ptr().cast();
            turn_all(mixed.as_ptr(), lanes as isize, to, out_width as isize, (value_width, rows));
        }
        for (row, out) in out.chunks_exact_mut(out_width).enumerate() {
            if let [total, most] = &mut out[value_width..] {
                total.put(sum[row]);
                most.put(max[row] * LN_2);
            }
        }
    }
}

impl Call<'_> {
    /// Applies the mask to the scores of the keys from `start`.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn mask<S: Simd>(
        &self,
        simd: S,
        scores: &mut [Line],
        lines: usize,
        start: usize,
        rows: usize,
        entry: usize,
        place: impl Fn(usize) -> (usize, usize),
    ) {
        let (batch, wide) = (&self.extents.batch, lines * LANES / S::F32_LANES);
        let never = simd.splat_f32s(f32::NEG_INFINITY);
        match &self.mask {
            Mask::None => {}
            // One answer for all queries.
            Mask::Bool(mask) if mask.row == 0 && (mask.head == 0 || self.extents.group == 1) => {
                let at = mask.start(batch, entry, place(0).0) + start as isize * mask.column;
                for (j, row) in vectors::<S>(scores).chunks_exact_mut(wide).enumerate() {
                    if !mask.data[(at + j as isize * mask.column) as usize].holds() {
                        row.fill(never);
                    }
                }
            }
            Mask::Float(mask) if mask.row == 0 && (mask.head == 0 || self.extents.group == 1) => {
                let at = mask.start(batch, entry, place(0).0) + start as isize * mask.column;
                for (j, row) in vectors::<S>(scores).chunks_exact_mut(wide).enumerate() {
                    let bias = bias(mask.data[(at + j as isize * mask.column) as usize]);
                    for score in row {
                        *score = simd.add_f32s(*score, simd.splat_f32s(bias));
                    }
                }
            }
            Mask::Bool(mask) => {
                for row in 0..rows {
                    let (head, i) = place(row);
                    let at =
                        mask.start(batch, entry, head) + i as isize * mask.row + start as isize * mask.column;
                    for (j, scores) in floats(scores).chunks_exact_mut(lines * LANES).enumerate() {
                        if !mask.data[(at + j as isize * mask.column) as usize].holds() {
                            scores[row] = f32::NEG_INFINITY;
                        }
                    }
                }
            }
            Mask::Float(mask) => {
                for row in 0..rows {
                    let (head, i) = place(row);
                    let at =
                        mask.start(batch, entry, head) + i as isize * mask.row + start as isize * mask.column;
                    for (j, scores) in floats(scores).chunks_exact_mut(lines * LANES).enumerate() {
                        scores[row] += bias(mask.data[(at + j as isize * mask.column) as usize]);
                    }
                }
            }
        }
    }

    /// Runs all blocks.
    fn run(&self, out: &mut [MaybeUninit<f32>]) {
        let extents = &self.extents;
        let out_width = extents.value_width + if self.parts { 2 } else { 0 };
        let queries = extents.group * extents.queries;
        let lines = queries.div_ceil(LANES);
        let most = lines.div_ceil(lines.div_ceil(LINES));
        let rows = most * LANES;
        let room = || Room::new(extents, most);
        let block = |room: &mut Room, number: usize, i: usize, out: &mut [MaybeUninit<f32>]| {
            dispatch(Block { call: self, number, first: i * rows, room, out });
        };
        let scores = extents.scores().elements();
        let work = scores.saturating_mul(extents.width + extents.value_width + 8) / LANES;
        let (head, part) = (queries * out_width, rows * out_width);
        if is_large(work) {
            let parts = out.chunks_mut(head).enumerate().flat_map(|(number, out)| {
                out.chunks_mut(part).enumerate().map(move |(i, out)| (number, i, out))
            });
            let mut parts: Vec<_> = parts.collect();
            // Several blocks a task, so that they share its room.
            let several = (parts.len() / TASKS).max(1);
            device::chunks(&mut parts, several, |_, parts| {
                let mut room = room();
                for (number, i, out) in parts {
                    block(&mut room, *number, *i, out);
                }
            });
        } else {
            let mut room = room();
            for (number, out) in out.chunks_mut(head).enumerate() {
                for (i, out) in out.chunks_mut(part).enumerate() {
                    block(&mut room, number, i, out);
                }
            }
        }
    }
}

/// Runs the primitive.
pub(crate) fn run(op: &Attention, inputs: &[&LocalArray], out: &mut LocalArray) -> Result<()> {
    let metas: SmallVec<[&LocalMeta; 4]> = inputs.iter().map(|x| x.meta()).collect();
    let (Some(extents), [query, key, value, mask @ ..]) = (op.extents(&metas), inputs) else {
        return Err(unsupported(format_args!("{op:?} of {inputs:?}")));
    };
    if query.dtype() != DType::F32 {
        return Err(unsupported(format_args!("{op:?} of {inputs:?}")));
    }
    if *out.shape() != extents.result(op.parts) {
        return Err(internal(format!("{op:?} of {inputs:?} into {out:?}")));
    }
    if out.elements() == 0 {
        return Ok(());
    }
    let scores = extents.scores();
    let mask = match mask.first() {
        Some(mask) => Some(
            mask.broadcast_to(&scores)
                .ok_or_else(|| internal(format!("the mask {mask:?} of scores {scores}")))?,
        ),
        None => None,
    };
    let call = Call {
        query: Heads::new(query)?,
        key: Heads::new(key)?,
        value: Heads::new(value)?,
        mask: match &mask {
            None => Mask::None,
            Some(mask) if mask.dtype() == DType::Bool => Mask::Bool(Heads::new(mask)?),
            Some(mask) => Mask::Float(Heads::new(mask)?),
        },
        extents,
        scale: (op.scale * std::f64::consts::LOG2_E) as f32,
        causal: op.causal,
        parts: op.parts,
    };
    let write = |out: &mut [MaybeUninit<f32>]| {
        call.run(out);
        Ok(())
    };
    // SAFETY: the chunks of `Call::run` are all of `out`, each of whole rows, and a block writes every element of its
    // rows.
    unsafe { overwrite::<f32>(out, write) }
}
