use super::*;
use crate::op::{Case, Cases, Grouped, OperandDef, OperandKind};
use crate::rule::{Role, Rows, RuleCx, RuleOperand};
use crate::split::balanced;
use crate::{DType, Error, ErrorKind, Place, ReduceOp, Shape, TensorMeta, placement::Ragged};
use proptest::prelude::*;

const D: Term = Term::Dots;
const M: Term = Term::Factor(0);
const N: Term = Term::Factor(1);
const K: Term = Term::Factor(2);

const MATMUL: FactorRule = FactorRule {
    alternatives: &[
        Factors {
            names: &["m", "n", "k"],
            operands: &[&[D, M, K], &[D, K, N]],
            results: &[&[D, M, N]],
            reduced: &[(2, ReduceOp::Sum)],
            whole: &[],
        },
        Factors {
            names: &["n", "k"],
            operands: &[&[Term::Factor(1)], &[D, Term::Factor(1), Term::Factor(0)]],
            results: &[&[D, Term::Factor(0)]],
            reduced: &[(1, ReduceOp::Sum)],
            whole: &[],
        },
    ],
    linear: &[Linear::Each],
};

const ADD: FactorRule = FactorRule {
    alternatives: &[Factors {
        names: &[],
        operands: &[&[D], &[D]],
        results: &[&[D]],
        reduced: &[],
        whole: &[],
    }],
    linear: &[Linear::Together],
};

/// The largest of each row, and a whole axis in front of `...`.
const MAX: FactorRule = FactorRule {
    alternatives: &[Factors {
        names: &["a", "b"],
        operands: &[&[M, D, N]],
        results: &[&[M, D]],
        reduced: &[(1, ReduceOp::Max)],
        whole: &[0],
    }],
    linear: &[],
};

fn declared(kinds: &[OperandKind]) -> Vec<OperandDef> {
    kinds.iter().zip(["x", "y", "z"]).map(|(kind, name)| OperandDef { name, kind: *kind }).collect()
}

fn metas(shapes: &[&[usize]]) -> Vec<TensorMeta> {
    shapes.iter().map(|shape| TensorMeta::new(DType::F32, Shape::from(*shape))).collect()
}

fn shape(rule: &FactorRule, operands: &[TensorMeta]) -> crate::Result<Vec<Shape>> {
    let groups: Vec<u16> = vec![1; operands.len()];
    let declared = declared(&vec![OperandKind::Tensor; operands.len()]);
    let metas = rule.shape(&declared, Grouped::new(operands, Groups(&groups)))?;
    Ok(metas.into_iter().map(|meta| meta.shape).collect())
}

/// The rows on an axis of 2 with these shapes, placements and roles.
fn rows(rule: &FactorRule, shapes: &[&[usize]], places: &[Place], roles: &[Role]) -> Rows {
    let metas = metas(shapes);
    let results = shape(rule, &metas).unwrap();
    let results: Vec<_> = results.into_iter().map(|shape| TensorMeta::new(DType::F32, shape)).collect();
    let operands: Vec<_> = metas
        .into_iter()
        .enumerate()
        .map(|(i, meta)| RuleOperand {
            meta,
            places: [places.get(i).copied().unwrap_or(Place::Replicated)].into_iter().collect(),
            role: roles.get(i).copied().unwrap_or(Role::Tensor),
        })
        .collect();
    let groups: Vec<u16> = vec![1; operands.len()];
    let cx = RuleCx {
        axis: 0,
        mesh_shape: &[2],
        operands: &operands,
        groups: Groups(&groups),
        results: &results,
        committed: &[],
    };
    let mut rows = Rows::new();
    rule.rows(&cx, &mut rows).unwrap();
    rows
}

/// Compares rows in the form `S0 R -> S0`.
fn check(rule: &FactorRule, shapes: &[&[usize]], places: &[Place], wanted: &[&str]) {
    check_rows(&rows(rule, shapes, places, &[]), wanted);
}

fn check_rows(rows: &Rows, wanted: &[&str]) {
    let short = |place: &Place| match place {
        Place::Replicated => "R".to_owned(),
        Place::Sharded(axis) => format!("S{axis}"),
        Place::Partial(ReduceOp::Sum) => "P".to_owned(),
        other => other.to_string(),
    };
    let list = |places: &[Place]| places.iter().map(short).collect::<Vec<_>>().join(" ");
    let have: Vec<_> =
        rows.iter().map(|row| format!("{} -> {}", list(&row.operands), list(&row.results))).collect();
    assert_eq!(have, wanted);
}

fn refused(result: crate::Result<Vec<Shape>>, kind: ErrorKind, words: &[&str]) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} should name {word}");
    }
}

