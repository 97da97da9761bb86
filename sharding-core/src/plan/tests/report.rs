//! What reports and errors say.

use super::{Call, allowing};
use crate::AxisType::Explicit;
use crate::placement::{PlacementKey, Ranges, Transition};
use crate::plan::{CostModel, CostUnit, PlanRequest, Policy, StepQuery, plan, trace};
use crate::{DeviceMesh, Place, Placement, Result, bail};
use std::sync::Arc;

const MATMUL: &str = "R,R->R; S0,R->S0; R,S1->S1; S1,S0->P; P,R->P; R,P->P";

/// Compares whole texts, so that columns and order count too.
#[track_caller]
fn snapshot(text: &str, want: &str) {
    let want = want.trim_start_matches('\n').trim_end();
    assert_eq!(text.trim_end(), want, "\n--- got ---\n{text}\n--- wanted ---\n{want}");
}

#[test]
fn a_warning_shows_every_candidate_and_what_to_write() {
    let report = Call::new(&[2, 2], "[4, 8] S1,P | [8, 3] R,R", MATMUL).policy(Policy::warn()).trace();
    snapshot(
        &report.to_string(),
        "
tested(lhs, rhs): reshards rhs
  lhs: f32[4, 8] {dp: Sharded(1), tp: Partial(sum)}
  rhs: f32[8, 3] {dp: Replicated, tp: Replicated}
  policy: warn, allows {R>S, S>R, S>S, P>R}
  mesh axis 'dp' of size 2
    lhs         rhs      result  needs                                bytes  status
    S(1)        R->S(0)  P       local_slice(rhs)                      0.75  chosen, moves rhs
    S(1)->R     R        R       all_gather(lhs)                         64
    S(1)->S(0)  R        S(0)    all_to_all(lhs)                         64
    S(1)->R     R->S(1)  S(1)    all_gather(lhs), local_slice(rhs)    64.75
    S(1)->R     R->P     P       all_gather(lhs), keep_one_copy(rhs)  64.75  not allowed: R>P of rhs
    S(1)->P     R        P                                                   infeasible: no transition takes lhs from Sharded(1) to Partial(sum)
  mesh axis 'tp' of size 2
    lhs      rhs      result  needs                                   bytes  status
    P        R        P                                                   0  chosen
    P->S(0)  R        S(0)    reduce_scatter(lhs)                        64  not allowed: P>S of lhs
    P->S(1)  R->S(0)  P       reduce_scatter(lhs), local_slice(rhs)   64.75  not allowed: P>S of lhs
    P->R     R        R       all_reduce(lhs)                           128
    P->R     R->S(1)  S(1)    all_reduce(lhs), local_slice(rhs)      128.75
    P->R     R->P     P       all_reduce(lhs), keep_one_copy(rhs)    128.75  not allowed: R>P of rhs
  write: let rhs = rhs.transfer_to(&DeviceMapping::new(rhs.mesh(), [Place::Sharded(0), Place::Replicated])?)?;
  or:    auto_reshard(Policy::silent(), || tested(..))
",
    );
}

#[test]
fn a_refusal_says_what_is_needed_where_and_which_line_to_write() {
    let call = Call::new(&[4], "[16, 16] R | i64 [16, 16] P", "R,R->R; S0,S0->S0; P,P->P")
        .policy(allowing("S>R R>S"));
    let error = call.plan().unwrap_err();
    snapshot(
        &error.to_string(),
        "
tested: rhs would have to be resharded by P>R (all_reduce), which the policy in force does not allow (mesh axis 'tp' of size 4)
  lhs: f32[16, 16] {tp: Replicated}
  rhs: i64[16, 16] {tp: Partial(sum)}
  policy: silent, allows {R>S, S>R}
  mesh axis 'tp' of size 4
    lhs      rhs      result  needs                                  bytes  status
    R->P     P        P       keep_one_copy(lhs)                         4  not allowed: R>P of lhs
    R->S(0)  P->S(0)  S(0)    local_slice(lhs), reduce_scatter(rhs)   1540  not allowed: P>S of rhs
    R        P->R     R       all_reduce(rhs)                         3072  not allowed: P>R of rhs; assumed for what follows
  fix: let rhs = rhs.transfer_to(&DeviceMapping::replicated(rhs.mesh()))?;
  or:  auto_reshard(Policy::silent().allow(TransitionSet::of(&[TransitionKind::RS, TransitionKind::SR, TransitionKind::PR])), || tested(..))
",
    );
    assert_eq!(
        error.message(),
        "rhs would have to be resharded by P>R (all_reduce), which the policy in force does not allow"
    );
    assert_eq!(error.operands().len(), 2);
    assert_eq!(error.mesh_axis(), Some(("tp", 4)));
}

