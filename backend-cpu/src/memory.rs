//! Host memory: how many bytes are alive on each device, and blocks that are kept for the next array when one is dropped.
//!
//! The system hands out large memory page by page, each cleared when it is first touched: writing a fresh result costs more
//! than computing it. So a freed block stays, by its size class: small and medium ones on the thread that freed them, found
//! without a lock, large ones and what a thread has no room for in one list for all threads. Both are bounded in bytes.

use bytemuck::Pod;
use sharding_core::backend::{HeldBytes, MemoryLedger, MemoryUse};
use sharding_core::{Device, Result};
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

static LEDGER: MemoryLedger = MemoryLedger::new();

/// Counts the bytes of a storage until it is dropped.
pub(crate) fn hold(device: Device, bytes: usize) -> HeldBytes {
    LEDGER.hold(device, bytes)
}

/// Blocks of at least so many bytes ask for huge pages: below, most of a huge page would be waste.
const HUGE: usize = 4 << 20;

/// What such blocks are aligned to, so that the first page is huge too.
const HUGE_PAGE: usize = 2 << 20;

/// Asks the system for huge pages under a large new block, where it grants them on request: writing one for the first time
/// then takes a five-hundredth of the page faults. Where it does not, nothing changes. The block belongs to the caller.
#[cfg(all(target_os = "linux", not(miri)))]
fn want_huge_pages(at: NonNull<u8>, bytes: usize) {
    if bytes >= HUGE {
        // SAFETY: the pages are those of the block, which begins with one; the advice leaves their content as it is. That it
        // may be refused is no error.
        unsafe { libc::madvise(at.as_ptr().cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE) };
    }
}

/// Elsewhere there is nobody to ask.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn want_huge_pages(_: NonNull<u8>, _: usize) {}

/// Results of at least so many bytes have left the caches before they are read.
const BESIDE_LEAST: usize = 32 << 20;

/// Stretches of at least so many bytes are written so.
const STRETCH: usize = 256;

/// Copies into large results past the caches. An ordinary store first reads the line of which it writes a part, so that a copy
/// moves three times its bytes over the memory bus instead of twice, and it drives out what the caches hold. The C library
/// avoids that in long copies by itself, but not in those of rows.
///
/// When it is dropped, all that it wrote is in order with what the thread does afterwards.
pub(crate) struct Beside(());

impl Beside {
    /// For a result of so many bytes; `None` where it is better written through the caches.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        (STREAMS && bytes >= BESIDE_LEAST).then_some(Self(()))
    }

    /// Copies elements to as many places.
    pub(crate) fn copy<T: Pod>(&self, from: &[T], to: &mut [MaybeUninit<T>]) {
        assert_eq!(from.len(), to.len(), "elements and places for them");
        if size_of_val(from) < STRETCH {
            to.write_copy_of_slice(from);
        } else {
            stream(from, to);
        }
    }

    /// Puts `line(i)` on line `i`, for all of them: what is computed goes past the caches from the registers.
    pub(crate) fn lines<T: Pod, const L: usize>(
        &self,
        lines: &mut [Line<T, L>],
        line: impl Fn(usize) -> [T; L],
    ) {
        stream_lines(lines, line);
    }
}

/// A cache line of `L` places.
#[repr(C, align(64))]
pub(crate) struct Line<T, const L: usize>([MaybeUninit<T>; L]);

impl<T: Pod, const L: usize> Line<T, L> {
    /// The places before the first whole line, the lines, and the places behind the last.
    pub(crate) fn among(
        places: &mut [MaybeUninit<T>],
    ) -> (&mut [MaybeUninit<T>], &mut [Self], &mut [MaybeUninit<T>]) {
        const { assert!(L * size_of::<T>() == ALIGN && align_of::<Self>() == ALIGN) };
        // SAFETY: a line is so many places and nothing else.
        unsafe { places.align_to_mut() }
    }
}

/// The most elements of a [`staged`] piece.
pub(crate) const STAGE: usize = 1024;

