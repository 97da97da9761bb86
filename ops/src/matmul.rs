//! Matrix product.

use crate::check;
use sharding_core::backend::LocalArray;
use sharding_core::op::{CaseOperand, Cases};
use sharding_core::placement::sharded;
use sharding_core::rule::{Rows, RuleCx, replicated_rows};
use sharding_core::{DType, Error, ErrorKind, KernelCx, Place, Result, Shape, TensorMeta, broadcast, sharding_rule};
