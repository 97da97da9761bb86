//! reshape, permute, concat, slice.

use super::{MAX, P, Planted, R, add, front, planted, s};
use sharding_core::op::{Op, OpDef};
use sharding_core::rule::{pass_through_rows, replicated_rows};
use sharding_ops::{Index, Place, concat, permute, reshape, slice};

/// A slice that takes from the start, wherever it is told to.
static SLICE_FROM_THE_START: OpDef = OpDef {
    kernel: |cx, operands, _, _, results| {
        let x = *operands.one(0)?;
        let shape = cx.result_shape(0)?;
        let part = (0..shape.len()).fold(x.clone(), |part, axis| part.slice(axis, 0, shape.extent(axis)));
        results.push(part);
        Ok(())
    },
    cases: |cases| {
        use sharding_core::op::CaseOperand;
        let indices = [Index::ALL, Index::from(..3)][..].into();
        cases.add([CaseOperand::new(sharding_ops::DType::F32, [6, 7])], slice { indices });
    },
    ..*<slice as Op>::DEF
};

/// The extents behind an axis.
fn behind(extents: &[usize], axis: usize) -> usize {
    extents.get(axis + 1..).unwrap_or(&[]).iter().product()
}

#[test]
fn movements() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    let mut all = reshapes();
    all.extend([
        planted!("the inverse order of the axes"; <permute as Op>::DEF;
            "(Sharded(0)) -> (Sharded(2))"; |cx, all: permute, rows| {
                let order: Vec<usize> = all.axes.iter().map(|axis| front(cx, *axis)).collect();
                pass_through_rows(cx, 0, rows, |axis| order.get(axis).copied());
            }),
        planted!("every axis stays where it is"; <permute as Op>::DEF;
            "(Sharded(0)) -> (Sharded(0))"; |cx, rows| pass_through_rows(cx, 0, rows, Some)),
        planted!("a custom placement stays where it is"; <permute as Op>::DEF;
            "Interleaved(0, [3, 4])) -> (Interleaved(0, [3, 4]))"; |cx, rows| {
                let place = cx.place(0);
                if format!("{place}").starts_with("Interleaved") { add(cx, rows, &[place], &[place]) }
            }),
        planted!("a custom placement becomes a balanced split"; <permute as Op>::DEF;
            "Ragged"; |cx, all: permute, rows| for axis in 0..cx.ndim(0) {
                let to = all.axes.iter().position(|own| front(cx, *own) == axis);
                if let (Some(place), Some(to)) = (cx.carried(0, axis), to) { add(cx, rows, &[place], &[s(to)]) }
            }),
        planted!("joined along the split axis"; <concat as Op>::DEF;
            "(Sharded(0), Sharded(0)) -> (Sharded(0))"; |cx, all: concat, rows| {
                let axis = front(cx, all.axis);
                rows.add(cx.operands.iter().map(|_| s(axis)), [s(axis)]);
            }),
        planted!("joined along the split axis, only for three of them"; <concat as Op>::DEF;
            "(Sharded(1), Sharded(1), Sharded(1)) -> (Sharded(1))"; |cx, all: concat, rows| {
                let axis = front(cx, all.axis);
                if cx.operands.len() == 3 { rows.add(cx.operands.iter().map(|_| s(axis)), [s(axis)]) }
            }),
        planted!("only the first comes in parts"; <concat as Op>::DEF;
            "(Partial(sum), Replicated) -> (Partial(sum))";
            |cx, rows| if cx.operands.len() > 1 {
                rows.add(cx.operands.iter().enumerate().map(|(i, _)| if i == 0 { P } else { R }), [P]);
            }),
        planted!("only the first is split"; <concat as Op>::DEF;
            "(Sharded(1), Replicated) -> (Sharded(1))";
            |cx, all: concat, rows| if cx.operands.len() == 2 && front(cx, all.axis) == 0 {
                add(cx, rows, &[s(1), R], &[s(1)]);
            }),
        planted!("placements of the joined axis are carried"; <concat as Op>::DEF;
            "Ragged"; |cx, all: concat, rows| {
                let axis = front(cx, all.axis);
                if let Some(place) = cx.carried(0, axis) {
                    rows.add(cx.operands.iter().enumerate().map(|(i, _)| if i == 0 { place } else { s(axis) }), [s(axis)]);
                }
            }),
        planted!("parts that combine in two ways"; <concat as Op>::DEF;
            "(Partial(max), Partial(max)) -> (Partial(sum))";
            |cx, rows| rows.add(cx.operands.iter().map(|_| MAX), [P])),
        planted!("a part of the split axis is taken"; <slice as Op>::DEF;
            "(Sharded(0)) -> (Sharded(0))"; |cx, all: slice, rows|
                if !matches!(all.indices.first(), Some(Index::At(_))) { add(cx, rows, &[s(0)], &[s(0)]) }),
        planted!("a dropped axis does not renumber"; <slice as Op>::DEF;
            "(Sharded(1)) -> (Sharded(1))"; |cx, all: slice, rows|
                if matches!(all.indices.first(), Some(Index::At(_))) { add(cx, rows, &[s(1)], &[s(1)]) }
                else if let [_, Index::Range { step: 3, .. }, Index::At(0)] = all.indices.as_slice() {
                    add(cx, rows, &[s(1)], &[s(1)]);
                }),
        planted!("a start that counts on the first device only"; &SLICE_FROM_THE_START;
            "(Sharded(1)) -> (Sharded(1))"; |cx, rows| add(cx, rows, &[s(1)], &[s(1)])),
        planted!("a split axis backwards"; <slice as Op>::DEF;
            "(Sharded(1)) -> (Sharded(1))"; |cx, all: slice, rows|
                if let [Index::Ellipsis, Index::Range { step: -1, .. }] = all.indices.as_slice() {
                    add(cx, rows, &[s(1)], &[s(1)]);
                }),
    ]);
    all
}

