//! The shape function of a rule in factor notation.

use super::{FactorRule, Factors, Label, Term, axis_of, lead};
use crate::op::{Grouped, OperandDef, operand_name};
use crate::{Error, ErrorKind, Metas, ReduceOp, Result, Shape, TensorMeta};
use smallvec::{SmallVec, smallvec};

impl FactorRule {
    /// The shape function: the axes of one factor have one extent, those of `...` broadcast, dtypes are equal.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if no alternative fits, extents differ, or a maximum or minimum is taken over nothing;
    /// [`ErrorKind::DType`]; [`ErrorKind::Overflow`] for a result beyond memory. The text names factor, operands, axes
    /// and extents.
    pub fn shape(&self, declared: &[OperandDef], operands: Grouped<'_, TensorMeta>) -> Result<Metas> {
        let call = Call { declared, operands };
        let operands = &call.operands;
        let ndims = || operands.flat().iter().map(|meta| meta.shape.len());
        let factors = self.alternative(operands.groups(), ndims).ok_or_else(|| self.misfit(&call))?;
        let Some(first) = operands.flat().first() else {
            return Err(Error::new(ErrorKind::Argument, "the op was called without any tensor")
                .with_fix("pass at least one"));
        };
        for (flat, meta) in operands.flat().iter().enumerate() {
            if meta.dtype != first.dtype {
                let names = (call.name(0), first.dtype, call.name(flat), meta.dtype);
                let message = format!("{} is {} and {} is {}", names.0, names.1, names.2, names.3);
                return Err(Error::new(ErrorKind::DType, message)
                    .with_fix(format!("give {} the dtype {}", names.2, names.1)));
            }
        }
        let named = (0_u8..)
            .take(factors.names.len())
            .map(|factor| call.extent(factors, factor))
            .collect::<Result<SmallVec<[usize; 8]>>>()?;
        let dots = call.dots(factors)?;
        let mut metas = Metas::new();
        for terms in factors.results {
            let mut extents: SmallVec<[usize; 8]> = SmallVec::new();
            for term in *terms {
                match term {
                    Term::Dots => extents.extend(dots.iter().rev().copied()),
                    Term::Factor(factor) => extents.extend(named.get(usize::from(*factor)).copied()),
                }
            }
            metas.push(TensorMeta { dtype: first.dtype, shape: Shape::new(&*extents)? });
        }
        Ok(metas)
    }

    fn misfit(&self, call: &Call<'_>) -> Error {
        let axes =
            |(flat, meta): (usize, &TensorMeta)| format!("{} has {}", call.name(flat), meta.shape.len());
        let have: Vec<_> = call.operands.flat().iter().enumerate().map(axes).collect();
        let message = format!("the op does not take these numbers of tensor axes: {}", have.join(", "));
        let forms: Vec<_> = self.alternatives.iter().map(|factors| format!("'{factors}'")).collect();
        Error::new(ErrorKind::Shape, message)
            .with_fix(format!("reshape the operands to one of the forms {}", forms.join(", ")))
    }
}

/// The operands, and their names for errors.
struct Call<'a> {
    declared: &'a [OperandDef],
    operands: Grouped<'a, TensorMeta>,
}

impl Call<'_> {
    fn name(&self, flat: usize) -> String {
        operand_name(self.declared, self.operands.groups(), flat)
    }

    /// Operand, axis and extent wherever the operands have a label.
    fn labelled(&self, factors: &Factors, label: Label) -> impl Iterator<Item = (usize, usize, usize)> {
        let groups = self.operands.groups();
        self.operands.flat().iter().enumerate().filter_map(move |(flat, meta)| {
            let axis = axis_of(factors.of(groups, flat), meta.shape.len(), label)?;
            Some((flat, axis, meta.shape.extent(axis)))
        })
    }

    /// The extent of a named factor; 1 if only absent operands have it.
    fn extent(&self, factors: &Factors, factor: u8) -> Result<usize> {
        let mut found = self.labelled(factors, Label::Factor(factor));
        let Some((first, at, extent)) = found.next() else { return Ok(1) };
        if let Some((other, axis, differs)) = found.find(|(_, _, other)| *other != extent) {
            return Err(self.disagree(factors.name(factor), [(first, at, extent), (other, axis, differs)]));
        }
        match factors.reduce_op(factor) {
            Some(op @ (ReduceOp::Max | ReduceOp::Min)) if extent == 0 => {
                let (name, operand) = (factors.name(factor), self.name(first));
                let message = format!(
                    "there is no {op} over the factor '{name}' (axis {at} of {operand}): its extent is 0"
                );
                Err(Error::new(ErrorKind::Shape, message)
                    .with_fix(format!("pass a {operand} with at least one element on axis {at}")))
            }
            _ => Ok(extent),
        }
    }

    /// The broadcast extents of `...`, last axis first.
    fn dots(&self, factors: &Factors) -> Result<SmallVec<[usize; 4]>> {
        let groups = self.operands.groups();
        let leads = self.operands.flat().iter().enumerate();
        let leads = leads.filter_map(|(flat, meta)| lead(factors.of(groups, flat), meta.shape.len()));
        let mut dots: SmallVec<[usize; 4]> = smallvec![1; leads.max().unwrap_or(0)];
        for (from_last, slot) in dots.iter_mut().enumerate() {
            let label = Label::Dots(from_last);
            let Some(wide) = self.labelled(factors, label).find(|(_, _, extent)| *extent != 1) else {
                continue;
            };
            let differs = |(_, _, extent): &(usize, usize, usize)| *extent != 1 && *extent != wide.2;
            if let Some(other) = self.labelled(factors, label).find(differs) {
                return Err(self.disagree("...", [wide, other]));
            }
            *slot = wide.2;
        }
        Ok(dots)
    }

    fn disagree(
        &self,
        factor: &str,
        [(first, at, extent), (other, axis, differs)]: [(usize, usize, usize); 2],
    ) -> Error {
        let (first, other) = (self.name(first), self.name(other));
        let message = format!(
            "the factor '{factor}' is {extent} in {first} (axis {at}) and {differs} in {other} (axis {axis})"
        );
        let fix = if factor == "..." {
            format!("make axis {axis} of {other} {extent} or 1 long")
        } else {
            format!(
                "make axis {axis} of {other} {extent} long; if its axes are in another order: permute(&{other}, ..)"
            )
        };
        Error::new(ErrorKind::Shape, message).with_fix(fix)
    }
}
