//! The one device there is, the positions of a mesh on it, its instruction sets and its threads.
//!
//! Work in tasks runs on the calling thread and the pool. The caller does not hand its work over and wait: it asks the pool
//! for help, takes tasks itself, and stops when there are none left. Help that comes too late finds nothing to do, so a pool
//! that sleeps costs the caller a call to wake it and no more. A helper that has nothing left to do looks around for a while
//! before it goes: between the ops of a program it shares the work at once, where a thread that slept would take longer to
//! wake than many an op takes, and stays on the processor that it has.

use crossbeam_deque::{Injector, Steal};
use rayon::prelude::*;
use sharding_core::backend::Positions;
use sharding_core::{BackendKind, Device, DeviceMesh, Error, ErrorKind, Result, Scope};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// Runs loops compiled for the best instruction set of this machine. What `work` calls must be inlined into it.
#[inline(always)]
pub(crate) fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnOnce() -> R> pulp::WithSimd for Work<F> {
        type Output = R;
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _: S) -> R {
            (self.0)()
        }
    }
    ARCH.dispatch(Work(work))
}

/// Runs a kernel that is written on vectors, compiled for the best instruction set of this machine.
#[inline(always)]
pub(crate) fn dispatch<W: pulp::WithSimd>(work: W) -> W::Output {
    ARCH.dispatch(work)
}

/// Work below this, in elements that are added, runs on the calling thread: it takes about ten microseconds, and to wake the
/// pool takes the caller a few.
const INLINE: usize = 1 << 17;

/// Whether work of this many elementary steps is worth the pool. Depends on shapes only.
pub(crate) fn is_large(steps: usize) -> bool {
    steps >= INLINE
}

/// The CPU of this process.
pub(crate) fn probe() -> Vec<Device> {
    vec![Device::cpu().with_process(Scope::current().process())]
}

/// The most devices of a mesh: every one of them costs memory here, if only for its place in a list.
const MOST_DEVICES: usize = 1 << 20;

/// The positions of a mesh that are on the CPU of this process.
pub(crate) fn positions(mesh: &DeviceMesh) -> Result<Positions> {
    if mesh.num_devices() > MOST_DEVICES {
        return Err(Error::new(
            ErrorKind::Backend,
            format!("{mesh} has {} devices; one CPU plays at most {MOST_DEVICES}", mesh.num_devices()),
        )
        .with_fix("DeviceMesh::simulated(BackendKind::SIM, shape, names) for meshes of any size"));
    }
    let process = Scope::current().process();
    let last = LAST.try_with(|last| match &*last.borrow() {
        Some((known, by, positions)) if *by == process && known == mesh => Some(positions.clone()),
        _ => None,
    });
    if let Some(positions) = last.ok().flatten() {
        return Ok(positions);
    }
    let positions: Positions = found_by(process, mesh)?.into();
    // At the end of a thread there is nowhere to keep them.
    if mesh.num_devices() <= KEPT_DEVICES {
        let _ = LAST.try_with(|last| last.replace(Some((mesh.clone(), process, positions.clone()))));
    }
    Ok(positions)
}

/// Of larger meshes the positions are not kept.
const KEPT_DEVICES: usize = 1 << 10;

thread_local! {
    /// The last mesh that was asked for, by which process, and its positions: the collectives of a program ask again and again.
    static LAST: RefCell<Option<(DeviceMesh, u32, Positions)>> = const { RefCell::new(None) };
}

fn found_by(process: u32, mesh: &DeviceMesh) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for (position, device) in mesh.devices().enumerate() {
        if device.process != process || device.kind != BackendKind::CPU {
            continue;
        }
        if device.ordinal != 0 {
            return Err(Error::new(
                ErrorKind::Backend,
                format!("{mesh} names {device} at position {position}, but a process has one CPU, cpu:0"),
            )
            .with_fix("DeviceMesh::simulated(BackendKind::CPU, shape, names) for several slots of it"));
        }
        found.push(position);
    }
    Ok(found)
}

/// Set in [`Job::helpers`] when no task is left: who comes now must go.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// See [`Job::taken`].
const BACK: u64 = 1 << 32;

/// How often a thread looks for the last helper before it lets others run.
const SPINS: usize = 1 << 10;

