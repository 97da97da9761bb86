//! Which row is picked.

use super::{Call, Policy, allowing, check};
use crate::AxisType::{Auto, Explicit, Manual};
use crate::ErrorKind;
use crate::placement::ALL_TRANSITIONS;

fn all() -> Policy {
    Policy::silent().allow(ALL_TRANSITIONS)
}

#[test]
fn no_movement_beats_a_free_local_slice() {
    check(&[4], "[16] R", "S0->S0; R->R", "R -> R; cost 0; moved []");
}

#[test]
fn a_free_local_slice_raises_in_mode_raise_and_names_it() {
    let call = Call::new(&[4], "[16] R", "S0->S0");
    call.clone().check("S0 -> S0; cost 0.25; moved [0]");
    let refused = call.policy(Policy::raise());
    refused.check("error: local_slice(lhs)");
    refused.check("error: refuses every reshard");
    // What lies right is not refused.
    Call::new(&[4], "[16] S0", "S0->S0").policy(Policy::raise()).check("S0 -> S0; cost 0; moved []");
}

#[test]
fn a_row_that_silent_allows_still_raises_in_mode_raise() {
    Call::new(&[4], "[16] S0", "R->R").policy(Policy::raise()).check("error: all_gather(lhs)");
}

#[test]
fn equal_cost_goes_to_fewer_moves_then_to_the_order_of_the_rule() {
    check(&[2], "[16, 16] R", "S0->S0; S1->S1", "S0 -> S0; cost 8; moved [0]");
    check(&[2], "[16, 16] R", "S1->S1; S0->S0", "S1 -> S1; cost 8; moved [0]");
    // 16 elements twice, or 32 once.
    let rows = ["S0,S0,R->R", "R,R,S0->R"];
    let operands = "[16] R | [16] R | [32] R";
    check(&[2], operands, &rows.join(";"), "R | R | S0 -> R; cost 1; moved [2]");
    check(&[2], operands, &[rows[1], rows[0]].join(";"), "R | R | S0 -> R; cost 1; moved [2]");
}

#[test]
fn the_cheapest_allowed_row_is_taken() {
    let call = Call::new(&[4], "[1024] P", "R->R; S0->S0");
    call.check("R -> R; cost 6144; moved [0]");
    call.clone().policy(all()).check("S0 -> S0; cost 3072; moved [0]");
    call.clone().policy(allowing("P>S")).check("S0 -> S0; cost 3072; moved [0]");
    let refused = call.clone().policy(allowing("S>R"));
    refused.check("error: P>R");
    let error = refused.plan().unwrap_err();
    let fix = error.fix().unwrap();
    assert!(fix.contains("TransitionKind::PR") && !fix.contains("TransitionKind::PS"), "{fix}");
    assert_eq!(error.kind(), ErrorKind::Sharding);
    assert_eq!(error.mesh_axis(), Some(("tp", 4)));
}

#[test]
fn two_steps_on_one_axis_are_not_considered() {
    // P to S by way of R would be allowed; the planner takes one transition per axis.
    Call::new(&[4], "[1024] P", "S0->S0").check("error: P>S");
}

#[test]
fn every_transition_has_its_price() {
    let price = |from: &str, to: &str, want: &str| {
        let kinds = allowing("R>S S>R S>S P>R P>S R>P");
        let rows = format!("{to}->{to}");
        Call::new(&[4], &format!("[4, 8] {from}"), &rows).policy(kinds).check(want);
    };
    price("R", "R", "R -> R; cost 0; moved []");
    price("R", "S0", "S0 -> S0; cost 0.5; moved [0]");
    price("R", "P", "P -> P; cost 0.5; moved [0]");
    price("S0", "R", "R -> R; cost 96; moved [0]");
    price("S0", "S1", "S1 -> S1; cost 96; moved [0]");
    price("P", "R", "R -> R; cost 192; moved [0]");
    price("P", "S1", "S1 -> S1; cost 96; moved [0]");
    price("S0", "P", "error: no transition takes lhs from Sharded(0) to Partial(sum)");
    price("P", "Pmax", "error: no transition takes lhs");
    price("U", "R", "error: lhs is Unknown");
    price("R", "U", "error: the row names Unknown and lhs is Replicated");
    price("U", "U", "U -> U; cost 0; moved []");
}

