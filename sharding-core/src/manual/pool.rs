//! Threads for regions: parked between calls, and apart from any pool that kernels split their work over, so that devices
//! that wait for each other never hold up the work they wait for.

use super::sync::{Condvar, Mutex, whole};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What a thread is to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Where one thread waits for its next job.
struct Desk {
    job: Mutex<Option<Job>>,
    filled: Condvar,
}

impl Desk {
    fn new() -> Self {
        Self { job: Mutex::new(None), filled: Condvar::new() }
    }

    fn put(&self, job: Job) {
        *whole(self.job.lock()) = Some(job);
        self.filled.notify_one();
    }

    fn take(&self) -> Job {
        let mut waiting = whole(self.job.lock());
        loop {
            match waiting.take() {
                Some(job) => return job,
                None => waiting = whole(self.filled.wait(waiting)),
            }
        }
    }
}

/// The threads by number: those that are free, and how many there are.
struct Pool {
    free: BTreeMap<usize, Arc<Desk>>,
    threads: usize,
}

static POOL: std::sync::Mutex<Pool> = std::sync::Mutex::new(Pool { free: BTreeMap::new(), threads: 0 });

/// The number of threads that regions have made so far, busy or parked. They are kept for later regions.
///
/// ```
/// let before = sharding_core::manual::threads();
/// assert!(sharding_core::manual::threads() >= before);
/// ```
pub fn threads() -> usize {
    whole(POOL.lock()).threads
}

/// Threads that are taken; they go back to the pool when this is dropped, which is when their jobs are done.
pub(crate) struct Crew(Vec<(usize, Arc<Desk>)>);

impl Crew {
    /// So many threads, those with the lowest numbers first: the same device gets the same thread again where regions come
    /// one after the other, and finds its plans there.
    ///
    /// # Errors
    /// [`ErrorKind::Backend`] if the system gives no more threads.
    pub(crate) fn take(n: usize) -> Result<Self> {
        let mut crew = Self(Vec::with_capacity(n));
        let mut pool = whole(POOL.lock());
        while crew.0.len() < n {
            match pool.free.pop_first() {
                Some(free) => crew.0.push(free),
                None => {
                    let number = pool.threads;
                    match start(number) {
                        Ok(desk) => crew.0.push((number, desk)),
                        Err(error) => {
                            drop(pool);
                            return Err(Error::new(
                                ErrorKind::Backend,
                                format!("the system gave {} of {n} threads", crew.0.len()),
                            )
                            .with_fix(
                                "use fewer devices along the manual axes, or raise the limit of threads",
                            )
                            .with_source(error));
                        }
                    }
                    pool.threads += 1;
                }
            }
        }
        Ok(crew)
    }

    /// Starts a job on each thread.
    pub(crate) fn start(&self, jobs: impl IntoIterator<Item = Job>) {
        for (job, (_, desk)) in jobs.into_iter().zip(&self.0) {
            desk.put(job);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        whole(POOL.lock()).free.extend(self.0.drain(..));
    }
}

fn start(number: usize) -> std::io::Result<Arc<Desk>> {
    let desk = Arc::new(Desk::new());
    let own = desk.clone();
    std::thread::Builder::new().name(format!("manual-{number}")).spawn(move || work(&own))?;
    Ok(desk)
}

fn work(desk: &Desk) {
    loop {
        let job = desk.take();
        // A job catches the panics of what it runs; one that comes through must not cost the thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// Waits until so many have come.
pub(crate) struct Latch {
    left: Mutex<usize>,
    done: Condvar,
}

impl Latch {
    pub(crate) fn new(n: usize) -> Self {
        Self { left: Mutex::new(n), done: Condvar::new() }
    }
    pub(crate) fn come(&self) {
        let mut left = whole(self.left.lock());
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.done.notify_all();
        }
    }
    pub(crate) fn wait(&self) {
        let mut left = whole(self.left.lock());
        while *left > 0 {
            left = whole(self.done.wait(left));
        }
    }
}

/// Every order in which a job can be given and awaited (`cargo xtask test --deep`).
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_job_runs_once_and_before_the_wait_ends() {
        loom::model(|| {
            let (desk, count) = (Arc::new(Desk::new()), Arc::new(AtomicUsize::new(0)));
            let own = desk.clone();
            let worker = loom::thread::spawn(move || {
                for _ in 0..2 {
                    own.take()();
                }
            });
            for round in 1..=2 {
                let (latch, counted) = (Arc::new(Latch::new(1)), count.clone());
                let come = latch.clone();
                desk.put(Box::new(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    come.come();
                }));
                latch.wait();
                assert_eq!(count.load(Ordering::Relaxed), round);
            }
            worker.join().unwrap();
        });
    }

    #[test]
    fn a_latch_waits_for_all() {
        loom::model(|| {
            let (latch, count) = (Arc::new(Latch::new(2)), Arc::new(AtomicUsize::new(0)));
            for _ in 0..2 {
                let (come, counted) = (latch.clone(), count.clone());
                loom::thread::spawn(move || {
                    counted.fetch_add(1, Ordering::Relaxed);
                    come.come();
                });
            }
            latch.wait();
            assert_eq!(count.load(Ordering::Relaxed), 2);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn threads_are_used_again_even_after_a_panic() {
        let run = |n: usize| {
            let (latch, count) = (Arc::new(Latch::new(n)), Arc::new(AtomicUsize::new(0)));
            let crew = Crew::take(n).unwrap();
            crew.start((0..n).map(|i| {
                let (latch, count) = (latch.clone(), count.clone());
                Box::new(move || {
                    count.fetch_add(i, Ordering::Relaxed);
                    latch.come();
                    assert_ne!(i, 1, "a panic that nobody caught");
                }) as Job
            }));
            latch.wait();
            assert_eq!(count.load(Ordering::Relaxed), n * (n - 1) / 2);
        };
        run(6);
        let most = threads();
        for _ in 0..20 {
            run(6);
        }
        assert_eq!(threads(), most);
        drop(Crew::take(most).unwrap());
        assert_eq!(threads(), most, "what was taken and not used is free again");
    }
}