/// Calls `work(0)` to `work(tasks - 1)`, each once, in any order and on any threads.
///
/// A panic of a task is the caller's, after the others have ended.
pub(crate) fn each(tasks: usize, work: impl Fn(usize) + Sync) {
    let threads = rayon::current_num_threads();
    if tasks < 2 || threads < 2 || tasks as u64 >= BACK / 4 {
        return (0..tasks).for_each(work);
    }
    if rayon::current_thread_index().is_some() {
        // Already in the pool: its own way costs least.
        return (0..tasks).into_par_iter().for_each(&work);
    }
    let call: &(dyn Fn(usize) + Sync) = &work;
    // SAFETY: only the lifetime changes. Helpers call it between entering and leaving a job that is not closed, and `Close`
    // ends only when the job is closed and all of them have left, before `work` is dropped.
    let call =
        unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(call) };
    let job = Arc::new(Job {
        work: call,
        tasks,
        taken: AtomicU64::new(0),
        helpers: AtomicUsize::new(0),
        panic: Mutex::default(),
    });
    let close = Close(&job);
    (0..(threads - 1).min(tasks - 1)).for_each(|_| ask(job.clone()));
    job.take(true);
    drop(close);
    let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// [`each`] over the chunks of a slice, with their numbers.
pub(crate) fn chunks<T: Send>(slice: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let len = slice.len();
    let start = Start::new(slice);
    each(len.div_ceil(size), |i| {
        let from = i * size;
        // SAFETY: the chunk lies inside the slice, which is borrowed until `each` returns; it runs every number once, and
        // chunks of different numbers do not overlap.
        let chunk = unsafe { std::slice::from_raw_parts_mut(start.at(from), size.min(len - from)) };
        work(i, chunk);
    });
}

/// [`chunks`] by work that may fail: the error of the first chunk that does.
pub(crate) fn try_chunks<T: Send>(
    slice: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let first: Mutex<Option<(usize, Error)>> = Mutex::default();
    chunks(slice, size, |i, chunk| {
        if let Err(error) = work(i, chunk) {
            let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|(found, _)| i < *found) {
                *first = Some((i, error));
            }
        }
    });
    first.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), |(_, error)| Err(error))
}

/// Runs both, at the same time where the pool helps.
pub(crate) fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if rayon::current_thread_index().is_some() {
        return rayon::join(a, b);
    }
    if rayon::current_num_threads() < 2 {
        // The one worker may itself be waiting for this thread.
        return (a(), b());
    }
    let (mut left, mut right) = ((Some(a), None), (Some(b), None));
    let (mut run_left, mut run_right) =
        (|| left.1 = left.0.take().map(|a| a()), || right.1 = right.0.take().map(|b| b()));
    let both: &mut [&mut (dyn FnMut() + Send)] = &mut [&mut run_left, &mut run_right];
    chunks(both, 1, |_, run| run.iter_mut().for_each(|run| run()));
    match (left.1, right.1) {
        (Some(a), Some(b)) => (a, b),
        // `each` runs both, or panics as they do.
        _ => unreachable!("a task was left out"),
    }
}

/// The first element of a slice that several threads write.
pub(crate) struct Start<T>(*mut T);

// SAFETY: the elements may go to other threads, and `chunks` gives each to one of them.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    pub(crate) fn new(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr())
    }

    /// # Safety
    /// The slice must have an element at `from`.
    pub(crate) unsafe fn at(&self, from: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(from) }
    }
}

/// Tasks that are being done.
struct Job {
    work: &'static (dyn Fn(usize) + Sync),
    tasks: usize,
    /// How many tasks were taken from the front, and, times [`BACK`], from the back.
    taken: AtomicU64,
    /// How many helpers are inside; and whether it is closed.
    helpers: AtomicUsize,
    /// What the first task that panicked said.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job {
    /// Does tasks until none is left: the caller from the front, helpers from the back, so that in a chain of equal calls a
    /// thread finds what it wrote in its own cache.
    fn take(&self, front: bool) {
        loop {
            let taken = self.taken.fetch_add(if front { 1 } else { BACK }, Ordering::Relaxed);
            let (before, behind) = ((taken % BACK) as usize, (taken / BACK) as usize);
            // Tasks `before..tasks - behind` are left. Where there are none, the counts only grow.
            if before + behind >= self.tasks {
                return;
            }
            (self.work)(if front { before } else { self.tasks - 1 - behind });
        }
    }

