//! Arrays of device sets, reshaped, transposed and replicated.

use super::gspmd::both_ways;
use super::spelling::{devices, global_shape, named};
use super::{query, refusal};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use serde_json::{Value, json};
use sharding_core::Result;
use sharding_core::sharding::PositionalSharding;

/// The sharding with all operations applied, or the first error.
fn sharding(case: &Node<'_>) -> Parsed<Result<PositionalSharding>> {
    let devices = devices(&case.field("device_ids")?)?;
    let shape = case.field("device_shape")?.list_of(Node::size)?;
    let mut sharding = PositionalSharding::new(&devices, shape);
    for op in case.field("ops")?.list()? {
        let operands = op.list()?;
        sharding = match (operands.first().map(|name| name.text()).transpose()?, operands.get(1..)) {
            (Some("reshape"), Some([extents])) => {
                let extents = extents.list_of(integer)?;
                sharding.and_then(|sharding| sharding.reshape(&extents))
            }
            (Some("transpose"), Some([order])) => {
                let order = order.list_of(integer)?;
                sharding.and_then(|sharding| sharding.transpose(&order))
            }
            (Some("replicate"), Some([axes, keepdims])) => {
                let keepdims = keepdims.truth()?;
                let axes = match axes.value() {
                    Value::Null => None,
                    Value::Array(_) => Some(axes.list_of(integer)?),
                    _ => Some(vec![integer(axes)?]),
                };
                sharding.and_then(|sharding| sharding.replicate(axes.as_deref(), keepdims))
            }
            _ => return Err(op.expected("reshape, transpose or replicate with its operands")),
        };
    }
    Ok(sharding)
}

fn integer(node: &Node<'_>) -> Parsed<isize> {
    isize::try_from(node.integer()?).map_err(|_| node.expected("an axis or an extent"))
}

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    match (sharding(case)?, global_shape(case)?) {
        (Ok(sharding), Ok(shape)) => {
            let verdict = array(case, &sharding)?;
            if verdict == Verdict::Passed { query::compare(case, &sharding, &shape) } else { Ok(verdict) }
        }
        (Err(error), _) | (_, Err(error)) => match case.optional("error") {
            Some(wanted) => refusal::compare(&wanted, Err::<(), _>(error)),
            None => Ok(Verdict::failed("a sharding", error.to_string())),
        },
    }
}

/// The shape of the array, and its sets.
fn array(case: &Node<'_>, sharding: &PositionalSharding) -> Parsed<Verdict> {
    let mut verdict = Verdict::Passed;
    if let Some(shape) = case.optional("sharding_shape") {
        let wanted = shape.list_of(Node::size)?;
        verdict = Verdict::equal("the shape of the array", wanted.as_slice(), sharding.shape());
    }
    if let Some(sets) = case.optional("id_sets") {
        verdict = verdict
            .and(|| Verdict::equal("device sets", sets.value(), &nested(sharding, sharding.shape(), 0)));
    }
    Ok(verdict)
}

/// The sets from `begin` on, nested by `shape`.
fn nested(sharding: &PositionalSharding, shape: &[usize], begin: usize) -> Value {
    match shape {
        [] => {
            let mut ids: Vec<u32> =
                sharding.device_set_at(begin).unwrap_or_default().iter().map(|device| device.slot).collect();
            ids.sort_unstable();
            json!(ids)
        }
        [extent, inner @ ..] => {
            let step: usize = inner.iter().product();
            (0..*extent).map(|at| nested(sharding, inner, begin + at * step)).collect()
        }
    }
}

pub(super) fn replay_named_equivalent(case: &Node<'_>) -> Parsed<Verdict> {
    match (sharding(case)?, named(case)?) {
        (Ok(positional), Ok(named)) => both_ways(case, ["equivalent", "reverse"], &positional, &named),
        (Err(error), _) | (_, Err(error)) => Ok(Verdict::failed("two shardings", error.to_string())),
    }
}
