//! Every form compiles, registers, and calls what it was given.

use sharding_core::backend::{Expr, LocalArray};
use sharding_core::op::{Cases, Grouped, Groups, KeyWriter, Op, OpArgs, OpDef, OperandKind, Registry};
use sharding_core::rule::{Role, Rows, RuleCx, RuleOperand, replicated_rows};
use sharding_core::{
    BackendKind, DType, KernelCx, Place, Result, Shards, StageCx, TensorMeta, kernel, sharding_rule,
};

/// A matrix product.
#[sharding_rule(["... m k, ... k n -> ... m n", "k, ... k n -> ... n"], reduce(k = sum), linear(each))]
pub fn it_matmul(cx: &mut KernelCx, lhs: &LocalArray, rhs: &LocalArray) -> Result<LocalArray> {
    cx.dot(lhs, rhs)
}

#[sharding_rule(["..., ... -> ..."], linear(together))]
fn it_add(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(sharding_core::backend::BinaryOp::Add, lhs, rhs)
}

#[sharding_rule(rows = [(S(0), R) => S(0), (S(-1), S(0)) => P, (P(max), R) => P(max)], shape = first_shape)]
fn it_rows(cx: &mut KernelCx, x: &LocalArray, y: &LocalArray) -> Result<LocalArray> {
    cx.dot(x, y)
}

fn first_shape(x: &TensorMeta, _: &TensorMeta) -> Result<TensorMeta> {
    Ok(x.clone())
}

#[sharding_rule(rule = everything_rule, shape = everything_shape, cases = everything_cases)]
#[allow(unused_variables)]
pub fn it_everything(
    cx: &mut KernelCx,
    x: &LocalArray,
    xs: &[&LocalArray],
    #[scalar] rhs: &LocalArray,
    bias: Option<&LocalArray>,
    dest: &mut LocalArray,
    k: usize,
    shape: &[isize],
    name: &str,
    axes: Option<&[usize]>,
    label: Option<&str>,
    #[kernel_only] seed: u64,
) -> Result<(LocalArray, LocalArray)> {
    let _ = (k + 1, shape.len(), name.len(), axes.map(<[usize]>::len), label.map(str::len), seed);
    dest.storage_mut();
    Ok((x.clone(), xs.first().map_or(rhs, |x| x).clone()))
}

fn everything_rule(
    cx: &RuleCx<'_>,
    _k: usize,
    _shape: &[isize],
    _name: &str,
    _axes: Option<&[usize]>,
    _label: Option<&str>,
) -> Result<Rows> {
    let mut rows = Rows::new();
    replicated_rows(cx, &mut rows);
    Ok(rows)
}

#[allow(clippy::too_many_arguments)]
fn everything_shape(
    x: &TensorMeta,
    xs: &[TensorMeta],
    _rhs: &TensorMeta,
    bias: Option<&TensorMeta>,
    _dest: &TensorMeta,
    _k: usize,
    _shape: &[isize],
    _name: &str,
    _axes: Option<&[usize]>,
    _label: Option<&str>,
) -> Result<(TensorMeta, TensorMeta)> {
    Ok((x.clone(), bias.or(xs.first()).unwrap_or(x).clone()))
}

fn everything_cases(cases: &mut Cases) {
    cases.add_grouped(
        [],
        it_everything {
            k: 1,
            shape: [1, 2].into_iter().collect(),
            name: "n".into(),
            axes: None,
            label: None,
            seed: 0,
        },
    );
}

#[sharding_rule(["... k -> ... k"], whole(k), stages = softmax_stages, rule_also = softmax_rows)]
fn it_softmax(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.fused(sharding_core::backend::FusedOp::Softmax { axis: 0 }, &[x])
}
fn softmax_stages(_: &mut StageCx<'_>, x: &Shards) -> Result<Shards> {
    Ok(x.clone())
}
fn softmax_rows(_: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    rows.add([Place::Unknown], [Place::Unknown]);
    Ok(rows)
}

/// Names that generated code might use itself.
mod names {
    use super::*;