#[test]
fn rows_of_a_product_are_batch_m_n_k_then_partial() {
    check(
        &MATMUL,
        &[&[3, 5, 4, 6], &[3, 5, 6, 7]],
        &[],
        &[
            "R R -> R",
            "S0 S0 -> S0",
            "S1 S1 -> S1",
            "S2 R -> S2",
            "R S3 -> S3",
            "S3 S2 -> P",
            "P R -> P",
            "R P -> P",
        ],
    );
    check(&MATMUL, &[&[6], &[6, 7]], &[], &["R R -> R", "R S1 -> S0", "S0 S0 -> P", "P R -> P", "R P -> P"]);
}

#[test]
fn batch_axes_are_aligned_from_the_right() {
    let sums = ["S2 R -> S2", "R S2 -> S3", "S3 S1 -> P", "P R -> P", "R P -> P"];
    let wanted: Vec<_> = ["R R -> R", "S0 R -> S0", "S1 S0 -> S1"].into_iter().chain(sums).collect();
    check(&MATMUL, &[&[3, 5, 4, 6], &[5, 6, 7]], &[], &wanted);
    check(&ADD, &[&[5], &[3, 5]], &[], &["R R -> R", "R S0 -> S0", "S0 S1 -> S1", "P P -> P"]);
}

#[test]
fn an_extent_of_one_broadcasts_and_stays_whole() {
    check(&ADD, &[&[1, 5], &[3, 1]], &[], &["R R -> R", "R S0 -> S0", "S1 R -> S1", "P P -> P"]);
    check(&ADD, &[&[1], &[0]], &[], &["R R -> R", "R S0 -> S0", "P P -> P"]);
    // Where no other extent is there to broadcast to, the axis is an axis like others.
    check(&ADD, &[&[1], &[1]], &[], &["R R -> R", "S0 S0 -> S0", "P P -> P"]);
}

#[test]
fn a_reduced_factor_leaves_its_own_partial_and_whole_ones_stay() {
    check(&MAX, &[&[2, 3, 4]], &[], &["R -> R", "S1 -> S1", "S2 -> Partial(max)"]);
    check(&MAX, &[&[2, 4]], &[], &["R -> R", "S1 -> Partial(max)"]);
}

#[test]
fn custom_placements_are_carried() {
    let ragged = |axis| Place::custom(Ragged::new(axis, [1, 4]));
    let rows = rows(&MATMUL, &[&[4, 5], &[5, 7]], &[Place::Replicated, ragged(0)], &[]);
    let row = rows.iter().find(|row| row.operands[1] == ragged(0)).unwrap();
    assert_eq!((row.operands[0], row.results[0]), (ragged(1), Place::PARTIAL));
    assert_eq!(rows.len(), 7);
}

#[test]
fn written_operands_do_not_move() {
    let roles = [Role::Written, Role::Tensor];
    check_rows(&rows(&ADD, &[&[4], &[4]], &[Place::Sharded(0)], &roles), &["S0 S0 -> S0"]);
    check_rows(&rows(&ADD, &[&[4], &[4]], &[], &roles), &["R R -> R"]);
}

