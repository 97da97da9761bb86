//! `cargo xtask rules`: what every registered op may do with its operands, and the proof of it.

use crate::print::line;
use sharding_core::conformance::rule::check_all_rules;
use sharding_core::op::{Case, Cases, Grouped, Groups, OpDef, OperandKind, Registry};
use sharding_core::placement::sharded;
use sharding_core::rule::{Role, Rows, RuleCx, RuleOperand};
use sharding_core::{BackendKind, Place, Result, TensorMeta};
use std::fmt::Write;
use std::process::ExitCode;

/// The mesh axis that rows are shown for.
const WAYS: usize = 2;

/// Prints every op, where it is declared, and its rows; with `--check`, runs every row on the CPU and compares with the
/// kernel on whole inputs, printing `N passed, N failed` last.
///
/// The exit status is 1 if a rule failed, 2 for an unknown argument or a broken registry.
pub fn run(arguments: &[String]) -> ExitCode {
    let outcome = match arguments {
        [] => list().map(|()| true),
        [flag] if flag == "--check" => check(),
        _ => {
            eprintln!("rules: usage: rules [--check]");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("rules: {error}");
            ExitCode::from(2)
        }
    }
}

fn check() -> Result<bool> {
    let reports = check_all_rules(BackendKind::CPU)?;
    let failed = reports.iter().filter(|report| !report.is_sound()).count();
    for report in &reports {
        line(report);
    }
    line(format_args!("{} passed, {failed} failed", reports.len() - failed));
    Ok(failed == 0)
}

fn list() -> Result<()> {
    for def in Registry::get()?.ops() {
        let names: Vec<String> =
            def.operands.iter().map(|operand| declared(operand.name, operand.kind)).collect();
        line(format_args!("{}({})  {}:{}", def.name, names.join(", "), def.at.0, def.at.1));
        for (cases, rows) in rows_of(def)? {
            line(format_args!("  {}\n{rows}", cases.join("\n  ")));
        }
    }
    Ok(())
}

fn declared(name: &str, kind: OperandKind) -> String {
    match kind {
        OperandKind::Tensor => name.to_owned(),
        OperandKind::Scalar => format!("{name} or a number"),
        OperandKind::Many => format!("{name}.."),
        OperandKind::Optional => format!("[{name}]"),
        OperandKind::Written => format!("&mut {name}"),
    }
}

/// The cases of an op with the text of their rows on a mesh axis of [`WAYS`]; cases with the same rows stand together.
fn rows_of(def: &'static OpDef) -> Result<Vec<(Vec<String>, String)>> {
    let mut cases = Cases::new();
    (def.cases)(&mut cases);
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for case in cases.iter() {
        let (text, rows) = (describe(def, case), rows(def, case)?);
        match groups.iter_mut().find(|(_, known)| *known == rows) {
            Some((cases, _)) if cases.contains(&text) => {}
            Some((cases, _)) => cases.push(text),
            None => groups.push((vec![text], rows)),
        }
    }
    Ok(groups)
}

fn describe(def: &OpDef, case: &Case) -> String {
    let metas: Vec<String> = case.operands.iter().map(|operand| operand.meta.to_string()).collect();
    let args = format!("{:?}", case.args);
    // Without plain arguments they are the op's bare name.
    if args.trim_end_matches('_') == def.name || args == "()" {
        metas.join(", ")
    } else {
        format!("{}  {args}", metas.join(", "))
    }
}

fn rows(def: &'static OpDef, case: &Case) -> Result<String> {
    let groups = Groups(&case.groups);
    let metas: Vec<TensorMeta> = case.operands.iter().map(|operand| operand.meta.clone()).collect();
    let args = case.args.as_any();
    let results = (def.shape)(Grouped::new(&metas, groups), args)?;
    let role = |i: usize| match def.operands.get(groups.locate(i).0).map(|operand| operand.kind) {
        Some(OperandKind::Written) => Role::Written,
        _ => Role::Tensor,
    };
    // Rows may follow the present placements (a buffer is never moved), so the rule is asked with several; only asked with
    // everything Replicated it must answer.
    let axes = metas.first().map_or(0, |meta| meta.shape.len());
    let alike = std::iter::once(Place::Replicated).chain((0..axes).map(sharded)).chain([Place::PARTIAL]);
    let mut all = Rows::new();
    for place in alike {
        let operand = |(i, meta): (usize, &TensorMeta)| {
            let fits = place.tensor_axis().is_none_or(|axis| axis < meta.shape.len());
            let place = if fits { place } else { Place::Replicated };
            RuleOperand { meta: meta.clone(), places: std::iter::once(place).collect(), role: role(i) }
        };
        let operands: Vec<RuleOperand> = metas.iter().enumerate().map(operand).collect();
        let cx = RuleCx {
            axis: 0,
            mesh_shape: &[WAYS],
            operands: &operands,
            groups,
            results: &results,
            committed: &[],
        };
        let mut rows = Rows::new();
        match (def.rows)(&cx, args, &mut rows) {
            Ok(()) => rows.iter().for_each(|row| all.push(row.clone())),
            Err(error) if place == Place::Replicated => return Err(error),
            Err(_) => {}
        }
    }
    let mut text = String::new();
    for row in all.iter() {
        let _ = writeln!(text, "    {row}");
    }
    Ok(text)
}
