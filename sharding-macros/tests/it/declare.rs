//! Every form compiles, registers, and calls what it was given.

use sharding_core::backend::LocalArray;
use sharding_core::op::Cases;
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::{KernelCx, Result, Shards, StageCx, TensorMeta, kernel, sharding_rule};

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
    Ok(Rows::new())
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
