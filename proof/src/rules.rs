//! `cargo xtask rules`: what every registered op may do with its operands, and the proof of it.

use sharding_core::conformance::rule::check_all_rules;
use sharding_core::op::{Case, Cases, Grouped, Groups, OpDef, OperandKind, Registry};
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
        println!("{report}");
    }
    println!("{} passed, {failed} failed", reports.len() - failed);
    Ok(failed == 0)
}

fn list() -> Result<()> {
    for def in Registry::get()?.ops() {
        let names: Vec<String> =
            def.operands.iter().map(|operand| declared(operand.name, operand.kind)).collect();
        println!("{}({})  {}:{}", def.name, names.join(", "), def.at.0, def.at.1);
        for (cases, rows) in rows_of(def)? {
            println!("  {}\n{rows}", cases.join("\n  "));
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

/// The cases of an op with the text of the rows on a mesh axis of [`WAYS`] whose operands are all Replicated; cases
/// with the same rows stand together.
fn rows_of(def: &'static OpDef) -> Result<Vec<(Vec<String>, String)>> {
    let mut cases = Cases::new();
    (def.cases)(&mut cases);
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for case in cases.iter() {
        let (text, rows) = (describe(case), rows(def, case)?);
        match groups.iter_mut().find(|(_, known)| *known == rows) {
            Some((cases, _)) if cases.contains(&text) => {}
            Some((cases, _)) => cases.push(text),
            None => groups.push((vec![text], rows)),
        }
    }
    Ok(groups)
}

fn describe(case: &Case) -> String {
    let metas: Vec<String> = case.operands.iter().map(|operand| operand.meta.to_string()).collect();
    let args = format!("{:?}", case.args);
    if args == "()" { metas.join(", ") } else { format!("{}  {args}", metas.join(", ")) }
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
    let operand = |(i, meta): (usize, &TensorMeta)| RuleOperand {
        meta: meta.clone(),
        places: std::iter::once(Place::Replicated).collect(),
        role: role(i),
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
    (def.rows)(&cx, args, &mut rows)?;
    let mut text = String::new();
    for row in rows.iter() {
        let _ = writeln!(text, "    {row}");
    }
    Ok(text)
}
