//! Over which axes of the manual regions on a thread a value may vary.
//!
//! A bit per manual axis of more than one device, those of an outer region below those of an inner one. Ops unite the bits
//! of their operands; what a thread learns by reading a value to the host marks all that it makes from then on.
//!
//! A function may give work to other threads. These are in no region, and there, while any region runs, values keep their
//! bits; a read is remembered, and has the results of regions that claim to be the same compared.

use crate::{Operand, Tensor};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A set of manual axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Varies(u64);

/// What holds on a thread: the axes of the regions that it is in, and those over which its way through the program
/// may vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Frame {
    axes: Varies,
    taint: Varies,
}

thread_local! {
    static FRAME: Cell<Frame> = const { Cell::new(Frame { axes: Varies::NONE, taint: Varies::NONE }) };
}

/// How many regions run in this process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How often a thread that is in no region read a value of one to the host.
static READ_ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// A region that runs, until it is dropped.
pub(crate) struct Running(u64);

impl Running {
    pub(crate) fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self(READ_ELSEWHERE.load(Ordering::SeqCst))
    }
    /// Whether a thread that is in no region has read a value of one since.
    pub(crate) fn read_elsewhere(&self) -> bool {
        READ_ELSEWHERE.load(Ordering::SeqCst) != self.0
    }
    fn any() -> bool {
        RUNNING.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Varies {
    /// The same on all devices.
    pub(crate) const NONE: Self = Self(0);

    /// Bit `i`; none beyond the last.
    pub(crate) fn bit(i: u32) -> Self {
        Self(1_u64.checked_shl(i).unwrap_or(0))
    }
    /// The bits from which on a region inside of these may use its own.
    pub(crate) fn free(self) -> u32 {
        u64::BITS - self.0.leading_zeros()
    }
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    pub(crate) fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// All axes of the regions on this thread.
    pub(crate) fn anywhere() -> Self {
        FRAME.get().axes
    }
    /// The axes of the regions around one that is called with these arguments here.
    pub(crate) fn around(args: &[&Tensor]) -> Self {
        let axes = FRAME.get().axes;
        if !axes.is_none() || !Running::any() {
            return axes;
        }
        args.iter().fold(Self::NONE, |all, x| all.union(x.varies()))
    }
    /// The axes over which this thread's way through the program may vary.
    pub(crate) fn taint() -> Self {
        FRAME.get().taint
    }
    /// What is made on this thread from values of this set.
    #[inline]
    pub(crate) fn here(self) -> Self {
        let frame = FRAME.get();
        if frame.axes.is_none() && !self.is_none() && Running::any() {
            return self;
        }
        self.union(frame.taint).only(frame.axes)
    }
    /// What an op makes from its operands.
    #[inline]
    pub(crate) fn of_operands(operands: &[Operand<'_>]) -> Self {
        // Where no region runs nothing varies; the operands need not be looked at.
        if FRAME.get().axes.is_none() && !Running::any() { Self::NONE } else { Self::united(operands).here() }
    }
    fn united(operands: &[Operand<'_>]) -> Self {
        operands.iter().fold(Self::NONE, |all, operand| {
            all.union(match operand {
                Operand::Tensor(x) | Operand::Optional(Some(x)) => x.varies(),
                Operand::Many(xs) => xs.iter().fold(Self::NONE, |all, x| all.union(x.varies())),
                Operand::Written(buffer) => buffer.as_tensor().varies(),
                Operand::Optional(None) | Operand::Scalar(_) => Self::NONE,
            })
        })
    }
    /// The host has read a value: what this thread does from now on may depend on it.
    #[inline]
    pub(crate) fn seen_by_host(self) {
        let frame = FRAME.get();
        if !frame.axes.is_none() {
            FRAME.set(Frame { taint: frame.taint.union(self.only(frame.axes)), ..frame });
        } else if !self.is_none() {
            READ_ELSEWHERE.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Puts a thread into a region until it is dropped.
pub(crate) struct Inside(Frame);

impl Inside {
    /// With these axes, those of outer regions included, and this taint to begin with.
    pub(crate) fn enter(axes: Varies, taint: Varies) -> Self {
        Self(FRAME.replace(Frame { axes, taint }))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        FRAME.set(self.0);
    }
}

impl Tensor {
    /// The same value, known to vary over these axes at most.
    pub(crate) fn varying(&self, varies: Varies) -> Self {
        Self::from_parts(self.layout().clone(), self.positions().clone(), self.shards().clone(), varies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_varies_outside_of_regions() {
        Varies::bit(3).seen_by_host();
        assert_eq!((Varies::taint(), Varies::bit(3).here()), (Varies::NONE, Varies::NONE));
    }

    #[test]
    fn what_the_host_saw_marks_what_is_made_later() {
        let (x, y) = (Varies::bit(0), Varies::bit(1));
        let _outer = Inside::enter(x, Varies::NONE);
        assert_eq!((x.free(), x.union(y).free()), (1, 2));
        {
            let _inner = Inside::enter(x.union(y), Varies::taint());
            assert_eq!(Varies::NONE.here(), Varies::NONE);
            y.seen_by_host();
            assert_eq!((Varies::NONE.here(), x.here()), (y, x.union(y)));
            assert_eq!(Varies::bit(5).here(), y, "a stale bit counts for nothing");
        }
        assert_eq!((Varies::taint(), Varies::anywhere()), (Varies::NONE, x));
    }
}