#[test]
fn the_block_is_the_shortest_spelling_that_allows_what_is_needed() {
    let block = |kinds: &str, from: &str, to: &str| {
        let call = Call::new(&[2], &format!("[4, 4] {from}"), &format!("{to}->{to}")).policy(allowing(kinds));
        call.trace().block().unwrap_or_default().to_owned()
    };
    assert_eq!(block("R>S S>R S>S", "P", "R"), "auto_reshard(Policy::silent(), || tested(..))");
    assert_eq!(block("R>S S>R S>S P>R", "P", "S0"), "auto_reshard(Policy::silent().all(), || tested(..))");
    assert_eq!(
        block("", "R", "P"),
        "auto_reshard(Policy::silent().allow(TransitionSet::of(&[TransitionKind::RP])), || tested(..))"
    );
    assert_eq!(block("", "R", "R"), "");
}

#[test]
fn lines_to_write_spell_placements_and_operands_as_rust() {
    let line =
        |mesh: &[usize], operands: &str, rows: &str| Call::new(mesh, operands, rows).trace().fix().join("\n");
    assert_eq!(
        line(&[2, 2], "[4, 4] S0,R", "S1->S1 / S0->S0"),
        "let lhs = lhs.transfer_to(&DeviceMapping::new(lhs.mesh(), [Place::Sharded(1), Place::Sharded(0)])?)?;"
    );
    assert_eq!(
        line(&[2], "[4] R | [4] R | [4] R | [4] R | [4] S0", "R,R,R,R,R->R"),
        "let more_1 = more[1].transfer_to(&DeviceMapping::replicated(more[1].mesh()))?;"
    );
    assert_eq!(
        line(&[2], "[8] G0:3:5 | [8] R", "G0:3:5,G0:3:5->R"),
        "let rhs = rhs.transfer_to(&DeviceMapping::new(rhs.mesh(), [Ragged::place(0, [3, 5])])?)?;"
    );
    assert_eq!(
        line(&[2], "[8] R", "I0:4:4->R"),
        "let lhs = lhs.transfer_to(&DeviceMapping::new(lhs.mesh(), [Interleaved::place(0, [4, 4])])?)?;"
    );
    assert_eq!(
        line(&[2], "[8] R | [8] Pmax", "P,R->R"),
        "let lhs = lhs.transfer_to(&DeviceMapping::new(lhs.mesh(), [Place::PARTIAL])?)?;\nlet rhs = rhs.transfer_to(&DeviceMapping::replicated(rhs.mesh()))?;"
    );
    assert_eq!(line(&[2], "[8] S0", "S0->S0"), "");
}

/// A placement of another crate: halves of the axis in turn.
#[derive(Debug)]
struct Zigzag(usize);

impl Placement for Zigzag {
    fn key(&self) -> PlacementKey {
        PlacementKey { name: "test::Zigzag", words: [self.0 as u64].into_iter().collect() }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(self.0)
    }
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement> {
        Arc::new(Self(tensor_axis))
    }
    fn check(&self, extent: usize, ways: usize) -> Result<()> {
        if extent.is_multiple_of(2 * ways) {
            Ok(())
        } else {
            bail!(Mapping, "{extent} is not twice a multiple of {ways}")
        }
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
        let size = extent / (2 * ways);
        [part * size..(part + 1) * size, extent - (part + 1) * size..extent - part * size]
            .into_iter()
            .collect()
    }
    fn transition_to(&self, to: Place, _: usize, _: usize) -> Transition {
        Transition::between_splits(Place::custom(Self(self.0)), to)
    }
}

#[test]
fn a_foreign_placement_is_spelled_by_the_operand_that_has_it() {
    let zigzag = |axis| Place::custom(Zigzag(axis));
    let fix = |own: Place, wanted: Place| {
        let mut call = Call::new(&[2], "[8, 8] R | [8, 8] R", "R,R->R");
        call.operands[1].places[0] = own;
        call.given.0[0][0].operands = [wanted, own].into_iter().collect();
        call.check(&format!("{wanted} | {own} -> R; cost 2; moved [0]"));
        call.trace().fix()[0].clone()
    };
    assert_eq!(
        fix(zigzag(0), zigzag(0)),
        "let lhs = lhs.transfer_to(&DeviceMapping::new(lhs.mesh(), [rhs.mapping().place(0)])?)?;"
    );
    assert_eq!(
        fix(zigzag(0), zigzag(1)),
        "let lhs = lhs.transfer_to(&DeviceMapping::new(lhs.mesh(), [rhs.mapping().place(0).on_axis(1)])?)?;"
    );
}