#[test]
fn replicated_to_partial_must_be_named() {
    let call = Call::new(&[2], "[4] R", "P->P");
    call.check("error: R>P");
    call.clone().policy(all()).check("error: R>P");
    call.clone().policy(allowing("R>P")).check("P -> P; cost 0.125; moved [0]");
}

#[test]
fn an_axis_of_size_one_is_priced_like_any_other() {
    check(&[1], "[16] R", "S0->S0", "S0 -> S0; cost 1; moved [0]");
    check(&[1], "[16] S0", "R->R", "R -> R; cost 0; moved [0]");
    Call::new(&[1], "[16] S0", "R->R").policy(Policy::raise()).check("error: all_gather(lhs)");
}

#[test]
fn a_committed_axis_constrains_the_next() {
    check(&[2, 2], "[2, 16] R,R", "S0->S0; S1->S1", "S0,S1 -> S0,S1; cost 2; moved [0]");
}

#[test]
fn bytes_are_global_whatever_the_other_axes_do() {
    check(&[2, 2], "[8, 8] S0,S1", "S0->S0 / R->R", "S0,R -> S0,R; cost 128; moved [0]");
    check(&[2, 2], "bool [8, 8] S0,S1", "S0->S0 / R->R", "S0,R -> S0,R; cost 32; moved [0]");
}

#[test]
fn no_shard_that_moves_becomes_empty() {
    let empty = "error: has an extent of 3 on tensor axis 0, 4 devices would split it";
    check(&[4], "[3] R", "S0->S0", empty);
    check(&[3], "[3] R", "S0->S0", "S0 -> S0; cost 0.0625; moved [0]");
    // Present placements of later axes and committed ones of earlier axes count.
    check(&[2, 2], "[3] R,S0", "S0->S0", empty);
    check(&[2, 2], "[3] S0,R", "S0->S0", empty);
    check(&[2, 2], "[4] R,S0", "S0->S0", "S0,S0 -> S0,S0; cost 0.125; moved [0]");
    // A tensor axis gathered on an earlier axis no longer counts.
    check(&[2, 2], "[2] S0,R", "R->R / S0->S0", "R,S0 -> R,S0; cost 4.0625; moved [0]");
    // What does not move may have empty shards.
    check(&[4], "[3] S0", "S0->S0", "S0 -> S0; cost 0; moved []");
    check(&[2, 2], "[1] S0,S0", "S0->S0", "S0,S0 -> S0,S0; cost 0; moved []");
    check(&[2], "[0] S0", "S0->S0", "S0 -> S0; cost 0; moved []");
    check(&[2], "[0] R", "S0->S0; R->R", "R -> R; cost 0; moved []");
    // What moved on an earlier axis is no longer exempt.
    check(&[2, 2], "[4, 1] R,S1", "S0->S0 / S1->S1", "error: lhs has an extent of 1 on tensor axis 1");
}

#[test]
fn a_row_that_names_unknown_needs_the_inputs_as_they_are() {
    let rows = "U,R->U; R,R->R";
    check(&[2], "[4] U | [4] R", rows, "U | R -> U; cost 0; moved []");
    check(&[2], "[4] U | [4] S0", rows, "error: the row names Unknown and rhs is Sharded(0)");
    check(&[2], "[4] S0 | [4] R", "R,R->U; S0,R->S0", "S0 | R -> S0; cost 0; moved []");
    check(&[2], "[4] S0 | [4] R", "R,R->U", "error: the row names Unknown and lhs is Sharded(0)");
    // Unknown on one axis leaves the others free.
    check(&[2, 2], "[4] U,S0", "U->U / R->R", "U,R -> U,R; cost 8; moved [0]");
}

