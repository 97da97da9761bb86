//! What a check of a rule found.

use crate::BackendKind;
use crate::op::OpDef;
use std::fmt;

/// What [`check_rule`](super::check_rule) found about one op.
#[derive(Clone, Debug)]
pub struct RuleReport {
    /// The op.
    pub op: &'static str,
    /// Where it was declared.
    pub at: (&'static str, u32),
    /// The backend whose kernels ran.
    pub kind: BackendKind,
    /// Its cases and the variants of them that its shape function takes.
    pub trials: usize,
    /// The distinct rows that the rule gave.
    pub rows: usize,
    /// How often a row, or a pair of rows on two mesh axes, was run and compared.
    pub checks: usize,
    /// How many elements of results and written operands were compared with those of the whole call.
    pub elements: usize,
    /// Variants that the kernel refused on whole inputs though the shape function takes them.
    pub refused: usize,
    /// Pairs left out: of placements that no mapping can hold, or beyond the bound for one trial.
    pub left_out: usize,
    /// What is wrong; each row is reported once.
    pub failures: Vec<RuleFailure>,
    /// Rows that the kernel is right for on every call of a kind that was tried, though no row names their operands'
    /// placements; each with a call of its kind.
    pub hints: Vec<String>,
}

impl RuleReport {
    pub(super) fn new(def: &'static OpDef, kind: BackendKind) -> Self {
        Self {
            op: def.name,
            at: def.at,
            kind,
            trials: 0,
            rows: 0,
            checks: 0,
            elements: 0,
            refused: 0,
            left_out: 0,
            failures: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// Whether no row failed.
    pub fn is_sound(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for RuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {}: {} rows, {} checks of {} elements in {} trials ({} variants refused, {} pairs of rows left out): {}",
            self.op,
            self.kind,
            self.rows,
            self.checks,
            self.elements,
            self.trials,
            self.refused,
            self.left_out,
            if self.is_sound() { "sound".to_owned() } else { format!("{} failed", self.failures.len()) }
        )?;
        for failure in &self.failures {
            write!(f, "\n{failure}")?;
        }
        for hint in &self.hints {
            write!(f, "\n  hint: likely missing row {hint}")?;
        }
        Ok(())
    }
}

/// A row that is not sound, or a rule that breaks its contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFailure {
    /// The op.
    pub op: &'static str,
    /// Where it was declared.
    pub at: (&'static str, u32),
    /// The row, or one row per mesh axis; empty where the rule gave none.
    pub row: String,
    /// The mesh by its sizes.
    pub mesh: String,
    /// The operands' dtypes, global shapes and roles, and the plain arguments.
    pub case: String,
    /// The position in the mesh at which it showed, where it did at one.
    pub device: Option<usize>,
    /// What is wrong; for a wrong element its index in the whole, what it should be and what it is.
    pub detail: String,
}

impl fmt::Display for RuleFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}: ", self.op)?;
        if !self.row.is_empty() {
            write!(f, "row {} ", self.row)?;
        }
        write!(f, "on a mesh of {}", self.mesh)?;
        if let Some(device) = self.device {
            write!(f, ", device {device}")?;
        }
        write!(f, ": {}\n    case: {}\n    rule: {}:{}", self.detail, self.case, self.at.0, self.at.1)
    }
}
