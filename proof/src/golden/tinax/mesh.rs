//! `make_mesh`.

use super::misuse::{AXIS_TYPE, DEVICE, Outcome, Read, list, name, sizes};
use crate::golden::json::{Node, Parsed};
use serde_json::{Value, json};
use sharding_core::{AxisType, Device, DeviceMesh, Result, make_mesh};

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    Ok(match made(input.value()) {
        Ok(mesh) => Outcome::Called(mesh.map(|mesh| {
            json!({
                "axis_sizes": mesh.shape(),
                "axis_names": mesh.axis_names().collect::<Vec<_>>(),
                "axis_types": mesh.axis_types().iter().map(ToString::to_string).collect::<Vec<_>>(),
                "device_ids": mesh.devices().map(|device| device.slot).collect::<Vec<_>>(),
            })
        })),
        Err(reason) => Outcome::Unwritable(reason),
    })
}

fn made(input: &Value) -> Read<Result<DeviceMesh>> {
    let devices = list(&input["device_ids"], |id| {
        let slot = id.as_u64().and_then(|id| u32::try_from(id).ok());
        slot.map(|slot| Device::cpu().with_slot(slot)).ok_or(DEVICE)
    })?;
    let shape = sizes(&input["shape"])?;
    let names = list(&input["axis_names"], name)?;
    let types = list(&input["axis_types"], axis_type)?;
    Ok(shape.and_then(|shape| make_mesh(&devices, shape, names, types)))
}

pub(super) fn axis_type(value: &Value) -> Read<AxisType> {
    [AxisType::Auto, AxisType::Explicit, AxisType::Manual]
        .into_iter()
        .find(|axis_type| value.as_str() == Some(&axis_type.to_string()))
        .ok_or(AXIS_TYPE)
}

/// `{"shape": .., "axis_names": .., "axis_types": ..}` on slots of the CPU; explicit where it says no types, as tinax needs them.
pub(super) fn described(mesh: &Value) -> Read<Result<DeviceMesh>> {
    let names = list(&mesh["axis_names"], name)?;
    let types = match &mesh["axis_types"] {
        Value::Null => vec![AxisType::Explicit; names.len()],
        types => list(types, axis_type)?,
    };
    let shape = sizes(&mesh["shape"])?;
    Ok(shape.and_then(|shape| {
        let devices = shape.iter().product::<usize>() as u32;
        let devices: Vec<Device> = (0..devices).map(|slot| Device::cpu().with_slot(slot)).collect();
        make_mesh(&devices, shape, names, types)
    }))
}