#[test]
fn a_one_device_tensor_is_needed_whole_and_never_moves() {
    let rows = "R,R->R; S0,S0->S0; S0,R->S0";
    check(&[2], "[4] S0 | single [4]", rows, "S0 | R -> S0; cost 0; moved []");
    check(&[2], "[4] R | single [4]", "S0,S0->S0", "error: rhs lies on one device and is passed whole");
    check(&[2], "[4] R | single [4]", "R,P->P", "error: rhs lies on one device");
    check(&[2], "[4] U | single [4]", "U,U->U", "U | R -> U; cost 0; moved []");
    Call::new(&[2], "[4] S0 | single [4]", rows)
        .policy(Policy::raise())
        .check("S0 | R -> S0; cost 0; moved []");
}

#[test]
fn a_number_is_replicated_or_partial_for_free() {
    let rows = "R,R->R; P,P->P; S0,R->S0";
    let call = Call::new(&[2], "[4] P | number", rows);
    call.check("P | P -> P; cost 0; moved []");
    call.clone().policy(Policy::raise()).check("P | P -> P; cost 0; moved []");
    call.clone().policy(allowing("")).check("P | P -> P; cost 0; moved []");
    call.axis_types(&[Explicit]).check("P | P -> P; cost 0; moved []");
    check(&[2], "[4] Pmax | number", "Pmax,Pmax->Pmax", "Pmax | Pmax -> Pmax; cost 0; moved []");
    check(&[2], "[4] S0 | number", "S0,S0->S0", "error: rhs is a number");
    check(&[2], "[4] U | number", "U,U->U", "U | R -> U; cost 0; moved []");
    // A later mesh axis sees where the number is Partial.
    check(&[2, 2], "[4] P,R | number", "P,P->P / R,R->R", "P,R | P,R -> P,R; cost 0; moved []");
}

#[test]
fn a_written_operand_is_repeated() {
    let rows = "R,R->R; S0,S0->S0";
    check(&[2], "written [4] S0 | [4] R", rows, "S0 | S0 -> S0; cost 0.125; moved [1]");
    check(&[2], "written [4] S0 | [4] R", "R,R->R", "error: lhs is written and stays Sharded(0)");
    check(&[2], "written [3] S0 | [3] S0", rows, "S0 | S0 -> S0; cost 0; moved []");
}

#[test]
fn staged_rows_add_their_own_collectives() {
    // A gather of 64 bytes over 2 is 32, an all_reduce of 16 inside is 16.
    let rows = "R->R; S0->S0 !all_reduce:16";
    check(&[2], "[16] S0", rows, "S0 -> S0; cost 16; moved []");
    check(&[2], "[16] S0", "R->R; S0->S0 !all_reduce:64", "R -> R; cost 32; moved [0]");
    // A stage is no reshard: no policy refuses it.
    let call = Call::new(&[2], "[16] S0", rows);
    call.clone().policy(Policy::raise()).check("S0 -> S0; cost 16; moved []");
    call.clone().policy(allowing("")).check("S0 -> S0; cost 16; moved []");
}

#[test]
fn an_explicit_axis_allows_slices_only_whatever_the_policy() {
    let slice = Call::new(&[2], "[16] R", "S0->S0").axis_types(&[Explicit]);
    slice.check("S0 -> S0; cost 0.5; moved [0]");
    slice.clone().policy(allowing("")).check("S0 -> S0; cost 0.5; moved [0]");
    slice.clone().policy(Policy::raise()).check("error: refuses every reshard");
    let gather = Call::new(&[2], "[16] S0", "R->R").axis_types(&[Explicit]);
    for policy in [Policy::silent(), Policy::silent().all(), Policy::warn(), Policy::raise()] {
        let refused = gather.clone().policy(policy);
        refused.check("error: never communicates by itself on an explicit mesh axis");
        refused.check("error: fix: let lhs = lhs.transfer_to(&DeviceMapping::replicated(lhs.mesh()))?;");
        assert!(!refused.plan().unwrap_err().to_string().contains("auto_reshard"), "no block helps");
    }
    for (from, to) in [("S0", "S1"), ("P", "R"), ("P", "S0"), ("R", "P")] {
        let kinds = allowing("R>S S>R S>S P>R P>S R>P");
        let call = Call::new(&[2], &format!("[4, 4] {from}"), &format!("{to}->{to}"));
        call.policy(kinds).axis_types(&[Explicit]).check("error: explicit mesh axis");
    }
    // A dearer row that only slices is taken before a cheaper one that communicates.
    let rows = "R,R->R; S0,S0->S0";
    let call = Call::new(&[2], "[2] S0 | [4096] R", rows);
    call.check("R | R -> R; cost 4; moved [0]");
    call.axis_types(&[Explicit]).check("S0 | S0 -> S0; cost 128; moved [1]");
    // The other axes keep the policy's say.
    let mixed = Call::new(&[2, 2], "[8] S0,R", "R->R / S0->S0");
    mixed.clone().axis_types(&[Auto, Explicit]).check("R,S0 -> R,S0; cost 16.25; moved [0]");
    mixed.axis_types(&[Explicit, Auto]).check("error: (mesh axis 'dp' of size 2)");
}

