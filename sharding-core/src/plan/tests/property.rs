//! Plans of random calls against the definition, worked out the slow way.

use super::super::report::{Report, Verdict};
use super::{Call, Given, code};
use crate::backend::StepKind;
use crate::mapping::Places;
use crate::placement::{DEFAULT_TRANSITIONS, Ragged, TransitionSet};
use crate::plan::{Mode, Policy};
use crate::rule::{AxisAssignment, Role, RuleOperand, StageCollective};
use crate::{
    AxisType, BackendKind, DType, DeviceMapping, DeviceMesh, ErrorKind, MAX_TENSOR_AXES, Place, ReduceOp,
    Shape, TensorMeta,
};
use proptest::prelude::*;

/// Choices read from random bytes, so that failures shrink; past the end every choice is the first.
struct Tape<'a>(std::slice::Iter<'a, u8>);

impl Tape<'_> {
    fn below(&mut self, n: usize) -> usize {
        usize::from(*self.0.next().unwrap_or(&0)) % n.max(1)
    }
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
    fn place(&mut self, shape: &Shape, ways: usize) -> Place {
        let axis = self.below(shape.len().max(1) + 1);
        let cut = self.below(shape.extent(axis) + 1);
        match self.below(9) {
            0 | 1 => Place::Replicated,
            2..=4 => crate::placement::sharded(axis),
            5 => Place::PARTIAL,
            6 => Place::Partial(ReduceOp::Max),
            7 if ways == 2 => Ragged::place(axis, [cut, shape.extent(axis) - cut]),
            7 => Place::Replicated,
            _ => Place::Unknown,
        }
    }
}

fn valid(mesh: &DeviceMesh, shape: &Shape, places: &[Place]) -> bool {
    DeviceMapping::new(mesh, places).is_ok_and(|mapping| mapping.check(shape).is_ok())
}

pub(super) fn random_call(bytes: &[u8]) -> Call {
    let tape = &mut Tape(bytes.iter());
    let sizes: Vec<usize> = (0..=tape.below(3)).map(|_| 1 + (tape.below(4) + 1) % 4).collect();
    let types: Vec<_> =
        sizes.iter().map(|_| tape.pick(&[AxisType::Auto, AxisType::Auto, AxisType::Explicit])).collect();
    let names = &["dp", "tp", "cp"][..sizes.len()];
    let mesh =
        DeviceMesh::simulated(BackendKind::CPU, &sizes, names).unwrap().with_axis_types(types).unwrap();
    let operands: Vec<RuleOperand> = (0..=tape.below(4)).map(|_| random_operand(tape, &mesh)).collect();
    let result = Shape::from([8, 8, 8]);
    let mut axis_rows = |axis: usize| -> Vec<AxisAssignment> {
        (0..=tape.below(6))
            .map(|_| {
                let places: Vec<Place> = operands
                    .iter()
                    .map(|operand| match tape.below(2) {
                        0 => operand.places[axis],
                        _ => tape.place(&operand.meta.shape, sizes[axis]),
                    })
                    .collect();
                let mut row = AxisAssignment::new(places, [tape.place(&result, sizes[axis])]);
                if tape.below(8) == 7 {
                    let kinds = [StepKind::AllReduce(ReduceOp::Sum), StepKind::Permute];
                    let kind = kinds[tape.below(2)];
                    row.stages.push(StageCollective { kind, bytes: tape.below(64) });
                }
                row
            })
            .collect()
    };
    let given = Given((0..sizes.len()).map(&mut axis_rows).collect());
    let kinds = tape.below(64);
    let kinds: Vec<_> = crate::placement::TransitionKind::ALL
        .into_iter()
        .filter(|kind| kinds & *kind as usize != 0)
        .collect();
    let allowed = tape.pick(&[DEFAULT_TRANSITIONS, TransitionSet::of(&kinds)]);
    let mode = tape.pick(&[Mode::Silent, Mode::Silent, Mode::Warn, Mode::Raise]);
    let mut call = Call::of(mesh, operands, given, Policy { allowed, mode });
    call.results = vec![TensorMeta::new(DType::F32, result)];
    call
}

fn random_operand(tape: &mut Tape<'_>, mesh: &DeviceMesh) -> RuleOperand {
    let role = tape.pick(&[
        Role::Tensor,
        Role::Tensor,
        Role::Tensor,
        Role::Tensor,
        Role::Single,
        Role::Scalar,
        Role::Written,
    ]);
    let ndim = if role == Role::Scalar { 0 } else { tape.below(4) };
    let shape: Shape = (0..ndim).map(|_| tape.pick(&[8, 4, 3, 2, 1, 0])).collect();
    let mut places = Places::from_elem(Place::Replicated, mesh.ndim());
    if matches!(role, Role::Tensor | Role::Written) {
        for axis in 0..mesh.ndim() {
            places[axis] = tape.place(&shape, mesh.size(axis));
            if !valid(mesh, &shape, &places) {
                places[axis] = Place::Replicated;
            }
        }
    }
    RuleOperand {
        meta: TensorMeta::new(tape.pick(&[DType::F32, DType::I64, DType::Bool]), shape),
        places,
        role,
    }
}

