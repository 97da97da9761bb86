//! `&a + &b`: the ops behind Rust's operators, which core looks up here.

use crate::{add, div, mul, neg, sub};
use sharding_core::op::Op;
use sharding_core::{Operator, OperatorDef};

inventory::submit! { OperatorDef { operator: Operator::Add, op: <add as Op>::DEF, args: || &add {} } }
inventory::submit! { OperatorDef { operator: Operator::Sub, op: <sub as Op>::DEF, args: || &sub {} } }
inventory::submit! { OperatorDef { operator: Operator::Mul, op: <mul as Op>::DEF, args: || &mul {} } }
inventory::submit! { OperatorDef { operator: Operator::Div, op: <div as Op>::DEF, args: || &div {} } }
inventory::submit! { OperatorDef { operator: Operator::Neg, op: <neg as Op>::DEF, args: || &neg {} } }
