//! A program as text.

use super::Program;
use crate::{Result, Scope, TensorLayout};
use std::fmt;

/// What a transfer would do; prints as a table.
#[derive(Clone, Debug)]
pub struct Explanation {
    program: Program,
}

impl Explanation {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl From<Program> for Explanation {
    fn from(program: Program) -> Self {
        Self { program }
    }
}

/// The program that [`Tensor::transfer_to`](crate::Tensor::transfer_to) would run under the cost model in scope, without
/// running it.
///
/// ```
/// use sharding_core::redistribute::explain_transfer;
/// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let source = TensorLayout::new(DType::F32, [4, 8], DeviceMapping::new(&mesh, [Place::PARTIAL])?)?;
/// let target = source.with_mapping(DeviceMapping::replicated(&mesh))?;
/// let text = explain_transfer(&source, &target)?.to_string();
/// // f32[4, 8] on DeviceMesh(tp=2)
/// //   step   collective  mesh axes  bytes  before              after
/// //   1      all_reduce  tp         128    {tp: Partial(sum)}  {tp: Replicated}
/// //   total                         128
/// assert_eq!(text.lines().count(), 4);
/// assert!(text.contains("all_reduce"));
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// As [`Program::search`].
pub fn explain_transfer(source: &TensorLayout, target: &TensorLayout) -> Result<Explanation> {
    let program = Program::search(source, target, Scope::current().cost())?;
    Ok(Explanation { program })
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { source, target, steps, cost } = &self.program;
        write!(f, "{} on {}", source.meta(), source.mesh())?;
        if source.mesh() != target.mesh() {
            write!(f, " to {}", target.mesh())?;
        }
        if steps.is_empty() {
            return write!(f, "\n  nothing moves: it lies as {} already", target.mapping());
        }
        let head = ["step", "collective", "mesh axes", "bytes", "before", "after"].map(str::to_owned);
        let mut rows = vec![head];
        for (i, step) in steps.iter().enumerate() {
            let axes: Vec<&str> = step.axis_names().collect();
            rows.push([
                (i + 1).to_string(),
                step.kind.name().to_owned(),
                axes.join(", "),
                Bytes(step.cost).to_string(),
                step.source.mapping().to_string(),
                step.target.mapping().to_string(),
            ]);
        }
        let total = ["total", "", "", &Bytes(*cost).to_string(), "", ""].map(str::to_owned);
        rows.push(total);
        let mut widths = [0; 6];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &rows {
            let mut line = String::from("  ");
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            write!(f, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A price: whole numbers without a fraction.
struct Bytes(f64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.fract() == 0.0 { write!(f, "{:.0}", self.0) } else { write!(f, "{:.2}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, DType, DeviceMapping, DeviceMesh, Place};

    #[test]
    fn prints_a_table() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"]).unwrap();
        let lay = |places: [Place; 2]| {
            TensorLayout::new(DType::F32, [4, 8], DeviceMapping::new(&mesh, places).unwrap()).unwrap()
        };
        let source = lay([Place::PARTIAL, Place::Sharded(0)]);
        let target = lay([Place::Sharded(1), Place::Replicated]);
        let text = explain_transfer(&source, &target).unwrap().to_string();
        let want = "f32[4, 8] on DeviceMesh(dp=2, tp=2)
  step   collective      mesh axes  bytes  before                            after
  1      reduce_scatter  dp         32     {dp: Partial(sum), tp: Sharded(0)}  {dp: Sharded(1), tp: Sharded(0)}
  2      all_gather      tp         32     {dp: Sharded(1), tp: Sharded(0)}    {dp: Sharded(1), tp: Replicated}
  total                             64";
        let squeeze = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeeze(&text), squeeze(want));
        assert!(explain_transfer(&source, &source).unwrap().to_string().contains("nothing moves"));
    }
}