/// Runs `write(start, places)` on all of a slice: at once, or, past the caches, on pieces of so many elements which stay in the
/// first cache until they are complete. `start` is the number of the first place.
///
/// # Safety
/// Where `write` gives `Ok`, it has put a value on every place.
pub(crate) unsafe fn staged<T: Pod>(
    beside: Option<&Beside>,
    piece: usize,
    out: &mut [MaybeUninit<T>],
    mut write: impl FnMut(usize, &mut [MaybeUninit<T>]) -> Result<()>,
) -> Result<()> {
    let Some(beside) = beside else { return write(0, out) };
    let mut stage = [const { MaybeUninit::<T>::uninit() }; STAGE];
    let piece = piece.min(STAGE);
    for (i, out) in out.chunks_mut(piece).enumerate() {
        let stage = &mut stage[..out.len()];
        write(i * piece, stage)?;
        // SAFETY: the caller's promise.
        beside.copy(unsafe { stage.assume_init_ref() }, out);
    }
    Ok(())
}

impl Drop for Beside {
    fn drop(&mut self) {
        fence();
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod streams {
    use super::{ALIGN, Line, MaybeUninit, Pod};
    use pulp::x86::V3;
    use std::arch::x86_64::{
        __m128i, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm_sfence, _mm_stream_si128,
        _mm256_stream_si256,
    };
    use std::mem::transmute_copy;

    /// Whether there are stores past the caches.
    pub(super) const STREAMS: bool = true;

    /// Copies elements to as many places: whole lines past the caches, what is before and behind them through the caches.
    pub(super) fn stream<T: Pod>(from: &[T], to: &mut [MaybeUninit<T>]) {
        let bytes = size_of_val(from).min(size_of_val(to));
        let (from, to) = (from.as_ptr().cast::<u8>(), to.as_mut_ptr().cast::<u8>());
        let head = to.align_offset(ALIGN).min(bytes);
        let tail = bytes - (bytes - head) % ALIGN;
        // SAFETY: both slices have so many bytes and do not overlap, since one is borrowed uniquely; all offsets lie inside. What
        // is stored as vectors is aligned, since whole lines start at `head`.
        unsafe {
            to.copy_from_nonoverlapping(from, head);
            for line in (head..tail).step_by(ALIGN) {
                let (from, to) = (from.add(line).cast::<__m128i>(), to.add(line).cast::<__m128i>());
                let words = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
                for (i, word) in words.into_iter().enumerate() {
                    _mm_stream_si128(to.add(i), word);
                }
            }
            to.add(tail).copy_from_nonoverlapping(from.add(tail), bytes - tail);
        }
    }

    /// Puts `line(i)` on line `i`, by vectors of half a line: those of a whole one were no faster where it was measured.
    pub(super) fn stream_lines<T: Pod, const L: usize>(
        lines: &mut [Line<T, L>],
        line: impl Fn(usize) -> [T; L],
    ) {
        match V3::try_new() {
            Some(v3) => v3.vectorize(
                #[inline(always)]
                move || {
                    for (i, place) in lines.iter_mut().enumerate() {
                        let (place, values) = (std::ptr::from_mut(place).cast::<__m256i>(), line(i));
                        // SAFETY: a line has 64 bytes, is aligned to as many, and takes any bits. This processor has AVX2.
                        unsafe {
                            let [low, high] = transmute_copy::<[T; L], [__m256i; 2]>(&values);
                            _mm256_stream_si256(place, low);
                            _mm256_stream_si256(place.add(1), high);
                        }
                    }
                },
            ),
            None => {
                for (i, place) in lines.iter_mut().enumerate() {
                    let (place, values) = (std::ptr::from_mut(place).cast::<__m128i>(), line(i));
                    // SAFETY: as above; every x86-64 has these stores.
                    unsafe {
                        for (i, part) in
                            transmute_copy::<[T; L], [__m128i; 4]>(&values).into_iter().enumerate()
                        {
                            _mm_stream_si128(place.add(i), part);
                        }
                    }
                }
            }
        }
    }

    /// Orders what was written past the caches before all that follows.
    pub(super) fn fence() {
        // SAFETY: every x86-64 has the instruction.
        unsafe { _mm_sfence() };
    }

    /// Asks for a cache line that is soon to be read; any address will do.
    #[inline(always)]
    pub(crate) fn prefetch<T>(at: *const T) {
        // SAFETY: every x86-64 has the instruction, which reads nothing where it must not.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
}

/// Elsewhere all goes through the caches.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod streams {
    use super::{Line, MaybeUninit, Pod};

    pub(super) const STREAMS: bool = false;

    pub(super) fn stream<T: Pod>(from: &[T], to: &mut [MaybeUninit<T>]) {
        to.write_copy_of_slice(from);
    }

    pub(super) fn stream_lines<T: Pod, const L: usize>(
        lines: &mut [Line<T, L>],
        line: impl Fn(usize) -> [T; L],
    ) {
        for (i, Line(places)) in lines.iter_mut().enumerate() {
            *places = line(i).map(MaybeUninit::new);
        }
    }

    pub(super) fn fence() {}

    #[inline(always)]
    pub(crate) fn prefetch<T>(_: *const T) {}
}
pub(crate) use streams::prefetch;
use streams::{STREAMS, fence, stream, stream_lines};

/// What is alive on a device.
pub(crate) fn of(device: Device) -> MemoryUse {
    LEDGER.of(device)
}

/// Makes what is alive the peak.
pub(crate) fn reset_peak(device: Device) {
    LEDGER.reset_peak(device);
}

/// Every block starts at a multiple of it: a cache line, and the widest vector.
pub(crate) const ALIGN: usize = 64;
/// Size classes for each doubling: a block is at most a quarter larger than what it was asked for.
const STEPS: usize = 4;
/// Classes up to half of the address space.
const CLASSES: usize = class_of(1 << 62) + 1;
/// The largest blocks that a thread keeps for itself.
const OWN_LARGEST: usize = 1 << 20;
/// Bytes that a thread keeps for itself.
const OWN_BYTES: usize = 8 << 20;
/// Blocks of one class that a thread keeps for itself.
const OWN_BLOCKS: usize = 64;
/// Blocks from this size on are worth the lock of the list for all threads.
const SHARED_LEAST: usize = 1 << 16;
/// Bytes that are kept for all threads, unless [`set_cache_limit`] says otherwise.
const SHARED_BYTES: usize = 512 << 20;

/// Bytes that a thread keeps for itself which belongs to a manual region, when it has nothing to do: there may be thousands.
const PARKED_BYTES: usize = 64 << 10;

static LIMIT: AtomicUsize = AtomicUsize::new(SHARED_BYTES);
/// Rises when everything is given back: threads see that what they keep is of an older time.
static EPOCH: AtomicU64 = AtomicU64::new(0);
static SHARED: Mutex<Shared> = Mutex::new(Shared::new());

/// Aligned as every block is.
#[repr(align(64))]
struct Aligned;

const _: () = assert!(align_of::<Aligned>() == ALIGN);

/// Memory for one storage: aligned to 64 bytes, not cleared.
pub(crate) struct Block {
    at: NonNull<u8>,
    /// What was asked for.
    bytes: usize,
}

// SAFETY: a block owns its memory, which is read and written by the rules of its borrow.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A block of so many bytes, of which none is defined; `None` where there is not enough memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return Some(Self { at: NonNull::<Aligned>::dangling().cast(), bytes });
        }
        let class = class_of(bytes);
        if class >= CLASSES {
            return None;
        }
        let at = match taken(class) {
            Some(Free(at)) => at,
            None => fresh(class)?,
        };
        Some(Self { at, bytes })
    }

    /// The memory as elements.
    #[inline]
    pub(crate) fn elements<T: Pod>(&self) -> &[MaybeUninit<T>] {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGN) };
        // SAFETY: the block has `bytes` bytes, is aligned to `ALIGN` and lives as long as the borrow; the elements may be
        // undefined. A `Pod` may be any bytes, so that it does not matter as which type they were written.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }

    /// The memory as elements, to be written.
    #[inline]
    pub(crate) fn elements_mut<T: Pod>(&mut self) -> &mut [MaybeUninit<T>] {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGN) };
        // SAFETY: as in `elements`; the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), self.bytes / size_of::<T>()) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes > 0 {
            give(class_of(self.bytes), Free(self.at));
        }
    }
}

