//! Checking somebody else's plan with our kernels: rows that are forced on the planner.

use super::call::Call;
use sharding_core::rule::{AxisAssignment, Rows, RuleCx};
use sharding_core::{Error, ErrorKind, Place, Policy, Result, Scope};
use std::any::Any;
use std::cell::RefCell;

thread_local! {
    static FORCED: RefCell<Vec<AxisAssignment>> = const { RefCell::new(Vec::new()) };
}

fn rows(cx: &RuleCx<'_>, _: &dyn Any, rows: &mut Rows) -> Result<()> {
    let row = FORCED.with(|forced| forced.borrow().get(cx.axis).cloned());
    rows.push(row.ok_or_else(|| Error::new(ErrorKind::Internal, "no row is forced"))?);
    Ok(())
}

/// Whether a plan is wrong: operands cut as it says, our kernel run on each device and the results combined as it says
/// give another value, or shards of other sizes than their label has. Where our kernel cannot run it for another reason,
/// nothing is said against it.
pub(super) fn is_wrong(call: &Call, inputs: &[Vec<Place>], outputs: &[Vec<Place>]) -> bool {
    let at = |places: &[Vec<Place>], axis: usize| -> Vec<Place> {
        places.iter().map(|places| places.get(axis).copied().unwrap_or(Place::Replicated)).collect()
    };
    let ndim = call.mesh.ndim();
    let forced: Vec<AxisAssignment> = (0..ndim)
        .map(|axis| {
            let of = |i: usize, place: Place| match call.flat().get(i) {
                Some(Some(given)) if given.single => Place::Replicated,
                _ => place,
            };
            let operands = at(inputs, axis).into_iter().enumerate().map(|(i, place)| of(i, place));
            AxisAssignment::new(operands, at(outputs, axis))
        })
        .collect();
    FORCED.with(|slot| *slot.borrow_mut() = forced);
    let scope = (*Scope::current()).clone().with_rule(call.def.name, rows);
    let outcome = scope.enter(|| {
        let results = call.run(Policy::silent().all(), Some(inputs))?;
        call.difference(&results)
    });
    match outcome {
        Ok(difference) => difference.is_some(),
        Err(error) => matches!(error.kind(), ErrorKind::Kernel | ErrorKind::Shape),
    }
}
