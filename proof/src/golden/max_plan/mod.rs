//! Suite `max_plan`: what the planner of MAX decides for calls of ops, at what cost.
//!
//! Our plan must cost at most theirs, be the same where the rules are, and be sound: every call is then run on small
//! data and compared with the result on one device.

mod call;
mod compare;
mod forced;
mod rebind;
mod signature;

use super::json::{Node, Parsed};
use super::report::Report;
use compare::Outcome;

pub(super) fn replay(root: &Node<'_>, report: &mut Report) -> Parsed<()> {
    for case in root.field("cases")?.list()? {
        let mut note = None;
        report.case(&case.id(), || {
            if case.field("op")?.text()? == rebind::NAME {
                return rebind::replay(&case);
            }
            let call = match call::Call::read(&case)? {
                Ok(call) => call,
                Err(verdict) => return Ok(verdict),
            };
            let Outcome { verdict, note: said } = compare::compare(&case, &call)?;
            note = said;
            Ok(verdict)
        });
        if let Some(note) = note {
            report.note(note);
        }
    }
    Ok(())
}