/// The size class of so many bytes, at least 1.
const fn class_of(bytes: usize) -> usize {
    if bytes <= ALIGN {
        return 0;
    }
    let top = (bytes - 1).ilog2() as usize;
    let quarter = ((bytes - 1) >> (top - 2)) & (STEPS - 1);
    (top - ALIGN.ilog2() as usize) * STEPS + quarter + 1
}

/// The bytes of a block of a class.
const fn size_of_class(class: usize) -> usize {
    if class == 0 {
        return ALIGN;
    }
    let (top, quarter) = ((class - 1) / STEPS + ALIGN.ilog2() as usize, (class - 1) % STEPS);
    (STEPS + quarter + 1) << (top - 2)
}

fn layout_of(class: usize) -> Option<Layout> {
    let size = size_of_class(class);
    Layout::from_size_align(size, if size >= HUGE { HUGE_PAGE } else { ALIGN }).ok()
}

/// New memory from the system.
#[cold]
fn fresh(class: usize) -> Option<NonNull<u8>> {
    let layout = layout_of(class)?;
    // SAFETY: no class has a size of 0.
    let at = NonNull::new(unsafe { alloc(layout) })?;
    want_huge_pages(at, layout.size());
    Some(at)
}

/// A block that nobody uses.
struct Free(NonNull<u8>);

