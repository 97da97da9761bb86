//! For the tests of rules: an op's rows as text.

use sharding_core::op::{Grouped, Groups, Op, OpArgs};
use sharding_core::rule::{Role, Rows, RuleCx, RuleOperand};
use sharding_core::{DType, Place, Result, TensorMeta};

/// An operand: its dtype, its shape, and where it lies on every mesh axis.
pub(crate) type Placed<'a> = (DType, &'a [usize], &'a [Place]);

/// A Replicated f32 operand on a mesh of one axis.
pub(crate) fn f32s(shape: &[usize]) -> Placed<'_> {
    (DType::F32, shape, &[Place::Replicated])
}

/// The rows on the first mesh axis, in their order; `R`, `S0`, `P`, `Pmax`, `U` for placements.
pub(crate) fn rows<O: Op>(args: &O::Args, mesh: &[usize], operands: &[Placed<'_>]) -> Result<Vec<String>> {
    let written =
        O::DEF.operands.iter().map(|operand| operand.kind == sharding_core::op::OperandKind::Written);
    let operands: Vec<RuleOperand> = operands
        .iter()
        .zip(written.chain(std::iter::repeat(false)))
        .map(|((dtype, shape, places), written)| RuleOperand {
            meta: TensorMeta::new(*dtype, *shape),
            places: (*places).into(),
            role: if written { Role::Written } else { Role::Tensor },
        })
        .collect();
    let metas: Vec<TensorMeta> = operands.iter().map(|operand| operand.meta.clone()).collect();
    // One slice operand takes all.
    let slice = O::DEF.operands.len() == 1;
    // Optional operands stand last: those that are not given stand for none.
    let given = |i: usize| u16::from(i < operands.len());
    let groups: Vec<u16> = match slice {
        true => vec![operands.len() as u16],
        false => (0..O::DEF.operands.len()).map(given).collect(),
    };
    let groups = Groups(&groups);
    let results = (O::DEF.shape)(Grouped::new(&metas, groups), args.as_any())?;
    let cx =
        RuleCx { axis: 0, mesh_shape: mesh, operands: &operands, groups, results: &results, committed: &[] };
    let mut rows = Rows::new();
    (O::DEF.rows)(&cx, args.as_any(), &mut rows)?;
    let list = |places: &[Place]| places.iter().map(short).collect::<Vec<_>>().join(" ");
    let line = |row: &sharding_core::rule::AxisAssignment| {
        let staged: Vec<_> =
            row.stages.iter().map(|stage| format!(" +{} of {}", stage.kind.name(), stage.bytes)).collect();
        format!("{} -> {}{}", list(&row.operands), list(&row.results), staged.concat())
    };
    Ok(rows.iter().map(line).collect())
}

fn short(place: &Place) -> String {
    match place {
        Place::Replicated => "R".to_owned(),
        Place::Sharded(axis) => format!("S{axis}"),
        Place::Partial(sharding_core::ReduceOp::Sum) => "P".to_owned(),
        Place::Partial(op) => format!("P{op}"),
        Place::Unknown => "U".to_owned(),
        Place::Custom(_) => place.to_string(),
    }
}

/// The rows are these.
#[track_caller]
pub(crate) fn check<O: Op>(args: &O::Args, mesh: &[usize], operands: &[Placed<'_>], want: &[&str]) {
    let got = rows::<O>(args, mesh, operands).unwrap();
    assert_eq!(got, want, "{} {args:?} of {operands:?} on {mesh:?}", O::DEF.name);
}
