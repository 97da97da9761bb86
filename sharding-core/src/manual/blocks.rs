//! Arguments of a region as the members' blocks.

use super::region::{OP, Region, shard_of};
use super::spec::Spec;
use super::varies::Varies;
use crate::backend::LocalArrays;
use crate::tensor::{device_at, resolve};
use crate::{DeviceMapping, Error, ErrorKind, Place, Places, Result, Tensor, TensorLayout};

impl Region {
    /// Each member's block of an argument.
    #[track_caller]
    pub(super) fn blocks(&self, x: &Tensor, spec: &Spec, varies: Varies) -> Result<Vec<Tensor>> {
        let grid = &*self.grid;
        let shape = spec.block(grid, x.shape())?;
        let rest = if x.mesh().same_grid(&grid.mesh) {
            spec.kept(grid, x.layout())?
        } else if x.mesh().num_devices() == 1 {
            Places::from_elem(Place::Replicated, grid.rest.len())
        } else {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the argument lies on {}, which is another grid than {}", x.mesh(), grid.mesh),
            )
            .with_fix("x.transfer_to(&mapping) onto the mesh of the region"));
        };
        let memory = x.mapping().memory_kind();
        let (mapping, order) = spec.mapping(grid, &rest, memory)?;
        let moved = x.transfer_as(OP, &mapping)?;
        let places = if rest.is_empty() { Places::from_elem(Place::Replicated, 1) } else { rest };
        let (backend, _) = resolve(&grid.mesh)?;
        let mut blocks = Vec::with_capacity(grid.members.len());
        for member in &grid.members {
            let (_, positions) = resolve(&member.mesh)?;
            let mapping = DeviceMapping::new(&member.mesh, &places)?.with_memory_kind(memory);
            let layout = TensorLayout::new(x.dtype(), &shape, mapping)?;
            let mut shards = LocalArrays::with_capacity(positions.len());
            for inner in positions.iter() {
                let position = self.on_mesh(&order, member.origin + grid.offset(&grid.rest, *inner));
                shards.push(match shard_of(&moved, position) {
                    Some(shard) => shard.clone(),
                    // One of those that others stand for.
                    None => backend.alloc(
                        device_at(&member.mesh, *inner)?,
                        x.dtype(),
                        &layout.local_shape(*inner),
                    )?,
                });
            }
            blocks.push(Tensor::from_parts(layout, positions, shards, varies));
        }
        Ok(blocks)
    }

    /// The position of a device on the mesh whose axes are the region's in this order.
    fn on_mesh(&self, order: &[usize], position: usize) -> usize {
        let mesh = &self.grid.mesh;
        order.iter().fold(0, |at, axis| at * mesh.size(*axis) + mesh.coord(position, *axis))
    }
}
