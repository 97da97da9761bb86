//! Whether devices that are said to hold the same do.

use crate::backend::{LocalArray, backend_of};
use crate::tensor::{device_at, host_bytes};
use crate::{BackendKind, Error, ErrorKind, Place, Result, Tensor};

impl Tensor {
    /// Compares, bit for bit, what devices hold that differ only along `Replicated` mesh axes, as far as this process addresses
    /// them. Devices that share the storage need no look; the others' values are read to the host, so this is for tests and
    /// debugging. Without data (`sim`) there is nothing to compare.
    ///
    /// [`Tensor::rebind_mapping`] does it by itself in builds with debug assertions.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`], naming two devices and the first element in which they differ; else what the backend says.
    pub fn check_replicas(&self) -> Result<()> {
        // Whoever asks may go on by the answer.
        self.varies().seen_by_host();
        let located =
            |error: Error| error.with_op("check_replicas").with_operands([format!("x: {}", self.layout())]);
        self.compare_replicas().map_err(located)
    }

    /// The first element in which the shards of two tensors differ that have one layout, on devices of their own.
    pub(super) fn differs_from(&self, other: &Self) -> Result<Option<usize>> {
        for (a, b) in self.shards().iter().zip(other.shards()) {
            let found = differ(a, b)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(crate) fn compare_replicas(&self) -> Result<()> {
        let mesh = self.mesh();
        let whole: Vec<usize> =
            (0..mesh.ndim()).filter(|axis| self.mapping().place(*axis) == Place::Replicated).collect();
        for (position, shard) in self.positions().iter().zip(self.shards()) {
            if shard.device().kind == BackendKind::SIM {
                continue;
            }
            let first: usize = *position
                - whole.iter().map(|axis| mesh.coord(*position, *axis) * mesh.stride(*axis)).sum::<usize>();
            let Some(other) = self.positions().binary_search(&first).ok().and_then(|i| self.shards().get(i))
            else {
                continue;
            };
            let Some(element) = differ(other, shard)? else { continue };
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "{} and {} are said to hold the same, and differ in element {element} of their {}",
                    device_at(mesh, first)?,
                    device_at(mesh, *position)?,
                    shard.shape()
                ),
            )
            .with_fix("claim Unknown or Sharded where devices hold values of their own"));
        }
        Ok(())
    }
}

/// The first element in which two local arrays of one dtype and shape differ.
fn differ(a: &LocalArray, b: &LocalArray) -> Result<Option<usize>> {
    if a.device().kind == BackendKind::SIM || a.same_as(b) {
        return Ok(None);
    }
    let size = a.dtype().size().max(1);
    let (a, b) = (bytes(a)?, bytes(b)?);
    if a == b {
        return Ok(None);
    }
    Ok(Some(a.chunks(size).zip(b.chunks(size)).position(|(a, b)| a != b).unwrap_or(0)))
}

fn bytes(shard: &LocalArray) -> Result<Vec<u8>> {
    let mut bytes = host_bytes(shard.bytes())?;
    backend_of(shard.device().kind)?.read(shard, &mut bytes)?;
    Ok(bytes)
}