// SAFETY: nobody else knows the memory.
unsafe impl Send for Free {}

/// Gives a block back to the system.
#[cold]
fn release(class: usize, free: Free) {
    if let Some(layout) = layout_of(class) {
        // SAFETY: `fresh` allocated the block with the layout of its class, which is found from the bytes asked for, and
        // nobody uses it any more.
        unsafe { dealloc(free.0.as_ptr(), layout) };
    }
}

/// What one thread keeps.
struct Own {
    lists: [Vec<Free>; OWN_CLASSES],
    bytes: usize,
    epoch: u64,
}

const OWN_CLASSES: usize = class_of(OWN_LARGEST) + 1;

thread_local! {
    static OWN: RefCell<Own> = const {
        RefCell::new(Own { lists: [const { Vec::new() }; OWN_CLASSES], bytes: 0, epoch: 0 })
    };
}

impl Own {
    /// Gives everything back if that was asked for since.
    #[inline]
    fn look(&mut self) {
        let epoch = EPOCH.load(Ordering::Relaxed);
        if self.epoch != epoch {
            self.epoch = epoch;
            self.clear();
        }
    }

    #[cold]
    fn clear(&mut self) {
        for (class, list) in self.lists.iter_mut().enumerate() {
            list.drain(..).for_each(|free| release(class, free));
        }
        self.bytes = 0;
    }
}

/// Gives what this thread keeps for itself to all threads, if it is more than a few small blocks: it will not run for a while.
pub(crate) fn park() {
    let kept = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        if own.bytes <= PARKED_BYTES {
            return Vec::new();
        }
        own.bytes = 0;
        let lists = own.lists.iter_mut().enumerate();
        lists.flat_map(|(class, list)| list.drain(..).map(move |free| (class, free))).collect()
    });
    kept.unwrap_or_default().into_iter().for_each(|(class, free)| give_to_all(class, free));
}

impl Drop for Own {
    fn drop(&mut self) {
        self.clear();
    }
}

/// What all threads keep together. The number beside a block is when it came.
struct Shared {
    lists: [VecDeque<(u64, Free)>; CLASSES],
    bytes: usize,
    clock: u64,
}

impl Shared {
    const fn new() -> Self {
        Self { lists: [const { VecDeque::new() }; CLASSES], bytes: 0, clock: 0 }
    }

    /// Takes out what came first, until at most so many bytes are left.
    fn shrink(&mut self, limit: usize) -> Vec<(usize, Free)> {
        let mut out = Vec::new();
        while self.bytes > limit {
            let lists = self.lists.iter().enumerate();
            let oldest = lists.filter_map(|(class, list)| Some((list.front()?.0, class))).min();
            let Some((_, class)) = oldest else { break };
            if let Some((_, free)) = self.lists[class].pop_front() {
                self.bytes -= size_of_class(class);
                out.push((class, free));
            }
        }
        out
    }
}