fn reshapes() -> Vec<Planted> {
    vec![
        planted!("the last axis of a run keeps its split"; <reshape as Op>::DEF;
            "(Sharded(1)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(1)], &[s(0)])),
        planted!("a split that does not fall on whole indices"; <reshape as Op>::DEF;
            "(Sharded(0)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(0)], &[s(0)])),
        Planted {
            what: "unequal pieces wear the balanced label",
            op: <reshape as Op>::DEF,
            rule: |cx, _, rows| {
                replicated_rows(cx, rows);
                let to = &cx.results[0].shape;
                // 7x8 to 56: whole indices, but not the balanced sizes.
                if cx.ndim(0) == 2 && to.len() == 1 && cx.extent(0, 0) == 7 {
                    rows.add([s(0)], [s(0)]);
                }
                Ok(())
            },
            row: "(Sharded(0)) -> (Sharded(0))",
        },
        Planted {
            what: "right on one mesh axis, wrong where two split the axis",
            op: <reshape as Op>::DEF,
            rule: |cx, _, rows| {
                replicated_rows(cx, rows);
                let (from, to) = (&cx.operands[0].meta.shape, &cx.results[0].shape);
                let (inner, to_inner) = (behind(from, 0), behind(to, 0));
                let extent = from.extent(0);
                if !to.is_empty()
                    && extent > 0
                    && to_inner > 0
                    && extent % cx.ways() == 0
                    && (extent / cx.ways() * inner) % to_inner == 0
                {
                    rows.add([s(0)], [s(0)]);
                }
                Ok(())
            },
            row: "x: (Sharded(0)) -> (Sharded(0)); y: (Sharded(0)) -> (Sharded(0))",
        },
        planted!("parts of one kind become parts of another"; <reshape as Op>::DEF;
            "(Partial(max)) -> (Partial(sum))"; |_cx, rows| rows.add([MAX], [P])),
        planted!("what is Unknown becomes known"; <reshape as Op>::DEF;
            "(Unknown) -> (Replicated)"; |_cx, rows| rows.add([Place::Unknown], [R])),
        planted!("interleaved pieces wear the balanced label"; <reshape as Op>::DEF;
        "Interleaved"; |cx, rows| {
            let place = cx.place(0);
            if format!("{place}").starts_with("Interleaved(0") { add(cx, rows, &[place], &[s(0)]) }
        }),
        planted!("a ragged placement carried as it is, whatever the elements behind"; <reshape as Op>::DEF;
        "Ragged"; |cx, rows| {
            let place = cx.place(0);
            if format!("{place}").starts_with("Ragged(0") && cx.results[0].shape.len() == 1 && cx.ndim(0) == 2 {
                add(cx, rows, &[place], &[s(0)]);
            }
        }),
        planted!("a split of the first axis moves behind a new first axis"; <reshape as Op>::DEF;
            "(Sharded(0)) -> (Sharded(1))"; |cx, all: reshape, rows|
                if all.dims.first() == Some(&4) { add(cx, rows, &[s(0)], &[s(1)]) }),
    ]
}
