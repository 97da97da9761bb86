//! Products of f32 matrices that are added up in registers: the lines of one factor lie side by side in vector lanes, brought
//! there in panels, and the elements of the other are read one by one where they are (Goto and van de Geijn, "Anatomy of
//! High-Performance Matrix Multiplication", 2008).
//!
//! The factor that costs less goes into panels: the right one where there are many rows, the left one where there are
//! few, as when a weight is read once for some tokens. Each element of a result is added up alike, whichever factor that is,
//! how the result is cut into tasks, and whatever is computed beside it: stretches of up to 512 products in their order,
//! each product by one fused operation, and the sums of stretches added to the bias one after the other.

use crate::device::{self, dispatch};
use crate::memory::{Block, prefetch};
use crate::storage::as_slots;
use pulp::{Simd, WithSimd};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Products of a stretch: a panel of it stays in the second cache.
const STRETCH: usize = 512;
/// Most vectors of a panel. With those of one product and its factor, sums of so many fill the registers of most machines.
const VECTORS: usize = 4;
/// Lanes of any panel are a multiple of it, for the price.
const LANES: usize = 16;
/// Lines that are read one by one per task, at most, unless a task has all panels: they stay in the second cache too.
const LINES: usize = 120;
/// Lines of a task are a multiple of it, as all tiles have 6 or 8.
const STEP: usize = 24;
/// So many tasks are enough for the threads of a machine to share them evenly.
const ENOUGH: usize = 32;
/// Multiplications of a task.
const WORK: (usize, usize) = (1 << 20, 1 << 25);
/// Panels of fewer elements every thread makes for itself: to share them out, and to read what another processor has just
/// written, takes longer. With so many all threads make them together.
const MANY: usize = 1 << 15;
/// What bringing an element into a panel costs, in multiplications.
const FILL: usize = 24;
/// What it costs to write an element of the result where lanes are its rows.
const TURN: usize = 16;
/// Elements that a cache line has.
const CACHE_LINE: usize = 16;

/// A factor as lines: the rows of the left one, the columns of the right one.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    /// Has an element at every index of the lines.
    pub(crate) data: &'a [f32],
    /// Where the first one is.
    pub(crate) at: isize,
    /// From a line to the next; the elements of a line lie side by side.
    pub(crate) line: isize,
    pub(crate) count: usize,
}

impl Side<'_> {
    /// Where an element is. It lies in the data for every index of the lines.
    fn element(&self, line: usize, l: usize) -> isize {
        self.at + line as isize * self.line + l as isize
    }

    /// Brings some lines of it into a panel: `out[l][i]` is element `l` of line `i`; 0 where there is no line.
    fn fill(&self, lines: Range<usize>, elements: Range<usize>, lanes: usize, out: &mut [MaybeUninit<f32>]) {
        let (count, depth) = (lines.len(), elements.len());
        if count < lanes {
            out.chunks_mut(lanes).for_each(|out| out[count..].fill(MaybeUninit::new(0.0)));
        }
        assert!(out.len() >= depth * lanes && count <= lanes);
        // SAFETY: all these elements lie in the data, and the panel has places for them.
        unsafe {
            let from = self.data.as_ptr().offset(self.element(lines.start, elements.start));
            turn_all(from, self.line, out.as_mut_ptr().cast(), lanes as isize, (count, depth));
        }
    }
}

/// `to[l * lanes + i] = from[i * line + l]` for so many lines `i` of so many elements `l`.
///
/// # Safety
/// All of these places are there.
#[inline(always)]
pub(crate) unsafe fn turn_all(
    from: *const f32,
    line: isize,
    to: *mut f32,
    lanes: isize,
    (lines, elements): (usize, usize),
) {
    let (whole, full) = (lines / FOUR * FOUR, elements / FOUR * FOUR);
    let places = |i: usize, l: usize| {
        let (i, l) = (i as isize, l as isize);
        (from.wrapping_offset(i * line + l), to.wrapping_offset(l * lanes + i))
    };
    blocks(whole, full, |i, l| {
        let (from, to) = places(i, l);
        // SAFETY: the caller's promise.
        unsafe { turn::<false>(from, line, to, lanes) };
    });
    for l in 0..elements {
        for i in if l < full { whole } else { 0 }..lines {
            let (from, to) = places(i, l);
            // SAFETY: the caller's promise.
            unsafe { *to = *from };
        }
    }
}

