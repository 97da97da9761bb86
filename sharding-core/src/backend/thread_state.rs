//! What a backend keeps per thread, and the threads of manual regions are to share with the one that called.

/// Puts the state of the thread it was made on in force on another, for the time of a closure.
pub type Carry = Box<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

/// Thread-local state of a linked crate; submitted through [`inventory`]. A backend that counts per thread what happens
/// would otherwise miss what devices of a region do.
pub struct ThreadState {
    /// Captures the state of this thread.
    pub capture: fn() -> Carry,
}

inventory::collect!(ThreadState);

impl ThreadState {
    /// The states of all linked crates on this thread.
    pub(crate) fn capture() -> Vec<Carry> {
        inventory::iter::<ThreadState>.into_iter().map(|state| (state.capture)()).collect()
    }
}

/// Runs a closure with all these states in force.
pub(crate) fn within(states: &[Carry], run: &mut dyn FnMut()) {
    match states.split_first() {
        None => run(),
        Some((state, others)) => state(&mut || within(others, &mut *run)),
    }
}
