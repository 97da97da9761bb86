//! The checker lets right rules pass and catches wrong ones.

use crate::ops::*;
use sharding_core::conformance::rule::{RuleReport, check_rule, check_rule_with};
use sharding_core::op::{ErasedRows, Op, OpDef};
use sharding_core::rule::{Rows, RuleCx, pass_through_rows, replicated_rows};
use sharding_core::{BackendKind, Place, ReduceOp, Result};

const CPU: BackendKind = crate::backend::NAIVE;

#[test]
fn right_rules_are_sound() {
    for def in [
        Matmul::DEF,
        Add::DEF,
        Mul::DEF,
        Exp::DEF,
        Relu::DEF,
        Sum::DEF,
        Max::DEF,
        Mean::DEF,
        Concat::DEF,
        TakeRows::DEF,
        GatherAlong::DEF,
        Flatten::DEF,
        Softmax::DEF,
        Cumsum::DEF,
        Store::DEF,
    ] {
        let report = check_rule(def, CPU).unwrap();
        println!("{report}");
        assert!(report.is_sound(), "{report}");
        assert!(report.checks > 20, "{report}");
    }
}

/// Checks a rule that is the right one plus a wrong row, and that exactly rows that show `row` fail, with `detail`.
fn catches(def: &'static OpDef, rule: ErasedRows, row: &str, detail: &str) -> RuleReport {
    let report = check_rule_with(def, CPU, rule).unwrap();
    println!("{report}");
    let found = report.failures.iter().any(|failure| {
        (failure.row.contains(row) || failure.row.is_empty()) && failure.detail.contains(detail)
    });
    assert!(found, "wanted row {row} and {detail} in {report}");
    report
}

macro_rules! with_row {
    ($op:ident, $operands:expr => $results:expr) => {
        |cx, args, rows| {
            ($op::DEF.rows)(cx, args, rows)?;
            rows.add($operands, $results);
            Ok(())
        }
    };
}

#[test]
fn catches_a_wrong_output_axis() {
    fn rule(cx: &RuleCx<'_>, rows: &mut Rows) -> Result<()> {
        replicated_rows(cx, rows);
        let (a, out) = (cx.ndim(0), cx.results[0].shape.len());
        rows.add([s(a - 2), R], [s(out - 1)]);
        Ok(())
    }
    catches(
        Matmul::DEF,
        |cx, _, rows| rule(cx, rows),
        "(Sharded(0), Replicated) -> (Sharded(1))",
        "the label",
    );
}

#[test]
fn catches_a_reduced_factor_that_is_not_partial() {
    let report = catches(
        Matmul::DEF,
        |cx, _, rows| {
            replicated_rows(cx, rows);
            rows.add([s(cx.ndim(0) - 1), s(cx.ndim(1) - 2)], [R]);
            Ok(())
        },
        "(Sharded(1), Sharded(0)) -> (Replicated)",
        "replicas differ",
    );
    assert!(report.failures[0].device.is_some());
    assert!(report.failures[0].case.contains("lhs: f32[4, 6]"), "{report}");
}

#[test]
fn catches_a_concat_along_the_sharded_axis() {
    catches(
        Concat::DEF,
        |cx, args, rows| {
            (Concat::DEF.rows)(cx, args, rows)?;
            let axis = args.downcast_ref::<Axis>().unwrap().0;
            rows.add((0..cx.operands.len()).map(|_| s(axis)), [s(axis)]);
            Ok(())
        },
        "(Sharded(1), Sharded(1)) -> (Sharded(1))",
        "",
    );
}

#[test]
fn catches_batch_axes_from_the_left() {
    catches(Matmul::DEF, |cx, _, rows| matmul_rows(cx, rows, false), "-> (Sharded(0))", "");
}

#[test]
fn catches_a_gather_with_unequal_extents() {
    catches(
        GatherAlong::DEF,
        with_row!(GatherAlong, [s(0), s(0)] => [s(0)]),
        "(Sharded(0), Sharded(0)) -> (Sharded(0))",
        "",
    );
}

#[test]
fn catches_a_number_counted_per_device() {
    catches(
        Add::DEF,
        with_row!(Add, [P, R] => [P]),
        "(Partial(sum), Replicated) -> (Partial(sum))",
        "wanted",
    );
}

#[test]
fn catches_partial_through_functions_that_are_not_linear() {
    catches(Exp::DEF, with_row!(Exp, [P] => [P]), "(Partial(sum))", "wanted");
    catches(Relu::DEF, with_row!(Relu, [P] => [P]), "(Partial(sum))", "wanted");
    catches(Max::DEF, with_row!(Max, [P] => [P]), "(Partial(sum))", "wanted");
    catches(Mul::DEF, with_row!(Mul, [P, P] => [P]), "(Partial(sum), Partial(sum))", "wanted");
    let least = Place::Partial(ReduceOp::Min);
    let rule: ErasedRows = |cx, args, rows| {
        (Mul::DEF.rows)(cx, args, rows)?;
        let least = Place::Partial(ReduceOp::Min);
        rows.add([least, R], [least]);
        Ok(())
    };
    catches(Mul::DEF, rule, &format!("({least}, Replicated)"), "wanted");
}

