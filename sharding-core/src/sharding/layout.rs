//! Shardings by name of a mesh that is known: given, with explicit axes only, or in force.

use super::NamedSharding;
use crate::{AxisType, DeviceMesh, Error, ErrorKind, PartitionSpec, Result, Scope, SpecEntry};

/// A concrete layout: a spec on a mesh whose axes are all [`AxisType::Explicit`], so that where data lies is decided by
/// whoever writes it, and by nobody else. As tinax's `layout`.
///
/// ```
/// use sharding_core::{AxisType, Device, ErrorKind, layout, make_mesh, spec};
/// let devices: Vec<Device> = (0..8).map(|i| Device::cpu().with_slot(i)).collect();
/// let mesh = make_mesh(&devices, [4, 2], ["x", "y"], [AxisType::Explicit; 2])?;
/// let sharding = layout(&mesh, spec!["y", "x"])?;
/// assert_eq!(sharding.spec(), &spec!["y", "x"]);
/// let error = layout(&mesh, spec!["z", "z"]).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Axis);
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// In this order: [`ErrorKind::Mesh`] if an axis is Manual, or else Auto, whatever the spec names; [`ErrorKind::Axis`] for
/// names that are empty or that the mesh does not have; [`ErrorKind::DuplicateAxis`] for an axis that is named twice; else
/// as [`NamedSharding::new`].
pub fn layout(mesh: &DeviceMesh, partitions: PartitionSpec) -> Result<NamedSharding> {
    checked(mesh, &partitions)
        .and_then(|()| NamedSharding::new(mesh, partitions))
        .map_err(|error| error.with_op("layout"))
}

fn checked(mesh: &DeviceMesh, partitions: &PartitionSpec) -> Result<()> {
    let list = |names: &[&str]| names.join("', '");
    for (axis_type, fix) in [
        (
            AxisType::Manual,
            "inside shard_map every device has its own view; place with mesh.with_axis_types(..) of Explicit",
        ),
        (
            AxisType::Auto,
            "mesh.with_axis_types(..) of Explicit; NamedSharding::new(&mesh, spec) takes Auto axes, too",
        ),
    ] {
        let names: Vec<&str> = mesh.axes_of_type(axis_type).collect();
        if !names.is_empty() {
            let what =
                format!("a layout is of explicit mesh axes; '{}' of {mesh} are {axis_type}", list(&names));
            return Err(Error::new(ErrorKind::Mesh, what).with_fix(fix));
        }
    }
    let names = || partitions.entries().iter().flat_map(SpecEntry::names);
    if names().any(str::is_empty) {
        return Err(Error::new(ErrorKind::Axis, format!("{partitions} names a mesh axis without a name"))
            .with_fix("write None for a tensor axis that is whole"));
    }
    let mut unknown: Vec<&str> = names().filter(|name| mesh.axis_index(name).is_err()).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if !unknown.is_empty() {
        let known: Vec<&str> = mesh.axis_names().collect();
        return Err(Error::new(ErrorKind::Axis, format!("{mesh} has no mesh axis '{}'", list(&unknown)))
            .with_fix(format!("use one of {}", known.join(", "))));
    }
    Ok(())
}

impl NamedSharding {
    /// A spec on the mesh that [`set_mesh`](crate::set_mesh) put in force.
    ///
    /// # Errors
    /// [`ErrorKind::Mesh`] if there is none; else as [`NamedSharding::new`].
    pub fn scoped(spec: PartitionSpec) -> Result<Self> {
        match Scope::current().mesh() {
            Some(mesh) => Self::new(mesh, spec),
            None => Err(Error::new(ErrorKind::Mesh, format!("{spec} has no mesh to be resolved on"))
                .with_fix("NamedSharding::new(&mesh, spec), or set_mesh(&mesh, || ..) around the call")),
        }
    }
}