    #[sharding_rule(rule = rows, shape = operands, cases = cases, stages = args)]
    pub fn cx(cx: &mut KernelCx, written: &LocalArray, args: usize) -> Result<LocalArray> {
        cx.reshape(written, &written.shape().without(args))
    }
    fn rows(_: &RuleCx<'_>, _: usize) -> Result<Rows> {
        Ok(Rows::new())
    }
    fn operands(x: &TensorMeta, _: usize) -> Result<TensorMeta> {
        Ok(x.clone())
    }
    fn cases(_: &mut Cases) {}
    fn args(_: &mut StageCx<'_>, x: &Shards, _: usize) -> Result<Shards> {
        Ok(x.clone())
    }
    #[kernel(op = cx, backend = "cuda")]
    fn written(_: &mut KernelCx, written: &LocalArray) -> Result<LocalArray> {
        Ok(written.clone())
    }
}

#[sharding_rule(["k -> k"])]
fn it_foreign(cx: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray>;

#[kernel(op = it_foreign, backend = "cuda")]
fn it_foreign_cuda(_: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    Ok(x.slice(0, 0, k))
}

#[sharding_rule(rows = [(S(0), S(0)) => ()], shape = no_results)]
fn it_store(cx: &mut KernelCx, dest: &mut LocalArray, source: &LocalArray) -> Result<()> {
    cx.store(dest, source, &[0])
}
fn no_results(_: &TensorMeta, _: &TensorMeta) -> Result<()> {
    Ok(())
}

#[sharding_rule(["..., ... , ... -> ..."])]
fn r#where(
    cx: &mut KernelCx,
    r#if: &LocalArray,
    then: &LocalArray,
    r#else: &LocalArray,
) -> Result<LocalArray> {
    cx.map(&Expr::input(0), &[r#if, then, r#else])
}

fn def<O: Op>() -> &'static OpDef {
    let found = Registry::get().unwrap().op(O::DEF.name).unwrap();
    assert_eq!(found.at, O::DEF.at);
    assert!(found.at.0.ends_with("declare.rs") && found.at.1 > 0, "{:?}", found.at);
    found
}

fn kinds(def: &OpDef) -> Vec<(&str, OperandKind)> {
    def.operands.iter().map(|operand| (operand.name, operand.kind)).collect()
}

/// Each element by itself.
#[sharding_rule(rows = [S(1) => S(1)], shape = pieces_shape)]
fn it_pieces(cx: &mut KernelCx, x: &LocalArray) -> Result<Vec<LocalArray>> {
    let n = cx.operand(0)?.shape().extent(0);
    Ok((0..n).map(|i| x.slice(0, i, 1)).collect())
}
fn pieces_shape(x: &TensorMeta) -> Result<Vec<TensorMeta>> {
    Ok((0..x.shape.extent(0)).map(|_| TensorMeta::new(x.dtype, x.shape.with_extent(0, 1))).collect())
}

#[test]
fn a_call_decides_how_many_results_a_vector_has() {
    let def = def::<it_pieces>();
    assert_eq!(def.results, None);
    for n in [0, 1, 3] {
        let metas = [TensorMeta::new(DType::F32, [n, 4])];
        let groups = Groups(&[1]);
        let results = (def.shape)(Grouped::new(&metas, groups), &it_pieces {}).unwrap();
        assert_eq!(results.len(), n);
        let operands = [RuleOperand {
            meta: metas[0].clone(),
            places: [Place::Replicated].into_iter().collect(),
            role: Role::Tensor,
        }];
        let cx = RuleCx {
            axis: 0,
            mesh_shape: &[2],
            operands: &operands,
            groups,
            results: &results,
            committed: &[],
        };
        let mut rows = Rows::new();
        (def.rows)(&cx, &it_pieces {}, &mut rows).unwrap();
        // One placement stands for all results.
        assert!(rows.iter().all(|row| row.results.len() == n), "{rows:?}");
        assert_eq!(rows.len(), 2);
    }
}

#[test]
fn definitions_say_what_was_declared() {
    use OperandKind::{Many, Optional, Scalar, Tensor, Written};
    assert_eq!(kinds(def::<it_matmul>()), [("lhs", Tensor), ("rhs", Tensor)]);
    assert_eq!(kinds(def::<it_add>()), [("lhs", Scalar), ("rhs", Scalar)]);
    let everything = def::<it_everything>();
    assert_eq!(
        kinds(everything),
        [("x", Tensor), ("xs", Many), ("rhs", Scalar), ("bias", Optional), ("dest", Written)]
    );
    assert_eq!((everything.results, def::<it_store>().results), (Some(2), Some(0)));
    assert_eq!(kinds(def::<names::cx>()), [("written", Tensor)]);
    assert_eq!(def::<r#where>().name, "where");
    assert_eq!(kinds(def::<r#where>())[0].0, "if");
}

#[test]
fn keys_leave_kernel_only_arguments_out() {
    let args = |k, seed| it_everything {
        k,
        shape: [1, 2].into_iter().collect(),
        name: "n".into(),
        axes: Some([3].into_iter().collect()),
        label: None,
        seed,
    };
    let key = |args: &it_everything| {
        let mut key = KeyWriter::new();
        args.key(&mut key);
        key
    };
    assert_eq!(key(&args(1, 0)), key(&args(1, 1)));
    assert_ne!(key(&args(1, 0)), key(&args(2, 0)));
    assert_eq!(format!("{:?}", args(1, 7).boxed()), format!("{:?}", args(1, 7)));
}

/// The rows on an axis of 2 of operands of these shapes.
fn rows<O: Op>(shapes: &[&[usize]], role: Role, args: &O::Args) -> String {
    let metas: Vec<_> = shapes.iter().map(|shape| TensorMeta::new(DType::F32, *shape)).collect();
    let groups = vec![1; shapes.len()];
    let results = O::shape(Grouped::new(&metas, Groups(&groups)), args).unwrap();
    let operand =
        |meta: TensorMeta| RuleOperand { meta, places: [Place::Replicated].into_iter().collect(), role };
    let operands: Vec<_> = metas.into_iter().map(operand).collect();
    let cx = RuleCx {
        axis: 0,
        mesh_shape: &[2],
        operands: &operands,
        groups: Groups(&groups),
        results: &results,
        committed: &[],
    };
    let mut rows = Rows::new();
    O::rows(&cx, args, &mut rows).unwrap();
    rows.iter().map(|row| format!("{row}\n")).collect()
}

#[test]
fn literal_rows_are_those_written_behind_the_replicated_one() {
    assert_eq!(
        rows::<it_rows>(&[&[4, 6], &[6, 4]], Role::Tensor, &it_rows {}),
        "(Replicated, Replicated) -> (Replicated)\n\
         (Sharded(0), Replicated) -> (Sharded(0))\n\
         (Sharded(1), Sharded(0)) -> (Partial(sum))\n\
         (Partial(max), Replicated) -> (Partial(max))\n"
    );
    // An axis that is not there, and a buffer that would move.
    assert_eq!(rows::<it_store>(&[&[], &[]], Role::Tensor, &it_store {}), "(Replicated, Replicated) -> ()\n");
    assert_eq!(rows::<it_store>(&[&[4], &[4]], Role::Written, &it_store {}), "");
}

#[test]
fn factors_and_further_rows() {
    assert_eq!(
        rows::<it_softmax>(&[&[4, 6]], Role::Tensor, &it_softmax {}),
        "(Replicated) -> (Replicated)\n(Sharded(0)) -> (Sharded(0))\n(Unknown) -> (Unknown)\n"
    );
}

#[test]
fn cases_are_derived_for_factors_and_written_for_others() {
    let count = |cases: fn(&mut Cases)| {
        let mut all = Cases::new();
        cases(&mut all);
        all.iter().count()
    };
    assert!(count(def::<it_matmul>().cases) > 10);
    assert_eq!(count(def::<it_everything>().cases), 1);
    assert_eq!(count(def::<it_rows>().cases), 0);
}

#[test]
fn kernels_of_a_backend_are_registered() {
    let registry = Registry::get().unwrap();
    assert!(registry.kernel("it_foreign", BackendKind::CUDA).is_some());
    assert!(registry.kernel("it_foreign", BackendKind::CPU).is_none());
    assert!(registry.kernel("it_matmul", BackendKind::CUDA).is_none());
}
