//! Scopes: what is in force on a thread.
//!
//! Policy, cost model, planner, replaced rules, recorder and process index are one [`Scope`]. It is thread-local: capture it
//! with [`Scope::current`] and enter it on another thread with [`Scope::enter`].

use crate::op::ErasedRows;
use crate::plan::{CostModel, Mode, PlannerKind, Policy, VolumeCost};
use crate::record::Recorder;
use crate::trace::{Watch, Watchers};
use crate::{DeviceMesh, Error, ErrorKind, Result};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What is in force for the ops called inside.
#[derive(Clone)]
pub struct Scope {
    policy: Policy,
    cost: Arc<dyn CostModel>,
    /// The model's key: every call asks for it.
    cost_key: u64,
    planner: PlannerKind,
    rules: Vec<(&'static str, ErasedRows)>,
    rules_key: u64,
    recorder: Option<Arc<dyn Recorder>>,
    watchers: Watchers,
    reports: bool,
    mesh: Option<DeviceMesh>,
    process: u32,
    process_count: u32,
    broken: Option<&'static str>,
}

/// Mode of the ambient policy, read once: `silent`, `warn` or `raise`.
const POLICY_VARIABLE: &str = "SHARDING_AUTO_RESHARD";

fn ambient() -> &'static Arc<Scope> {
    static AMBIENT: OnceLock<Arc<Scope>> = OnceLock::new();
    AMBIENT.get_or_init(|| {
        let value = std::env::var(POLICY_VARIABLE);
        let (mode, broken) = match value.as_deref() {
            Err(_) | Ok("" | "silent") => (Mode::Silent, None),
            Ok("warn") => (Mode::Warn, None),
            Ok("raise") => (Mode::Raise, None),
            Ok(_) => (Mode::Raise, Some("SHARDING_AUTO_RESHARD is not one of silent, warn, raise")),
        };
        Arc::new(Scope { broken, ..Scope::new(Policy { mode, ..Policy::default() }) })
    })
}