#[test]
fn a_staged_row_communicates_and_is_not_for_explicit_axes() {
    let call = Call::new(&[2], "[16] S0", "S0->S0 !all_reduce:16").axis_types(&[Explicit]);
    call.check("error: the op itself would have to run all_reduce, and an op never communicates by itself");
    call.check("error: fix: let lhs = lhs.on(&lhs.mesh().with_axis_types([AxisType::Auto])?)?;");
    // A row that a transfer by hand makes possible is proposed before a staged one that nothing does.
    Call::new(&[2], "[16] S0", "R->R; S0->S0 !all_reduce:16")
        .axis_types(&[Explicit])
        .check("error: fix: let lhs = lhs.transfer_to(&DeviceMapping::replicated(lhs.mesh()))?;");
    let local = Call::new(&[2], "[16] S0", "S0->S0 !keep_one_copy:128").axis_types(&[Explicit]);
    local.check("S0 -> S0; cost 1; moved []");
}

#[test]
fn a_manual_axis_is_refused() {
    let call = Call::new(&[2, 2], "[16] R,R", "R->R");
    call.clone().axis_types(&[Auto, Manual]).check("error: (mesh axis 'tp' of size 2)");
    call.axis_types(&[Manual, Auto]).check("error: only inside shard_map");
}

#[test]
fn a_row_that_makes_an_invalid_mapping_is_infeasible() {
    // Of an operand, by what later axes hold now.
    let both = allowing("R>P R>S S>R P>R");
    let call = Call::new(&[2, 2], "[4] R,Pmax", "P->P / Pmax->Pmax").policy(both);
    call.check("error: lhs would be Partial(sum) beside Partial(max) on mesh axis 'tp'");
    // Of a result, by what earlier axes committed.
    check(&[2, 2], "[4] R,R", "R->P / R->Pmax", "error: result 0 would be Partial(max) beside Partial(sum)");
    check(&[2, 2], "[4] R,R", "R->P / R->Pmax; R->P", "R,R -> P,P; cost 0; moved []");
    // Custom placements need their tensor axis for themselves.
    check(&[2, 2], "[8] G0:3:5,R", "G0:3:5->G0:3:5 / S0->S0", "error: needs its tensor axis for itself");
    check(&[2, 2], "[8] R,R", "R->S0 / R->G0:3:5", "error: result 0 would be Ragged(0, [3, 5])");
    // Out of range, or of another extent.
    check(&[2], "[8] R", "S1->S0", "error: Sharded(1) is out of range for lhs of 1 tensor axes");
    check(&[2], "[8] R", "R->S1", "error: Sharded(1) is out of range for result 0");
    check(&[2], "[9] R", "G0:3:5->R", "error: Ragged(0, [3, 5]) does not fit the extent 9 of lhs");
    check(&[2], "[9] R", "R->G0:3:5", "error: Ragged(0, [3, 5]) does not fit the extent 9 of result 0");
    // A number that is Partial obeys the same rule.
    check(&[2, 2], "[4] R,R | number", "R,P->R / R,Pmax->R", "error: rhs would be Partial(max)");
}

