//! The planner on rules written by hand: calls are text, so are plans.
//!
//! A placement is a code: `R`, `S0`, `P`, `Pmax`, `U`, `G0:3:5` (Ragged on tensor axis 0), `I0:4:4` (Interleaved). An
//! operand is a shape and one code per mesh axis (`[4, 8] S0,R`), maybe after `bool`, `i64`, `single`, `number` or
//! `written`. A row is `R,S0->S0`, a list of rows is joined by `;`, those of different mesh axes by `/` (the last
//! ones stand for the axes that follow). `!all_reduce:16` after a row makes it staged.

mod golden;
mod joint;
mod pick;
mod property;
mod report;
mod speed;

use super::{Plan, PlanRequest, PlannerKind, Policy, Report, VolumeCost, plan, trace};
use crate::backend::StepKind;
use crate::mapping::Places;
use crate::op::{Groups, KeyWriter, OpArgs, OpDef, OperandDef, OperandKind};
use crate::placement::{Interleaved, Ragged, TransitionKind, TransitionSet};
use crate::rule::{AxisAssignment, Role, Rows, RuleCx, RuleOperand, StageCollective};
use crate::{AxisType, BackendKind, DType, DeviceMesh, Place, ReduceOp, Result, TensorMeta};
use property::random_call;
use std::any::{Any, TypeId};

/// Rows by mesh axis, as the plain argument of the op under test.
#[derive(Clone, Debug)]
pub(super) struct Given(pub(super) Vec<Vec<AxisAssignment>>);

impl OpArgs for Given {
    fn key(&self, _: &mut KeyWriter) {}
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn boxed(&self) -> Box<dyn OpArgs> {
        Box::new(self.clone())
    }
}

fn given(cx: &RuleCx<'_>, args: &dyn Any, rows: &mut Rows) -> Result<()> {
    let all = &args.downcast_ref::<Given>().unwrap().0;
    let own = all.get(cx.axis).or(all.last()).unwrap();
    own.iter().cloned().for_each(|row| rows.push(row));
    Ok(())
}

const fn operand(name: &'static str, kind: OperandKind) -> OperandDef {
    OperandDef { name, kind }
}

pub(super) static OP: OpDef = OpDef {
    name: "tested",
    operands: &[
        operand("lhs", OperandKind::Tensor),
        operand("rhs", OperandKind::Tensor),
        operand("third", OperandKind::Tensor),
        operand("more", OperandKind::Many),
    ],
    results: Some(1),
    args: TypeId::of::<Given>,
    shape: |_, _| unreachable!("the planner asks no shapes"),
    rows: given,
    kernel: |_, _, _, _, _| unreachable!("the planner runs no kernel"),
    stages: |_, _, _| unreachable!("the planner runs no stages"),
    cases: |_| {},
    at: ("tests.rs", 1),
};

/// A call under test, owned.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) mesh: DeviceMesh,
    pub(super) operands: Vec<RuleOperand>,
    pub(super) results: Vec<TensorMeta>,
    pub(super) groups: Vec<u16>,
    pub(super) given: Given,
    pub(super) policy: Policy,
}

impl Call {
    /// Results have the shape of the operand with the most tensor axes.
    pub(super) fn new(mesh: &[usize], operands: &str, rows: &str) -> Self {
        let many = ["dp", "tp", "cp", "ep", "pp", "sp", "fsdp", "host"];
        let names = if mesh.len() == 1 { &["tp"][..] } else { &many[..mesh.len()] };
        let mesh = DeviceMesh::simulated(BackendKind::CPU, mesh, names).unwrap();
        let operands: Vec<_> =
            operands.split('|').map(|text| parse_operand(text.trim(), mesh.ndim())).collect();
        let given: Vec<Vec<_>> = rows
            .split('/')
            .map(|axis| axis.split(';').filter(|r| !r.trim().is_empty()).map(parse_row).collect())
            .collect();
        Self::of(mesh, operands, Given(given), Policy::default())
    }

    pub(super) fn of(mesh: DeviceMesh, operands: Vec<RuleOperand>, given: Given, policy: Policy) -> Self {
        let shape = operands.iter().map(|o| o.meta.clone()).max_by_key(|meta| meta.shape.len()).unwrap();
        let results = given.0.iter().flatten().map(|row| row.results.len()).next().unwrap_or(1);
        let (plain, many) = (operands.len().min(3), operands.len().saturating_sub(3));
        let mut groups = vec![1; plain];
        groups.resize(3, 0);
        groups.push(u16::try_from(many).unwrap());
        Self { mesh, operands, results: vec![shape; results], groups, given, policy }
    }

    pub(super) fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    pub(super) fn axis_types(mut self, types: &[AxisType]) -> Self {
        self.mesh = self.mesh.with_axis_types(types).unwrap();
        self
    }