/// Lines and elements of a block that is turned at once.
const FOUR: usize = 4;

/// Calls `f` with the first indices of blocks of four by four, in blocks of a cache line by a cache line.
#[inline(always)]
fn blocks(lines: usize, elements: usize, mut f: impl FnMut(usize, usize)) {
    for i in (0..lines).step_by(CACHE_LINE) {
        for l in (0..elements).step_by(CACHE_LINE) {
            for i in (i..lines.min(i + CACHE_LINE)).step_by(FOUR) {
                for l in (l..elements.min(l + CACHE_LINE)).step_by(FOUR) {
                    f(i, l);
                }
            }
        }
    }
}

/// `to[l * lanes + i] = from[i * line + l]` for 4 by 4 elements; added to what is there, if `ADD`.
///
/// # Safety
/// All of these places are there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn turn<const ADD: bool>(from: *const f32, line: isize, to: *mut f32, lanes: isize) {
    use std::arch::x86_64::{_MM_TRANSPOSE4_PS, _mm_add_ps, _mm_loadu_ps, _mm_storeu_ps};
    // SAFETY: the caller's promise; every x86-64 has the instructions.
    unsafe {
        let [mut a, mut b, mut c, mut d] = [0, 1, 2, 3].map(|i| _mm_loadu_ps(from.offset(i * line)));
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        for (l, row) in [a, b, c, d].into_iter().enumerate() {
            let to = to.offset(l as isize * lanes);
            _mm_storeu_ps(to, if ADD { _mm_add_ps(_mm_loadu_ps(to), row) } else { row });
        }
    }
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn turn<const ADD: bool>(from: *const f32, line: isize, to: *mut f32, lanes: isize) {
    for i in 0..FOUR as isize {
        for l in 0..FOUR as isize {
            // SAFETY: the caller's promise.
            unsafe {
                let (to, from) = (to.offset(l * lanes + i), *from.offset(i * line + l));
                *to = if ADD { *to + from } else { from };
            }
        }
    }
}

/// How panels lie in memory: stretch by stretch, in each panel by panel. All are of the same width but the last one.
#[derive(Clone, Copy)]
struct Panels {
    /// Lanes of a vector.
    vector: usize,
    /// Lines of a panel.
    width: usize,
    /// Lines in all panels.
    lines: usize,
    /// Elements of a line.
    k: usize,
    /// Elements of a stretch, but for the last one.
    stretch: usize,
}

impl Panels {
    fn new(lines: usize, k: usize) -> Self {
        let (vector, width) = dispatch(Width);
        let stretch = k.div_ceil(k.div_ceil(STRETCH).max(1)).max(1);
        Self { vector, width, lines, k, stretch }
    }
    fn count(&self) -> usize {
        self.lines.div_ceil(self.width)
    }
    /// The lanes of all panels.
    fn lanes(&self) -> usize {
        self.lines.next_multiple_of(self.vector)
    }
    fn stretches(&self) -> usize {
        self.k.div_ceil(self.stretch)
    }
    /// The lines of a panel, and its lanes.
    fn panel(&self, number: usize) -> (Range<usize>, usize) {
        let first = number * self.width;
        let lines = first..self.lines.min(first + self.width);
        (lines.clone(), lines.len().next_multiple_of(self.vector))
    }
    /// The elements of the lines in a stretch.
    fn elements(&self, stretch: usize) -> Range<usize> {
        let first = stretch * self.stretch;
        first..self.k.min(first + self.stretch)
    }
    /// Where a panel begins.
    fn start(&self, stretch: usize, number: usize) -> usize {
        let elements = self.elements(stretch);
        elements.start * self.lanes() + number * self.width * elements.len()
    }

    /// The elements of all panels.
    fn elements_of_all(&self) -> Option<usize> {
        self.k.checked_mul(self.lanes())
    }

