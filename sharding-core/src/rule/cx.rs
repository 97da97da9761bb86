//! What a rule is asked with.

use super::AxisAssignment;
use crate::mapping::Places;
use crate::op::Groups;
use crate::{Place, TensorMeta};

/// How an operand takes part in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A tensor on the op's mesh.
    Tensor,
    /// A number beside a tensor: it takes any of Replicated and Partial for free.
    Scalar,
    /// A tensor on a one-device mesh: Replicated on every axis, passed whole.
    Single,
    /// A buffer that the op writes: never moved.
    Written,
}

/// An operand as a rule sees it.
#[derive(Clone, Debug)]
pub struct RuleOperand {
    /// dtype and global shape.
    pub meta: TensorMeta,
    /// Its placements on all mesh axes: committed on those before the axis in question, present on the others.
    pub places: Places,
    /// How it takes part.
    pub role: Role,
}

/// The question: which rows does the op have on this mesh axis?
///
/// A rule is pure; it never sees data, devices or a backend.
pub struct RuleCx<'a> {
    /// The mesh axis in question.
    pub axis: usize,
    /// The sizes of all mesh axes.
    pub mesh_shape: &'a [usize],
    /// All operands, flat.
    pub operands: &'a [RuleOperand],
    /// How many operands each declared operand stands for.
    pub groups: Groups<'a>,
    /// dtype and global shape of every result.
    pub results: &'a [TensorMeta],
    /// The rows committed on the mesh axes before this one.
    pub committed: &'a [AxisAssignment],
}

impl RuleCx<'_> {
    /// The size of the mesh axis in question.
    pub fn ways(&self) -> usize {
        self.mesh_shape.get(self.axis).copied().unwrap_or(1)
    }
    /// The placement of an operand on the mesh axis in question, as it is now.
    pub fn place(&self, operand: usize) -> Place {
        self.operands.get(operand).and_then(|o| o.places.get(self.axis)).copied().unwrap_or(Place::Replicated)
    }
    /// The number of tensor axes of an operand.
    pub fn ndim(&self, operand: usize) -> usize {
        self.operands.get(operand).map_or(0, |o| o.meta.shape.len())
    }
    /// The extent of a tensor axis of an operand; 1 where there is none.
    pub fn extent(&self, operand: usize, tensor_axis: usize) -> usize {
        self.operands.get(operand).map_or(1, |o| o.meta.shape.extent(tensor_axis))
    }
    /// The custom placement that an operand has now on this mesh axis for a tensor axis, if any: rules that name
    /// `Sharded(tensor_axis)` may carry it instead.
    pub fn carried(&self, operand: usize, tensor_axis: usize) -> Option<Place> {
        match self.place(operand) {
            place @ Place::Custom(_) if place.tensor_axis() == Some(tensor_axis) => Some(place),
            _ => None,
        }
    }
    /// Over how many devices the other mesh axes split a tensor axis of an operand.
    pub fn ways_elsewhere(&self, operand: usize, tensor_axis: usize) -> usize {
        let Some(operand) = self.operands.get(operand) else { return 1 };
        let others = operand
            .places
            .iter()
            .enumerate()
            .filter(|(axis, place)| *axis != self.axis && place.tensor_axis() == Some(tensor_axis));
        others.map(|(axis, _)| self.mesh_shape.get(axis).copied().unwrap_or(1)).product()
    }
}
