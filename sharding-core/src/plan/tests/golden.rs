//! Ranked rows, costs and choices that another planner recorded (`tests/golden/max_plan.json`).

use super::super::report::Verdict;
use super::{Call, Given, allowing, codes, parse_place};
use crate::mapping::Places;
use crate::plan::{Mode, Policy};
use crate::rule::{AxisAssignment, Role, RuleOperand};
use crate::{BackendKind, DType, DeviceMesh, TensorMeta};
use serde_json::Value;

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn places(value: &Value) -> Places {
    list(value).iter().map(|code| parse_place(code.as_str().unwrap())).collect()
}

fn sizes(value: &Value) -> Vec<usize> {
    list(value).iter().map(|n| usize::try_from(n.as_u64().unwrap()).unwrap()).collect()
}

/// A recorded call, with the rows that were feasible as its rule's rows; `None` where sizes are symbolic.
fn call(case: &Value, rotate: usize) -> Option<Call> {
    let shape = sizes(&case["mesh"]["shape"]);
    let names: Vec<&str> = list(&case["mesh"]["axis_names"]).iter().map(|n| n.as_str().unwrap()).collect();
    let mesh = DeviceMesh::simulated(BackendKind::CPU, &shape, &names).unwrap();
    let operands = list(&case["tensors"]).iter().map(|tensor| {
        let extents = list(&tensor["shape"]).iter().map(|n| n.as_u64().map(|n| n as usize));
        // Only their bytes count here.
        let dtype = match tensor["dtype"].as_str().unwrap() {
            "bool" | "u8" => DType::Bool,
            "i64" => DType::I64,
            "f32" | "i32" => DType::F32,
            other => panic!("no dtype {other}"),
        };
        let single = tensor["device"] == "single";
        let places = if single {
            Places::from_elem(crate::Place::Replicated, shape.len())
        } else {
            places(&tensor["placements"])
        };
        let role = if single { Role::Single } else { Role::Tensor };
        Some(RuleOperand { meta: TensorMeta::new(dtype, extents.collect::<Option<Vec<_>>>()?), places, role })
    });
    let rows = list(&case["want"]["report_plan"]["ranked"]).iter().map(|axis| {
        let mut rows: Vec<_> =
            list(axis).iter().map(|row| AxisAssignment::new(places(&row[1]), places(&row[2]))).collect();
        let by = rotate % rows.len();
        rows.rotate_left(by);
        rows
    });
    let allowed = match &case["policy"]["allowed"] {
        Value::String(name) if name == "ALL" => Policy::silent().all(),
        Value::String(_) => Policy::silent(),
        kinds => allowing(&list(kinds).iter().map(|k| k.as_str().unwrap()).collect::<Vec<_>>().join(" ")),
    };
    let mode = match case["policy"]["mode"].as_str().unwrap() {
        "raise" => Mode::Raise,
        "warn" => Mode::Warn,
        _ => Mode::Silent,
    };
    let mut call =
        Call::of(mesh, operands.collect::<Option<_>>()?, Given(rows.collect()), Policy { mode, ..allowed });
    // The results' shapes are not recorded: any with enough tensor axes will do.
    call.results.iter_mut().for_each(|meta| meta.shape = [64; 8].into());
    Some(call)
}

#[test]
fn ranks_prices_and_commits_as_recorded() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/max_plan.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut checked = 0;
    for case in list(&file["cases"]) {
        let want = &case["want"]["report_plan"];
        if want.is_null() {
            continue;
        }
        let id = &case["id"];
        // In the recorded order, ties included; then the first axis in other orders, where ties may swap.
        for rotate in 0..3 {
            let Some(call) = call(case, rotate) else { continue };
            let report = call.trace();
            let axes = if rotate == 0 { report.axes.len() } else { 1 };
            for (axis, ranked) in report.axes.iter().zip(list(&want["ranked"])).take(axes) {
                let costs: Vec<f64> = axis.candidates.iter().map(|row| row.score.unwrap().cost).collect();
                let wanted: Vec<f64> = list(ranked).iter().map(|row| row[0].as_f64().unwrap()).collect();
                assert_eq!(costs, wanted, "case {id}, axis {}", axis.name);
            }
            if rotate > 0 {
                continue;
            }
            for ((axis, ranked), chosen) in
                report.axes.iter().zip(list(&want["ranked"])).zip(list(&want["chosen"]))
            {
                for (row, ranked) in axis.candidates.iter().zip(list(ranked)) {
                    assert_eq!(codes(&row.row.operands), codes(&places(&ranked[1])), "case {id}");
                }
                let committed = axis.candidates.iter().find(|row| row.committed).unwrap();
                assert_eq!(committed.score.unwrap().allowed, chosen.as_bool().unwrap(), "case {id}");
            }
            let committed = |operand: usize| -> Places {
                let row = |axis: &super::super::report::AxisReport| {
                    axis.candidates.iter().find(|row| row.committed).unwrap().row.operands[operand]
                };
                report.axes.iter().map(row).collect()
            };
            for (i, inputs) in list(&want["inputs"]).iter().enumerate() {
                assert_eq!(codes(&committed(i)), codes(&places(inputs)), "case {id}, operand {i}");
            }
            assert_ne!(report.verdict, Verdict::Runs, "case {id}");
            assert!(call.plan().is_err(), "case {id}");
            checked += 1;
        }
    }
    assert!(checked > 60, "only {checked} cases have a report");
}
