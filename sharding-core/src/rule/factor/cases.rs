//! Valid calls of an op in factor notation.

use super::{FactorRule, Factors, Term};
use crate::op::{CaseOperand, Cases, Grouped, Groups, OpArgs, OperandDef, OperandKind};
use crate::{DType, Shape, TensorMeta};
use smallvec::SmallVec;

/// Extents of the factors: different, and uneven over 2, 3 and 4 devices, so that a row which mixes two of them up or
/// counts on even parts gives a wrong result.
const EXTENTS: [usize; 6] = [5, 7, 6, 3, 4, 9];

/// The axes of `...` in the first operand that has them, in the second, and in all others: none, equal, one-sided,
/// broadcast in both directions, of extent 1 and 0.
const DOTS: [[&[usize]; 3]; 8] = [
    [&[], &[], &[]],
    [&[3, 5], &[3, 5], &[3, 5]],
    [&[3, 5], &[5], &[]],
    [&[5], &[3, 5], &[5]],
    [&[3, 1], &[1, 5], &[3, 5]],
    [&[1], &[1], &[1]],
    [&[0], &[0], &[0]],
    [&[0], &[1], &[0]],
];

impl FactorRule {
    /// Adds calls with these plain arguments: for every alternative uneven extents, each factor of extent 1 and 0,
    /// the forms of `...`, one to three tensors for a slice, optional operands left out.
    pub fn cases(&self, declared: &[OperandDef], args: impl OpArgs + Clone, cases: &mut Cases) {
        for factors in self.alternatives {
            let base: SmallVec<[usize; 8]> =
                EXTENTS.iter().cycle().copied().take(factors.names.len()).collect();
            let mut add = |extents: &[usize], dots: &[&[usize]; 3], size: u16, optional: u16| {
                let sizes: SmallVec<[u16; 4]> = declared
                    .iter()
                    .map(|operand| match operand.kind {
                        OperandKind::Many => size,
                        OperandKind::Optional => optional,
                        OperandKind::Tensor | OperandKind::Scalar | OperandKind::Written => 1,
                    })
                    .collect();
                let operands = operands(factors, &sizes, extents, dots);
                if self.takes(factors, declared, &sizes, &operands) {
                    let mut flat = operands.into_iter().map(|meta| CaseOperand::new(meta.dtype, meta.shape));
                    let grouped: Vec<Vec<_>> =
                        sizes.iter().map(|n| flat.by_ref().take(usize::from(*n)).collect()).collect();
                    cases.add_grouped(grouped, args.clone());
                }
            };
            let [none, rest @ ..] = &DOTS;
            add(&base, none, 2, 1);
            if factors.operands.iter().any(|terms| terms.contains(&Term::Dots)) {
                rest.iter().for_each(|dots| add(&base, dots, 2, 1));
            }
            for factor in 0..base.len() {
                for extent in [1, 0] {
                    let mut extents = base.clone();
                    if let Some(slot) = extents.get_mut(factor) {
                        *slot = extent;
                    }
                    add(&extents, none, 2, 1);
                }
            }
            if declared.iter().any(|operand| operand.kind == OperandKind::Many) {
                add(&base, none, 1, 1);
                add(&base, none, 3, 1);
            }
            if declared.iter().any(|operand| operand.kind == OperandKind::Optional) {
                add(&base, none, 2, 0);
            }
        }
    }

    /// Whether a call is valid and of this alternative: an earlier one may take the same numbers of axes, and a
    /// maximum over nothing is none.
    fn takes(
        &self,
        factors: &Factors,
        declared: &[OperandDef],
        sizes: &[u16],
        operands: &[TensorMeta],
    ) -> bool {
        let groups = Groups(sizes);
        let chosen = self.alternative(groups, || operands.iter().map(|meta| meta.shape.len()));
        chosen.is_some_and(|chosen| std::ptr::eq(chosen, factors))
            && self.shape(declared, Grouped::new(operands, groups)).is_ok()
    }
}

/// Operands of one alternative.
fn operands(
    factors: &Factors,
    sizes: &[u16],
    extents: &[usize],
    [first, second, others]: &[&[usize]; 3],
) -> Vec<TensorMeta> {
    let mut operands = Vec::new();
    let mut dotted = 0;
    for (terms, size) in factors.operands.iter().zip(sizes) {
        for _ in 0..*size {
            let mut shape: SmallVec<[usize; 8]> = SmallVec::new();
            for term in *terms {
                match term {
                    Term::Factor(factor) => shape.extend(extents.get(usize::from(*factor)).copied()),
                    Term::Dots => {
                        shape.extend_from_slice(match dotted {
                            0 => first,
                            1 => second,
                            _ => others,
                        });
                        dotted += 1;
                    }
                }
            }
            operands.push(TensorMeta::new(DType::F32, Shape::from(&*shape)));
        }
    }
    operands
}
