//! Global sizes from local ones: what a tensor's shape is if only its shards are known.

use crate::{DeviceMapping, Error, ErrorKind, Place, Result, Shape, bail};

/// The size of one tensor axis, as far as the shards and their mapping tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalDim {
    /// Every device holds this size, and nothing splits the axis.
    Known(usize),
    /// The size differs by device.
    PerShard {
        /// The size on each device, in row-major order.
        sizes: Vec<usize>,
        /// The sum over the devices that split the axis; `None` where no sum is the size of the whole, because sizes
        /// also differ along a mesh axis that does not split this tensor axis.
        global: Option<usize>,
    },
}

/// The global size of every tensor axis, from the local shapes of all devices in row-major order.
///
/// The sizes need not be those of the balanced split: a sharded tensor axis has the sum of its pieces.
///
/// # Errors
/// [`ErrorKind::Shape`] if there is not one local shape per device, they differ in their number of axes, or sizes
/// differ along a mesh axis that is Replicated or Partial, whose devices hold pieces of one size;
/// [`ErrorKind::Mapping`] if a placement names a tensor axis that the shapes lack; [`ErrorKind::Overflow`].
pub fn global_dims(local_shapes: &[Shape], mapping: &DeviceMapping) -> Result<Vec<GlobalDim>> {
    let mesh = mapping.mesh();
    if local_shapes.len() != mesh.num_devices() {
        bail!(Shape, "{} local shapes for {mesh} of {} devices", local_shapes.len(), mesh.num_devices());
    }
    let ndim = local_shapes.first().map_or(0, |shape| shape.len());
    if let Some(other) = local_shapes.iter().find(|shape| shape.len() != ndim) {
        bail!(
            Shape,
            "local shapes differ in their number of axes: one has {ndim}, {other} has {}",
            other.len()
        );
    }
    if let Some(place) = mapping.places().iter().find(|place| place.tensor_axis().is_some_and(|d| d >= ndim))
    {
        bail!(Mapping, "{place} is out of range for local shapes of {ndim} tensor axes");
    }
    (0..ndim)
        .map(|axis| {
            let sizes: Vec<usize> = local_shapes.iter().map(|shape| shape.extent(axis)).collect();
            global_dim(axis, sizes, mapping)
        })
        .collect()
}

fn global_dim(tensor_axis: usize, sizes: Vec<usize>, mapping: &DeviceMapping) -> Result<GlobalDim> {
    let mesh = mapping.mesh();
    let splits = |axis: usize| mapping.place(axis).tensor_axis() == Some(tensor_axis);
    // Whether the size changes from a device to the next along a mesh axis, anywhere.
    let differs = |axis: usize| {
        sizes.iter().enumerate().any(|(position, size)| {
            mesh.coord(position, axis) + 1 < mesh.size(axis)
                && sizes.get(position + mesh.stride(axis)) != Some(size)
        })
    };
    let mut summed = true;
    for axis in (0..mesh.ndim()).filter(|axis| !splits(*axis) && differs(*axis)) {
        let place = mapping.place(axis);
        if matches!(place, Place::Replicated | Place::Partial(_)) {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("tensor axis {tensor_axis} has the sizes {sizes:?} on the devices of {mesh}, which differ along a mesh axis that is {place}"),
            )
            .with_mesh_axis(mesh.axis_name(axis), mesh.size(axis))
            .with_fix("name the mesh axis Unknown if its devices hold unrelated values"));
        }
        summed = false;
    }
    let split: Vec<usize> = (0..mesh.ndim()).filter(|axis| splits(*axis)).collect();
    if split.is_empty() && summed {
        return Ok(GlobalDim::Known(sizes.first().copied().unwrap_or(0)));
    }
    if split.is_empty() || !summed {
        return Ok(GlobalDim::PerShard { sizes, global: None });
    }
    let pieces = mesh.group(0, &split);
    let global = pieces
        .iter()
        .try_fold(0_usize, |sum, position| sum.checked_add(sizes.get(*position).copied().unwrap_or(0)));
    match global {
        Some(global) => Ok(GlobalDim::PerShard { sizes, global: Some(global) }),
        None => bail!(Overflow, "the pieces of tensor axis {tensor_axis} add up to more than fits"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, DeviceMesh, ReduceOp};
    use proptest::prelude::*;

    fn dims(mesh: &[usize], places: &[Place], sizes: &[usize]) -> Result<GlobalDim> {
        let names = ["a", "b", "c"];
        let mesh = DeviceMesh::simulated(BackendKind::SIM, mesh, &names[..mesh.len()]).unwrap();
        let shapes: Vec<Shape> = sizes.iter().map(|size| Shape::from([*size])).collect();
        global_dims(&shapes, &DeviceMapping::new(&mesh, places)?).map(|dims| dims[0].clone())
    }

    #[test]
    fn sizes_may_differ_where_no_copy_is_claimed() {
        use Place::{Replicated as R, Sharded as S, Unknown as U};
        let per_shard = |sizes: &[usize], global| GlobalDim::PerShard { sizes: sizes.to_vec(), global };
        assert_eq!(dims(&[2], &[U], &[4, 4]).unwrap(), GlobalDim::Known(4));
        assert_eq!(dims(&[2], &[U], &[4, 3]).unwrap(), per_shard(&[4, 3], None));
        assert_eq!(dims(&[2, 2], &[S(0), U], &[4, 4, 1, 1]).unwrap(), per_shard(&[4, 4, 1, 1], Some(5)));
        assert_eq!(dims(&[2, 2], &[S(0), U], &[4, 3, 4, 3]).unwrap(), per_shard(&[4, 3, 4, 3], None));
        assert_eq!(dims(&[2, 2], &[S(0), R], &[4, 3, 4, 3]).unwrap_err().kind(), ErrorKind::Shape);
        assert_eq!(
            dims(&[2], &[Place::Partial(ReduceOp::Max)], &[4, 3]).unwrap_err().kind(),
            ErrorKind::Shape
        );
        assert_eq!(dims(&[2], &[S(1)], &[4, 3]).unwrap_err().kind(), ErrorKind::Mapping);
        assert_eq!(dims(&[2], &[S(0)], &[4]).unwrap_err().kind(), ErrorKind::Shape);
        assert_eq!(dims(&[2], &[S(0)], &[usize::MAX, 1]).unwrap_err().kind(), ErrorKind::Overflow);
    }

    proptest! {
        #[test]
        fn shards_of_a_shape_give_it_back(
            shape in proptest::collection::vec(0_usize..9, 1..4),
            places in proptest::collection::vec(0_usize..5, 3),
        ) {
            let mesh = DeviceMesh::simulated(BackendKind::SIM, [2, 1, 3], ["a", "b", "c"]).unwrap();
            let place = |code: &usize| match *code {
                0 => Place::Replicated,
                1 => Place::PARTIAL,
                code => Place::Sharded(((code - 2) % shape.len()) as u8),
            };
            let mapping = DeviceMapping::new(&mesh, places.iter().map(place).collect::<Vec<_>>()).unwrap();
            let whole = Shape::from(shape.clone());
            let locals: Vec<Shape> = (0..6).map(|device| mapping.local_shape(&whole, device)).collect();
            for (axis, dim) in global_dims(&locals, &mapping).unwrap().into_iter().enumerate() {
                let got = match dim {
                    GlobalDim::Known(size) => {
                        prop_assert_eq!(mapping.split_by(axis).count(), 0);
                        Some(size)
                    }
                    GlobalDim::PerShard { global, .. } => global,
                };
                prop_assert_eq!(got, Some(shape[axis]));
            }
        }
    }
}
