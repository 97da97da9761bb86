//! HLO-style shardings on devices: what lies where, which are equal, and which are the same as shardings by name.

use super::spelling::{devices, global_shape, named};
use super::{query, refusal};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use crate::golden::spelling::unspellable;
use sharding_core::sharding::{GspmdSharding, HloSharding, Subgroup, TileAssignment};
use sharding_core::{Result, Sharding};

/// The fields of a message of type `OpSharding`.
fn hlo(node: &Node<'_>) -> Parsed<Result<HloSharding>> {
    let sizes = |name: &str| node.optional(name).map_or(Ok(Vec::new()), |sizes| sizes.list_of(Node::size));
    let devices = sizes("tile_assignment_devices")?;
    Ok(match node.field("type")?.text()? {
        "REPLICATED" => Ok(HloSharding::replicated()),
        "MANUAL" => Ok(HloSharding::manual()),
        "UNREDUCED" => Ok(HloSharding::unreduced()),
        "UNKNOWN" => Ok(HloSharding::unknown()),
        "MAXIMAL" => match devices.as_slice() {
            [device] => Ok(HloSharding::maximal(*device)),
            _ => Err(unspellable("a maximal sharding of another number of devices than one")),
        },
        "TUPLE" => {
            let elements = node.field("tuple_shardings")?.list_of(hlo)?;
            elements.into_iter().collect::<Result<Vec<_>>>().and_then(HloSharding::tuple)
        }
        "OTHER" => {
            let dims = sizes("tile_assignment_dimensions")?;
            let tiles = match node.has("iota_reshape_dims") {
                true => {
                    TileAssignment::iota(dims, sizes("iota_reshape_dims")?, sizes("iota_transpose_perm")?)
                }
                false => TileAssignment::listed(dims, devices),
            };
            let groups = subgroups(node)?;
            tiles.and_then(|tiles| HloSharding::tiled(tiles, groups?))
        }
        _ => return Err(node.expected("an OpSharding of a known type")),
    })
}

fn subgroups(node: &Node<'_>) -> Parsed<Result<Vec<Subgroup>>> {
    let group = |node: &Node<'_>| {
        Ok(match node.text()? {
            "MANUAL" => Ok(Subgroup::Manual),
            "UNREDUCED" => Ok(Subgroup::Unreduced),
            "REPLICATED" => Ok(Subgroup::Replicated),
            other => Err(unspellable(other)),
        })
    };
    let listed = node.optional("last_tile_dims").map_or(Ok(Vec::new()), |groups| groups.list_of(group))?;
    let flag = node.optional("replicate_on_last_tile_dim").map_or(Ok(false), |flag| flag.truth())?;
    Ok(match flag && listed.is_empty() {
        true => Ok(vec![Subgroup::Replicated]),
        false => listed.into_iter().collect(),
    })
}

fn sharding(case: &Node<'_>, field: &str) -> Parsed<Result<GspmdSharding>> {
    let devices = devices(&case.field("device_ids")?)?;
    Ok(hlo(&case.field(field)?)?.and_then(|hlo| GspmdSharding::new(&devices, hlo)))
}

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let verdict = match hlo(&case.field("op_sharding")?)? {
        Ok(hlo) => canonical(case, &hlo)?,
        Err(_) => Verdict::Passed,
    };
    if verdict != Verdict::Passed {
        return Ok(verdict);
    }
    match (sharding(case, "op_sharding")?, global_shape(case)?) {
        (Ok(sharding), Ok(shape)) => query::compare(case, &sharding, &shape),
        // Ours may refuse when it is made what theirs refuses when it is asked.
        (Err(error), _) | (_, Err(error)) => match case.optional("error") {
            Some(wanted) => refusal::compare(&wanted, Err::<(), _>(error)),
            None => Ok(Verdict::failed("a sharding", error.to_string())),
        },
    }
}

/// The canonical form, as text and as a list of devices, and the text read back.
fn canonical(case: &Node<'_>, hlo: &HloSharding) -> Parsed<Verdict> {
    let mut verdict = Verdict::Passed;
    if let Some(text) = case.optional("hlo") {
        verdict = Verdict::equal("the text", text.text()?, hlo.to_string().as_str())
            .and(|| Verdict::equal("the text read back", Some(hlo), hlo.to_string().parse().ok().as_ref()));
    }
    if let Some(devices) = case.optional("tile_assignment_devices_expanded") {
        let wanted = devices.list_of(Node::size)?;
        if let Some(tiles) = hlo.tiles() {
            room::devices(&devices, &[tiles.num_devices()])?;
        }
        let got = match (hlo.tiles(), hlo.maximal_device()) {
            (Some(tiles), _) => tiles.devices().collect(),
            (None, maximal) => maximal.into_iter().collect::<Vec<_>>(),
        };
        verdict = verdict.and(|| Verdict::equal("devices of tiles", wanted, got));
    }
    Ok(verdict)
}

pub(super) fn replay_equal(case: &Node<'_>) -> Parsed<Verdict> {
    let wanted = case.field("want")?.field("equal")?.truth()?;
    Ok(match (sharding(case, "a")?, sharding(case, "b")?) {
        (Ok(a), Ok(b)) => Verdict::equal("equal", wanted, a == b),
        (Err(error), _) | (_, Err(error)) => Verdict::failed("two shardings", error.to_string()),
    })
}

pub(super) fn replay_named_equivalent(case: &Node<'_>) -> Parsed<Verdict> {
    match (named(case)?, sharding(case, "op_sharding")?) {
        (Ok(named), Ok(gspmd)) => both_ways(case, ["named_to_gspmd", "gspmd_to_named"], &named, &gspmd),
        (Err(error), _) | (_, Err(error)) => Ok(Verdict::failed("two shardings", error.to_string())),
    }
}

/// Compares equivalence as each of the two sees it with the fields of `want`.
pub(super) fn both_ways(
    case: &Node<'_>,
    fields: [&str; 2],
    a: &dyn Sharding,
    b: &dyn Sharding,
) -> Parsed<Verdict> {
    let (want, ndim) = (case.field("want")?, case.field("ndim")?.size()?);
    let mut verdict = Verdict::Passed;
    for (field, got) in fields.into_iter().zip([a.is_equivalent_to(b, ndim), b.is_equivalent_to(a, ndim)]) {
        let wanted = want.field(field)?.truth()?;
        verdict = verdict.and(|| match got {
            Ok(got) => Verdict::equal(field, wanted, got),
            Err(error) => Verdict::failed(format!("{field} {wanted}"), error.to_string()),
        });
    }
    Ok(verdict)
}