    pub(super) fn request(&self) -> PlanRequest<'_> {
        PlanRequest {
            def: &OP,
            rows: OP.rows,
            args: &self.given,
            mesh: &self.mesh,
            operands: &self.operands,
            groups: Groups(&self.groups),
            results: &self.results,
            policy: self.policy,
            cost: &VolumeCost,
            planner: PlannerKind::PerAxis,
        }
    }

    pub(super) fn plan(&self) -> Result<Plan> {
        plan(&self.request())
    }

    pub(super) fn trace(&self) -> Report {
        trace(&self.request())
    }

    /// Plans, and compares with `inputs | .. -> results | ..; cost; moved`, or with a part of the error's text after
    /// `error: `.
    #[track_caller]
    pub(super) fn check(&self, want: &str) -> &Self {
        match (self.plan(), want.strip_prefix("error: ")) {
            (Ok(plan), None) => assert_eq!(written(&plan), want),
            (Err(error), Some(part)) => {
                let text = error.to_string();
                assert!(text.contains(part), "no {part:?} in:\n{text}");
                assert_eq!(error.op(), Some("tested"), "{text}");
            }
            (Ok(plan), Some(part)) => panic!("planned {}, wanted an error with {part:?}", written(&plan)),
            (Err(error), None) => panic!("wanted {want}, got\n{error}"),
        }
        self
    }
}

#[track_caller]
fn check(mesh: &[usize], operands: &str, rows: &str, want: &str) {
    Call::new(mesh, operands, rows).check(want);
}

/// A policy of transitions written as in texts: `S>R R>S`.
fn allowing(kinds: &str) -> Policy {
    Policy::silent().allow(transitions(kinds))
}

fn transitions(kinds: &str) -> TransitionSet {
    let known = |name: &str| TransitionKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap();
    TransitionSet::of(&kinds.split_whitespace().map(known).collect::<Vec<_>>())
}

pub(crate) fn parse_operand(text: &str, ndim: usize) -> RuleOperand {
    if text == "number" {
        let places = Places::from_elem(Place::Replicated, ndim);
        return RuleOperand { meta: TensorMeta::new(DType::F32, []), places, role: Role::Scalar };
    }
    let (mut role, mut dtype, mut rest) = (Role::Tensor, DType::F32, text);
    loop {
        let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "single" => role = Role::Single,
            "written" => role = Role::Written,
            "bool" => dtype = DType::Bool,
            "i64" => dtype = DType::I64,
            _ => break,
        }
        rest = tail.trim();
    }
    let (shape, places) = rest.strip_prefix('[').unwrap().split_once(']').unwrap();
    let shape: Vec<usize> =
        shape.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
    let places: Places = match places.trim() {
        "" => Places::from_elem(Place::Replicated, ndim),
        places => places.split(',').map(parse_place).collect(),
    };
    assert_eq!(places.len(), ndim, "{text}");
    RuleOperand { meta: TensorMeta::new(dtype, shape), places, role }
}

fn parse_row(text: &str) -> AxisAssignment {
    let (row, stage) = text.split_once('!').map_or((text, None), |(row, stage)| (row, Some(stage)));
    let (operands, results) = row.split_once("->").unwrap();
    let places =
        |text: &str| text.trim().split(',').filter(|c| !c.is_empty()).map(parse_place).collect::<Vec<_>>();
    let mut row = AxisAssignment::new(places(operands), places(results));
    if let Some((kind, bytes)) = stage.and_then(|stage| stage.trim().split_once(':')) {
        let kind = match kind {
            "all_reduce" => StepKind::AllReduce(ReduceOp::Max),
            "keep_one_copy" => StepKind::KeepOneCopy(ReduceOp::Max),
            other => panic!("no stage {other}"),
        };
        row.stages.push(StageCollective { kind, bytes: bytes.parse().unwrap() });
    }
    row
}

pub(super) fn parse_place(code: &str) -> Place {
    let code = code.trim();
    let list = || code[1..].split(':').map(|n| n.parse::<usize>().unwrap()).collect::<Vec<_>>();
    match code {
        "R" => Place::Replicated,
        "P" => Place::PARTIAL,
        "Pmax" => Place::Partial(ReduceOp::Max),
        "U" => Place::Unknown,
        _ if code.starts_with('S') => crate::placement::sharded(list()[0]),
        _ if code.starts_with('G') => Ragged::place(list()[0], &list()[1..]),
        _ if code.starts_with('I') => Interleaved::place(list()[0], &list()[1..]),
        _ => panic!("no placement {code}"),
    }
}

pub(super) fn code(place: Place) -> String {
    match place {
        Place::Replicated => "R".to_owned(),
        Place::Sharded(axis) => format!("S{axis}"),
        Place::Partial(ReduceOp::Sum) => "P".to_owned(),
        Place::Partial(op) => format!("P{op}"),
        Place::Unknown => "U".to_owned(),
        place @ Place::Custom(_) => place.to_string(),
    }
}

pub(crate) fn codes(places: &[Place]) -> String {
    places.iter().map(|place| code(*place)).collect::<Vec<_>>().join(",")
}

fn written(plan: &Plan) -> String {
    let join = |all: &[Places]| all.iter().map(|places| codes(places)).collect::<Vec<_>>().join(" | ");
    format!(
        "{} -> {}; cost {}; moved {:?}",
        join(&plan.operands),
        join(&plan.results),
        plan.cost,
        plan.moved.as_slice()
    )
}
