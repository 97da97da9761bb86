//! Suite `shard_map`: collectives in manual regions, as JAX computes them, with every device's block before and after.

mod call;
mod value;

use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use super::spelling::mesh;
use call::Call;
use sharding_core::manual::shard_map;
use sharding_core::{AxisType, DeviceMapping, DeviceMesh, PartitionSpec, Result, SpecEntry, Tensor};
use std::sync::{Arc, Mutex, PoisonError};
use value::Value;

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for case in root.field("cases")?.list()? {
        report.case(&case.id(), || replay_case(&case));
    }
    Ok(())
}

/// What the region gave: the result, and what each device had before and after, by position.
struct Given {
    result: Tensor,
    before: Vec<Option<Tensor>>,
    after: Vec<Option<Tensor>>,
}

/// A failure that the file itself calls a quirk of JAX is no failure.
fn replay_case(case: &Node<'_>) -> Parsed<Verdict> {
    let quirk = case.optional("note").is_some_and(|note| note.value().to_string().contains("quirk"));
    Ok(match replay_call(case)? {
        Verdict::Failed { .. } if quirk => Verdict::Skipped("a quirk that is not copied".to_owned()),
        verdict => verdict,
    })
}

fn replay_call(case: &Node<'_>) -> Parsed<Verdict> {
    let Some(call) = Call::read(case)? else {
        let op = case.field("op")?.text()?.to_owned();
        return Ok(Verdict::Skipped(format!("no such collective: {op}")));
    };
    let mesh = mesh(&case.field("mesh")?)?;
    let (ins, outs) = (spec(&case.field("in_spec")?)?, spec(&case.field("out_spec")?)?);
    let check_vma = case.field("check_vma")?.truth()?;
    let input = Value::read(&case.field("input")?)?;
    let given = mesh.and_then(|mesh| Ok((run(&mesh, call, ins, &outs, check_vma, &input)?, mesh)));
    if case.has("error") {
        return Ok(Verdict::error(&given.map(|(given, _)| given.result)));
    }
    let (given, mesh) = match given {
        Ok(given) => given,
        Err(error) => return Ok(Verdict::failed("a result", error.to_string())),
    };
    compare(case, &given, &mesh, &outs)
}

fn run(
    mesh: &DeviceMesh,
    call: Call,
    ins: PartitionSpec,
    outs: &PartitionSpec,
    check_vma: bool,
    input: &Value,
) -> Result<Given> {
    let manual = mesh.with_axis_types(vec![AxisType::Manual; mesh.ndim()])?;
    let names: Vec<String> = mesh.axis_names().map(str::to_owned).collect();
    let seen: Arc<Mutex<Vec<(usize, Tensor, Tensor)>>> = Arc::default();
    let saw = seen.clone();
    let region = shard_map(&manual).in_specs([ins]).out_specs([outs.clone()]).check_vma(check_vma).wrap(
        move |cx, [x]| {
            let y = call.run(cx, &x)?;
            // After the call: what the host knows of its place must not mark what is made from it.
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let position = cx.coord(names.as_slice())?;
            saw.lock().unwrap_or_else(PoisonError::into_inner).push((position, x, y.clone()));
            Ok([y])
        },
    )?;
    let x = input.place(&DeviceMapping::replicated(mesh))?;
    let [result] = region.call([&x])?;
    let mut before = vec![None; mesh.num_devices()];
    let mut after = before.clone();
    for (position, x, y) in std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner)) {
        if let (Some(old), Some(new)) = (before.get_mut(position), after.get_mut(position)) {
            (*old, *new) = (Some(x), Some(y));
        }
    }
    Ok(Given { result, before, after })
}

fn compare(case: &Node<'_>, given: &Given, mesh: &DeviceMesh, outs: &PartitionSpec) -> Parsed<Verdict> {
    let blocks = |name: &str| case.field(name)?.list_of(Value::read);
    let (shards_in, shards_out) = (blocks("shards_in")?, blocks("shards_out")?);
    let output = Value::read(&case.field("output")?)?;
    let text = |value: Option<Result<Value>>| match value {
        None => "nothing".to_owned(),
        Some(Ok(value)) => value.to_string(),
        Some(Err(error)) => error.to_string(),
    };
    let mut verdict = Verdict::equal("the output", output.to_string(), text(Some(Value::of(&given.result))));
    for position in 0..mesh.num_devices() {
        let block = |blocks: &[Value]| blocks.get(position).map_or_else(String::new, Value::to_string);
        let own =
            |tensors: &[Option<Tensor>]| text(tensors.get(position).and_then(Option::as_ref).map(Value::of));
        verdict = verdict
            .and(|| {
                Verdict::equal(
                    &format!("the block of device {position}"),
                    block(&shards_in),
                    own(&given.before),
                )
            })
            .and(|| {
                Verdict::equal(&format!("what device {position} has"), block(&shards_out), own(&given.after))
            })
            .and(|| {
                // Of devices that claim the same value, it is that of the first.
                let named = |axis: &usize| {
                    outs.entries().iter().any(|entry| entry.names().any(|name| name == mesh.axis_name(*axis)))
                };
                let unnamed: Vec<usize> = (0..mesh.ndim()).filter(|axis| !named(axis)).collect();
                let first = mesh.group(position, &unnamed).first().copied().unwrap_or(position);
                let want = shards_out.get(first).map_or_else(String::new, Value::to_string);
                let device = mesh.device(position);
                let at = device.and_then(|device| given.result.mesh().position_of(device));
                let got = text(at.map(|at| Value::of_shard(&given.result, at)));
                Verdict::equal(&format!("the shard of device {position}"), want, got)
            });
    }
    Ok(verdict)
}

/// `["x", null, ["x", "y"]]`.
fn spec(node: &Node<'_>) -> Parsed<PartitionSpec> {
    let entries = node.list_of(|entry| {
        if entry.is_null() {
            return Ok(SpecEntry::none());
        }
        match entry.value().as_str() {
            Some(name) => Ok(SpecEntry::from(name)),
            None => Ok(SpecEntry::several(entry.list_of(Node::text)?)),
        }
    })?;
    Ok(PartitionSpec::new(entries))
}
