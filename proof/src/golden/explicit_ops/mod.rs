//! Suite `explicit_ops`: on what placements ops of JAX give their results where every mesh axis is explicit.
//!
//! No op communicates there. A case passes if our result has the same shape and placements; or is Partial over exactly
//! the mesh axes that were reduced; or is an error with the redistribution to write. Where JAX refuses, ours may run if
//! the values are right: `docs/design-faq.md` says which.

mod call;
mod spec;

use super::data::{Wholes, on_one_device, read_one_device};
use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use super::room;
use super::spelling::{array_dtype, mesh, shape};
use call::{Call, No};
use sharding_core::conformance::host::HostArray;
use sharding_core::op::Fill;
use sharding_core::{AxisType, Device, DeviceMesh, Place, Result, Tensor, TensorLayout};

/// What a reader should know of cases that JAX refuses and ours runs.
const IMPROVEMENT: &str = "runs where they refuse, and gives the values of one device (docs/design-faq.md)";

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    let node = root.field("generator")?.field("mesh")?;
    let mesh = mesh(&node)?.map_err(|_| node.expected("a mesh"))?;
    let mesh = mesh
        .with_axis_types(vec![AxisType::Explicit; mesh.ndim()])
        .map_err(|_| node.expected("a mesh of explicit axes"))?;
    for case in root.field("cases")?.list()? {
        let mut improves = false;
        report.case(&case.id(), || self::case(&case, &mesh, &mut improves));
        if improves {
            report.note(IMPROVEMENT);
        }
    }
    Ok(())
}

/// An input: where it lies, and its elements.
struct Given {
    layout: TensorLayout,
    wholes: Wholes,
}

fn case(case: &Node<'_>, mesh: &DeviceMesh, improves: &mut bool) -> Parsed<Verdict> {
    let call = Call::read(case)?;
    let mut given = Vec::new();
    for (i, node) in case.field("inputs")?.list()?.iter().enumerate() {
        let layout = match layout(node, mesh)? {
            Ok(layout) => layout,
            Err(lacking) => return Ok(Verdict::Skipped(lacking)),
        };
        let fill = call.indexed(i, &given).map_or(Fill::Signed, Fill::Below);
        let wholes = Wholes::new(&layout, fill, i as u64 + 1).map_err(|_| node.expected("a small tensor"))?;
        given.push(Given { layout, wholes });
    }
    let metas = given.iter().map(|given| (given.layout.dtype(), given.layout.shape().clone()));
    room::call(case, metas, |inputs| call.run(None, inputs).ok())?;
    let inputs: Result<Vec<Tensor>> =
        given.iter().map(|given| given.wholes.place(&given.layout, 1000)).collect();
    let inputs = inputs.map_err(|_| case.expected("inputs that can be placed"))?;
    let got = call.run(Some(mesh), &inputs);
    let wanted = case.optional("want");
    let got = match (got, &wanted) {
        (Err(No::Lacking(lacking)), _) => return Ok(Verdict::Skipped(lacking)),
        (Err(No::Malformed(malformed)), _) => return Err(malformed),
        (Err(No::Failed(_)), None) => return Ok(Verdict::Passed),
        (Err(No::Failed(error)), Some(_)) if error.fix().is_some() => return Ok(Verdict::Passed),
        (Err(No::Failed(error)), Some(_)) => {
            return Ok(Verdict::failed("a result, or an error with the line to write", error.to_string()));
        }
        (Ok(got), _) => got,
    };
    let mut verdict = match one_device(&call, &given) {
        Ok(want) => values(&want, &got),
        Err(No::Malformed(malformed)) => return Err(malformed),
        Err(No::Failed(error)) => Verdict::failed("a result on one device", error.to_string()),
        Err(No::Lacking(lacking)) => Verdict::Skipped(lacking),
    };
    let Some(wanted) = wanted else {
        *improves = verdict == Verdict::Passed;
        return Ok(verdict);
    };
    let wanted = if wanted.value().is_array() { wanted.list()? } else { vec![wanted] };
    verdict = verdict.and(|| Verdict::equal("a number of results", wanted.len(), got.len()));
    for (want, got) in wanted.iter().zip(&got) {
        let placed = placed(want, mesh, &given, got)?;
        verdict = verdict.and(|| placed);
    }
    Ok(verdict)
}

/// Where an input lies, or why ours cannot lie there. What is "reduced" is Replicated: that is said for gradients.
fn layout(node: &Node<'_>, mesh: &DeviceMesh) -> Parsed<std::result::Result<TensorLayout, String>> {
    let dtype = match array_dtype(&node.field("dtype")?)? {
        Ok(dtype) => dtype,
        Err(lacking) => return Ok(Err(lacking)),
    };
    let shape_node = node.field("shape")?;
    let shape = shape(&shape_node)?.map_err(|_| shape_node.expected("a shape"))?;
    room::elements(&shape_node, &shape)?;
    Ok(match spec::mapping(node, mesh)? {
        Ok(mapping) => TensorLayout::new(dtype, shape, mapping).map_err(|error| error.to_string()),
        Err(error) => Err(format!("placements that we do not have: {error}")),
    })
}

/// The results of the call on one device.
fn one_device(call: &Call<'_>, given: &[Given]) -> call::Made<Vec<HostArray>> {
    let whole = |given: &Given| on_one_device(given.wholes.at(given.layout.mesh(), 0)?, Device::cpu());
    let inputs = given.iter().map(whole).collect::<Result<Vec<_>>>()?;
    Ok(call.run(None, &inputs)?.iter().map(read_one_device).collect::<Result<_>>()?)
}

fn values(want: &[HostArray], got: &[Tensor]) -> Verdict {
    let mut verdict = Verdict::equal("a number of results", want.len(), got.len());
    for (want, got) in want.iter().zip(got) {
        verdict = verdict.and(|| match Wholes::of(Vec::new(), vec![want.clone()]).difference(got) {
            Ok(None) => Verdict::Passed,
            Ok(Some(difference)) => Verdict::failed("the values of one device", difference),
            Err(error) => Verdict::failed("the values of one device", error.to_string()),
        });
    }
    verdict
}

/// Passed if a result has this shape and lies as the spec says, or is Partial where a split axis was reduced.
fn placed(want: &Node<'_>, mesh: &DeviceMesh, given: &[Given], got: &Tensor) -> Parsed<Verdict> {
    let mapping = match spec::mapping(want, mesh)? {
        Ok(mapping) => mapping,
        Err(error) => return Ok(Verdict::failed("placements that we have", error.to_string())),
    };
    let reduced =
        |axis: usize| given.iter().any(|given| given.layout.mapping().place(axis) != Place::Replicated);
    let as_wanted = |(axis, (want, got)): (usize, (&Place, &Place))| {
        want == got || (*want == Place::Replicated && got.is_partial() && reduced(axis))
    };
    let alike = mapping.places().iter().zip(got.layout().places()).enumerate().all(as_wanted);
    let verdict =
        Verdict::equal("the shape", want.field("shape")?.list_of(Node::size)?, got.shape().to_vec());
    Ok(verdict.and(|| match alike {
        true => Verdict::Passed,
        false => Verdict::failed(format!("placements {mapping}"), got.mapping().to_string()),
    }))
}
