//! Collectives between GPUs.

use crate::element;
use sharding_core::Result;
use sharding_core::backend::{Collectives, Exchange, LocalArrays, Step, StepKind, Support};

/// What collectives wait for.
const MISSING: &str = "transfers between the slots of one GPU, and NCCL between several";

/// The collectives of this backend.
pub(crate) struct CudaCollectives;

impl Collectives for CudaCollectives {
    fn supports(&self, step: &Step) -> Support {
        match step.kind {
            StepKind::Relabel => Support::Yes,
            kind => Support::No(format!("the cuda backend has no {} yet: it needs {MISSING}", kind.name())),
        }
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        match step.kind {
            StepKind::Relabel => Ok(shards),
            kind => Err(element::not_yet(kind.name(), MISSING).with_op(op)),
        }
    }

    fn exchange(&self, op: &'static str, _: &Exchange<'_>, _: &[LocalArrays]) -> Result<LocalArrays> {
        Err(element::not_yet("exchange", MISSING).with_op(op))
    }
}
