//! Redistribution: changing the placements of a tensor by a program of steps.

use crate::backend::{LocalArrays, Step};
use crate::plan::CostModel;
use crate::{Result, TensorLayout};

/// The steps that take a tensor from one layout to another, and their price.
#[derive(Clone, Debug)]
pub struct Program {
    /// The layout before.
    pub source: TensorLayout,
    /// The layout after.
    pub target: TensorLayout,
    /// The steps, each from the layout that the one before leaves.
    pub steps: Vec<Step>,
    /// The sum of the steps' prices.
    pub cost: f64,
}

impl Program {
    /// The cheapest program under a cost model: device to mesh and back, mesh to mesh, and any change of placements
    /// on one mesh.
    ///
    /// # Errors
    /// [`ErrorKind::Sharding`](crate::ErrorKind::Sharding) where there is none: to or from Unknown on an axis that
    /// changes, Partial of another op, Partial targets from one device or from another grid.
    pub fn search(source: &TensorLayout, target: &TensorLayout, cost: &dyn CostModel) -> Result<Self> {
        let _ = (source, target, cost);
        todo!()
    }

    /// Runs the steps on the shards that this process addresses, in the order of its positions.
    ///
    /// # Errors
    /// What the backends say.
    pub fn run(&self, op: &'static str, shards: LocalArrays) -> Result<LocalArrays> {
        let _ = (op, shards);
        todo!()
    }
}
