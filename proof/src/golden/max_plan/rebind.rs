//! `rebind`: a claim about a tensor's shape that moves nothing. Placements only.

use super::call::layout;
use super::signature::extents;
use crate::golden::data::Wholes;
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::spelling::{codes, mesh, places};
use sharding_core::op::Fill;
use sharding_core::{Error, ErrorKind, Result, Shape, Tensor};

pub(super) const NAME: &str = "rebind";

pub(super) fn replay(case: &Node<'_>) -> Parsed<Verdict> {
    let mesh_node = case.field("mesh")?;
    let mesh = mesh(&mesh_node)?.map_err(|_| mesh_node.expected("a mesh"))?;
    let tensors = case.field("tensors")?.list()?;
    let Some(tensor) = tensors.first() else { return Err(case.expected("a tensor")) };
    let layout = match layout(tensor, &mesh)? {
        Ok((layout, _)) => layout,
        Err(lacking) => return Ok(Verdict::Skipped(lacking)),
    };
    let args = case.field("args")?.list()?;
    let [_, shape, ..] = &args[..] else { return Err(case.expected("a tensor and a shape")) };
    let claim = match extents(shape, &[layout.shape().to_vec()])? {
        Ok(claim) => claim,
        Err(lacking) => return Ok(Verdict::Skipped(lacking)),
    };
    let claim: Option<Shape> = claim.iter().map(|extent| usize::try_from(*extent).ok()).collect();
    let rebind = |shape: Option<&Shape>| -> Result<Tensor> {
        let shape = shape.ok_or_else(|| Error::new(ErrorKind::Shape, "a negative extent"))?;
        let x = Wholes::new(&layout, Fill::Signed, 1)?.place(&layout, 2)?;
        x.rebind_mapping(x.mapping(), shape)
    };
    let want = case.field("want")?;
    let claimed = rebind(claim.as_ref());
    if want.has("error") {
        return Ok(Verdict::error(&claimed));
    }
    // There the shape is a promise about sizes not known yet, which is not looked at; ours refuses a false one.
    match claimed.or_else(|_| rebind(Some(layout.shape()))) {
        Ok(got) => {
            let outputs = want
                .field("outputs")?
                .list_of(|node| places(node)?.map_err(|_| node.expected("placements")))?;
            let wanted: Vec<String> = outputs.iter().map(|places| codes(places)).collect();
            Ok(Verdict::equal("placements", wanted, vec![codes(got.layout().places())]))
        }
        Err(error) => Ok(Verdict::failed("a claim that holds", error.to_string())),
    }
}
