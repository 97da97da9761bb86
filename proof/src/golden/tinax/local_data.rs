//! `from_process_local_data`, in process 0 of a mesh whose devices belong to several pretended processes.

use super::layout::spec;
use super::misuse::{CHOICE, Outcome, Read, sizes};
use super::values;
use crate::golden::json::{Node, Parsed};
use serde_json::{Value, json};
use sharding_core::{
    AxisType, DType, Device, DeviceMesh, HostData, NamedSharding, PartitionSpec, ReplicaPolicy, Result,
    Scope, Shape, Tensor, layout, make_mesh,
};

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    let grid = input.field("process_grid")?;
    let (shape, owners) = owners(&grid)?;
    Ok(match read(input.value()) {
        Ok((spec, local, global, policy)) => {
            let processes = owners.iter().max().map_or(1, |last| last.saturating_add(1));
            let scope = (*Scope::current()).clone().with_process(0).with_process_count(processes);
            Outcome::Called(scope.enter(|| {
                let sharding = layout(&mesh(&shape, &owners)?, spec)?;
                called(&sharding, &Shape::new(local?)?, &Shape::new(global?)?, policy)
            }))
        }
        Err(reason) => Outcome::Unwritable(reason),
    })
}

/// The shape of the grid, and the process of each device in row-major order.
fn owners(grid: &Node<'_>) -> Parsed<(Vec<usize>, Vec<u32>)> {
    let process = |node: &Node<'_>| u32::try_from(node.size()?).map_err(|_| node.expected("a process"));
    let rows = grid.list()?;
    match rows.first() {
        Some(first) if first.value().is_array() => {
            let rows: Vec<(Vec<usize>, Vec<u32>)> = rows.iter().map(owners).collect::<Parsed<_>>()?;
            let mut shape = vec![rows.len()];
            shape.extend(rows.iter().map(|(shape, _)| shape).next().into_iter().flatten());
            Ok((shape, rows.into_iter().flat_map(|(_, owners)| owners).collect()))
        }
        _ => Ok((vec![rows.len()], grid.list_of(process)?)),
    }
}

fn mesh(shape: &[usize], owners: &[u32]) -> Result<DeviceMesh> {
    let device = |(slot, owner): (usize, &u32)| Device::cpu().with_process(*owner).with_slot(slot as u32);
    let devices: Vec<Device> = owners.iter().enumerate().map(device).collect();
    let names: Vec<&str> = ["x", "y", "z", "w"].into_iter().take(shape.len()).collect();
    make_mesh(&devices, shape, names, vec![AxisType::Explicit; shape.len()])
}

type Arguments = (PartitionSpec, Result<Vec<usize>>, Result<Vec<usize>>, ReplicaPolicy);

fn read(input: &Value) -> Read<Arguments> {
    let policy = policy(&input["replica_policy"])?;
    Ok((spec(&input["partitions"])?, sizes(&input["local_shape"])?, sizes(&input["global_shape"])?, policy))
}

fn policy(value: &Value) -> Read<ReplicaPolicy> {
    match value.as_str() {
        Some("disallow") => Ok(ReplicaPolicy::Disallow),
        Some("assume_consistent") => Ok(ReplicaPolicy::AssumeConsistent),
        _ => Err(CHOICE),
    }
}

fn called(sharding: &NamedSharding, local: &Shape, global: &Shape, policy: ReplicaPolicy) -> Result<Value> {
    let source = values::iota(DType::F32, local.elements());
    let data = HostData::from_bytes(DType::F32, local, &source)?;
    let x = Tensor::from_process_local_data(&data, global, sharding, policy)?;
    values::check(&x, local, &source)?;
    let strict = Tensor::from_process_local_data(&data, global, sharding, ReplicaPolicy::Disallow);
    Ok(json!({"accepted": true, "has_cross_process_replicas": strict.is_err()}))
}
