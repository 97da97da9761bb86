//! Wrong rules planted in right ops: the checker must find every one.
//!
//! A planted rule is the op's own with one row too many, or another rule altogether; where the kernel is what is wrong, the
//! op is a copy with that kernel. Each says which row must be blamed.

mod data;
mod elementwise;
mod hint;
mod movement;
mod own;
mod question;
mod reduction;

use sharding_core::BackendKind;
use sharding_core::conformance::rule::check_rule_with;
use sharding_core::op::{ErasedRows, OpDef};
use sharding_core::placement::sharded as s;
use sharding_core::rule::{Rows, RuleCx};
use sharding_ops::{Place, ReduceOp};
use std::any::Any;

const R: Place = Place::Replicated;
const P: Place = Place::PARTIAL;
const MAX: Place = Place::Partial(ReduceOp::Max);
const MIN: Place = Place::Partial(ReduceOp::Min);
const PROD: Place = Place::Partial(ReduceOp::Prod);

/// A wrong rule.
struct Planted {
    /// What is wrong with it.
    what: &'static str,
    /// The op, or a copy of it with a wrong kernel.
    op: &'static OpDef,
    /// The rule.
    rule: ErasedRows,
    /// A part of the row that must be blamed; empty where no row is to blame.
    row: &'static str,
}

/// `planted!("what"; op; "row"; |cx, args: Type, rows| body)`: the op's own rows, and what `body` adds.
macro_rules! planted {
    ($what:literal; $op:expr; $row:literal; |$cx:ident, $rows:ident| $body:expr) => {
        planted!($what; $op; $row; |$cx, _args: dyn, $rows| $body)
    };
    ($what:literal; $op:expr; $row:literal; |$cx:ident, $args:ident: dyn, $rows:ident| $body:expr) => {
        $crate::planted::Planted {
            what: $what,
            op: $op,
            rule: |$cx, $args, $rows| {
                ($op.rows)($cx, $args, $rows)?;
                $body;
                Ok(())
            },
            row: $row,
        }
    };
    ($what:literal; $op:expr; $row:literal; |$cx:ident, $args:ident: $type:ty, $rows:ident| $body:expr) => {
        planted!($what; $op; $row; |$cx, all: dyn, $rows| {
            let $args = $crate::planted::args::<$type>(all);
            $body
        })
    };
}
pub(crate) use planted;

/// An op's plain arguments.
fn args<A: 'static>(args: &dyn Any) -> &A {
    args.downcast_ref().unwrap_or_else(|| panic!("arguments of another op"))
}

/// A tensor axis, which may be negative, from the front.
fn front(cx: &RuleCx<'_>, axis: isize) -> usize {
    if axis < 0 { (cx.ndim(0) as isize + axis) as usize } else { axis as usize }
}

/// Adds a row if it names no axis that a tensor lacks: others are wrong in a way that is no test.
fn add(cx: &RuleCx<'_>, rows: &mut Rows, operands: &[Place], results: &[Place]) {
    let fits = |place: &Place, ndim: usize| place.tensor_axis().is_none_or(|axis| axis < ndim);
    let operands_fit = operands.iter().enumerate().all(|(i, place)| fits(place, cx.ndim(i)));
    let results_fit = results.iter().zip(cx.results).all(|(place, meta)| fits(place, meta.shape.len()));
    if operands_fit && results_fit {
        rows.add(operands.iter().copied(), results.iter().copied());
    }
}

/// Every planted rule is found, by the row that is wrong.
#[track_caller]
fn check(planted: &[Planted]) {
    let mut missed = Vec::new();
    for planted in planted {
        let report = check_rule_with(planted.op, BackendKind::CPU, planted.rule).unwrap();
        let blamed = report.failures.iter().find(|failure| failure.row.contains(planted.row));
        match blamed {
            Some(failure) => println!("found in {} checks: {}\n{failure}", report.checks, planted.what),
            None => {
                missed.push(format!("{}: wanted {} to be blamed in\n{report}", planted.what, planted.row))
            }
        }
    }
    println!("{} planted, {} found", planted.len(), planted.len() - missed.len());
    assert!(missed.is_empty(), "{} not found:\n{}", missed.len(), missed.join("\n"));
}
