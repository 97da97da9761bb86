//! Results of a region from what its members gave, and whether they may be what their specs claim.

use super::cx::Shared;
use super::local;
use super::region::{OP, Region, shard_of};
use super::spec::Spec;
use super::varies::Varies;
use crate::backend::{LocalArray, LocalArrays};
use crate::tensor::{device_at, resolve};
use crate::{Error, ErrorKind, Place, Result, Tensor, TensorLayout};

/// What may have let devices give different ones of values that are each the same on all.
pub(super) struct Seen {
    /// The axes over which their way through the function may vary.
    pub(super) taint: Varies,
    /// Whether threads that are in no region have read a value of one.
    pub(super) elsewhere: bool,
}

impl Region {
    /// One result from what each member gave.
    pub(super) fn result(
        &self,
        shared: &Shared,
        spec: &Spec,
        each: &[&Tensor],
        seen: &Seen,
        outer: Varies,
    ) -> Result<Tensor> {
        let grid = &*self.grid;
        let Some(first) = each.first() else {
            return Err(Error::new(ErrorKind::Internal, "a region without devices"));
        };
        let varies = each.iter().fold(seen.taint.only(outer), |all, value| all.union(value.varies()));
        if self.check_vma {
            self.check_varies(shared, spec, varies)?;
        }
        for (member, (value, own)) in each.iter().zip(&grid.members).enumerate() {
            if *value.mesh() != own.mesh {
                return Err(Error::new(
                    ErrorKind::Mesh,
                    format!(
                        "the result of {} lies on {}, not on its {}",
                        grid.name(member),
                        value.mesh(),
                        own.mesh
                    ),
                )
                .with_fix("y.transfer_to(&DeviceMapping::replicated(cx.mesh())) in the region"));
            }
            if value.layout().meta() != first.layout().meta()
                || value.layout().places() != first.layout().places()
                || value.mapping().memory_kind() != first.mapping().memory_kind()
            {
                return Err(Error::new(
                    ErrorKind::Manual,
                    format!(
                        "the devices gave different results: {} gave {}, {} gave {}",
                        grid.name(0),
                        first.layout(),
                        grid.name(member),
                        value.layout()
                    ),
                )
                .with_fix("give results of one shape, dtype and placement on all devices"));
            }
        }
        if self.check_vma {
            self.check_same(shared, spec, each, seen)?;
        }
        let shape = spec.whole(grid, first.shape())?;
        let free =
            each.iter().map(|value| local::unsplit(OP, value, &spec.split())).collect::<Result<Vec<_>>>()?;
        let rest: &[Place] = match free.first() {
            Some(value) if !grid.rest.is_empty() => value.layout().places(),
            _ => &[],
        };
        let (mapping, order) = spec.mapping(grid, rest, first.mapping().memory_kind())?;
        let layout = TensorLayout::new(first.dtype(), shape, mapping)?;
        let (backend, positions) = resolve(layout.mesh())?;
        // Where a device stands on the region's mesh, from where it stands on the result's.
        let back = |position: usize| -> usize {
            order
                .iter()
                .enumerate()
                .map(|(i, axis)| layout.mesh().coord(position, i) * grid.mesh.stride(*axis))
                .sum()
        };
        let mut shards = LocalArrays::with_capacity(positions.len());
        for position in positions.iter() {
            let own = back(*position);
            let mut from = own;
            for axis in grid.manual.iter().filter(|axis| !spec.names(**axis)) {
                from -= grid.mesh.coord(own, *axis) * grid.mesh.stride(*axis);
            }
            let device = device_at(layout.mesh(), *position)?;
            let inner = grid.mesh.device_coord(own, &grid.rest)?;
            let shard = |at: usize| -> Result<Option<&LocalArray>> {
                let member = grid.at_coord(grid.mesh.device_coord(at, &grid.manual)?);
                Ok(member.and_then(|member| shard_of(free.get(member)?, inner)))
            };
            // What is known to be the same on all devices may stay where it is; what is only claimed to be is the first's.
            let stays = self.check_vma || from == own;
            shards.push(match (shard(from)?, shard(own)?) {
                (Some(first), _) if backend.shares_memory(first.device(), device) => first.clone(),
                (Some(first), _) if !stays => local::copied(&**backend, OP, first, device)?,
                (_, Some(own)) => own.clone(),
                (Some(first), None) => local::copied(&**backend, OP, first, device)?,
                (None, None) => backend.alloc(device, layout.dtype(), &layout.local_shape(*position))?,
            });
        }
        Ok(Tensor::from_parts(layout, positions, shards, varies.only(outer)))
    }

    /// Values that need not vary over an axis can still be different ones: a function that has seen something of the axis may
    /// give one on this device and another on that. So they are compared, bit for bit, where the function may have; in
    /// builds with debug assertions always, which also finds what devices learned by ways that nobody follows.
    fn check_same(&self, shared: &Shared, spec: &Spec, each: &[&Tensor], seen: &Seen) -> Result<()> {
        let grid = &*self.grid;
        for axis in grid.manual.iter().filter(|axis| !spec.names(**axis)) {
            let axis = *axis;
            let chosen = seen.elsewhere || !seen.taint.only(shared.bits_of(&[axis])).is_none();
            if grid.mesh.size(axis) == 1 || !(chosen || cfg!(debug_assertions)) {
                continue;
            }
            for (member, (value, own)) in each.iter().zip(&grid.members).enumerate() {
                let first = own.origin - grid.mesh.coord(own.origin, axis) * grid.mesh.stride(axis);
                let first = grid.at_coord(grid.mesh.device_coord(first, &grid.manual)?);
                let Some((first, other)) = first.and_then(|first| Some((first, each.get(first)?))) else {
                    continue;
                };
                let Some(element) = other.differs_from(value)? else { continue };
                let name = grid.mesh.axis_name(axis);
                return Err(Error::new(
                    ErrorKind::Manual,
                    format!(
                        "the out_spec does not name the mesh axis '{name}', so it claims the same value on all devices along it, but {} and {} gave values that differ in element {element}",
                        grid.name(first),
                        grid.name(member)
                    ),
                )
                .with_mesh_axis(name, grid.mesh.size(axis))
                .with_fix(vary_fix(name)));
            }
        }
        Ok(())
    }

    /// A result may vary only over axes that its spec names.
    fn check_varies(&self, shared: &Shared, spec: &Spec, varies: Varies) -> Result<()> {
        for axis in self.grid.manual.iter().filter(|axis| !spec.names(**axis)) {
            if varies.only(shared.bits_of(&[*axis])).is_none() {
                continue;
            }
            let name = self.grid.mesh.axis_name(*axis);
            return Err(Error::new(
                ErrorKind::Manual,
                format!("the out_spec does not name the mesh axis '{name}', so it claims the same value on all devices along it, but the value may vary over it"),
            )
            .with_mesh_axis(name, self.grid.mesh.size(*axis))
            .with_fix(vary_fix(name)));
        }
        Ok(())
    }
}

fn vary_fix(name: &str) -> String {
    format!(
        "cx.psum(&y, \"{name}\")? (or pmax, pmean) in the region, '{name}' in the out_spec, or .check_vma(false) to take the first device's value on trust"
    )
}
