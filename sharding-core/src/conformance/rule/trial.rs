//! One call whose answer is known: a case or a variant of it, with elements and results on whole inputs.

use super::Subject;
use super::execute::{Execution, kernel_operands};
use crate::backend::LocalArrays;
use crate::conformance::host::HostArray;
use crate::kernel::KernelCx;
use crate::op::{Case, Fill, Grouped, Groups, OperandKind};
use crate::rule::Role;
use crate::{DeviceMapping, DeviceMesh, Error, ErrorKind, Metas, Result, Shape, TensorLayout, TensorMeta};
use std::collections::BTreeSet;

/// A call with its answer.
pub(super) struct Trial {
    /// The call.
    pub(super) case: Case,
    /// Whether it is one of the op's own cases, not a variant.
    pub(super) own: bool,
    /// How each operand takes part.
    pub(super) roles: Vec<Role>,
    /// The elements of every operand.
    pub(super) inputs: Vec<HostArray>,
    /// dtype and shape of every result.
    pub(super) results: Metas,
    /// The results on whole inputs.
    pub(super) wants: Vec<HostArray>,
    /// The written operands after the call on whole inputs, in order.
    pub(super) written: Vec<HostArray>,
}

impl Trial {
    /// Runs the kernel on whole inputs.
    ///
    /// # Errors
    /// What shape function and kernel say; of kind Internal where one panics or the two contradict each other.
    pub(super) fn new(subject: &Subject<'_>, case: Case, own: bool, roles: Vec<Role>) -> Result<Self> {
        let results = shape_of(subject, &case)?;
        let inputs: Vec<_> = case
            .operands
            .iter()
            .enumerate()
            .map(|(i, operand)| HostArray::of_case(operand, 1 + i as u64))
            .collect();
        let mut trial = Self { case, own, roles, inputs, results, wants: Vec::new(), written: Vec::new() };
        trial.run_whole(subject)?;
        Ok(trial)
    }

    fn run_whole(&mut self, subject: &Subject<'_>) -> Result<()> {
        let mesh = DeviceMesh::single(subject.device);
        let whole =
            |meta: &TensorMeta| TensorLayout::new(meta.dtype, &meta.shape, DeviceMapping::replicated(&mesh));
        let operands: Vec<_> =
            self.case.operands.iter().map(|operand| whole(&operand.meta)).collect::<Result<_>>()?;
        let results: Vec<_> = self.results.iter().map(whole).collect::<Result<_>>()?;
        let arrays: Vec<_> = self
            .inputs
            .iter()
            .map(|input| input.put(subject.backend, subject.device))
            .collect::<Result<_>>()?;
        let (read, groups, mut written) = kernel_operands(&self.roles, &self.case, arrays);
        let mut cx = KernelCx::new(subject.backend, subject.def.name, subject.device, 0, &operands, &results);
        let read: Vec<_> = read.iter().collect();
        let mut made = LocalArrays::new();
        super::caught(|| {
            let operands = Grouped::new(&read, Groups(&groups));
            (subject.kernel)(&mut cx, operands, &mut written, self.case.args.as_any(), &mut made)
        })?;
        let execution = Execution::read(subject.backend, &[made], &[written])?;
        for (want, meta) in execution.results.iter().zip(&self.results) {
            let Some(want) = want.first() else { continue };
            if want.dtype != meta.dtype || want.shape != meta.shape {
                let message = format!(
                    "the kernel on whole inputs makes {}{} where the shape function says {meta}",
                    want.dtype, want.shape
                );
                return Err(Error::new(ErrorKind::Internal, message));
            }
        }
        if execution.results.len() != self.results.len() {
            let message = format!(
                "the kernel makes {} results where the shape function says {}",
                execution.results.len(),
                self.results.len()
            );
            return Err(Error::new(ErrorKind::Internal, message));
        }
        self.wants = execution.results.into_iter().flatten().collect();
        self.written = execution.written.into_iter().flatten().collect();
        Ok(())
    }

    /// The operands, roles and arguments as text.
    pub(super) fn describe(&self, subject: &Subject<'_>) -> String {
        let mut text = String::new();
        for (i, (operand, role)) in self.case.operands.iter().zip(&self.roles).enumerate() {
            let name = subject.def.operand_name(Groups(&self.case.groups), i);
            let role = match role {
                Role::Tensor => "",
                Role::Scalar => " (number)",
                Role::Single => " (one device)",
                Role::Written => " (written)",
            };
            let comma = if i == 0 { "" } else { ", " };
            text.push_str(&format!("{comma}{name}: {}{role}", operand.meta));
        }
        format!("({text}) {:?}", self.case.args)
    }
}

