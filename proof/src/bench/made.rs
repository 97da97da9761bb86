//! Operands of benchmarks, and what the names of benchmarks say of them.

use sharding_core::backend::{LocalArrays, backend_of};
use sharding_core::{
    DType, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result, Shape, Tensor, TensorLayout,
};

/// What every element is. Nothing takes longer for it, and no product of it grows.
const ELEMENT: f32 = 0.25;

/// A float32 tensor of which every device has a piece of its own in memory of its own, parts of a sum too.
pub(super) fn tensor(mesh: &DeviceMesh, shape: impl Into<Shape>, places: &[Place]) -> Result<Tensor> {
    let layout = TensorLayout::new(DType::F32, shape, DeviceMapping::new(mesh, places)?)?;
    let no_device = || Error::new(ErrorKind::Mesh, "a mesh without devices");
    let backend = backend_of(mesh.device(0).ok_or_else(no_device)?.kind)?;
    let positions = backend.positions(mesh)?;
    let shards = positions.iter().map(|position| {
        let device = mesh.device(*position).ok_or_else(no_device)?;
        let shape: Shape = layout.local_shape(*position);
        let mut shard = backend.alloc(device, DType::F32, &shape)?;
        let bytes = ELEMENT.to_ne_bytes().into_iter().cycle().take(shard.bytes());
        backend.write(&bytes.collect::<Vec<u8>>(), &mut shard)?;
        Ok(shard)
    });
    let shards = shards.collect::<Result<LocalArrays>>()?;
    Tensor::from_shards(layout, positions, shards)
}

/// The part of a benchmark's name at this place, counted from 0 between slashes.
pub(super) fn part(name: &str, at: usize) -> Result<&str> {
    let missing = || Error::new(ErrorKind::Argument, format!("the name '{name}' has no part {at}"));
    name.split('/').nth(at).ok_or_else(missing)
}

/// The extent of a square of float32 of so many bytes, as in `1MiB`.
pub(super) fn extent(size: &str) -> Result<usize> {
    match size {
        "4KiB" => Ok(32),
        "1MiB" => Ok(512),
        "64MiB" => Ok(4096),
        _ => Err(Error::new(ErrorKind::Argument, format!("'{size}' is not the size of a benchmark"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_core::BackendKind;

    #[test]
    fn a_size_is_that_of_a_square() {
        for (size, bytes) in [("4KiB", 4 << 10), ("1MiB", 1 << 20), ("64MiB", 64 << 20)] {
            let extent = extent(size).unwrap();
            assert_eq!(extent * extent * size_of::<f32>(), bytes);
        }
        assert!(extent("2MiB").is_err());
        assert_eq!(part("a/b/c", 1).unwrap(), "b");
        assert!(part("a", 1).is_err());
    }

    #[test]
    fn every_device_has_its_part_of_a_sum() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
        let x = tensor(&mesh, [2, 2], &[Place::PARTIAL]).unwrap();
        assert_eq!(x.shard_to_vec::<f32>(1).unwrap(), [ELEMENT; 4]);
        assert_eq!(x.to_vec::<f32>().unwrap(), [2.0 * ELEMENT; 4]);
    }
}