fn shared<R>(work: impl FnOnce(&mut Shared) -> R) -> R {
    work(&mut SHARED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A kept block of a class.
#[inline]
fn taken(class: usize) -> Option<Free> {
    if class < OWN_CLASSES {
        let own = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            own.look();
            let free = own.lists[class].pop()?;
            own.bytes -= size_of_class(class);
            Some(free)
        });
        if let Some(free) = own.ok().flatten() {
            return Some(free);
        }
    }
    if size_of_class(class) < SHARED_LEAST {
        return None;
    }
    shared(|shared| {
        let (_, free) = shared.lists[class].pop_back()?;
        shared.bytes -= size_of_class(class);
        Some(free)
    })
}

/// Keeps a block that nobody uses any more, if there is room.
#[inline]
fn give(class: usize, free: Free) {
    let mut free = Some(free);
    let (size, limit) = (size_of_class(class), LIMIT.load(Ordering::Relaxed));
    if class < OWN_CLASSES {
        // At the end of a thread its own list may be gone; the block then goes on.
        let _ = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            own.look();
            if own.bytes + size <= OWN_BYTES.min(limit)
                && own.lists[class].len() < OWN_BLOCKS
                && let Some(free) = free.take()
            {
                own.lists[class].push(free);
                own.bytes += size;
            }
        });
    }
    if let Some(free) = free {
        give_to_all(class, free);
    }
}

/// Keeps a block for all threads, if there is room and it is worth the lock.
fn give_to_all(class: usize, free: Free) {
    let (size, limit) = (size_of_class(class), LIMIT.load(Ordering::Relaxed));
    if size < SHARED_LEAST || size > limit {
        return release(class, free);
    }
    let rest = shared(|shared| {
        shared.clock += 1;
        shared.lists[class].push_back((shared.clock, free));
        shared.bytes += size;
        // Read again under the lock: a limit that has been lowered meanwhile holds.
        shared.shrink(LIMIT.load(Ordering::Relaxed))
    });
    rest.into_iter().for_each(|(class, free)| release(class, free));
}

/// Bytes of freed arrays that are kept for new ones: for all threads, and by this one.
pub fn cached_bytes() -> usize {
    let own = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        own.look();
        own.bytes
    });
    shared(|shared| shared.bytes) + own.unwrap_or(0)
}

/// Gives the memory of freed arrays back to the system. What other threads keep for themselves (at most 8 MiB each) follows
/// when they next make or drop an array.
///
/// ```
/// backend_cpu::release_cached_memory();
/// assert_eq!(backend_cpu::cached_bytes(), 0);
/// ```
pub fn release_cached_memory() {
    EPOCH.fetch_add(1, Ordering::Relaxed);
    let rest = shared(|shared| shared.shrink(0));
    rest.into_iter().for_each(|(class, free)| release(class, free));
    let _ = OWN.try_with(|own| own.borrow_mut().look());
}

/// How many bytes of freed arrays are kept for new ones at most, by all threads together: 512 MiB at first. Beyond it what was
/// freed first goes back to the system. Each thread keeps up to 8 MiB (but never more than the limit) beside that, those of manual
/// regions 64 KiB where they wait. With 0 nothing is kept; what other threads keep by now follows when they next make or drop an
/// array.
pub fn set_cache_limit(bytes: usize) {
    LIMIT.store(bytes, Ordering::Relaxed);
    let rest = shared(|shared| shared.shrink(bytes));
    rest.into_iter().for_each(|(class, free)| release(class, free));
    if bytes < OWN_BYTES {
        EPOCH.fetch_add(1, Ordering::Relaxed);
        let _ = OWN.try_with(|own| own.borrow_mut().look());
    }
}

