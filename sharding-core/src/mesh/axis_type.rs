//! Who decides about communication on a mesh axis.

use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;

/// Who decides about communication on a mesh axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AxisType {
    /// The policy in scope decides about reshards.
    #[default]
    Auto,
    /// An op never communicates by itself: only no_op and local_slice are allowed, whatever the mode.
    Explicit,
    /// Outside a manual region only transfer, inspection and `shard_map` work.
    Manual,
}

/// One type per mesh axis.
pub(super) type AxisTypes = SmallVec<[AxisType; 4]>;

/// The types, if there is one per axis of a mesh.
pub(super) fn checked(mesh: &dyn fmt::Display, axes: usize, types: &[AxisType]) -> Result<AxisTypes> {
    if types.len() == axes {
        return Ok(types.into());
    }
    Err(Error::new(ErrorKind::Mesh, format!("{mesh} has {axes} mesh axes, got {} axis types", types.len()))
        .with_fix("give one axis type per mesh axis; AxisType::Auto is the default"))
}

/// The types with another one at an axis.
pub(super) fn replaced(types: &AxisTypes, axis: usize, axis_type: AxisType) -> AxisTypes {
    let mut types = types.clone();
    if let Some(slot) = types.get_mut(axis) {
        *slot = axis_type;
    }
    types
}

impl fmt::Display for AxisType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