thread_local! {
    /// The scopes that have not ended, the innermost last, each with the number of its guard.
    static OPEN: RefCell<Vec<(u64, Arc<Scope>)>> = const { RefCell::new(Vec::new()) };
    /// Whether somebody watches the innermost of them: kernels ask at every launch.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether somebody watches what runs on this thread.
#[inline]
pub(crate) fn is_watched() -> bool {
    WATCHED.get()
}

fn innermost_changed(open: &[(u64, Arc<Scope>)]) {
    WATCHED.set(open.last().is_some_and(|(_, scope)| !scope.watchers.is_empty()));
}

impl Scope {
    fn new(policy: Policy) -> Self {
        Self {
            policy,
            cost: Arc::new(VolumeCost),
            cost_key: VolumeCost.key(),
            planner: PlannerKind::PerAxis,
            rules: Vec::new(),
            rules_key: 0,
            recorder: None,
            watchers: Vec::new(),
            reports: false,
            mesh: None,
            process: 0,
            process_count: 1,
            broken: None,
        }
    }

    /// What is in force on this thread.
    pub fn current() -> Arc<Self> {
        Self::entered().unwrap_or_else(|| ambient().clone())
    }

    /// As [`current`](Self::current), not to be kept: it counts no reference where no scope has been entered.
    pub(crate) fn in_force() -> InForce {
        Self::entered().map_or_else(|| InForce::Ambient(ambient()), InForce::Entered)
    }

    /// The innermost scope that has been entered on this thread.
    fn entered() -> Option<Arc<Self>> {
        OPEN.try_with(|open| open.borrow().last().map(|(_, scope)| scope.clone())).ok().flatten()
    }

    /// Whether it can be planned under.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if the environment variable `SHARDING_AUTO_RESHARD` is set to something unknown.
    pub(crate) fn check(&self) -> Result<()> {
        match self.broken {
            None => Ok(()),
            Some(message) => {
                Err(Error::new(ErrorKind::Argument, message)
                    .with_fix("unset it, or set it to one of the three"))
            }
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }
    /// The cost model.
    pub fn cost(&self) -> &dyn CostModel {
        &*self.cost
    }
    /// What tells the cost model from others.
    pub(crate) fn cost_key(&self) -> u64 {
        self.cost_key
    }
    /// The cost model, to keep.
    pub fn shared_cost(&self) -> Arc<dyn CostModel> {
        self.cost.clone()
    }
    /// How rows are picked where there are several mesh axes.
    pub fn planner(&self) -> PlannerKind {
        self.planner
    }
    /// The recorder.
    pub fn recorder(&self) -> Option<&Arc<dyn Recorder>> {
        self.recorder.as_ref()
    }
    /// What watches, the outermost first.
    pub(crate) fn watchers(&self) -> &[Arc<dyn Watch>] {
        &self.watchers
    }
    /// Whether plans that move something carry the planner's report in every mode.
    pub(crate) fn reports(&self) -> bool {
        self.reports
    }
    /// The default mesh.
    pub fn mesh(&self) -> Option<&DeviceMesh> {
        self.mesh.as_ref()
    }
    /// The index of this process.
    pub fn process(&self) -> u32 {
        self.process
    }
    /// The number of processes that run this program.
    pub fn process_count(&self) -> u32 {
        self.process_count
    }
    /// The rule that replaces an op's own.
    pub fn rule(&self, op: &str) -> Option<ErasedRows> {
        self.rules.iter().rev().find(|(name, _)| *name == op).map(|(_, rows)| *rows)
    }
    /// What plans depend on.
    pub(crate) fn plan_key(&self) -> [u64; 4] {
        [
            self.policy.bits() | (self.planner as u64) << 16 | u64::from(self.reports) << 32,
            self.cost_key,
            self.rules_key,
            u64::from(self.process),
        ]
    }

    /// This scope with another policy.
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }
    /// This scope with another cost model.
    #[must_use]
    pub fn with_cost(mut self, cost: Arc<dyn CostModel>) -> Self {
        self.cost_key = cost.key();
        self.cost = cost;
        self
    }
    /// This scope with another planner.
    ///
    /// ```
    /// use sharding_core::{Scope, plan::PlannerKind};
    /// let scope = (*Scope::current()).clone().with_planner(PlannerKind::Joint);
    /// scope.enter(|| assert_eq!(Scope::current().planner(), PlannerKind::Joint));
    /// ```
    #[must_use]
    pub fn with_planner(mut self, planner: PlannerKind) -> Self {
        self.planner = planner;
        self
    }
    /// This scope with another rule for an op.
    #[must_use]
    pub fn with_rule(mut self, op: &'static str, rows: ErasedRows) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.rules.push((op, rows));
        // A number of its own for every set of rules: plans made under one are never used under another.
        self.rules_key = NEXT.fetch_add(1, Ordering::Relaxed);
        self
    }
    /// This scope with a recorder.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }
    /// This scope with one more that watches.
    #[must_use]
    pub(crate) fn with_watcher(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watchers.push(watch);
        self
    }
    /// This scope with reports in every mode.
    #[must_use]
    pub(crate) fn with_reports(mut self) -> Self {
        self.reports = true;
        self
    }
    /// This scope with a default mesh.
    #[must_use]
    pub fn with_mesh(mut self, mesh: DeviceMesh) -> Self {
        self.mesh = Some(mesh);
        self
    }
    /// This scope as seen by another process; for programs that pretend several processes in one. There are at least as
    /// many processes as that needs.
    #[must_use]
    pub fn with_process(mut self, process: u32) -> Self {
        self.process = process;
        self.process_count = self.process_count.max(process.saturating_add(1));
        self
    }
    /// This scope with so many processes, at least the one it is seen by.
    #[must_use]
    pub fn with_process_count(mut self, count: u32) -> Self {
        self.process_count = count.max(self.process.saturating_add(1));
        self
    }

    /// Puts this scope in force until the guard is dropped.
    #[must_use = "the scope ends when the guard is dropped"]
    pub fn guard(self) -> ScopeGuard {
        Arc::new(self).shared_guard()
    }

    fn shared_guard(self: Arc<Self>) -> ScopeGuard {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        OPEN.with(|open| {
            let mut open = open.borrow_mut();
            open.push((number, self));
            innermost_changed(&open);
        });
        ScopeGuard { number, thread_bound: PhantomData }
    }

    /// Runs `f` with this scope in force.
    pub fn enter<T>(self, f: impl FnOnce() -> T) -> T {
        let _guard = self.guard();
        f()
    }

    /// Runs `f` with a scope in force that others have too.
    pub(crate) fn enter_shared<T>(self: Arc<Self>, f: impl FnOnce() -> T) -> T {
        let _guard = self.shared_guard();
        f()
    }

    /// The first of these scopes, watched by all that watch any of them, each once; of none, what is in force here. Where the
    /// others have no watchers but the first's, nothing is allocated.
    pub(crate) fn together<'a>(mut scopes: impl Iterator<Item = &'a Arc<Self>>) -> Arc<Self> {
        let mut all = scopes.next().map_or_else(Self::current, Arc::clone);
        for watch in scopes.flat_map(|scope| scope.watchers()) {
            if !all.watchers.iter().any(|known| Arc::ptr_eq(known, watch)) {
                Arc::make_mut(&mut all).watchers.push(watch.clone());
            }
        }
        all
    }
}

