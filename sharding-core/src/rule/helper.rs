//! Rows that many rules share.

use super::{Role, Rows, RuleCx};
use crate::placement::sharded;
use crate::{Error, ErrorKind, Place, Result};
use smallvec::SmallVec;

/// The row on which everything is Replicated. Every rule starts with it, unless an operand is written.
pub fn replicated_rows(cx: &RuleCx<'_>, rows: &mut Rows) {
    rows.add(cx.operands.iter().map(|_| Place::Replicated), cx.results.iter().map(|_| Place::Replicated));
}

/// Rows for an op whose results have the axes of one operand: `map(axis)` is the axis of every result that tensor
/// axis `axis` of `operand` becomes, or `None` where it must stay whole. Other operands are Replicated.
/// Custom placements found there are carried. The extent of the result axis must be that of the operand's.
pub fn pass_through_rows(
    cx: &RuleCx<'_>,
    operand: usize,
    rows: &mut Rows,
    map: impl Fn(usize) -> Option<usize>,
) {
    for axis in 0..cx.ndim(operand) {
        let Some(to) = map(axis) else { continue };
        for place in std::iter::once(sharded(axis)).chain(cx.carried(operand, axis)) {
            rows.add(
                (0..cx.operands.len()).map(|i| if i == operand { place } else { Place::Replicated }),
                cx.results.iter().map(|_| place.on_axis(to)),
            );
        }
    }
}

/// Rows of an elementwise op whose operands broadcast, aligned at the last axis: each result axis split, on every
/// operand that has its extent there. An operand that broadcasts there, and a number, is needed whole, even where its
/// own axis of extent 1 is Sharded now. Custom placements found on an operand are carried to the others.
///
/// An axis of extent 1 is split like any other if all operands have it so: one device then holds everything.
pub fn elementwise_rows(cx: &RuleCx<'_>, rows: &mut Rows) {
    let Some(result) = cx.results.first() else { return };
    let ndim = result.shape.len();
    // Where operand `i` has result axis `axis`, unless it broadcasts there.
    let own = |i: usize, axis: usize| {
        let own = (axis + cx.ndim(i)).checked_sub(ndim)?;
        // An extent of 1 that does not broadcast is split like any other: all but the first device then hold none of
        // it, and none of the result.
        (cx.extent(i, own) == result.shape.extent(axis)).then_some(own)
    };
    for axis in 0..ndim {
        // A result axis that no operand has: every device would compute all of it.
        if (0..cx.operands.len()).all(|i| own(i, axis).is_none()) {
            continue;
        }
        let carried = (0..cx.operands.len()).filter_map(|i| cx.carried(i, own(i, axis)?));
        let places: SmallVec<[Place; 2]> =
            std::iter::once(sharded(axis)).chain(carried.map(|place| place.on_axis(axis))).collect();
        for place in places {
            rows.add(
                (0..cx.operands.len())
                    .map(|i| own(i, axis).map_or(Place::Replicated, |own| place.on_axis(own))),
                cx.results.iter().map(|_| place),
            );
        }
    }
}