#[test]
fn a_call_without_a_feasible_row_says_what_to_do() {
    Call::new(&[2], "[4] U | [4] S0", "R,R->R; U,R->U")
        .check(
            "error: no row of its rule can be reached from where the operands lie (mesh axis 'tp' of size 2)",
        )
        .check("error: infeasible: the row names Unknown and rhs is Sharded(0)")
        .check("error: fix: let lhs = lhs.rebind_mapping(&mapping, shape)?;");
    Call::new(&[2], "written [4] S0 | [4] R", "R,R->R")
        .check("error: fix: let rhs = rhs.transfer_to(lhs.tensor_layout().mapping())?;");
    Call::new(&[2], "[4] Pmax", "P->P")
        .check("error: fix: let lhs = lhs.transfer_to(&DeviceMapping::replicated(lhs.mesh()))?;");
}

#[test]
fn a_rule_that_refuses_the_placements_gets_the_lines_to_write() {
    let store: crate::op::ErasedRows = |cx, _, rows| crate::rule::match_operand_placement(cx, 0, rows);
    let refused = |operands: &str, want: &str| {
        let call = Call::new(&[2, 2], operands, "R,R->R");
        let error = plan(&PlanRequest { rows: store, ..call.request() }).unwrap_err();
        assert_eq!((error.op(), error.mesh_axis()), (Some("tested"), Some(("tp", 2))));
        assert_eq!(error.fix(), Some(want));
    };
    let line = "let rhs = rhs.transfer_to(lhs.tensor_layout().mapping())?;";
    refused("written [4] R,S0 | [4] R,R", line);
    refused("written [4] R,S0 | single [4]", line);
    refused(
        "written [4] R,S0 | [4] R,S0 | [4] R,P",
        "let third = third.transfer_to(lhs.tensor_layout().mapping())?;",
    );
}

#[test]
fn many_operands_are_listed_by_their_changes() {
    let call = Call::new(
        &[2],
        "[4] R | [4] S0 | [4] S0 | [4] S0 | [4] S0 | [4] S0 | number",
        "R,R,R,R,R,R,R->R; S0,S0,S0,S0,S0,S0,R->S0 !all_reduce:100",
    );
    let text = call.trace().to_string();
    assert!(text.contains("\n    operands "), "{text}");
    assert!(text.contains("\n    lhs: R->S(0) "), "{text}");
    assert!(text.contains("local_slice(lhs), all_reduce of 100 bytes inside"), "{text}");
    assert!(text.contains("more.3: a number"), "{text}");
}

#[test]
fn a_mesh_axis_that_is_explicit_says_so() {
    let call = Call::new(&[2], "[4] S0", "R->R").axis_types(&[Explicit]);
    call.check("error: mesh axis 'tp' of size 2, explicit").check("error: not allowed: all_gather of lhs");
}

#[test]
fn costs_of_another_model_are_not_called_bytes() {
    #[derive(Debug)]
    struct Hops;
    impl CostModel for Hops {
        fn key(&self) -> u64 {
            7
        }
        fn unit(&self) -> CostUnit {
            CostUnit::Score
        }
        fn transition(&self, transition: Transition, _: f64, _: &DeviceMesh, _: usize) -> f64 {
            if transition == Transition::AllToAll { f64::INFINITY } else { 1.0 / 3.0 }
        }
        fn step(&self, _: &StepQuery<'_>) -> f64 {
            0.0
        }
    }
    let call = Call::new(&[2], "[4, 4] S0", "S1->S1; R->R");
    let request = PlanRequest { cost: &Hops, ..call.request() };
    let text = trace(&request).to_string();
    assert!(text.contains(" cost  status") && text.contains("0.3333  chosen"), "{text}");
    assert!(text.contains("the cost model gives all_to_all of lhs no cost that is finite"), "{text}");
    assert_eq!(plan(&request).unwrap().cost, 1.0 / 3.0);
}

#[test]
fn a_report_without_usable_rows_still_has_text() {
    let text = Call::new(&[2], "[4] R", "").trace().to_string();
    assert!(text.starts_with("tested(lhs): its rule gives no usable rows\n"), "{text}");
}
