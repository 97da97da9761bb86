//! Cases: how to make valid inputs of an op, for the checker, replays and fuzzing.

use super::OpArgs;
use crate::{DType, Shape, TensorMeta};
use smallvec::SmallVec;
use std::sync::Arc;

/// What the elements of a case's operand are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Small integers of both signs, no two neighbours equal (as floats where the dtype is one): sums are exact.
    Signed,
    /// Positive numbers.
    Positive,
    /// Integers in `0..bound`.
    Below(usize),
}

/// One operand of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseOperand {
    /// dtype and global shape.
    pub meta: TensorMeta,
    /// Its elements.
    pub fill: Fill,
}

impl CaseOperand {
    /// An operand with elements of both signs.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { meta: TensorMeta::new(dtype, shape), fill: Fill::Signed }
    }
    /// The same with other elements.
    #[must_use]
    pub fn with_fill(mut self, fill: Fill) -> Self {
        self.fill = fill;
        self
    }
}

/// A valid call of an op: operands and arguments.
#[derive(Clone, Debug)]
pub struct Case {
    /// The operands, flat.
    pub operands: Vec<CaseOperand>,
    /// How many of them each declared operand stands for.
    pub groups: SmallVec<[u16; 4]>,
    /// The plain arguments.
    pub args: Arc<dyn OpArgs>,
}

/// A list of cases to add to.
#[derive(Clone, Debug, Default)]
pub struct Cases(Vec<Case>);

impl Cases {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a case in which every declared operand is one tensor.
    pub fn add(&mut self, operands: impl IntoIterator<Item = CaseOperand>, args: impl OpArgs) {
        let operands: Vec<_> = operands.into_iter().collect();
        let groups = SmallVec::from_elem(1, operands.len());
        self.0.push(Case { operands, groups, args: Arc::new(args) });
    }
    /// Adds a case with a number of tensors for each declared operand.
    pub fn add_grouped(&mut self, operands: impl IntoIterator<Item = Vec<CaseOperand>>, args: impl OpArgs) {
        let (mut flat, mut groups) = (Vec::new(), SmallVec::new());
        for group in operands {
            groups.push(u16::try_from(group.len()).unwrap_or(u16::MAX));
            flat.extend(group);
        }
        self.0.push(Case { operands: flat, groups, args: Arc::new(args) });
    }
    /// The cases.
    pub fn iter(&self) -> std::slice::Iter<'_, Case> {
        self.0.iter()
    }
}
