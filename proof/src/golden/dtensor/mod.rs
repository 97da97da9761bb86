//! Suite `dtensor`: what PyTorch DTensor makes of tensors and ops. Values only: where elements lie is its own affair.

mod call;
mod text;
mod value;

use super::json::{Node, Parsed};
use super::report::{Report, Verdict};
use super::room;
use super::spelling::nameless_mesh;
use sharding_core::conformance::host::HostArray;
use sharding_core::{DeviceMesh, Error, ErrorKind, Result, Tensor};
use value::{Given, Placements};

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    if let Some(table) = root.optional("chunk_table") {
        for row in table.field("rows")?.list()? {
            let [n, ways] = ["n", "k"].map(|name| row.field(name).and_then(|size| size.size()));
            let (n, ways) = (n?, ways?);
            report.case(&format!("{n} over {ways}"), || balanced(&row, n, ways));
        }
    }
    for case in root.field("cases")?.list()? {
        report.case(&case.id(), || self::case(&case));
    }
    Ok(())
}

/// Sizes of the balanced split, which the file lists beside those of its own.
fn balanced(row: &Node<'_>, n: usize, ways: usize) -> Parsed<Verdict> {
    room::devices(&row.field("k")?, &[ways])?;
    let ours = (0..ways).map(|part| sharding_core::split::balanced(n, ways, part).len()).collect();
    Ok(Verdict::equal("sizes", row.field("balanced_sizes")?.list_of(Node::size)?, ours))
}

fn case(case: &Node<'_>) -> Parsed<Verdict> {
    let kind = case.field("kind")?;
    match kind.text()? {
        "distribute" | "redistribute" | "op" => {}
        "grad" => return Ok(Verdict::Skipped("gradients, which we do not have".to_owned())),
        other => return Ok(Verdict::Skipped(format!("kinds that we do not replay: {other}"))),
    }
    let shape = case.field("mesh_shape")?;
    let mesh = nameless_mesh(&shape)?.map_err(|_| shape.expected("the shape of a mesh"))?;
    let mut given = Vec::new();
    for input in case.field("inputs")?.list()? {
        match Given::read(&input, &mesh)? {
            Ok(input) => given.push(input),
            Err(lacking) => return Ok(Verdict::Skipped(lacking)),
        }
    }
    let want = match wanted(case)? {
        Ok(want) => want,
        Err(lacking) => return Ok(Verdict::Skipped(lacking)),
    };
    let Some(first) = given.first() else { return Err(case.expected("at least one input")) };
    match kind.text()? {
        "distribute" => moved(case, &mesh, first.distributed(), &want),
        "redistribute" => redistribute(case, &mesh, first, &want),
        "op" => match call::run(&case.field("op")?, &given, &want)? {
            Ok(results) => Ok(compare(results, &want)),
            Err(lacking) => Ok(Verdict::Skipped(lacking)),
        },
        _ => Err(kind.expected("distribute, redistribute or op")),
    }
}

/// The values that come out: those of plain PyTorch, else those of DTensor.
fn wanted(case: &Node<'_>) -> Parsed<std::result::Result<Vec<HostArray>, String>> {
    let tensors = match (case.optional("reference"), case.optional("outputs")) {
        (Some(reference), _) => reference.list()?,
        (None, Some(outputs)) => outputs.list_of(|output| output.field("full"))?,
        (None, None) => return Ok(Err("no values to compare with".to_owned())),
    };
    tensors.iter().map(value::array).collect::<Parsed<Vec<_>>>().map(|all| all.into_iter().collect())
}

fn redistribute(case: &Node<'_>, mesh: &DeviceMesh, given: &Given, want: &[HostArray]) -> Parsed<Verdict> {
    let to = match Placements::read(&case.field("attrs")?.field("to")?)? {
        Ok(to) => to,
        Err(lacking) => return Ok(Verdict::Skipped(lacking)),
    };
    let transfer = || -> Result<Tensor> {
        let target = to.mapping(mesh, given.layout.shape())?;
        let tensor = given.place()?.transfer_to(&target)?;
        match tensor.mapping() == &target {
            true => Ok(tensor),
            false => Err(Error::new(ErrorKind::Internal, format!("it lies as {} says", tensor.mapping()))),
        }
    };
    moved(case, mesh, transfer(), want)
}

/// Passed if the tensor has this value, and on each device that holds as much as there, what is there.
fn moved(case: &Node<'_>, mesh: &DeviceMesh, got: Result<Tensor>, want: &[HostArray]) -> Parsed<Verdict> {
    let shards = match (&got, case.optional("outputs")) {
        (Ok(tensor), Some(outputs)) if tensor.layout().places().iter().all(|place| !place.is_partial()) => {
            let outputs = outputs.list()?;
            let locals = outputs.first().and_then(|output| output.optional("locals"));
            locals.map(|locals| value::compare_shards(&locals, mesh, tensor)).transpose()?
        }
        _ => None,
    };
    Ok(compare(got.map(|tensor| vec![tensor]), want).and(|| shards.unwrap_or(Verdict::Passed)))
}

/// Passed if the results have these values, whatever their placements.
fn compare(got: Result<Vec<Tensor>>, want: &[HostArray]) -> Verdict {
    let got = match got {
        Ok(got) => got,
        Err(error) => return Verdict::failed("a result", error.to_string()),
    };
    let mut verdict = Verdict::equal("a number of results", want.len(), got.len());
    for (want, got) in want.iter().zip(&got) {
        verdict = verdict
            .and(|| Verdict::equal("the shape", &want.shape, got.shape()))
            .and(|| Verdict::equal("the dtype", want.dtype, got.dtype()))
            .and(|| value::compare(want, got));
    }
    verdict
}
