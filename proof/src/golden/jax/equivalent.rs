//! Which shardings are equal, and which are the same in effect.

use super::refusal;
use super::spelling::{named, sharding, single};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use sharding_core::Result;

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let (a, b, ndim) = (case.field("a")?, case.field("b")?, case.field("ndim")?.size()?);
    let equivalent = match (sharding(&a)?, sharding(&b)?) {
        (Ok(x), Ok(y)) => x.is_equivalent_to(&*y, ndim),
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    if let Some(error) = case.optional("error") {
        return refusal::compare(&error, equivalent);
    }
    let want = case.field("want")?;
    let (equal, wanted) = (want.field("equal")?.truth()?, want.field("equivalent")?.truth()?);
    let got = equal_as_written(&a, &b)?;
    Ok(match (equivalent, got) {
        (Ok(equivalent), Ok(got)) => {
            Verdict::equal("equivalent", wanted, equivalent).and(|| Verdict::equal("equal", equal, got))
        }
        (Err(error), _) | (_, Err(error)) => Verdict::failed("two shardings", error.to_string()),
    })
}

/// Kinds differ in type, so that only shardings of one kind can be compared by `==`.
fn equal_as_written(a: &Node<'_>, b: &Node<'_>) -> Parsed<Result<bool>> {
    fn equal<T: PartialEq>(a: Result<T>, b: Result<T>) -> Result<bool> {
        Ok(a? == b?)
    }
    match (a.has("device_id"), b.has("device_id")) {
        (false, false) => Ok(equal(named(a)?, named(b)?)),
        (true, true) => Ok(equal(single(a)?, single(b)?)),
        _ => Ok(Ok(false)),
    }
}