/// The scope in force, see [`Scope::in_force`].
pub(crate) enum InForce {
    Ambient(&'static Scope),
    Entered(Arc<Scope>),
}

impl Deref for InForce {
    type Target = Scope;
    fn deref(&self) -> &Scope {
        match self {
            Self::Ambient(scope) => scope,
            Self::Entered(scope) => scope,
        }
    }
}

/// Ends its own scope when dropped, also on a panic and whatever the order: of the scopes that have not ended, the one
/// that began last is in force.
pub struct ScopeGuard {
    number: u64,
    // A scope is thread-local: its guard must not leave the thread.
    thread_bound: PhantomData<*const ()>,
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        // At the end of a thread its scopes may be gone already.
        let ended = OPEN.try_with(|open| {
            let mut open = open.borrow_mut();
            let at = open.iter().rposition(|(number, _)| *number == self.number)?;
            let ended = open.remove(at);
            innermost_changed(&open);
            Some(ended)
        });
        // What a scope holds is foreign: it is dropped when nothing is borrowed.
        drop(ended);
    }
}

/// Runs `f` with a policy for the reshards that ops insert. Blocks nest; the innermost counts.
///
/// ```
/// use sharding_core::{Scope, auto_reshard, plan::{Mode, Policy}};
/// auto_reshard(Policy::raise(), || assert_eq!(Scope::current().policy().mode, Mode::Raise));
/// ```
pub fn auto_reshard<T>(policy: Policy, f: impl FnOnce() -> T) -> T {
    (*Scope::current()).clone().with_policy(policy).enter(f)
}

/// The same as [`auto_reshard`] as a guard.
#[must_use = "the policy ends when the guard is dropped"]
pub fn auto_reshard_guard(policy: Policy) -> ScopeGuard {
    (*Scope::current()).clone().with_policy(policy).guard()
}

/// Runs `f` with a default mesh, on which a bare [`PartitionSpec`](crate::PartitionSpec) resolves wherever a sharding is
/// taken. Blocks nest; the innermost counts. As JAX's `set_mesh`.
///
/// ```
/// use sharding_core::{BackendKind, DeviceMesh, NamedMapping, set_mesh, spec};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 4], ["dp", "tp"])?;
/// let named = set_mesh(&mesh, || NamedMapping::scoped(spec![None, "tp"]))?;
/// assert_eq!(named.mesh(), &mesh);
/// # Ok::<(), sharding_core::Error>(())
/// ```
pub fn set_mesh<T>(mesh: &DeviceMesh, f: impl FnOnce() -> T) -> T {
    (*Scope::current()).clone().with_mesh(mesh.clone()).enter(f)
}

/// The same as [`set_mesh`] as a guard.
#[must_use = "the mesh is no longer set when the guard is dropped"]
pub fn set_mesh_guard(mesh: &DeviceMesh) -> ScopeGuard {
    (*Scope::current()).clone().with_mesh(mesh.clone()).guard()
}
