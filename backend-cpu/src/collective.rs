//! Collectives between the slots of one CPU.

use crate::CpuBackend;
use sharding_core::Result;
use sharding_core::backend::{Collectives, Exchange, InProcess, LocalArrays, Step, Support};

/// The collectives of this backend.
pub(crate) static COLLECTIVES: CpuCollectives = CpuCollectives { generic: InProcess(&CpuBackend) };

/// All shards are in this process.
pub(crate) struct CpuCollectives {
    generic: InProcess<'static>,
}

impl Collectives for CpuCollectives {
    fn supports(&self, step: &Step) -> Support {
        self.generic.supports(step)
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        self.generic.run(op, step, shards)
    }

    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        self.generic.exchange(op, exchange, shards)
    }
}