/// The one row of an op that never moves its inputs and writes or returns in the placement of `operand`: all other
/// tensors must be placed like it, or one of the two be Unknown, on which nothing is claimed. A number lies where the
/// operand does: beside a Partial it counts on one device only.
///
/// # Errors
/// [`ErrorKind::Sharding`] if a tensor is placed otherwise; the planner adds the transfer to write.
pub fn match_operand_placement(cx: &RuleCx<'_>, operand: usize, rows: &mut Rows) -> Result<()> {
    let place = cx.place(operand);
    let role = |i: usize| cx.operands.get(i).map(|operand| operand.role);
    let differs = |i: &usize| {
        let other = cx.place(*i);
        other != place && other != Place::Unknown && place != Place::Unknown && role(*i) != Some(Role::Scalar)
    };
    if let Some(other) = (0..cx.operands.len()).find(differs) {
        return Err(Error::new(
            ErrorKind::Sharding,
            format!(
                "operand {other} is placed {} where operand {operand} is placed {place}, and this op never moves its inputs",
                cx.place(other)
            ),
        ));
    }
    let own = |i: usize| match (role(i), place) {
        (Some(Role::Scalar), Place::Partial(_)) => place,
        _ => cx.place(i),
    };
    rows.add((0..cx.operands.len()).map(own), cx.results.iter().map(|_| place));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Groups;
    use crate::plan::tests::{codes, parse_operand};
    use crate::rule::{AxisAssignment, RuleOperand};
    use crate::split::balanced;
    use crate::{DType, Shape, TensorMeta, broadcast};
    use proptest::prelude::*;

    /// Asks a helper about one mesh axis of `ways`; operands and rows as in the planner's tests.
    fn ask(
        ways: usize,
        operands: &[RuleOperand],
        result: Shape,
        helper: impl FnOnce(&RuleCx<'_>, &mut Rows) -> Result<()>,
    ) -> Result<Rows> {
        let mut rows = Rows::new();
        let groups: Vec<u16> = operands.iter().map(|_| 1).collect();
        let cx = RuleCx {
            axis: 0,
            mesh_shape: &[ways],
            operands,
            groups: Groups(&groups),
            results: &[TensorMeta::new(DType::F32, result)],
            committed: &[],
        };
        helper(&cx, &mut rows).map(|()| rows)
    }

    fn text(row: &AxisAssignment) -> String {
        format!("{}->{}", codes(&row.operands), codes(&row.results))
    }

    #[track_caller]
    fn check(
        operands: &str,
        result: impl Into<Shape>,
        helper: impl FnOnce(&RuleCx<'_>, &mut Rows) -> Result<()>,
        want: &str,
    ) {
        let operands: Vec<_> = operands.split('|').map(|text| parse_operand(text.trim(), 1)).collect();
        let got = match ask(2, &operands, result.into(), helper) {
            Ok(rows) => rows.iter().map(text).collect::<Vec<_>>().join("; "),
            Err(error) => format!("error: {}", error.message()),
        };
        assert_eq!(got, want);
    }

    fn elementwise(cx: &RuleCx<'_>, rows: &mut Rows) -> Result<()> {
        elementwise_rows(cx, rows);
        Ok(())
    }

    #[test]
    fn elementwise_rows_split_every_axis_on_the_operands_that_have_it() {
        check("[4, 8] S0 | [4, 8] S1", [4, 8], elementwise, "S0,S0->S0; S1,S1->S1");
        check("[4, 8] S1 | [8] R", [4, 8], elementwise, "S0,R->S0; S1,S0->S1");
        check("[2, 1, 8] | [4, 1]", [2, 4, 8], elementwise, "S0,R->S0; R,S0->S1; S2,R->S2");
        check("[4] | number", [4], elementwise, "S0,R->S0");
        check("[]", [], elementwise, "");
    }

    #[test]
    fn an_extent_of_one_broadcasts_even_where_it_is_sharded() {
        check("[1, 8] S0 | [4, 8] S0", [4, 8], elementwise, "R,S0->S0; S1,S1->S1");
        check("[1] S0 | [0] S0", [0], elementwise, "R,S0->S0");
        // Where nobody broadcasts, one device may hold everything.
        check("[1, 8] S0", [1, 8], elementwise, "S0->S0; S1->S1");
        check("[1, 8] S0 | [8]", [1, 8], elementwise, "S0,R->S0; S1,S0->S1");
    }

    #[test]
    fn elementwise_rows_carry_custom_placements_to_the_axis_of_every_operand() {
        check(
            "[8] G0:3:5 | [2, 8]",
            [2, 8],
            elementwise,
            "R,S0->S0; S0,S1->S1; Ragged(0, [3, 5]),Ragged(1, [3, 5])->Ragged(1, [3, 5])",
        );
        check(
            "[8] G0:3:5 | [8] G0:3:5",
            [8],
            elementwise,
            "S0,S0->S0; Ragged(0, [3, 5]),Ragged(0, [3, 5])->Ragged(0, [3, 5])",
        );
        check("[1] G0:0:1 | [8]", [8], elementwise, "R,S0->S0");
    }

    #[test]
    fn a_result_axis_that_no_operand_has_is_not_split() {
        check("[4] | number", [3, 4], elementwise, "S0,R->S1");
        check("number", [3], elementwise, "");
    }

    #[test]
    fn the_replicated_row_has_a_place_for_everything() {
        let replicated = |cx: &RuleCx<'_>, rows: &mut Rows| {
            replicated_rows(cx, rows);
            Ok(())
        };
        check("[4] S0 | number | single [4]", [4], replicated, "R,R,R->R");
    }

    #[test]
    fn pass_through_rows_follow_the_map() {
        // squeeze of axis 1: it must stay whole, later axes are renumbered.
        let squeeze = |cx: &RuleCx<'_>, rows: &mut Rows| {
            pass_through_rows(cx, 0, rows, |axis| {
                (axis != 1).then_some(if axis > 1 { axis - 1 } else { axis })
            });
            Ok(())
        };
        check("[4, 1, 8] S1", [4, 8], squeeze, "S0->S0; S2->S1");
        check("[4, 1, 8] G2:3:5", [4, 8], squeeze, "S0->S0; S2->S1; Ragged(2, [3, 5])->Ragged(1, [3, 5])");
        check("[4, 1, 8] G1:0:1", [4, 8], squeeze, "S0->S0; S2->S1");
        let permute = |cx: &RuleCx<'_>, rows: &mut Rows| {
            pass_through_rows(cx, 0, rows, |axis| [1, 2, 0].get(axis).copied());
            Ok(())
        };
        check("[2, 3, 4] S2", [4, 2, 3], permute, "S0->S1; S1->S2; S2->S0");
        // Other operands are needed whole.
        let second = |cx: &RuleCx<'_>, rows: &mut Rows| {
            pass_through_rows(cx, 1, rows, Some);
            Ok(())
        };
        check("[4] | [5, 6]", [5, 6], second, "R,S0->S0; R,S1->S1");
        let missing = |cx: &RuleCx<'_>, rows: &mut Rows| {
            pass_through_rows(cx, 7, rows, Some);
            Ok(())
        };
        check("[4]", [4], missing, "");
    }

    #[test]
    fn stores_need_the_source_where_the_destination_is() {
        let store = |cx: &RuleCx<'_>, rows: &mut Rows| match_operand_placement(cx, 0, rows);
        check("written [4] S0 | [4] S0", [4], store, "S0,S0->S0");
        check("written [4] R | single [4]", [4], store, "R,R->R");
        check("written [4] U | [4] S0", [4], store, "U,S0->U");
        check("written [4] S0 | [4] U", [4], store, "S0,U->S0");
        check("written [4] S0 | number", [4], store, "S0,R->S0");
        check("written [4] P | number", [4], store, "P,P->P");
        check(
            "written [8] G0:3:5 | [8] G0:3:5",
            [8],
            store,
            "Ragged(0, [3, 5]),Ragged(0, [3, 5])->Ragged(0, [3, 5])",
        );
        let error = |source: &str, target: &str| {
            format!(
                "error: operand 1 is placed {source} where operand 0 is placed {target}, and this op never moves its inputs"
            )
        };
        check("written [4] S0 | [4] R", [4], store, &error("Replicated", "Sharded(0)"));
        check("written [4] R | [4] P", [4], store, &error("Partial(sum)", "Replicated"));
        check("written [4] P | [4] Pmax", [4], store, &error("Partial(max)", "Partial(sum)"));
        check("written [4] S0 | single [4]", [4], store, &error("Replicated", "Sharded(0)"));
        check("written [8] G0:3:5 | [8] S0", [8], store, &error("Sharded(0)", "Ragged(0, [3, 5])"));
        // Numbered from the operand that counts, wherever it stands.
        let last = |cx: &RuleCx<'_>, rows: &mut Rows| match_operand_placement(cx, 1, rows);
        check("[4] S0 | [4] S0", [4], last, "S0,S0->S0");
    }

    proptest! {
        /// Cut as a row says, the local operands broadcast to exactly the shard that the result's label says.
        #[test]
        fn local_shapes_of_elementwise_rows_fit(
            full in prop::collection::vec(0_usize..6, 0..4),
            drops in prop::collection::vec((0_usize..4, any::<[bool; 4]>()), 1..4),
            ways in 1_usize..5,
        ) {
            let shapes: Vec<Shape> = drops
                .iter()
                .map(|(skip, ones)| {
                    let axes = full.iter().zip(ones).skip(*skip);
                    axes.map(|(extent, one)| if *one { 1 } else { *extent }).collect()
                })
                .collect();
            let result = shapes.iter().try_fold(Shape::default(), |all, shape| broadcast(&all, shape)).unwrap();
            let operands: Vec<RuleOperand> = shapes
                .iter()
                .map(|shape| RuleOperand {
                    meta: TensorMeta::new(DType::F32, shape),
                    places: [Place::Replicated].into_iter().collect(),
                    role: Role::Tensor,
                })
                .collect();
            let rows = ask(ways, &operands, result.clone(), elementwise).unwrap();
            // Every axis is split: the last operand that has it is cut there.
            prop_assert_eq!(rows.len(), result.len());
            let local = |shape: &Shape, place: Place, part: usize| match place.tensor_axis() {
                Some(axis) => shape.with_extent(axis, balanced(shape.extent(axis), ways, part).len()),
                None => shape.clone(),
            };
            for row in rows.iter() {
                for part in 0..ways {
                    let locals = shapes.iter().zip(&row.operands).map(|(shape, place)| local(shape, *place, part));
                    let made = locals.into_iter().try_fold(Shape::default(), |all, shape| broadcast(&all, &shape));
                    prop_assert_eq!(made, Some(local(&result, row.results[0], part)), "{} on part {}", text(row), part);
                }
            }
        }
    }
}