    /// As [`take`](Self::take), on another thread, unless it is closed.
    fn help(&self) {
        // Acquire and release: what the caller wrote before is seen here, and what is written here by the caller after.
        if self.helpers.fetch_add(1, Ordering::AcqRel) & CLOSED == 0
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.take(false)))
        {
            // The others need not begin what is left.
            self.taken.fetch_add(self.tasks as u64, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
        }
        self.helpers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Helpers that look around and have been promised no job.
static FREE: AtomicUsize = AtomicUsize::new(0);
/// Jobs that were promised to such helpers.
static OFFERS: LazyLock<Injector<Arc<Job>>> = LazyLock::new(Injector::new);

/// How long a helper looks around.
const LINGER: Duration = Duration::from_micros(200);
/// How often it does before it looks at the clock, and lets others run.
const LOOKS: usize = 1 << 6;

/// Takes one from [`FREE`], if there is any.
fn take_free() -> bool {
    FREE.try_update(Ordering::AcqRel, Ordering::Relaxed, |free| free.checked_sub(1)).is_ok()
}

/// Asks a helper that looks around for help with a job, or else the pool.
fn ask(job: Arc<Job>) {
    if take_free() {
        OFFERS.push(job);
    } else {
        rayon::spawn(move || {
            let mut next = Some(job);
            while let Some(job) = next {
                job.help();
                drop(job);
                next = look_around();
            }
        });
    }
}

/// A job for a helper that has none; `None` when nobody has asked for a while.
fn look_around() -> Option<Arc<Job>> {
    FREE.fetch_add(1, Ordering::AcqRel);
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if let Steal::Success(job) = OFFERS.steal() {
                return Some(job);
            }
            std::hint::spin_loop();
        }
        // Who cannot take itself back has been promised a job, which is on its way.
        if start.elapsed() >= LINGER && take_free() {
            return None;
        }
        std::thread::yield_now();
    }
}

/// Closes a job when it is dropped, also when a task of the caller panics, and waits until all helpers have left.
struct Close<'a>(&'a Job);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_add(self.0.tasks as u64, Ordering::Relaxed);
        let mut inside = self.0.helpers.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        let mut spins = 0;
        while inside > 0 {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            inside = self.0.helpers.load(Ordering::Acquire) & !CLOSED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_chunk_is_visited_once() {
        for (len, size) in [(0, 3), (1, 3), (7, 3), (9, 3), (1000, 1)] {
            let mut counts = vec![0_usize; len];
            chunks(&mut counts, size, |i, chunk| {
                for count in chunk {
                    *count += i + 1;
                }
            });
            let want: Vec<usize> = (0..len).map(|i| i / size + 1).collect();
            assert_eq!(counts, want);
            rayon::scope(|_| chunks(&mut counts, size, |_, chunk| chunk.fill(0)));
            assert!(counts.iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn both_sides_of_a_join_give_their_value() {
        fn sum(range: std::ops::Range<u64>) -> u64 {
            let (start, end) = (range.start, range.end);
            if end - start < 4 {
                return range.sum();
            }
            let middle = (start + end) / 2;
            let (a, b) = join(|| sum(start..middle), || sum(middle..end));
            a + b
        }
        assert_eq!(sum(0..100), 4950);
        assert_eq!(rayon::join(|| sum(0..100), || 1), (4950, 1));
    }

    #[test]
    fn many_threads_may_ask_at_once() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..if cfg!(miri) { 3 } else { 300 } {
                        let sum = AtomicUsize::new(0);
                        each(round % 9, |i| {
                            sum.fetch_add(i + 1, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), (1..=round % 9).sum::<usize>());
                    }
                });
            }
        });
    }

    #[test]
    fn helpers_look_around_and_go() {
        for round in 0..50 {
            let tasks: Vec<AtomicUsize> = (0..7).map(|_| AtomicUsize::new(0)).collect();
            each(7, |i| {
                tasks[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(tasks.iter().all(|count| count.load(Ordering::Relaxed) == 1), "round {round}");
        }
        // Others of this process may be asking at the same time; when nobody does, none is left and none is owed a job.
        let idle = || FREE.load(Ordering::Relaxed) == 0 && OFFERS.is_empty();
        let start = Instant::now();
        while !idle() {
            assert!(start.elapsed() < Duration::from_secs(60), "a helper does not go");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_panic_is_the_callers_and_the_first_error_counts() {
        let caught = catch_unwind(|| each(8, |i| assert!(i != 3, "task {i}")));
        assert_eq!(caught.unwrap_err().downcast_ref::<String>().unwrap(), "task 3");
        let after = AtomicBool::new(false);
        each(2, |_| after.store(true, Ordering::Relaxed));
        assert!(after.into_inner());
        let mut places = [MaybeUninit::<u8>::uninit(); 8];
        let outcome = try_chunks(&mut places, 2, |i, _| match i {
            1 | 3 => Err(crate::storage::internal(format!("chunk {i}"))),
            _ => Ok(()),
        });
        assert_eq!(outcome.unwrap_err().message(), "chunk 1");
    }
}