/// A row's cost and moves on an axis by the definition's tables, or `None` if it cannot run. `now` are the placements
/// as committed before the axis.
fn by_definition(
    call: &Call,
    axis: usize,
    now: &[Places],
    results: &Places,
    row: &AxisAssignment,
) -> Option<Ranked> {
    let (n, mesh) = (call.mesh.size(axis) as f64, &call.mesh);
    let explicit = mesh.axis_types()[axis] == AxisType::Explicit;
    let mut ranked = Ranked { cost: 0.0, moved: 0, moves: false, allowed: true, by_default: true };
    let unknown = row.operands.iter().chain(&row.results).any(|place| *place == Place::Unknown);
    for (i, operand) in call.operands.iter().enumerate() {
        let (from, to) = (now[i][axis], row.operands[i]);
        match operand.role {
            Role::Scalar => {
                let mut places = now[i].clone();
                places[axis] = to;
                (to.tensor_axis().is_none() && valid(mesh, &operand.meta.shape, &places)).then_some(())?;
                continue;
            }
            Role::Single => {
                matches!(to, Place::Replicated | Place::Unknown).then_some(())?;
                continue;
            }
            Role::Written => {
                (to == from).then_some(())?;
                continue;
            }
            Role::Tensor => {}
        }
        (!unknown || to == from).then_some(())?;
        if from == to && now[i] == operand.places {
            continue;
        }
        let mut places = now[i].clone();
        places[axis] = to;
        valid(mesh, &operand.meta.shape, &places).then_some(())?;
        if let Some(split) = to.tensor_axis() {
            let shards = DeviceMapping::new(mesh, &places).unwrap();
            let ways: usize = shards.split_by(split).map(|axis| mesh.size(axis)).product();
            (operand.meta.shape.extent(split) >= ways).then_some(())?;
            let empty = |position| shards.local_shape(&operand.meta.shape, position).extent(split) == 0;
            assert!(matches!(to, Place::Custom(_)) || !(0..mesh.num_devices()).any(empty));
        }
        if from == to {
            continue;
        }
        let b = operand.meta.bytes() as f64;
        let letter = |place: Place| match place {
            Place::Custom(_) => 'S',
            place => code(place).chars().next().unwrap(),
        };
        let (kind, cost) = match (letter(from), letter(to)) {
            ('R', 'S') => ("R>S", b / n / 64.0),
            ('R', 'P') => ("R>P", b / n / 64.0),
            ('S', 'R') => ("S>R", b * (n - 1.0) / n),
            ('S', 'S') => ("S>S", b * (n - 1.0) / n),
            ('P', 'R') => ("P>R", 2.0 * b * (n - 1.0) / n),
            ('P', 'S') => ("P>S", b * (n - 1.0) / n),
            _ => return None,
        };
        ranked.cost += cost;
        ranked.moved += 1;
        ranked.moves = true;
        let named = |set: TransitionSet| set.kinds().any(|known| known.name() == kind);
        ranked.allowed &= if explicit { kind == "R>S" } else { named(call.policy.allowed) };
        ranked.by_default &= named(DEFAULT_TRANSITIONS);
    }
    let mut result = results.clone();
    result.push(row.results[0]);
    result.resize(mesh.ndim(), Place::Replicated);
    valid(mesh, &call.results[0].shape, &result).then_some(())?;
    for stage in &row.stages {
        // Elements that change their device inside the op are a reshard as from one split to another.
        let exchange = stage.kind == StepKind::Permute;
        let whole = stage.bytes as f64;
        ranked.cost += if exchange { whole } else { 2.0 * whole * (n - 1.0) / n };
        if exchange {
            ranked.moves = true;
            let allowed = call.policy.allowed.kinds().any(|known| known.name() == "S>S");
            ranked.allowed &= explicit || allowed;
        }
        ranked.allowed &= !explicit;
        ranked.by_default &= !explicit;
    }
    Some(ranked)
}

#[derive(Clone, Copy, Debug)]
struct Ranked {
    cost: f64,
    moved: usize,
    moves: bool,
    allowed: bool,
    by_default: bool,
}