/// How many bytes of freed arrays are kept for new ones at most; see [`set_cache_limit`].
pub fn cache_limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_as_large_as_asked_for_and_at_most_a_quarter_larger(bytes in 1_usize..1 << 48) {
            let class = class_of(bytes);
            let size = size_of_class(class);
            prop_assert!(size >= bytes && (size <= ALIGN || size <= bytes + bytes / 4 + ALIGN / 4));
            prop_assert_eq!(class_of(size), class);
            prop_assert!(class == 0 || size_of_class(class - 1) < bytes);
            prop_assert!(class < CLASSES);
        }
    }

    #[test]
    fn what_cannot_be_had_is_none() {
        assert!(Block::new(std::hint::black_box(isize::MAX as usize)).is_none());
        // Miri ends where memory does.
        if !cfg!(miri) {
            assert!(Block::new(std::hint::black_box(1 << 60)).is_none());
        }
    }

    #[test]
    fn elements_are_aligned_and_as_many_as_fit() {
        for bytes in [0, 1, 8, 63, 64, 65, 4096] {
            let mut block = Block::new(bytes).unwrap();
            assert_eq!(block.elements::<u8>().len(), bytes);
            assert_eq!(block.elements_mut::<u64>().len(), bytes / 8);
            assert_eq!(block.elements::<u64>().as_ptr().addr() % ALIGN, 0);
            block.elements_mut::<u8>().fill(MaybeUninit::new(7));
        }
    }

    #[test]
    fn a_freed_block_is_the_next_of_its_class() {
        // Threads of their own: tests of one process share what is kept for all.
        std::thread::spawn(|| {
            let first = Block::new(1000).unwrap();
            let at = first.at;
            drop(first);
            let kept = OWN.with_borrow(|own| own.bytes);
            assert_eq!(kept, size_of_class(class_of(1000)));
            let again = Block::new(900).unwrap();
            assert_eq!((again.at, OWN.with_borrow(|own| own.bytes)), (at, 0));
            assert_ne!(Block::new(1000).unwrap().at, at);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_keeps_a_bounded_number() {
        std::thread::spawn(|| {
            let blocks: Vec<_> = (0..2 * OWN_BLOCKS).map(|_| Block::new(64).unwrap()).collect();
            drop(blocks);
            assert_eq!(OWN.with_borrow(|own| own.bytes), OWN_BLOCKS * 64);
            let large: Vec<_> = (0..12).map(|_| Block::new(OWN_LARGEST).unwrap()).collect();
            drop(large);
            let bytes = OWN.with_borrow(|own| own.bytes);
            assert!(bytes <= OWN_BYTES && bytes > OWN_BYTES - OWN_LARGEST, "{bytes}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_parked_thread_keeps_little() {
        std::thread::spawn(|| {
            drop(Block::new(100).unwrap());
            park();
            assert_eq!(OWN.with_borrow(|own| own.bytes), size_of_class(class_of(100)), "little stays");
            drop((Block::new(1000).unwrap(), Block::new(OWN_LARGEST).unwrap()));
            park();
            assert_eq!(OWN.with_borrow(|own| own.bytes), 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_came_first_goes_first() {
        let mut shared = Shared::new();
        for (clock, class) in [(1, 3), (2, 1), (3, 3), (4, 2)] {
            shared.lists[class].push_back((clock, Free(fresh(class).unwrap())));
            shared.bytes += size_of_class(class);
        }
        let gone = shared.shrink(size_of_class(3) + size_of_class(2));
        assert_eq!(gone.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [3, 1]);
        let rest = shared.shrink(0);
        assert_eq!(rest.len(), 2);
        gone.into_iter().chain(rest).for_each(|(class, free)| release(class, free));
    }

    #[test]
    fn copies_past_the_caches_are_copies() {
        assert!(Beside::new(BESIDE_LEAST - 1).is_none());
        assert_eq!(Beside::new(BESIDE_LEAST).is_some(), STREAMS);
        let from: Vec<u16> = (0..3000).collect();
        for (start, at, len) in
            [(0, 0, 0), (0, 0, 1), (3, 1, 200), (1, 0, 256), (0, 5, 511), (7, 32, 2048), (9, 13, 2900)]
        {
            let mut to = vec![MaybeUninit::new(9_u16); 3000];
            let beside = Beside(());
            beside.copy(&from[start..start + len], &mut to[at..at + len]);
            drop(beside);
            // SAFETY: the vector was made of values, and only values were put there.
            let to: Vec<u16> = to.iter().map(|place| unsafe { place.assume_init() }).collect();
            let want = |i: usize| if (at..at + len).contains(&i) { from[start + i - at] } else { 9 };
            assert!(to.iter().enumerate().all(|(i, found)| *found == want(i)), "{len} from {start} to {at}");
        }
    }
}
