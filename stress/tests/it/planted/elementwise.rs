//! add, sub, mul, div, relu, gelu, where.

use super::{MAX, MIN, P, PROD, Planted, R, add, planted, s};
use sharding_core::op::Op;
use sharding_core::rule::replicated_rows;
use sharding_ops::Place;

#[test]
fn elementwise_ops() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    use sharding_ops::{gelu, relu, where_};
    vec![
        planted!("a number is counted on every device"; <sharding_ops::add as Op>::DEF;
            "(Partial(sum), Replicated) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P, R], &[P])),
        planted!("what is subtracted from is counted on every device"; <sharding_ops::sub as Op>::DEF;
            "(Replicated, Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[R, P], &[P])),
        planted!("a split operand and a whole result"; <sharding_ops::add as Op>::DEF;
            "(Sharded(0), Sharded(0)) -> (Replicated)"; |cx, rows| add(cx, rows, &[s(0), s(0)], &[R])),
        planted!("parts taken for the whole"; <sharding_ops::sub as Op>::DEF;
            "(Partial(sum), Partial(sum)) -> (Replicated)"; |cx, rows| add(cx, rows, &[P, P], &[R])),
        planted!("an operand is split where it broadcasts"; <sharding_ops::sub as Op>::DEF;
            "(Sharded(1), Sharded(0)) -> (Sharded(1))"; |cx, rows| add(cx, rows, &[s(1), s(0)], &[s(1)])),
        planted!("the axes of two operands aligned at the first"; <sharding_ops::mul as Op>::DEF;
            "(Sharded(0), Sharded(0)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(0), s(0)], &[s(0)])),
        planted!("a sum of maxima is no maximum of sums"; <sharding_ops::add as Op>::DEF;
            "(Partial(max), Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX, MAX], &[MAX])),
        planted!("minus turns a minimum into a maximum"; <sharding_ops::sub as Op>::DEF;
            "(Replicated, Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[R, MAX], &[MAX])),
        planted!("a product of sums is no sum of products"; <sharding_ops::mul as Op>::DEF;
            "(Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P, P], &[P])),
        planted!("a negative factor turns a maximum"; <sharding_ops::mul as Op>::DEF;
            "(Partial(max), Replicated) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX, R], &[MAX])),
        planted!("a factor counted on every device"; <sharding_ops::mul as Op>::DEF;
            "(Replicated, Partial(prod)) -> (Partial(prod))"; |cx, rows| add(cx, rows, &[R, PROD], &[PROD])),
        planted!("a quotient is not linear in the divisor"; <sharding_ops::div as Op>::DEF;
            "(Replicated, Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[R, P], &[P])),
        planted!("parts divided by parts"; <sharding_ops::div as Op>::DEF;
            "(Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P, P], &[P])),
        planted!("a divisor turns a maximum into a minimum"; <sharding_ops::div as Op>::DEF;
            "(Replicated, Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[R, MAX], &[MAX])),
        planted!("relu of parts"; <relu as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P], &[P])),
        planted!("relu of factors"; <relu as Op>::DEF;
            "(Partial(prod)) -> (Partial(prod))"; |cx, rows| add(cx, rows, &[PROD], &[PROD])),
        planted!("relu with the wrong combination"; <relu as Op>::DEF;
            "(Partial(max)) -> (Partial(min))"; |cx, rows| add(cx, rows, &[MAX], &[MIN])),
        planted!("gelu of parts"; <gelu as Op>::DEF;
            "(Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P], &[P])),
        planted!("gelu falls before it rises"; <gelu as Op>::DEF;
            "(Partial(max)) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX], &[MAX])),
        planted!("the condition is left whole"; <where_ as Op>::DEF;
            "(Replicated, Sharded(0), Sharded(0)) -> (Sharded(0))";
            |cx, rows| add(cx, rows, &[R, s(0), s(0)], &[s(0)])),
        planted!("the other choice counted on every device"; <where_ as Op>::DEF;
            "(Replicated, Partial(sum), Replicated) -> (Partial(sum))";
            |cx, rows| add(cx, rows, &[R, P, R], &[P])),
        planted!("a condition in parts"; <where_ as Op>::DEF;
            "(Partial(max), Replicated, Replicated) -> (Partial(max))";
            |cx, rows| add(cx, rows, &[MAX, R, R], &[MAX])),
        planted!("a factor beside a whole choice, only if it is there already"; <where_ as Op>::DEF;
            "(Replicated, Partial(prod), Replicated) -> (Partial(prod))";
            |cx, rows| if cx.place(1) == PROD { add(cx, rows, &[R, PROD, R], &[PROD]) }),
        planted!("two ragged operands keep what they have"; <sharding_ops::add as Op>::DEF;
        "(Ragged(0, "; |cx, rows| {
            let ragged = |i: usize| cx.carried(i, 0).filter(|place| format!("{place}").starts_with("Ragged"));
            if let (Some(a), Some(b)) = (ragged(0), ragged(1))
                && cx.operands.iter().all(|x| x.meta.shape == cx.results[0].shape) {
                rows.add([a, b], [a]);
            }
        }),
        planted!("every operand keeps a placement of its own"; <sharding_ops::add as Op>::DEF;
        "Ragged"; |cx, rows| if let (Place::Custom(_), Place::Custom(_)) = (cx.place(0), cx.place(1)) {
            if cx.operands.iter().all(|x| x.meta.shape == cx.results[0].shape)
                && cx.place(0).tensor_axis() == cx.place(1).tensor_axis() {
                rows.add([cx.place(0), cx.place(1)], [cx.place(0)]);
            }
        }),
        planted!("a placement of one of three operands is carried to it only"; <where_ as Op>::DEF;
        "Interleaved"; |cx, rows| if let place @ Place::Custom(_) = cx.place(1)
            && format!("{place}").starts_with("Interleaved") {
            add(cx, rows, &[s(0), place, s(0)], &[place]);
        }),
        Planted {
            what: "only a 2-dimensional sum may be split, and the whole is not offered otherwise",
            op: <sharding_ops::add as Op>::DEF,
            rule: |cx, args, rows| {
                if cx.results[0].shape.len() == 2 {
                    (<sharding_ops::add as Op>::DEF.rows)(cx, args, rows)
                } else {
                    Ok(())
                }
            },
            row: "",
        },
        Planted {
            what: "the whole is not offered on a second mesh axis",
            op: <relu as Op>::DEF,
            rule: |cx, _, rows| {
                if cx.axis == 0 {
                    replicated_rows(cx, rows);
                }
                add(cx, rows, &[s(0)], &[s(0)]);
                Ok(())
            },
            row: "",
        },
    ]
}
