//! What the checker calls a likely missing row must be right.

use sharding_core::BackendKind;
use sharding_core::conformance::rule::{check_rule, check_rule_with};
use sharding_core::op::{Op, Registry};
use sharding_core::rule::replicated_rows;

/// Rows that the rules of the library do not name though they are right, each by hand: linear in weights, which nobody has in
/// parts.
const RIGHT: [(&str, &str); 2] = [
    ("layer_norm", "(Replicated, Partial(sum), Partial(sum)) -> (Partial(sum)) for "),
    ("rms_norm", "(Replicated, Partial(sum)) -> (Partial(sum)) for "),
];

#[test]
fn no_hint_is_wrong() {
    for def in Registry::get().unwrap().ops().filter(|def| !def.name.starts_with("planted_")) {
        let report = check_rule(def, BackendKind::CPU).unwrap();
        for hint in &report.hints {
            let right = RIGHT.iter().any(|(op, row)| *op == def.name && hint.starts_with(row));
            assert!(right, "{}: {hint}", def.name);
        }
    }
}

#[test]
fn what_is_missing_is_hinted_at() {
    for (def, rows) in [
        (
            <sharding_ops::add as Op>::DEF,
            vec![
                "(Sharded(0), Sharded(0)) -> (Sharded(0))",
                "(Partial(sum), Partial(sum)) -> (Partial(sum))",
            ],
        ),
        (<sharding_ops::relu as Op>::DEF, vec!["(Sharded(1)) -> (Sharded(1))"]),
        (<sharding_ops::matmul as Op>::DEF, vec!["(Sharded(1), Sharded(0)) -> (Partial(sum))"]),
        (<sharding_ops::slice as Op>::DEF, vec!["(Partial(sum)) -> (Partial(sum))"]),
    ] {
        let report = check_rule_with(def, BackendKind::CPU, |cx, _, rows| {
            replicated_rows(cx, rows);
            Ok(())
        })
        .unwrap();
        assert!(report.is_sound(), "{report}");
        for row in rows {
            assert!(report.hints.iter().any(|hint| hint.starts_with(row)), "{}: {row} in {report}", def.name);
        }
        let wrong = ["(Sharded(0)) -> (Replicated)", "(Partial(sum), Replicated) -> (Replicated)"];
        assert!(!report.hints.iter().any(|hint| wrong.iter().any(|row| hint.starts_with(row))), "{report}");
    }
}