#[test]
fn custom_placements_move_as_they_say() {
    let rows = "R,R->R; S0,S0->S0; G0:3:5,G0:3:5->G0:3:5";
    check(
        &[2],
        "[8] G0:3:5 | [8] G0:3:5",
        rows,
        "Ragged(0, [3, 5]) | Ragged(0, [3, 5]) -> Ragged(0, [3, 5]); cost 0; moved []",
    );
    check(
        &[2],
        "[8] G0:3:5 | [8] R",
        rows,
        "Ragged(0, [3, 5]) | Ragged(0, [3, 5]) -> Ragged(0, [3, 5]); cost 0.25; moved [1]",
    );
    check(&[2], "[8] G0:3:5 | [8] S0", "S0,S0->S0", "S0 | S0 -> S0; cost 16; moved [0]");
    Call::new(&[2], "[8] G0:3:5 | [8] S0", "S0,S0->S0").policy(allowing("S>R")).check("error: S>S (permute)");
    check(&[2], "[8] I0:4:4", "R->R", "R -> R; cost 16; moved [0]");
}

#[test]
fn matmul_rows_give_the_known_plans() {
    let rows = "R,R->R; S0,R->S0; R,S1->S1; S1,S0->P; P,R->P; R,P->P";
    check(&[2], "[4, 8] S1 | [8, 6] R", rows, "S1 | S0 -> P; cost 1.5; moved [1]");
    check(&[2], "[32, 8] S0 | [8, 6] P", rows, "S0 | R -> S0; cost 192; moved [1]");
    check(&[2], "[4, 8] S0 | [8, 6] P", rows, "R | P -> P; cost 64; moved [0]");
    Call::new(&[2], "[4, 8] P | [8, 6] P", rows).policy(all()).check("R | P -> P; cost 128; moved [0]");
    check(&[2], "[8] R | [8, 6] S1", "R,R->R; R,S1->S0; S0,S0->P", "R | S1 -> S0; cost 0; moved []");
    check(&[2, 2], "[4, 8] S1,S1 | [8, 6] R,S0", rows, "S1,S1 | S0,S0 -> P,P; cost 1.5; moved [1]");
    check(&[2], "single [4, 8] | [8, 6] S0", rows, "R | R -> R; cost 96; moved [1]");
}

#[test]
fn elementwise_rows_give_the_known_plans() {
    check(&[2], "[4, 8] S0 | [4, 8] S1", "R,R->R; S0,S0->S0; S1,S1->S1", "S0 | S0 -> S0; cost 64; moved [1]");
    check(&[2], "[4, 8] S1 | [8] R", "R,R->R; S0,R->S0; S1,S0->S1", "S1 | S0 -> S1; cost 0.25; moved [1]");
}

#[test]
fn a_bad_rule_is_an_error_that_names_the_op() {
    check(&[2], "[4] R", "", "error: gives no row");
    check(&[2], "[4] R", "R,R->R", "error: of 2 operands and 1 results, the call has 1 and 1");
    check(&[2], "[4] R", "R->R; R->R,R", "error: of 1 operands and 2 results");
    check(&[2, 2], "[4] R,R", "R->R / ", "error: (mesh axis 'tp' of size 2)");
}

#[test]
fn several_results_and_none() {
    check(&[2], "[4] S0", "S0->S0,R", "S0 -> S0 | R; cost 0; moved []");
    check(&[2], "written [4] S0 | [4] S0", "S0,S0->", "S0 | S0 -> ; cost 0; moved []");
}

#[test]
fn where_no_row_is_allowed_the_best_default_one_is_committed_for_the_later_axes() {
    // P>S is the cheapest, but P>R is the cheapest default row: the second axis sees R on the first.
    let call = Call::new(&[4, 2], "[1024] P,R", "R->R; S0->S0").policy(allowing("R>S"));
    let report = call.trace();
    let committed: Vec<String> = report
        .axes
        .iter()
        .map(|axis| super::codes(&axis.candidates.iter().find(|row| row.committed).unwrap().row.operands))
        .collect();
    assert_eq!(committed, ["R", "R"]);
    call.check("error: (mesh axis 'dp' of size 4)");
    // Without any default row the cheapest is.
    Call::new(&[2], "[1024] P", "S0->S0")
        .policy(allowing(""))
        .check("error: P>S of lhs; assumed for what follows");
}