    /// Brings a factor into panels in a new block; over the pool, if `split`.
    fn made(&self, side: &Side<'_>, split: bool) -> Option<Block> {
        let elements = self.elements_of_all()?;
        let mut block = Block::new(elements.checked_mul(size_of::<f32>())?)?;
        self.fill(side, &mut block.elements_mut::<f32>()[..elements], split);
        Some(block)
    }

    /// Brings a factor into panels, each place of which gets a value; over the pool, if `split`.
    fn fill(&self, side: &Side<'_>, out: &mut [MaybeUninit<f32>], split: bool) {
        assert!(Some(out.len()) == self.elements_of_all());
        let start = device::Start::new(out);
        let fill = |number: usize| {
            let (stretch, number) = (number / self.count(), number % self.count());
            let (lines, lanes) = self.panel(number);
            let elements = self.elements(stretch);
            // SAFETY: the panel lies in `out`, and no other task has it.
            let out = unsafe {
                std::slice::from_raw_parts_mut(start.at(self.start(stretch, number)), lanes * elements.len())
            };
            side.fill(lines, elements, lanes, out);
        };
        let tasks = self.count() * self.stretches();
        if split {
            device::each(tasks, fill);
        } else {
            (0..tasks).for_each(fill);
        }
    }
}

/// The lanes of a vector and of a panel on this machine.
struct Width;

impl WithSimd for Width {
    type Output = (usize, usize);
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (usize, usize) {
        let vectors = if S::REGISTER_COUNT >= 32 { VECTORS } else { VECTORS / 2 };
        (S::F32_LANES, vectors * S::F32_LANES)
    }
}

/// Whether a product is one for panels: not so thin that they would cost more than it.
pub(crate) fn pays(m: usize, k: usize, n: usize) -> bool {
    m >= 4 && n >= LANES && k >= 2 * LANES
}

/// What it costs to have some lines in panels and others read beside them, in multiplications; `store` is what writing an
/// element of the result does.
fn price(lanes: usize, lines: usize, k: usize, store: usize) -> usize {
    let computed = lanes.next_multiple_of(LANES).saturating_mul(lines);
    let filled = lanes.saturating_mul(FILL);
    computed.saturating_add(filled).saturating_mul(k).saturating_add(computed.saturating_mul(store))
}

/// Panels of a product.
pub(crate) enum Filled {
    Whole(Block),
    /// Every thread that does a task has its own, under this number.
    ByThread(u64),
}

/// The last number of [`Filled::ByThread`].
static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The panels that this thread has made last, and their number.
    static PANELS: RefCell<Option<(u64, Block)>> = const { RefCell::new(None) };
}

/// Gives the panels of this thread back: what is kept between calls is for the memory to say. Threads of the pool keep theirs
/// for the next product.
pub(crate) fn forget() {
    // At the end of a thread there is nothing to give back.
    let _ = PANELS.try_with(|panels| panels.borrow_mut().take());
}

/// Which factor of a product goes into panels, and how they lie.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    panels: Panels,
    /// What goes into panels.
    lanes: Side<'a>,
    /// Of which elements lie side by side.
    lines: Side<'a>,
    bias: Option<&'a [f32]>,
    /// Whether lanes are rows of the result, and lines its columns.
    across: bool,
    /// The columns of the result.
    n: usize,
}

impl<'a> Plan<'a> {
    /// Of the product of rows and columns of `k` elements, each row of the result added to the bias if there is one.
    pub(crate) fn new(rows: Side<'a>, columns: Side<'a>, k: usize, bias: Option<&'a [f32]>) -> Self {
        let (m, n) = (rows.count, columns.count);
        assert!(bias.is_none_or(|bias| bias.len() == n));
        let across = price(m, n, k, TURN) < price(n, m, k, 0);
        let (lanes, lines) = if across { (rows, columns) } else { (columns, rows) };
        Self { panels: Panels::new(lanes.count, k), lanes, lines, bias, across, n }
    }

