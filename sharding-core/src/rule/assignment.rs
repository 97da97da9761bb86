//! Rows, and lists of them.

use crate::Place;
use crate::backend::{IndexMap, StepKind};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A collective on a small intermediate that a staged row runs: part of the row's cost and report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageCollective {
    /// The kind of exchange.
    pub kind: StepKind,
    /// Bytes of the whole intermediate; of an exchange of ranges (`Permute`) the most that one device receives.
    pub bytes: usize,
}

impl StageCollective {
    /// Whether it carries elements of the operands to other devices, as a reshard does, and not what the op works out on the
    /// way. Also where that is no byte along this mesh axis alone: along several together it may be some.
    pub fn exchanges(&self) -> bool {
        self.kind == StepKind::Permute
    }
}

/// A row: on one mesh axis, a placement for every operand and one for every result.
#[derive(Clone, PartialEq)]
pub struct AxisAssignment {
    /// The placement that each operand must have.
    pub operands: SmallVec<[Place; 4]>,
    /// The placement that each result then has.
    pub results: SmallVec<[Place; 2]>,
    /// The collectives that the op's staged function runs on this axis; empty for a row whose local kernel is enough.
    pub stages: SmallVec<[StageCollective; 2]>,
    /// What the exchanges among its stages read, by global indices: a map for each result, in order. From them follows what the
    /// exchanges of all mesh axes together move; `None` where the rule does not say.
    pub maps: Option<Arc<[IndexMap]>>,
}

impl AxisAssignment {
    /// A row that a local kernel runs.
    pub fn new(operands: impl IntoIterator<Item = Place>, results: impl IntoIterator<Item = Place>) -> Self {
        Self {
            operands: operands.into_iter().collect(),
            results: results.into_iter().collect(),
            stages: SmallVec::new(),
            maps: None,
        }
    }
    /// Whether elements of its operands change their device inside the op: what policies count as a reshard.
    pub fn exchanges(&self) -> bool {
        self.stages.iter().any(StageCollective::exchanges)
    }
    /// Whether the op's staged function runs it.
    pub fn is_staged(&self) -> bool {
        !self.stages.is_empty()
    }
}

impl fmt::Display for AxisAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, places: &[Place]| {
            f.write_str("(")?;
            for (i, place) in places.iter().enumerate() {
                write!(f, "{}{place}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(")")
        };
        list(f, &self.operands)?;
        f.write_str(" -> ")?;
        list(f, &self.results)?;
        f.write_str(if self.is_staged() { " staged" } else { "" })
    }
}
impl fmt::Debug for AxisAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The rows of a rule on one mesh axis; their order breaks ties. Equal rows are kept once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows(Vec<AxisAssignment>);

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a row that a local kernel runs.
    pub fn add(
        &mut self,
        operands: impl IntoIterator<Item = Place>,
        results: impl IntoIterator<Item = Place>,
    ) {
        self.push(AxisAssignment::new(operands, results));
    }
    /// Adds a row that the op's staged function runs, with the collectives it needs.
    pub fn add_staged(
        &mut self,
        operands: impl IntoIterator<Item = Place>,
        results: impl IntoIterator<Item = Place>,
        stages: impl IntoIterator<Item = StageCollective>,
    ) {
        self.push(AxisAssignment {
            stages: stages.into_iter().collect(),
            ..AxisAssignment::new(operands, results)
        });
    }
    /// Adds a row on which the op's staged function is an exchange of each of these maps, in the order of the results; the
    /// stages are those of [`exchange_stage`](super::exchange_stage).
    pub fn add_exchanged(
        &mut self,
        operands: impl IntoIterator<Item = Place>,
        results: impl IntoIterator<Item = Place>,
        stages: impl IntoIterator<Item = StageCollective>,
        maps: impl IntoIterator<Item = IndexMap>,
    ) {
        self.push(AxisAssignment {
            stages: stages.into_iter().collect(),
            maps: Some(maps.into_iter().collect()),
            ..AxisAssignment::new(operands, results)
        });
    }
    /// Adds a row unless it is there.
    pub fn push(&mut self, row: AxisAssignment) {
        if !self.0.contains(&row) {
            self.0.push(row);
        }
    }
    /// Adds the rows of another list.
    pub fn append(&mut self, other: Self) {
        if self.0.is_empty() {
            self.0 = other.0;
        } else {
            other.0.into_iter().for_each(|row| self.push(row));
        }
    }
    /// Removes all rows, keeping the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl std::ops::Deref for Rows {
    type Target = [AxisAssignment];
    fn deref(&self) -> &[AxisAssignment] {
        &self.0
    }
}