#[test]
fn catches_a_result_combined_by_another_op() {
    catches(
        Sum::DEF,
        |cx, args, rows| {
            replicated_rows(cx, rows);
            rows.add([s(args.downcast_ref::<Axis>().unwrap().0)], [Place::Partial(ReduceOp::Max)]);
            Ok(())
        },
        "(Partial(max))",
        "wanted",
    );
}

#[test]
fn catches_a_mean_over_the_local_count() {
    let report = check_rule(LocalMean::DEF, CPU).unwrap();
    assert!(report.failures.iter().any(|failure| failure.row.contains("(Sharded(1)) -> (Partial(sum))")));
}

#[test]
fn catches_a_split_along_the_axis_that_a_kernel_needs_whole() {
    catches(
        Softmax::DEF,
        |cx, _, rows| {
            replicated_rows(cx, rows);
            pass_through_rows(cx, 0, rows, Some);
            Ok(())
        },
        "(Sharded(1)) -> (Sharded(1))",
        "wanted",
    );
    catches(Cumsum::DEF, with_row!(Cumsum, [s(0)] => [s(0)]), "(Sharded(0)) -> (Sharded(0))", "wanted");
}

#[test]
fn catches_a_reshape_whose_shards_have_other_sizes() {
    let report =
        catches(Flatten::DEF, with_row!(Flatten, [s(0)] => [s(0)]), "(Sharded(0))", "says a shard of");
    assert_eq!(report.failures[0].mesh, "3", "4 rows over 2 devices are right: {report}");
}

#[test]
fn catches_a_reshape_that_is_wrong_on_two_mesh_axes_only() {
    // Right where one mesh axis divides the extent, wrong where two do and the other is not looked at.
    catches(
        Flatten::DEF,
        |cx, _, rows| {
            replicated_rows(cx, rows);
            if cx.ndim(0) > 0 && cx.extent(0, 0) % cx.ways() == 0 {
                rows.add([s(0)], [s(0)]);
            }
            if cx.ndim(0) > 1 && cx.extent(0, 0) == 1 {
                rows.add([s(1)], [s(0)]);
            }
            Ok(())
        },
        "x: (Sharded(0)) -> (Sharded(0)); y: (Sharded(0)) -> (Sharded(0))",
        "says a shard of",
    );
}

#[test]
fn catches_a_store_of_the_whole_into_parts() {
    catches(
        Store::DEF,
        |cx, _, rows| {
            rows.add([cx.place(0), R], []);
            Ok(())
        },
        "(Partial(sum), Replicated) -> ()",
        "the written operand into",
    );
    catches(
        Store::DEF,
        |_, _, rows| {
            rows.add([R, R], []);
            Ok(())
        },
        "(Replicated, Replicated) -> ()",
        "moves a written operand",
    );
}

#[test]
fn catches_rules_that_break_the_contract() {
    catches(
        Relu::DEF,
        |_, _, rows| {
            rows.add([s(0)], [s(0)]);
            Ok(())
        },
        "",
        "all-Replicated is not a row",
    );
    catches(Relu::DEF, with_row!(Relu, [s(5)] => [s(5)]), "(Sharded(5))", "out of range");
    catches(Relu::DEF, with_row!(Relu, [R, R] => [R]), "(Replicated, Replicated)", "must name 1 operands");
    catches(Relu::DEF, with_row!(Relu, [Place::Unknown] => [R]), "(Unknown)", "Unknown operand");
    catches(Relu::DEF, |_, _, _| panic!("of the rule"), "", "panicked: of the rule");
}

#[test]
fn hints_at_missing_rows() {
    let report = check_rule_with(Matmul::DEF, CPU, |cx, _, rows| {
        replicated_rows(cx, rows);
        Ok(())
    })
    .unwrap();
    for row in ["(Sharded(0), Replicated) -> (Sharded(0))", "(Sharded(1), Sharded(0)) -> (Partial(sum))"] {
        assert!(report.hints.iter().any(|hint| hint.starts_with(row)), "{report}");
    }
    let complete = check_rule(Matmul::DEF, CPU).unwrap();
    assert!(complete.hints.is_empty(), "{complete}");
}

sharding_core::__private::inventory::submit! { *Relu::DEF }

/// What a custom op writes.
mod one_line {
    #![allow(non_snake_case, reason = "tests are named after ops, which are functions elsewhere")]
    use crate::backend::NAIVE;
    sharding_core::check_rule!(Relu; kind = NAIVE);
}

#[test]
fn checks_the_whole_registry() {
    let reports = sharding_core::conformance::rule::check_all_rules(CPU).unwrap();
    let names: Vec<_> = reports.iter().map(|report| report.op).collect();
    assert_eq!(names, ["Relu"]);
    assert!(reports[0].is_sound());
}

#[test]
#[should_panic(expected = "no op named 'matmull'")]
fn an_unknown_op_is_said_so() {
    sharding_core::conformance::rule::assert_rule("ops::matmull", CPU);
}
