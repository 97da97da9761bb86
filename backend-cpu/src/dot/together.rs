//! Products of several devices as one job of the pool.

use super::panel::{self, Filled, Plan};
use super::rows::RowJob;
use super::{COLUMN_TASK, Factor, Product, SPLIT, is_worth_threads};
use crate::device;
use crate::storage::{places, written};
use sharding_core::backend::{FusedOp, LocalArray, Primitive, Work};
use sharding_core::{DType, Result};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Runs the products of several devices as one job of the pool, where each is one matrix that is not worth being split by
/// itself: so threads meet once for all of them, what all devices multiply is brought into order once, and products too
/// small for the pool run side by side. `None`, and nothing is done, for all other work. Every element is added up as
/// if its product ran alone.
pub(crate) fn run(primitive: &Primitive, work: &mut [Work<'_>]) -> Option<Result<()>> {
    if work.len() < 2 || !matches!(primitive, Primitive::Dot | Primitive::Fused(FusedOp::Linear)) {
        return None;
    }
    let mut sides: SmallVec<[(&LocalArray, Cow<'_, LocalArray>); 4]> = SmallVec::new();
    let mut biases: SmallVec<[Option<&LocalArray>; 4]> = SmallVec::new();
    let mut outs: SmallVec<[(&'static str, &mut LocalArray); 4]> = SmallVec::new();
    for Work { op, inputs, outputs, .. } in work {
        let ([a, b, bias @ ..], [out]) = (*inputs, &mut **outputs) else { return None };
        if [a.dtype(), b.dtype(), out.dtype()] != [DType::F32; 3] || out.elements() == 0 || bias.len() > 1 {
            return None;
        }
        let b = match primitive {
            Primitive::Dot => Cow::Borrowed(*b),
            _ if b.shape().len() == 2 => Cow::Owned(b.permute(&[1, 0])),
            _ => return None,
        };
        sides.push((a, b));
        biases.push(bias.first().copied());
        outs.push((*op, out));
    }
    let mut factors: SmallVec<[[Factor<'_, f32>; 2]; 4]> = SmallVec::new();
    for (a, b) in &sides {
        factors.push([Factor::new(a).ok()?, Factor::new(b).ok()?]);
    }
    let mut products: SmallVec<[Product<'_, f32>; 4]> = SmallVec::new();
    for (([a, b], bias), (_, out)) in factors.iter().zip(&biases).zip(&outs) {
        products.push(Product::new(a, b, *bias, out.shape()).ok()?);
    }
    let small = |product: &Product<'_, f32>| {
        product.batch.is_empty() && product.work() < SPLIT && (product.is_rows() || product.is_panels())
    };
    let (work, read) = products.iter().fold((0_usize, 0_usize), |(work, read), product| {
        (work.saturating_add(product.work()), read.saturating_add(product.read()))
    });
    if !is_worth_threads(work, read) || !products.iter().all(small) {
        return None;
    }
    let mut run = || -> Result<bool> {
        let mut places_of: SmallVec<[&mut [MaybeUninit<f32>]; 4]> = SmallVec::new();
        for (op, out) in &mut outs {
            // SAFETY: `run_together` puts nothing but values there.
            places_of.push(unsafe { places(out) }.map_err(|error| error.with_op(*op))?);
        }
        if !run_together(&products, places_of) {
            return Ok(false);
        }
        for (op, out) in &mut outs {
            // SAFETY: `run_together` has written every element.
            unsafe { written(out) }.map_err(|error| error.with_op(*op))?;
        }
        Ok(true)
    };
    match run() {
        Ok(true) => Some(Ok(())),
        // There was no memory for panels, and nothing is written.
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    }
}

/// One of several products that are a job of the pool together.
enum Part<'a> {
    Rows(RowJob<'a>),
    Panels(panel::Job<'a>),
}

impl Part<'_> {
    fn tasks(&self) -> usize {
        match self {
            Self::Rows(job) => job.tasks(),
            Self::Panels(job) => job.tasks(),
        }
    }

    /// Runs a task.
    ///
    /// # Safety
    /// No other thread runs the one of this number at the same time.
    unsafe fn run(&self, number: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Rows(job) => job.run(number),
                Self::Panels(job) => job.run(number),
            }
        }
    }
}

/// Writes products without batch axes, by scalar products of rows or by panels, as one job of the pool. False where there is no
/// memory for panels, and nothing is written.
fn run_together(products: &[Product<'_, f32>], outs: SmallVec<[&mut [MaybeUninit<f32>]; 4]>) -> bool {
    let starts = |product: &Product<'_, f32>| (product.a.start(0, &[]), product.b.start(0, &[]));
    let mut plans: SmallVec<[(Plan<'_>, usize); 4]> = SmallVec::new();
    let mut filled: SmallVec<[Filled; 4]> = SmallVec::new();
    for product in products.iter().filter(|product| !product.is_rows()) {
        let (a, b) = starts(product);
        let plan = product.plan(a, b);
        // What all devices hold is brought into order for all of them.
        let panels = match plans.iter().find(|(other, _)| other.fills_as(&plan)) {
            Some((_, panels)) => *panels,
            None => {
                let Some(panels) = plan.fill(true) else { return false };
                filled.push(panels);
                filled.len() - 1
            }
        };
        plans.push((plan, panels));
    }
    let mut plans = plans.iter();
    let mut parts: SmallVec<[Part<'_>; 4]> = SmallVec::new();
    for (product, out) in products.iter().zip(outs) {
        let (a, b) = starts(product);
        parts.push(if product.is_rows() {
            Part::Rows(RowJob::new(product, a, b, out, COLUMN_TASK))
        } else {
            let Some((plan, panels)) = plans.next() else { return false };
            Part::Panels(plan.job(&filled[*panels], out, true))
        });
    }
    device::each(parts.iter().map(Part::tasks).sum(), |mut number| {
        for part in &parts {
            if number < part.tasks() {
                // SAFETY: `each` gives every number to one thread, and they are those of tasks one after the other.
                return unsafe { part.run(number) };
            }
            number -= part.tasks();
        }
    });
    panel::forget();
    true
}