    /// Whether the panels of both are the same.
    pub(crate) fn fills_as(&self, other: &Self) -> bool {
        let (a, b) = (&self.lanes, &other.lanes);
        std::ptr::eq(a.data, b.data)
            && (a.at, a.line, a.count, self.panels.k) == (b.at, b.line, b.count, other.panels.k)
    }

    /// Makes the panels, or says that threads do so; over the pool, if `split`. `None` if there is no memory for them.
    pub(crate) fn fill(&self, split: bool) -> Option<Filled> {
        if split && self.panels.elements_of_all()? < MANY {
            return Some(Filled::ByThread(LAST.fetch_add(1, Ordering::Relaxed) + 1));
        }
        Some(Filled::Whole(self.panels.made(&self.lanes, split)?))
    }

    /// The product into `out`, of panels that [`fill`](Self::fill) of this plan has made, or of one that
    /// [`fills_as`](Self::fills_as) this one; in tasks for the pool, if `split`.
    pub(crate) fn job<'b>(
        &'b self,
        filled: &'b Filled,
        out: &'b mut [MaybeUninit<f32>],
        split: bool,
    ) -> Job<'b> {
        assert!(out.len() == self.lanes.count * self.lines.count);
        let (lines, panels) = self.cut(split);
        Job { plan: self, filled, lines, panels, out: device::Start::new(out) }
    }

    /// The elements of panels that are in a block.
    fn elements_in<'b>(&self, block: &'b Block) -> &'b [f32] {
        let elements = &block.elements::<f32>()[..self.panels.k * self.panels.lanes()];
        // SAFETY: `Panels::fill` has put a value on every place.
        unsafe { elements.assume_init_ref() }
    }

    /// Gives `run` the panels that this thread has made under this number, or makes now.
    fn by_thread(&self, number: u64, run: impl FnOnce(&[f32])) {
        PANELS.with_borrow_mut(|panels| {
            if panels.as_ref().is_none_or(|(made, _)| *made != number) {
                // One block at a time.
                *panels = None;
                *panels = self.panels.made(&self.lanes, false).map(|block| (number, block));
            }
            if let Some((_, block)) = panels {
                return run(self.elements_in(block));
            }
            let mut elements = vec![0.0; self.panels.k * self.panels.lanes()];
            // SAFETY: `fill` puts nothing but values there.
            self.panels.fill(&self.lanes, unsafe { as_slots(&mut elements) }, false);
            run(&elements);
        });
    }

    /// The most lines of a task, and the most panels.
    fn cut(&self, split: bool) -> (usize, usize) {
        let (mut lines, mut panels) = (self.lines.count, self.panels.count());
        if split {
            let all = self.panels.lines.next_multiple_of(LANES);
            let work = |lines: usize, panels: usize| {
                lines.saturating_mul(all.min(panels * self.panels.width)).saturating_mul(self.panels.k)
            };
            let most = (work(lines, panels) / ENOUGH).clamp(WORK.0, WORK.1);
            while work(lines, panels) > most {
                if lines > LINES || (panels == 1 && lines > STEP) {
                    lines = lines.div_ceil(2).next_multiple_of(STEP);
                } else if panels > 1 {
                    panels = panels.div_ceil(2);
                } else {
                    break;
                }
            }
        } else {
            lines = lines.min(LINES);
        }
        (lines, panels)
    }
}

/// A product whose panels are there, in tasks.
pub(crate) struct Job<'a> {
    plan: &'a Plan<'a>,
    filled: &'a Filled,
    /// The most lines of a task.
    lines: usize,
    /// The most panels of a task.
    panels: usize,
    out: device::Start<MaybeUninit<f32>>,
}

