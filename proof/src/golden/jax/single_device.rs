//! Everything on one device.

use super::query;
use super::spelling::{device, global_shape};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use sharding_core::SingleDeviceSharding;

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let sharding = SingleDeviceSharding::new(device(&case.field("device_id")?)?);
    match global_shape(case)? {
        Ok(shape) => query::compare(case, &sharding, &shape),
        Err(error) => Ok(Verdict::failed("a shape", error.to_string())),
    }
}
