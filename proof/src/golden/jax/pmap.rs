//! Rows on a device each: `PmapSharding.default`.

use super::spelling::{devices, global_shape};
use super::{query, refusal};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::spelling::{shape as spelled_shape, unspellable};
use sharding_core::sharding::PmapSharding;
use sharding_core::{BackendKind, DeviceMesh, Result, Scope, Sharding};

/// The devices that a process of the suite has.
const LOCAL: usize = 8;

fn sharding(case: &Node<'_>) -> Parsed<Result<PmapSharding>> {
    let devices = case.optional("device_ids").map(|ids| devices(&ids)).transpose()?;
    let dim = case.optional("sharded_dim").map(|dim| dim.integer()).transpose()?;
    let shape = match spelled_shape(&case.field("shape")?)? {
        Ok(shape) => shape,
        Err(error) => return Ok(Err(error)),
    };
    let dim = match dim.map(usize::try_from) {
        None => None,
        Some(Ok(dim)) => Some(dim),
        Some(Err(_)) => return Ok(Err(unspellable("a negative axis to shard"))),
    };
    Ok(DeviceMesh::simulated(BackendKind::CPU, [LOCAL], ["local"]).and_then(|mesh| {
        let scope = (*Scope::current()).clone().with_mesh(mesh);
        scope.enter(|| PmapSharding::default(&shape, dim, devices.as_deref()))
    }))
}

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    match (sharding(case)?, global_shape(case)?) {
        (Ok(sharding), Ok(shape)) => {
            let verdict = of_devices(case, &sharding)?;
            if verdict == Verdict::Passed { query::compare(case, &sharding, &shape) } else { Ok(verdict) }
        }
        (Err(error), _) | (_, Err(error)) => match case.optional("error") {
            Some(wanted) => refusal::compare(&wanted, Err::<(), _>(error)),
            None => Ok(Verdict::failed("a sharding", error.to_string())),
        },
    }
}

fn of_devices(case: &Node<'_>, sharding: &PmapSharding) -> Parsed<Verdict> {
    let mut verdict = Verdict::Passed;
    if let Some(ids) = case.optional("devices") {
        let wanted = devices(&ids)?;
        verdict = Verdict::equal("devices", wanted, sharding.devices().collect());
    }
    if let Some(number) = case.optional("num_devices") {
        let wanted = number.size()?;
        verdict = verdict.and(|| Verdict::equal("the number of devices", wanted, sharding.num_devices()));
    }
    Ok(verdict)
}
