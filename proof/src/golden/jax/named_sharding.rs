//! Shardings by name: what a spec on a mesh puts where.

use super::spelling::{entry_json, global_shape, named};
use super::{query, refusal};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use sharding_core::{NamedSharding, PartitionSpec};

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let got = named(case)?;
    if query::fails_at_once(case)? {
        return refusal::compare(&case.field("error")?, got);
    }
    let (sharding, shape) = match (got, global_shape(case)?) {
        (Ok(sharding), Ok(shape)) => (sharding, shape),
        (Err(error), _) | (_, Err(error)) => return Ok(Verdict::failed("a sharding", error.to_string())),
    };
    let verdict = query::compare(case, &sharding, &shape)?;
    let texts = case.optional("want").or_else(|| case.optional("partial"));
    match (verdict, texts) {
        (Verdict::Passed, Some(want)) => spelled(&want, &sharding, shape.len()),
        (verdict, _) => Ok(verdict),
    }
}

/// The canonical form of the spec, which our text form keeps, and the sharding as XLA writes it.
fn spelled(want: &Node<'_>, sharding: &NamedSharding, ndim: usize) -> Parsed<Verdict> {
    let mut verdict = Verdict::Passed;
    if let Some(wanted) = want.optional("canonical_spec") {
        let spec = sharding.spec();
        let got = serde_json::Value::Array(spec.entries().iter().map(entry_json).collect());
        verdict = Verdict::equal("canonical spec", wanted.value(), &got).and(|| {
            Verdict::equal(
                "the spec read back",
                Some(spec),
                spec.to_string().parse::<PartitionSpec>().ok().as_ref(),
            )
        });
    }
    if let Some(wanted) = want.optional("hlo") {
        let wanted = wanted.text()?;
        verdict = verdict.and(|| match sharding.hlo(ndim) {
            Ok(got) => Verdict::equal("as XLA writes it", wanted, &got.to_string()),
            Err(error) => Verdict::failed(wanted, error.to_string()),
        });
    }
    Ok(verdict)
}
