//! matmul, embedding, gather, buffer_store and buffer_store_slice.

use super::{MAX, P, Planted, R, add, args, planted, s};
use sharding_core::backend::Gather;
use sharding_core::op::{Op, OpDef};
use sharding_core::rule::replicated_rows;
use sharding_ops::{Index, buffer_store, buffer_store_slice, embedding, gather, matmul};
use smallvec::SmallVec;

/// An embedding that takes global indices for local ones.
static EMBEDDING_WITHOUT_BASE: OpDef = OpDef {
    kernel: |cx, operands, _, _, results| {
        let (table, indices) = (*operands.one(0)?, *operands.one(1)?);
        let bound = cx.operand(0)?.shape().extent(0) as i64;
        results.push(cx.gather(Gather { axis: 0, base: 0, bound }, table, indices)?);
        Ok(())
    },
    ..*<embedding as Op>::DEF
};

/// A gather that counts its base from the device's number in the mesh and a balanced share.
static GATHER_BY_POSITION: OpDef = OpDef {
    kernel: |cx, operands, _, all, results| {
        let (x, indices) = (*operands.one(0)?, *operands.one(1)?);
        let axis = x.shape().axis(args::<gather>(all).axis)?;
        let bound = cx.operand(0)?.shape().extent(axis) as i64;
        let split = cx.operand(0)?.places().iter().any(|place| place.tensor_axis() == Some(axis));
        let base = if split { (cx.position() * x.shape().extent(axis)) as i64 } else { 0 };
        results.push(cx.gather(Gather { axis, base, bound }, x, indices)?);
        Ok(())
    },
    ..*<gather as Op>::DEF
};

/// The product with a few of its cases: each of the rules below is checked on all of them.
pub(super) static MATMUL: OpDef = OpDef {
    cases: |cases| {
        use sharding_core::op::CaseOperand;
        for (lhs, rhs) in [
            (&[4, 7][..], &[7, 5][..]),
            (&[2, 3, 4], &[2, 4, 5]),
            (&[5, 2, 4], &[2, 5, 4, 3]),
            (&[2, 1, 4, 6], &[1, 3, 6, 2]),
            (&[7], &[7]),
        ] {
            let operand = |shape: &[usize]| CaseOperand::new(sharding_ops::DType::F32, shape);
            cases.add([operand(lhs), operand(rhs)], matmul {});
        }
    },
    ..*<matmul as Op>::DEF
};

/// A store into a part that takes global indices for local ones.
static STORE_LOCALLY: OpDef = OpDef {
    kernel: |cx, operands, written, all, _| {
        let source = *operands.one(1)?;
        let indices = &args::<buffer_store_slice>(all).indices;
        let at: SmallVec<[usize; 4]> = (0..source.shape().len())
            .map(|axis| match indices.get(axis) {
                Some(Index::Range { start: Some(start), .. }) => (*start).max(0) as usize,
                _ => 0,
            })
            .collect();
        for into in written {
            cx.store(into, source, &at)?;
        }
        Ok(())
    },
    cases: |cases| {
        use sharding_core::op::CaseOperand;
        let operand = |shape: [usize; 2]| CaseOperand::new(sharding_ops::DType::F32, shape);
        let indices = [Index::from(2..4)][..].into();
        cases.add([operand([8, 4]), operand([2, 4])], buffer_store_slice { indices });
    },
    ..*<buffer_store_slice as Op>::DEF
};

#[test]
fn products_lookups_and_stores() {
    super::check(&planted());
}

