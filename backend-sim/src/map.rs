//! Elementwise expressions.

use sharding_core::backend::{Expr, LocalArray, Node};

/// One per step of the expression that is neither an input nor a constant, and element.
pub(crate) fn flops(expr: &Expr, output: Option<&LocalArray>) -> f64 {
    let steps = expr.nodes().iter().filter(|node| !matches!(node, Node::Input(_) | Node::Const(..))).count();
    steps as f64 * output.map_or(0, LocalArray::elements) as f64
}
