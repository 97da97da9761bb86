//! Rules: on which placements an op can run.
//!
//! A rule is asked once per mesh axis and answers with rows. A row ([`AxisAssignment`]) gives a placement for every
//! operand and every result on that axis: if the inputs are cut as it says and the local kernel runs on each device,
//! the outputs combined as it says are the op's results on whole inputs. `conformance::rule` checks exactly that.

mod assignment;
mod cx;
mod exchange;
mod factor;
mod helper;
mod literal;

pub use assignment::{AxisAssignment, Rows, StageCollective};
pub use cx::{Role, RuleCx, RuleOperand};
pub use exchange::exchange_stage;
pub(crate) use exchange::{MOST_BOXES, MOST_DEVICES};
pub use factor::{FactorRule, Factors, Linear, Term};
pub use helper::{elementwise_rows, match_operand_placement, pass_through_rows, replicated_rows};
pub use literal::{LiteralPlace, LiteralRow, literal_rows};
