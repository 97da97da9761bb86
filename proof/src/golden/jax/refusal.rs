//! Errors: ours is of the kind that theirs is of.

use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use sharding_core::{Error, ErrorKind, Result};
use std::fmt::Debug;

/// Passed if `got` is an error of the kind that `wanted` (`stage`, `type`) says.
pub(super) fn compare<T: Debug>(wanted: &Node<'_>, got: Result<T>) -> Parsed<Verdict> {
    let (stage, class) = (wanted.field("stage")?.text()?, wanted.field("type")?.text()?);
    Ok(match got {
        Err(error) if is_of(stage, class, &error) => Verdict::Passed,
        Err(error) => Verdict::failed(format!("an error as their {class} at {stage}"), format!("{error:?}")),
        Ok(got) => Verdict::failed(format!("an error as their {class} at {stage}"), format!("{got:?}")),
    })
}

fn is_of(stage: &str, class: &str, error: &Error) -> bool {
    let kind = error.kind();
    match class {
        "IndivisibleError" => kind == ErrorKind::Indivisible,
        "DuplicateSpecError" => kind == ErrorKind::DuplicateAxis,
        // One class for all that a value may be wrong in: the stage says which.
        "ValueError" if stage == "check_rank" => kind == ErrorKind::Dimensions,
        "ValueError" => kind != ErrorKind::DuplicateAxis && kind != ErrorKind::Internal,
        // Errors of their program rather than of the caller's: any of ours, but none of ours.
        _ => kind != ErrorKind::Internal,
    }
}
