//! The plan cache: one per thread, so that a hit takes no lock.

use super::call::CallPlan;
use super::generations::Generations;
use crate::TensorLayout;
use crate::op::{Groups, KeyWriter, OpDef};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Plans per generation; two generations are kept, so a thread holds at most twice as many.
const GENERATION: usize = 2048;

/// One operand as a plan depends on it.
#[derive(Clone, Copy)]
pub(crate) enum KeyOperand<'a> {
    Tensor(&'a TensorLayout),
    Written(&'a TensorLayout),
    Scalar,
}

impl<'a> KeyOperand<'a> {
    /// The layout; a number has none.
    pub(crate) fn layout(&self) -> Option<&'a TensorLayout> {
        match self {
            Self::Tensor(layout) | Self::Written(layout) => Some(layout),
            Self::Scalar => None,
        }
    }
    fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

/// What a plan depends on: all that rule and shape function receive, and what is in force.
pub(crate) struct Key<'a> {
    pub(crate) def: &'static OpDef,
    pub(crate) scope: [u64; 4],
    pub(crate) args: &'a KeyWriter,
    pub(crate) groups: Groups<'a>,
    pub(crate) operands: &'a [KeyOperand<'a>],
}

impl Key<'_> {
    fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.def.name.hash(&mut hasher);
        for word in self.scope.iter().chain(self.args.words()) {
            hasher.write_u64(*word);
        }
        for n in self.groups.0 {
            hasher.write_u16(*n);
        }
        for operand in self.operands {
            match operand {
                KeyOperand::Tensor(layout) => hasher.write_u64(layout.hash64()),
                KeyOperand::Written(layout) => hasher.write_u64(!layout.hash64()),
                KeyOperand::Scalar => hasher.write_u64(0),
            }
        }
        hasher.finish()
    }
}

struct Entry {
    def: &'static OpDef,
    scope: [u64; 4],
    args: KeyWriter,
    groups: SmallVec<[u16; 4]>,
    /// `None` is a number; the flag says written.
    operands: SmallVec<[(Option<TensorLayout>, bool); 4]>,
    plan: Arc<CallPlan>,
}

impl Entry {
    fn matches(&self, key: &Key<'_>) -> bool {
        self.def.is_same(key.def)
            && self.scope == key.scope
            && self.args == *key.args
            && self.groups.as_slice() == key.groups.0
            && self.operands.len() == key.operands.len()
            && self.operands.iter().zip(key.operands).all(|((layout, written), operand)| {
                *written == operand.is_written()
                    && match (layout, operand.layout()) {
                        (Some(a), Some(b)) => a.plans_like(b),
                        (a, b) => a.is_none() && b.is_none(),
                    }
            })
    }
}

/// Plans by what they depend on.
pub(crate) struct PlanCache(Generations<Entry>);

impl Default for PlanCache {
    fn default() -> Self {
        Self(Generations::new(GENERATION))
    }
}

impl PlanCache {
    /// The plan of an equal call.
    pub(crate) fn get(&mut self, key: &Key<'_>) -> Option<Arc<CallPlan>> {
        self.0.get(key.hash(), |entry| entry.matches(key), |entry| entry.plan.clone())
    }

    /// Keeps a plan.
    pub(crate) fn insert(&mut self, key: &Key<'_>, plan: Arc<CallPlan>) {
        let entry = Entry {
            def: key.def,
            scope: key.scope,
            args: key.args.clone(),
            groups: key.groups.0.into(),
            operands: key
                .operands
                .iter()
                .map(|operand| (operand.layout().cloned(), operand.is_written()))
                .collect(),
            plan,
        };
        self.0.keep(key.hash(), entry);
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