#[test]
fn shapes_follow_from_the_factors() {
    let result = |rule, shapes: &[&[usize]]| shape(rule, &metas(shapes)).unwrap()[0].to_vec();
    assert_eq!(result(&MATMUL, &[&[5, 1, 4, 6], &[3, 6, 7]]), [5, 3, 4, 7]);
    assert_eq!(result(&MATMUL, &[&[0], &[0, 7]]), [7]);
    assert_eq!(result(&MATMUL, &[&[6], &[5, 6, 0]]), [5, 0]);
    assert_eq!(result(&ADD, &[&[1, 5], &[0, 1]]), [0, 5]);
    assert_eq!(result(&MAX, &[&[2, 3, 0, 4]]), [2, 3, 0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let inner = shape(&MATMUL, &metas(&[&[4, 8], &[6, 2]]));
    refused(inner, ErrorKind::Shape, &["'k' is 8 in x (axis 1) and 6 in y (axis 0)", "fix: "]);
    let batch = shape(&MATMUL, &metas(&[&[2, 3, 4, 8], &[5, 8, 2]]));
    refused(batch, ErrorKind::Shape, &["'...' is 3 in x (axis 1) and 5 in y (axis 0)", "5", "fix: "]);
    let scalar = shape(&MATMUL, &metas(&[&[], &[6, 2]]));
    refused(
        scalar,
        ErrorKind::Shape,
        &["x has 0", "y has 2", "'... m k, ... k n -> ... m n', 'k, ... k n -> ... n'"],
    );
    refused(shape(&MAX, &metas(&[&[2, 0]])), ErrorKind::Shape, &["no max", "'b'", "axis 1 of x"]);
    let mut mixed = metas(&[&[2], &[2]]);
    mixed[1].dtype = DType::I64;
    refused(shape(&ADD, &mixed), ErrorKind::DType, &["x is f32", "y is i64"]);
    let huge = shape(&ADD, &metas(&[&[1, usize::MAX / 32], &[usize::MAX / 32, 1]]));
    refused(huge, ErrorKind::Overflow, &[]);
    let deep = [1; 10];
    let deep = shape(&MATMUL, &metas(&[&deep, &[&deep[..], &deep[..]].concat()]));
    refused(deep, ErrorKind::Shape, &["20 tensor axes"]);
}

fn cases_of(rule: &FactorRule, kinds: &[OperandKind]) -> Vec<Case> {
    let mut cases = Cases::new();
    rule.cases(&declared(kinds), (), &mut cases);
    cases.iter().cloned().collect()
}

#[test]
fn cases_reach_every_alternative_and_extent() {
    let cases = cases_of(&MATMUL, &[OperandKind::Tensor; 2]);
    let any = |test: &dyn Fn(&[usize], &[usize]) -> bool| {
        cases.iter().any(|case| test(&case.operands[0].meta.shape, &case.operands[1].meta.shape))
    };
    assert!(any(&|x, _| x.len() == 1), "the vector alternative");
    assert!(any(&|x, y| x.len() == 4 && y.len() == 3), "more batch axes on the left");
    assert!(any(&|x, y| x.len() == 3 && y.len() == 4), "more batch axes on the right");
    for (m, k, n) in [(5, 6, 7), (1, 6, 7), (0, 6, 7), (5, 1, 7), (5, 0, 7), (5, 6, 1), (5, 6, 0)] {
        assert!(any(&|x, y| x == [m, k] && y == [k, n]), "{m} {k} {n}");
    }
    // A maximum over nothing is no valid call.
    assert!(
        cases_of(&MAX, &[OperandKind::Tensor])
            .iter()
            .all(|case| case.operands[0].meta.shape.last() != Some(&0))
    );
}

#[test]
fn cases_of_slices_and_optional_operands_vary_in_number() {
    let concat = FactorRule {
        alternatives: &[Factors {
            names: &["a"],
            operands: &[&[M], &[M]],
            results: &[&[M]],
            reduced: &[],
            whole: &[],
        }],
        linear: &[Linear::Together, Linear::Operand(0)],
    };
    let cases = cases_of(&concat, &[OperandKind::Many, OperandKind::Optional]);
    let sizes: Vec<_> = cases.iter().map(|case| (case.groups[0], case.groups[1])).collect();
    for wanted in [(1, 1), (2, 1), (3, 1), (2, 0)] {
        assert!(sizes.contains(&wanted), "{sizes:?}");
    }
}

/// The local shape of a tensor whose axis is split over `ways`, at `part`.
fn cut(meta: &TensorMeta, place: Place, part: usize, ways: usize) -> TensorMeta {
    match place.tensor_axis() {
        Some(axis) => {
            let extent = balanced(meta.shape.extent(axis), ways, part).len();
            TensorMeta::new(meta.dtype, meta.shape.with_extent(axis, extent))
        }
        None => meta.clone(),
    }
}

/// Two shapes that broadcast, with any numbers of axes.
fn broadcasting() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let axis = (0_usize..6, any::<[bool; 2]>());
    (proptest::collection::vec(axis, 0..4), 0_usize..4, 0_usize..4).prop_map(|(axes, drop_a, drop_b)| {
        let side = |i: usize, drop: usize| {
            let drop = if i == 0 { drop } else { drop_b };
            axes.iter().skip(drop).map(|(extent, ones)| if ones[i] { 1 } else { *extent }).collect()
        };
        (side(0, drop_a), side(1, drop_b))
    })
}

proptest! {
    /// On every device, the shape function of the local operands gives the local shape that the row's results have.
    #[test]
    fn local_shapes_agree_with_the_rows(
        (a, b) in broadcasting(), [m, n, k] in [0_usize..6, 0..6, 0..6], ways in 1_usize..5, product in any::<bool>(),
    ) {
        let (rule, x, y) = if product {
            (&MATMUL, [&a[..], &[m, k]].concat(), [&b[..], &[k, n]].concat())
        } else {
            (&ADD, a, b)
        };
        let operands = metas(&[&x, &y]);
        let results = shape(rule, &operands).unwrap();
        for row in rows(rule, &[&x, &y], &[], &[]).iter() {
            for part in 0..ways {
                let local: Vec<_> = operands.iter().zip(&row.operands).map(|(meta, place)| cut(meta, *place, part, ways)).collect();
                let whole = TensorMeta::new(DType::F32, results[0].clone());
                prop_assert_eq!(&shape(rule, &local).unwrap()[0], &cut(&whole, row.results[0], part, ways).shape, "{}", row);
            }
        }
    }

    /// Derived cases are valid calls.
    #[test]
    fn cases_are_valid(which in 0_usize..3) {
        let (rule, n) = [(&MATMUL, 2), (&ADD, 2), (&MAX, 1)][which];
        for case in cases_of(rule, &vec![OperandKind::Tensor; n]) {
            let metas: Vec<_> = case.operands.iter().map(|operand| operand.meta.clone()).collect();
            prop_assert!(shape(rule, &metas).is_ok(), "{:?}", metas);
        }
    }
}