fn planted() -> Vec<Planted> {
    let mut all = matmuls();
    all.extend([
        planted!("a vocabulary that is split without a base"; &EMBEDDING_WITHOUT_BASE;
            "(Sharded(0), Replicated) -> (Partial(sum))"),
        planted!("what another device holds taken for nothing"; <embedding as Op>::DEF;
            "(Sharded(0), Replicated) -> (Replicated)"; |cx, rows| add(cx, rows, &[s(0), R], &[R])),
        planted!("zeros of absent rows combined by maximum"; <embedding as Op>::DEF;
            "(Sharded(0), Replicated) -> (Partial(max))"; |cx, rows| add(cx, rows, &[s(0), R], &[MAX])),
        planted!("a split of the indices on the wrong axis"; <embedding as Op>::DEF;
            "(Replicated, Sharded(0)) -> (Sharded(1))"; |cx, rows| add(cx, rows, &[R, s(0)], &[s(1)])),
        planted!("a split of the width before the indices' axes"; <embedding as Op>::DEF;
            "(Sharded(1), Replicated) -> (Sharded(1))"; |cx, rows| add(cx, rows, &[s(1), R], &[s(1)])),
        planted!("a table and its indices split alike"; <embedding as Op>::DEF;
            "(Sharded(0), Sharded(0)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(0), s(0)], &[s(0)])),
        planted!("indices in parts"; <gather as Op>::DEF;
            "(Replicated, Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[R, P], &[P])),
        planted!("a base that is right for equal shares on one mesh axis"; &GATHER_BY_POSITION;
            "-> (Partial(sum))"),
        planted!("the same axis of a table and its indices"; <gather as Op>::DEF;
            "(Sharded(1), Sharded(1)) -> (Sharded(1))"; |cx, rows| add(cx, rows, &[s(1), s(1)], &[s(1)])),
        Planted {
            what: "a source that lies otherwise than the buffer",
            op: <buffer_store as Op>::DEF,
            rule: |cx, _, rows| {
                rows.add([cx.place(0), R], []);
                Ok(())
            },
            row: "(Sharded(0), Replicated) -> ()",
        },
        Planted {
            what: "a source in parts into a whole buffer",
            op: <buffer_store as Op>::DEF,
            rule: |cx, _, rows| {
                rows.add([cx.place(0), if cx.place(0) == R { P } else { cx.place(0) }], []);
                Ok(())
            },
            row: "(Replicated, Partial(sum)) -> ()",
        },
        Planted {
            what: "a written operand is moved",
            op: <buffer_store as Op>::DEF,
            rule: |_, _, rows| {
                rows.add([R, R], []);
                Ok(())
            },
            row: "(Replicated, Replicated) -> ()",
        },
        Planted {
            what: "a store that can never run",
            op: <buffer_store as Op>::DEF,
            rule: |_, _, _| Ok(()),
            row: "",
        },
        planted!("global indices taken for local ones"; &STORE_LOCALLY;
            "(Sharded(0), Replicated) -> ()"),
        Planted {
            what: "a source split alike along an axis of which a part is stored",
            op: <buffer_store_slice as Op>::DEF,
            rule: |cx, all, rows| match cx.place(0).tensor_axis() {
                Some(axis) if axis < cx.ndim(1) && cx.ndim(0) == cx.ndim(1) => {
                    rows.add([cx.place(0), cx.place(0)], []);
                    Ok(())
                }
                _ => (<buffer_store_slice as Op>::DEF.rows)(cx, all, rows),
            },
            row: "(Sharded(0), Sharded(0)) -> ()",
        },
    ]);
    all
}

fn matmuls() -> Vec<Planted> {
    vec![
        planted!("m comes out as n"; &MATMUL;
            "(Sharded(0), Replicated) -> (Sharded(1))"; |cx, rows| if cx.ndim(0) == 2 { add(cx, rows, &[s(0), R], &[s(1)]) }),
        planted!("n comes out as m"; &MATMUL;
            "(Replicated, Sharded(1)) -> (Sharded(0))"; |cx, rows| if cx.ndim(1) == 2 { add(cx, rows, &[R, s(1)], &[s(0)]) }),
        planted!("a split k and a whole result"; &MATMUL;
            "(Sharded(1), Sharded(0)) -> (Replicated)"; |cx, rows| add(cx, rows, &[s(1), s(0)], &[R])),
        planted!("a split k and a split result"; &MATMUL;
            "(Sharded(1), Sharded(0)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(1), s(0)], &[s(0)])),
        planted!("k split on one side only"; &MATMUL;
            "(Sharded(1), Replicated) -> (Partial(sum))"; |cx, rows| if cx.ndim(0) == 2 { add(cx, rows, &[s(1), R], &[P]) }),
        planted!("m and n split at once"; &MATMUL;
            "(Sharded(0), Sharded(1)) -> (Sharded(0))"; |cx, rows| add(cx, rows, &[s(0), s(1)], &[s(0)])),
        planted!("parts times parts"; &MATMUL;
            "(Partial(sum), Partial(sum)) -> (Partial(sum))"; |cx, rows| add(cx, rows, &[P, P], &[P])),
        planted!("parts taken for the whole"; &MATMUL;
            "(Partial(sum), Replicated) -> (Replicated)"; |cx, rows| add(cx, rows, &[P, R], &[R])),
        planted!("a maximum through a product"; &MATMUL;
            "(Partial(max), Replicated) -> (Partial(max))"; |cx, rows| add(cx, rows, &[MAX, R], &[MAX])),
        planted!("batch axes split though one of them broadcasts"; &MATMUL;
            "(Sharded(0), Sharded(0)) -> (Sharded(0))";
            |cx, rows| if cx.ndim(0) > 2 && cx.ndim(0) == cx.ndim(1) { add(cx, rows, &[s(0), s(0)], &[s(0)]) }),
        Planted {
            what: "batch axes aligned at the first",
            op: &MATMUL,
            rule: |cx, _, rows| {
                replicated_rows(cx, rows);
                for axis in 0..cx.ndim(0).min(cx.ndim(1)).saturating_sub(2) {
                    rows.add([s(axis), s(axis)], [s(axis)]);
                }
                Ok(())
            },
            row: "(Sharded(0), Sharded(0)) -> (Sharded(0))",
        },
        planted!("two operands carry placements that only look alike"; &MATMUL;
        "Ragged"; |cx, rows| if cx.ndim(0) == 2 && cx.ndim(1) == 2
            && let (Some(a), Some(b)) = (cx.carried(0, 1), cx.carried(1, 0)) {
            rows.add([a, b], [P]);
        }),
    ]
}
