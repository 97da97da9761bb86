//! The members' runs of a region's function, each on a thread of its own.

use super::agreement::End;
use super::cx::{ManualCx, Shared};
use super::pool::{Crew, Job, Latch};
use super::region::{Function, Region};
use super::sync::whole;
use super::varies::{Inside, Varies};
use crate::backend::{ThreadState, within};
use crate::dispatch::panic_said;
use crate::{Error, ErrorKind, Result, Scope, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// What the function gave on one device.
pub(super) struct Outcome {
    pub(super) given: Result<Vec<Tensor>>,
    /// Over which axes its way through the program may vary in the end.
    pub(super) taint: Varies,
}

impl Region {
    /// Runs the function once per member: the first on this thread, each other on one of its own.
    pub(super) fn on_threads(
        &self,
        shared: &Arc<Shared>,
        given: Vec<Vec<Tensor>>,
        taint: Varies,
    ) -> Result<Vec<Outcome>> {
        let n = given.len();
        let outcomes: Arc<Vec<Mutex<Option<Outcome>>>> = Arc::new((0..n).map(|_| Mutex::new(None)).collect());
        let latch = Arc::new(Latch::new(n.saturating_sub(1)));
        let (scope, states) = (Scope::current(), Arc::new(ThreadState::capture()));
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let span = tracing::Span::current();
        let crew = Crew::take(n.saturating_sub(1))?;
        let mut given = given.into_iter();
        let first = given.next();
        let jobs = given.enumerate().map(|(i, args)| {
            let work = Work::new(self, shared, i + 1, args, taint);
            let (outcomes, scope, states) = (outcomes.clone(), (*scope).clone(), states.clone());
            let (dispatch, span, come) = (dispatch.clone(), span.clone(), Come(latch.clone()));
            let job = move || {
                let mut work = Some(work);
                let mut run = || {
                    if let Some(work) = work.take() {
                        work.run(&outcomes);
                    }
                };
                tracing::dispatcher::with_default(&dispatch, || {
                    span.in_scope(|| scope.enter(|| within(&states, &mut run)));
                });
            };
            Box::new(move || {
                // All that the job holds is gone before the caller goes on.
                let _come = come;
                job();
            }) as Job
        });
        crew.start(jobs);
        if let Some(args) = first {
            Work::new(self, shared, 0, args, taint).run(&outcomes);
        }
        latch.wait();
        drop(crew);
        let lost = || Outcome {
            given: Err(Error::new(ErrorKind::Manual, "what runs around the function panicked")),
            taint: Varies::NONE,
        };
        Ok(outcomes.iter().map(|outcome| whole(outcome.lock()).take().unwrap_or_else(lost)).collect())
    }
}

/// Says that a job is done when all it held is gone.
struct Come(Arc<Latch>);

impl Drop for Come {
    fn drop(&mut self) {
        self.0.come();
    }
}

/// Says that a member ended, also where what runs around its function panics, such as a subscriber of spans: nobody may
/// wait for it.
struct Ending {
    shared: Arc<Shared>,
    member: usize,
    end: Option<End>,
}

impl Ending {
    fn with(mut self, end: End) {
        self.end = Some(end);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let lost = || End::Panicked("what runs around the function".to_owned());
        self.shared.rendezvous.end(self.member, self.end.take().unwrap_or_else(lost));
    }
}

/// One member's run.
struct Work {
    function: Arc<Function>,
    shared: Arc<Shared>,
    member: usize,
    args: Vec<Tensor>,
    taint: Varies,
    ending: Ending,
}

impl Work {
    fn new(region: &Region, shared: &Arc<Shared>, member: usize, args: Vec<Tensor>, taint: Varies) -> Self {
        let ending = Ending { shared: shared.clone(), member, end: None };
        Self { function: region.function.clone(), shared: shared.clone(), member, args, taint, ending }
    }

    fn run(self, outcomes: &[Mutex<Option<Outcome>>]) {
        let Self { function, shared, member, args, taint, ending } = self;
        let _inside = Inside::enter(shared.axes, taint);
        let cx = ManualCx::new(shared.clone(), member);
        let (given, end) = match catch_unwind(AssertUnwindSafe(|| function(&cx, args))) {
            Ok(Ok(values)) => (Ok(values), End::Returned),
            Ok(Err(error)) => {
                let text = error.message().to_owned();
                (Err(error), End::Failed(text))
            }
            Err(payload) => {
                let text = panic_said(payload);
                let error = Error::new(ErrorKind::Manual, format!("the function panicked: {text}"));
                (Err(error), End::Panicked(text))
            }
        };
        ending.with(end);
        if let Some(slot) = outcomes.get(member) {
            *whole(slot.lock()) = Some(Outcome { given, taint: Varies::taint() });
        }
    }
}
