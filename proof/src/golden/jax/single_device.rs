//! Everything on one device.

use super::spelling::{global_shape, sharding};
use super::{query, refusal};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let got = sharding(case)?;
    if query::fails_at_once(case)? {
        return refusal::compare(&case.field("error")?, got);
    }
    Ok(match (got, global_shape(case)?) {
        (Ok(sharding), Ok(shape)) => return query::compare(case, &*sharding, &shape),
        (Err(error), _) | (_, Err(error)) => Verdict::failed("a sharding and a shape", error.to_string()),
    })
}
