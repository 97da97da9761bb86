//! What a step is priced by, from its layouts alone.

use super::mesh_move::received;
use crate::backend::{Step, StepKind};
use crate::plan::StepQuery;

impl Step {
    /// Asks a cost model about this step, whatever model planned it.
    pub(crate) fn query(&self, ask: impl FnOnce(&StepQuery<'_>) -> f64) -> f64 {
        let (source, mesh) = (&self.source, self.source.mesh());
        let outside = (0..mesh.ndim()).filter(|axis| {
            !self.axes.contains(axis) && source.mapping().place(*axis).tensor_axis().is_some()
        });
        let split: usize = outside.map(|axis| mesh.size(axis)).product();
        let moves = matches!(self.kind, StepKind::Permute | StepKind::Move);
        ask(&StepQuery {
            kind: self.kind,
            mesh,
            axes: &self.axes,
            group: self.axes.iter().map(|axis| mesh.size(*axis)).product(),
            bytes: source.bytes() as f64 / split as f64,
            received: if moves { received(source, &self.target) } else { 0.0 },
        })
    }
}