/// The shape function's answer, with panics as errors.
fn shape_of(subject: &Subject<'_>, case: &Case) -> Result<Metas> {
    let metas: Vec<TensorMeta> = case.operands.iter().map(|operand| operand.meta.clone()).collect();
    super::caught(|| (subject.def.shape)(Grouped::new(&metas, Groups(&case.groups)), case.args.as_any()))
}

/// How the operands of a case take part: every way that a call may choose.
pub(super) fn roles(subject: &Subject<'_>, case: &Case) -> Vec<Vec<Role>> {
    let declared = |flat: usize| {
        let (declared, _) = Groups(&case.groups).locate(flat);
        subject.def.operands.get(declared).map(|operand| operand.kind)
    };
    let number = |flat: usize| {
        declared(flat) == Some(OperandKind::Scalar)
            && case.operands.get(flat).is_some_and(|operand| operand.meta.shape.is_empty())
    };
    let with = |numbers: bool| -> Vec<Role> {
        (0..case.operands.len())
            .map(|flat| match declared(flat) {
                Some(OperandKind::Written) => Role::Written,
                _ if numbers && number(flat) => Role::Scalar,
                _ => Role::Tensor,
            })
            .collect()
    };
    if (0..case.operands.len()).any(number) { vec![with(true), with(false)] } else { vec![with(false)] }
}

/// The most variants of one case.
const VARIANTS: usize = 28;

/// The same call with other extents, as far as the shape function takes them: 0, 1, 5, 6 and 7 for every extent that
/// operands share, and 1 for single axes (broadcasting).
pub(super) fn variants(subject: &Subject<'_>, case: &Case) -> Vec<Case> {
    let extents: BTreeSet<usize> =
        case.operands.iter().flat_map(|operand| operand.meta.shape.iter().copied()).collect();
    let mut tried: Vec<Case> = Vec::new();
    let mut add = |variant: Option<Case>| {
        let Some(variant) = variant else { return };
        let known = |other: &Case| other.operands == variant.operands;
        let size: usize = variant.operands.iter().map(|operand| operand.meta.shape.elements()).sum();
        if size <= 1 << 14 && !known(case) && !tried.iter().any(known) && shape_of(subject, &variant).is_ok()
        {
            tried.push(variant);
        }
    };
    for to in [5, 1, 6, 7, 0] {
        for from in &extents {
            add(replaced(case, |extent| if extent == *from { to } else { extent }));
        }
    }
    for (i, operand) in case.operands.iter().enumerate() {
        for axis in 0..operand.meta.shape.len() {
            let mut variant = case.clone();
            if let Some(operand) = variant.operands.get_mut(i) {
                operand.meta.shape = operand.meta.shape.with_extent(axis, 1);
            }
            add(Some(variant));
        }
    }
    // All extents at once: small and uneven in every axis together.
    let order: Vec<usize> = extents.iter().copied().collect();
    for (first, step) in [(2, 1), (3, 2), (1, 1)] {
        add(replaced(case, |extent| {
            let number = order.iter().position(|known| *known == extent).unwrap_or(0);
            if extent == 1 { 1 } else { first + step * number }
        }));
    }
    tried.truncate(VARIANTS);
    tried
}

/// Every extent replaced; bounds of indices follow the extents that they are equal to.
fn replaced(case: &Case, to: impl Fn(usize) -> usize) -> Option<Case> {
    let mut variant = case.clone();
    for operand in &mut variant.operands {
        operand.meta.shape = Shape::new(operand.meta.shape.iter().map(|n| to(*n)).collect::<Shape>()).ok()?;
        let is_extent =
            |bound: usize| case.operands.iter().any(|operand| operand.meta.shape.contains(&bound));
        if let Fill::Below(bound) = operand.fill
            && is_extent(bound)
        {
            operand.fill = Fill::Below(to(bound));
        }
    }
    // No index is below 0.
    let no_index = |operand: &crate::op::CaseOperand| {
        operand.fill == Fill::Below(0) && operand.meta.shape.elements() > 0
    };
    (!variant.operands.iter().any(no_index)).then_some(variant)
}
