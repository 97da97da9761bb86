//! The backend suite passes a sound backend and catches broken ones.

use crate::backend::{Fault, NAIVE, Naive};
use sharding_core::conformance::backend::run_group;

sharding_core::backend_suite!(kind = NAIVE, expectations = []);

/// Checks that a fault shows in checks of this name, with this message.
fn catches(fault: Fault, check: &str, message: &str) {
    let backend = Naive { kind: NAIVE, fault };
    let group = check.split('/').next().unwrap();
    let problems = run_group(group, &backend, true).problems(&[]);
    let found = problems.iter().any(|problem| problem.starts_with(check) && problem.contains(message));
    assert!(found, "{fault:?} does not show in {check} as {message}: {problems:#?}");
}

#[test]
fn catches_faults() {
    catches(Fault::ReadIgnoresStrides, "memory/round_trip", "wanted");
    catches(Fault::CopyWritesThrough, "copies/shared_target", "wanted");
    catches(Fault::EmptyReduceIsZero, "reduce/max[1] f32 [3, 0, 2]", "wanted");
    catches(Fault::GatherWraps, "gather/out_of_range -1", "gives a result");
    catches(Fault::LinearTree, "collectives/all_reduce(x, y)", "wanted");
    catches(Fault::MaxIsSum, "reduce/max", "wanted");
    catches(Fault::Dishonest, "map/Exp i64", "");
    catches(Fault::Modest, "dot/product", "and runs");
    catches(Fault::CopiesUncounted, "memory/shared_bytes", "written: wanted");
    catches(Fault::PeakStays, "memory/live_bytes", "the peak reset: wanted");
}

#[test]
fn an_expected_failure_that_passes_is_a_problem() {
    let backend = Naive { kind: NAIVE, fault: Fault::MaxIsSum };
    let report = run_group("reduce", &backend, true);
    let unexpected = report.problems(&[]).len();
    assert!(unexpected > 0);
    let problems = report.problems(&[("reduce/", "all of it")]);
    assert_eq!(problems.len(), report.checks.len() - unexpected);
    assert!(problems[0].contains("take it off the list"), "{problems:?}");
}

#[test]
fn without_data_only_sizes_are_checked() {
    let backend = Naive { kind: NAIVE, fault: Fault::MaxIsSum };
    let report = run_group("reduce", &backend, false);
    assert_eq!(report.problems(&[]), Vec::<String>::new());
    assert!(report.skipped.iter().any(|skipped| skipped.contains("no data")));
}