impl Job<'_> {
    /// Tasks beside each other, which have the same lines.
    fn across(&self) -> usize {
        self.plan.panels.count().div_ceil(self.panels)
    }

    pub(crate) fn tasks(&self) -> usize {
        self.plan.lines.count.div_ceil(self.lines) * self.across()
    }

    /// Runs a task.
    ///
    /// # Safety
    /// No other thread runs the one of this number at the same time.
    pub(crate) unsafe fn run(&self, number: usize) {
        let across = self.across();
        let (line, panel) = (number / across * self.lines, number % across * self.panels);
        let lines = line..self.plan.lines.count.min(line + self.lines);
        let panels = panel..self.plan.panels.count().min(panel + self.panels);
        let run =
            |block: &[f32]| dispatch(Task { job: self, block, lines: lines.clone(), panels: panels.clone() });
        match self.filled {
            Filled::Whole(block) => run(self.plan.elements_in(block)),
            Filled::ByThread(number) => self.plan.by_thread(*number, run),
        }
    }

    /// The place of an element of the result, and the steps to the next lane and to the next line.
    fn place(&self, lane: usize, line: usize) -> (*mut f32, isize, isize) {
        let n = self.plan.n;
        let (at, steps) = if self.plan.across {
            (lane * n + line, (n as isize, 1))
        } else {
            (line * n + lane, (1, n as isize))
        };
        // SAFETY: lane and line are those of an element of the result.
        (unsafe { self.out.at(at) }.cast(), steps.0, steps.1)
    }
}

/// Some lines of a product by some panels.
struct Task<'a> {
    job: &'a Job<'a>,
    /// The elements of all panels.
    block: &'a [f32],
    lines: Range<usize>,
    panels: Range<usize>,
}

impl WithSimd for Task<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { job, block, lines, panels } = self;
        for stretch in 0..job.plan.panels.stretches() {
            for panel in panels.clone() {
                let panel = Panel { job, block, stretch, number: panel };
                match job.plan.panels.panel(panel.number).1 / S::F32_LANES {
                    1 => panel.lines::<S, 8, 1>(simd, lines.clone()),
                    2 if S::REGISTER_COUNT >= 32 => panel.lines::<S, 8, 2>(simd, lines.clone()),
                    2 => panel.lines::<S, 6, 2>(simd, lines.clone()),
                    3 => panel.lines::<S, 8, 3>(simd, lines.clone()),
                    _ => panel.lines::<S, 6, 4>(simd, lines.clone()),
                }
            }
        }
    }
}

/// A stretch of a panel.
#[derive(Clone, Copy)]
struct Panel<'a> {
    job: &'a Job<'a>,
    block: &'a [f32],
    stretch: usize,
    number: usize,
}

impl Panel<'_> {
    /// Multiplies lines by it, `M` at a time.
    #[inline(always)]
    fn lines<S: Simd, const M: usize, const N: usize>(self, simd: S, lines: Range<usize>) {
        let mut line = lines.start;
        while line < lines.end {
            line += match lines.end - line {
                left if left >= M => self.tile::<S, M, N>(simd, line),
                4.. => self.tile::<S, 4, N>(simd, line),
                2.. => self.tile::<S, 2, N>(simd, line),
                _ => self.tile::<S, 1, N>(simd, line),
            };
        }
    }

    /// Multiplies lines `line..line + M` by its `N` vectors, and gives `M`.
    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(self, simd: S, line: usize) -> usize {
        let Self { job, block, stretch, number } = self;
        let plan = job.plan;
        let (lanes, _) = plan.panels.panel(number);
        let elements = plan.panels.elements(stretch);
        let start = plan.panels.start(stretch, number);
        let panel = S::as_simd_f32s(&block[start..][..elements.len() * N * S::F32_LANES]).0;
        let place = job.place(lanes.start, line);
        let at = plan.lines.element(line, elements.start);
        let from = plan.lines.data.as_ptr().wrapping_offset(at);
        // SAFETY: lines `line..line + M` have the elements of the stretch.
        let mut sums = unsafe { sums::<S, M, N>(simd, from, plan.lines.line, panel) };
        // What the stretch before has written, or the bias.
        let before = match plan.bias {
            _ if stretch > 0 => Some((place.0.cast_const(), place.2)),
            Some(bias) if plan.across => {
                for (sums, bias) in sums.iter_mut().zip(&bias[line..line + M]) {
                    for sum in sums {
                        *sum = simd.add_f32s(*sum, simd.splat_f32s(*bias));
                    }
                }
                None
            }
            Some(bias) => Some((bias[lanes.clone()].as_ptr(), 0)),
            None => None,
        };
        // SAFETY: the lanes and lines are those of the result, whose places of this task nobody else has. There is a value on them
        // after a first stretch, and the bias is as long as there are lanes.
        unsafe { store(simd, place, lanes.len(), &sums, before) };
        M
    }
}