/// Compares the trace of a call with the definition, axis by axis, and says whether the call may run.
fn compare(call: &Call, report: &Report) -> bool {
    let mut now: Vec<Places> = call.operands.iter().map(|operand| operand.places.clone()).collect();
    let (mut results, mut runs) = (Places::new(), true);
    for axis in 0..call.mesh.ndim() {
        let mut rows: Vec<AxisAssignment> = Vec::new();
        for row in &call.given.0[axis] {
            if !rows.contains(row) {
                rows.push(row.clone());
            }
        }
        let mut ranked: Vec<(Ranked, &AxisAssignment)> = rows
            .iter()
            .filter_map(|row| Some((by_definition(call, axis, &now, &results, row)?, row)))
            .collect();
        ranked.sort_by(|(a, _), (b, _)| a.cost.total_cmp(&b.cost).then(a.moved.cmp(&b.moved)));
        let seen = &report.axes[axis].candidates;
        let feasible: Vec<_> = seen.iter().filter_map(|row| Some((row.score.ok()?, &row.row))).collect();
        assert_eq!(feasible.len(), ranked.len(), "axis {axis}\n{report}");
        for ((score, row), (want, wanted)) in feasible.iter().zip(&ranked) {
            assert_eq!(row, wanted, "axis {axis}\n{report}");
            assert_eq!((score.cost, score.moved), (want.cost, want.moved), "axis {axis}\n{report}");
            assert_eq!(
                (score.allowed, score.by_default),
                (want.allowed, want.by_default),
                "axis {axis}\n{report}"
            );
        }
        let chosen = ranked
            .iter()
            .find(|(score, _)| score.allowed)
            .or_else(|| ranked.iter().find(|(score, _)| score.by_default))
            .or(ranked.first());
        let Some((score, row)) = chosen else {
            assert_eq!(report.verdict, Verdict::Stuck(axis));
            return false;
        };
        let committed = seen.iter().find(|row| row.committed).unwrap();
        assert_eq!(&committed.row, *row, "axis {axis}\n{report}");
        runs &= score.allowed && !(call.policy.mode == Mode::Raise && score.moves);
        for ((places, operand), to) in now.iter_mut().zip(&call.operands).zip(&row.operands) {
            match operand.role {
                Role::Single => {}
                Role::Scalar if *to == Place::Unknown => {}
                _ => places[axis] = *to,
            }
        }
        results.push(row.results[0]);
    }
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn plans_are_those_of_the_definition(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let call = random_call(&bytes);
        let report = call.trace();
        let runs = compare(&call, &report);
        let text = report.to_string();
        prop_assert!(text.starts_with("tested("));
        match call.plan() {
            Ok(plan) => {
                prop_assert!(runs, "{text}");
                prop_assert_eq!(report.verdict, Verdict::Runs);
                prop_assert_eq!(&report.moved[..], &plan.moved[..]);
                let cost: f64 = report.axes.iter().flat_map(|axis| &axis.candidates).filter(|row| row.committed)
                    .map(|row| row.score.unwrap().cost).sum();
                prop_assert_eq!(cost, plan.cost);
                for (operand, places) in call.operands.iter().zip(&plan.operands) {
                    prop_assert!(valid(&call.mesh, &operand.meta.shape, places), "{text}");
                    let may_move = operand.role == Role::Tensor || operand.role == Role::Scalar;
                    prop_assert!(may_move || operand.places == *places, "{text}");
                }
                for (result, places) in call.results.iter().zip(&plan.results) {
                    prop_assert!(valid(&call.mesh, &result.shape, places), "{text}");
                }
            }
            Err(error) => {
                prop_assert!(!runs, "{text}");
                prop_assert_eq!(error.kind(), ErrorKind::Sharding);
                prop_assert_eq!(error.op(), Some("tested"));
                prop_assert!(error.mesh_axis().is_some() && error.operands().len() == call.operands.len());
                prop_assert!(error.detail().is_some_and(|detail| detail.contains("policy: ")));
            }
        }
    }

    /// Who writes the lines of a report needs no reshard any more.
    #[test]
    fn the_lines_to_write_are_enough(bytes in prop::collection::vec(any::<u8>(), 0..160)) {
        let mut call = random_call(&bytes);
        // A staged row that moves nothing may cost more than one that moves.
        call.given.0.iter_mut().flatten().for_each(|row| row.stages.clear());
        let report = call.trace();
        prop_assume!(!matches!(report.verdict, Verdict::Stuck(_)));
        let mut committed: Vec<Places> = call.operands.iter().map(|operand| operand.places.clone()).collect();
        for (axis, rows) in report.axes.iter().enumerate() {
            let row = rows.candidates.iter().find(|row| row.committed).unwrap();
            for i in &report.moved {
                committed[*i][axis] = row.row.operands[*i];
            }
        }
        prop_assert_eq!(report.fix().len(), report.moved.len());
        for (operand, places) in call.operands.iter_mut().zip(committed) {
            operand.places = places;
        }
        let again = call.clone().policy(Policy::raise()).plan();
        prop_assert!(again.is_ok(), "{report}\n{}", again.unwrap_err());
        prop_assert_eq!(again.unwrap().cost, 0.0);
    }

    /// Rules are foreign code: rows of any lengths and placements give a plan or an error, never a panic.
    #[test]
    fn no_row_panics(bytes in prop::collection::vec(any::<u8>(), 0..160), lengths in prop::collection::vec((0_usize..4, 0_usize..3), 1..4)) {
        let mut call = random_call(&bytes);
        for (row, (operands, results)) in call.given.0.iter_mut().flatten().zip(&lengths) {
            row.operands.resize(*operands, Place::Sharded(u8::MAX));
            row.results.resize(*results, Place::Sharded(MAX_TENSOR_AXES as u8));
        }
        let text = call.trace().to_string();
        if let Err(error) = call.plan() {
            prop_assert!(error.op() == Some("tested"), "{text}");
        }
    }
}
