//! Rules that are wrong for some questions only: sizes of the mesh axis, extents, committed rows, present placements.

use super::data::MATMUL;
use super::{MAX, P, Planted, R, add, planted, s};
use sharding_core::op::Op;
use sharding_ops::{Place, relu, sum};

#[test]
fn answers_to_some_questions_only() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    vec![
        planted!("wrong over three devices"; <relu as Op>::DEF;
            "(Sharded(0)) -> (Replicated)"; |cx, rows| if cx.ways() == 3 { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong for extents that the devices do not divide"; <relu as Op>::DEF;
            "(Sharded(0)) -> (Replicated)"; |cx, rows|
                if cx.extent(0, 0) % cx.ways() != 0 { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong for empty shards"; <relu as Op>::DEF;
            "(Sharded(0)) -> (Replicated)"; |cx, rows|
                if cx.extent(0, 0) < cx.ways() { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong on a mesh of two axes"; <relu as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows|
                if cx.mesh_shape.len() == 2 { add(cx, rows, &[P], &[P]) }),
        planted!("wrong on the second mesh axis"; &MATMUL;
            "y: (Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows|
                if cx.axis == 1 { add(cx, rows, &[P, P], &[P]) }),
        planted!("wrong once an axis is committed to parts"; &MATMUL;
        "-> (Replicated)"; |cx, rows|
            if cx.committed.iter().any(|row| row.results[0] == P) && cx.ndim(0) == 2 && cx.ndim(1) == 2 {
                add(cx, rows, &[s(1), s(0)], &[R]);
            }),
        planted!("wrong once the same axis is committed"; <relu as Op>::DEF;
            "x: (Sharded(0)) -> (Sharded(0)); y: (Sharded(0)) -> (Sharded(1))"; |cx, rows|
                if cx.committed.iter().any(|row| row.results[0] == s(0)) { add(cx, rows, &[s(0)], &[s(1)]) }),
        planted!("an axis that another mesh axis splits is taken for whole"; <sum as Op>::DEF;
            "y: (Sharded(0)) -> (Replicated)"; |cx, rows|
                if cx.ways_elsewhere(0, 0) > 1 { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong for one pair of placements and an extent that no case has"; &MATMUL;
        "y: (Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows|
            if cx.extent(0, 0) == 6 && cx.committed.iter().any(|row| row.operands[1] == s(1)) {
                add(cx, rows, &[P, P], &[P]);
            }),
        planted!("wrong where parts are there already"; <relu as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows|
                if cx.place(0) == P { add(cx, rows, &[P], &[P]) }),
        planted!("wrong where the operand is custom"; <relu as Op>::DEF;
            "(Sharded(0)) -> (Replicated)"; |cx, rows|
                if matches!(cx.place(0), Place::Custom(_)) { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong where two operands are custom"; &MATMUL;
        "(Partial(max), Replicated) -> (Partial(max))"; |cx, rows|
            if matches!((cx.place(0), cx.place(1)), (Place::Custom(_), Place::Custom(_))) {
                add(cx, rows, &[MAX, R], &[MAX]);
            }),
        planted!("wrong where an operand is Unknown"; &MATMUL;
            "(Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows|
                if cx.place(1) == Place::Unknown { add(cx, rows, &[P, P], &[P]) }),
        planted!("wrong beside a custom placement on another mesh axis"; <relu as Op>::DEF;
        "(Partial(sum)) -> (Partial(sum))"; |cx, rows|
            if cx.operands[0].places.iter().take(cx.axis).any(|place| matches!(place, Place::Custom(_))) {
                add(cx, rows, &[P], &[P]);
            }),
        planted!("wrong for large operands only"; <relu as Op>::DEF;
            "(Sharded(0)) -> (Replicated)"; |cx, rows|
                if cx.operands[0].meta.shape.elements() > 30 { add(cx, rows, &[s(0)], &[R]) }),
        planted!("wrong for one dtype only"; <relu as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows|
                if !cx.operands[0].meta.dtype.is_float() { add(cx, rows, &[P], &[P]) }),
        Planted {
            what: "a rule that panics where the operand is split",
            op: <relu as Op>::DEF,
            rule: |cx, all, rows| {
                assert!(cx.place(0).tensor_axis().is_none(), "of the rule");
                (<relu as Op>::DEF.rows)(cx, all, rows)
            },
            row: "",
        },
    ]
}