/// The sums of the products of `M` lines by the vectors of a panel.
///
/// # Safety
/// Every line has an element for each `N` vectors of the panel, the first line at `from` and each next one `line` further.
#[inline(always)]
unsafe fn sums<S: Simd, const M: usize, const N: usize>(
    simd: S,
    from: *const f32,
    line: isize,
    panel: &[S::f32s],
) -> [[S::f32s; N]; M] {
    let mut sums = [[simd.splat_f32s(0.0); N]; M];
    for (block, panel) in panel.chunks(CACHE_LINE * N).enumerate() {
        let from = from.wrapping_add(block * CACHE_LINE);
        // The lines that come next, which may lie in memory that no cache has.
        for i in M..2 * M {
            prefetch(from.wrapping_offset(i as isize * line));
        }
        for (l, row) in panel.chunks_exact(N).enumerate() {
            // Loops over arrays of a length that is known, which stay in registers.
            let mut vectors = [simd.splat_f32s(0.0); N];
            vectors.copy_from_slice(row);
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                let x = simd.splat_f32s(unsafe { *from.wrapping_offset(i as isize * line + l as isize) });
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = simd.mul_add_e_f32s(x, vector, *sum);
                }
            }
        }
    }
    sums
}

/// Writes the first lanes of sums, each added to what was before: elements as many lines apart as it says, and as many lanes
/// as those of the result.
///
/// # Safety
/// From `at` on there are places for so many lanes of `M` lines, with these steps to the next; and values before.
#[inline(always)]
unsafe fn store<S: Simd, const M: usize, const N: usize>(
    simd: S,
    (at, lane, line): (*mut f32, isize, isize),
    lanes: usize,
    sums: &[[S::f32s; N]; M],
    before: Option<(*const f32, isize)>,
) {
    if lane == 1 && lanes == N * S::F32_LANES {
        for (i, sums) in sums.iter().enumerate() {
            let at = at.wrapping_offset(i as isize * line);
            let before = before.map(|(at, line)| at.wrapping_offset(i as isize * line));
            for (v, sum) in sums.iter().enumerate() {
                let at = at.wrapping_add(v * S::F32_LANES).cast::<S::f32s>();
                // SAFETY: the caller's promise.
                unsafe {
                    at.write_unaligned(match before {
                        Some(before) => {
                            let before = before.wrapping_add(v * S::F32_LANES).cast::<S::f32s>();
                            simd.add_f32s(before.read_unaligned(), *sum)
                        }
                        None => *sum,
                    });
                }
            }
        }
        return;
    }
    let (floats, width) = (sums.as_ptr().cast::<f32>(), N * S::F32_LANES);
    let place = |i: usize, j: usize| at.wrapping_offset(i as isize * line + j as isize * lane);
    let (mut whole, mut full) = (0, 0);
    if line == 1 {
        // Lanes are rows of the result, of which pieces are written.
        (whole, full) = (M / FOUR * FOUR, lanes / FOUR * FOUR);
        // SAFETY: a vector is its lanes, without padding; and the caller's promise.
        blocks(whole, full, |i, j| unsafe {
            let from = floats.add(i * width + j);
            match before {
                Some(_) => turn::<true>(from, width as isize, place(i, j), lane),
                None => turn::<false>(from, width as isize, place(i, j), lane),
            }
        });
    }
    for i in 0..M {
        for j in if i < whole { full } else { 0 }..lanes {
            // SAFETY: as above.
            unsafe {
                let sum = *floats.add(i * width + j);
                let before =
                    before.map(|(at, line)| *at.wrapping_offset(i as isize * line + j as isize * lane));
                place(i, j).write(before.map_or(sum, |before| before + sum));
            }
        }
    }
}
