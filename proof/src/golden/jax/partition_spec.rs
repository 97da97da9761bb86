//! Specs alone: what is kept of the entries, and which specs are equal.

use super::refusal;
use super::spelling::{entry_json, is_no_list_of_names, spec, whole_spec};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use serde_json::Value;

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let got = whole_spec(case, "input")?;
    if let Some(error) = case.optional("error") {
        return refusal::compare(&error, got);
    }
    // JAX lets it through here and refuses it in a sharding; ours has no such spec.
    if case.field("input")?.list()?.iter().any(|entry| is_no_list_of_names(entry.value())) {
        return Ok(Verdict::error(&got));
    }
    let wanted = case.field("want")?.field("partitions")?;
    // Numbers name axes there; ours are texts.
    let spelled =
        |item: &Value| if item.is_number() { Value::String(item.to_string()) } else { item.clone() };
    let wanted: Vec<Value> = wanted.list()?.iter().map(|item| spelled(item.value())).collect();
    Ok(match got {
        Ok(got) => Verdict::equal("entries", wanted, got.entries().iter().map(entry_json).collect()),
        Err(error) => Verdict::failed("a spec", error.to_string()),
    })
}

pub(super) fn replay_eq(case: &Node<'_>) -> Parsed<Verdict> {
    let (a, b) = (spec(&case.field("a")?)?, spec(&case.field("b")?)?);
    let wanted = case.field("want")?.field("equal")?.truth()?;
    Ok(match (a, b) {
        (Ok(a), Ok(b)) => Verdict::equal("equal", wanted, a == b),
        (Err(error), _) | (_, Err(error)) => Verdict::failed("two specs", error.to_string()),
    })
}
