//! Arrays that are placed: whole ones, and ones put together of arrays on single devices.

use super::refusal;
use super::spelling::{device, global_shape, named, single};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use sharding_core::{
    Device, Element, HostCopy, HostData, NamedSharding, Result, Shape, Sharding, SingleDeviceSharding,
    Target, Tensor,
};

/// A sharding that a tensor can be placed by.
enum Placing {
    Named(Box<NamedSharding>),
    Single(SingleDeviceSharding),
}

impl Placing {
    fn target(&self) -> &dyn Target {
        match self {
            Self::Named(sharding) => &**sharding,
            Self::Single(sharding) => sharding,
        }
    }
    /// The devices, in the order of the sharding.
    fn devices(&self) -> Result<Vec<Device>> {
        let mesh = match self {
            Self::Named(sharding) => sharding.device_order(),
            Self::Single(sharding) => sharding.device_order(),
        }?;
        Ok(mesh.devices().collect())
    }
}

fn placing(case: &Node<'_>) -> Parsed<Result<(Placing, Shape)>> {
    let sharding = match case.has("mesh") {
        true => named(case)?.map(|sharding| Placing::Named(Box::new(sharding))),
        false => single(case)?.map(Placing::Single),
    };
    let shape = global_shape(case)?;
    if let Ok(shape) = &shape {
        room::elements(&case.field("global_shape")?, shape)?;
    }
    Ok(sharding.and_then(|sharding| Ok((sharding, shape?))))
}

pub(super) fn device_put(case: &Node<'_>) -> Parsed<Verdict> {
    let placing = placing(case)?;
    let data = case.field("data")?;
    if data.text()? != "iota_f32_row_major" {
        return Ok(Verdict::Skipped(format!("there is no such data: {}", data.text()?)));
    }
    let put = |(sharding, shape): &(Placing, Shape)| {
        let values: Vec<f32> = (0..shape.elements()).map(|i| i as f32).collect();
        let data = HostData::borrowed(&values, shape)?;
        Ok((Tensor::place_host_array(&data, sharding.target(), HostCopy::Always)?, sharding.devices()?))
    };
    compare(case, placing.as_ref().map_err(refused).and_then(put))
}

pub(super) fn from_single_device_arrays(case: &Node<'_>) -> Parsed<Verdict> {
    let placing = placing(case)?;
    let pieces = case.field("pieces")?.list_of(piece)?.into_iter().collect::<Result<Vec<_>>>();
    let assemble = |(sharding, shape): &(Placing, Shape)| {
        let pieces = pieces?;
        Ok((Tensor::from_single_device_arrays(shape, sharding.target(), &pieces)?, sharding.devices()?))
    };
    compare(case, placing.as_ref().map_err(refused).and_then(assemble))
}

fn refused(error: &sharding_core::Error) -> sharding_core::Error {
    sharding_core::Error::new(error.kind(), error.message())
}

/// `{"device_id": 0, "shape": [2], "dtype": "int32"}`: all elements are the device's number.
fn piece(node: &Node<'_>) -> Parsed<Result<Tensor>> {
    let device = device(&node.field("device_id")?)?;
    let shape = node.field("shape")?;
    let extents = shape.list_of(Node::size)?;
    room::elements(&shape, &extents)?;
    let shape = Shape::from(extents);
    fn filled<T: Element>(device: Device, shape: Shape, value: T) -> Result<Tensor> {
        let values = vec![value; shape.elements()];
        Tensor::from_slice(&values, shape, &SingleDeviceSharding::new(device))
    }
    Ok(match node.optional("dtype") {
        None => filled(device, shape, device.slot as f32),
        Some(dtype) => match dtype.text()? {
            "float32" => filled(device, shape, device.slot as f32),
            "int32" => filled(device, shape, device.slot as i32),
            _ => return Err(dtype.expected("float32 or int32")),
        },
    })
}

fn compare(case: &Node<'_>, got: Result<(Tensor, Vec<Device>)>) -> Parsed<Verdict> {
    if let Some(error) = case.optional("error") {
        return refusal::compare(&error, got);
    }
    let want = case.field("want")?;
    let (tensor, devices) = match got {
        Ok(got) => got,
        Err(error) => return Ok(Verdict::failed("an array", error.to_string())),
    };
    let mut verdict = Verdict::Passed;
    if let Some(shape) = want.optional("shape") {
        let wanted = shape.list_of(Node::size)?;
        verdict = verdict.and(|| Verdict::equal("shape", wanted, tensor.shape().to_vec()));
    }
    if let Some(data) = want.optional("data") {
        let wanted = flat(&data)?;
        verdict = verdict.and(|| match tensor.to_vec::<f32>() {
            Ok(got) => Verdict::equal("values", wanted, got),
            Err(error) => Verdict::failed("values", error.to_string()),
        });
    }
    let Some(shards) = want.optional("shards") else { return Ok(verdict) };
    let range = |node: &Node<'_>| node.list_of(Node::size);
    for (i, shard) in shards.list()?.iter().enumerate() {
        let index = shard.field("index")?.list_of(range)?;
        let replica = shard.field("replica_id")?.size()?;
        let data = flat(&shard.field("data")?)?;
        let held = tensor.addressable_shards().find(|held| Some(&held.device()) == devices.get(i));
        verdict = verdict.and(|| match held {
            None => Verdict::failed(format!("a shard on device {i}"), "none".to_owned()),
            Some(held) => {
                let ranges: Vec<Vec<usize>> = held
                    .index()
                    .iter()
                    .map(|ranges| ranges.iter().flat_map(|range| [range.start, range.end]).collect())
                    .collect();
                Verdict::equal(&format!("index of {i}"), index, ranges)
                    .and(|| Verdict::equal(&format!("replica id of {i}"), replica, held.replica_id()))
                    .and(|| match held.to_vec::<f32>() {
                        Ok(got) => Verdict::equal(&format!("data of {i}"), data, got),
                        Err(error) => Verdict::failed(format!("data of {i}"), error.to_string()),
                    })
            }
        });
    }
    let n = shards.list()?.len();
    Ok(verdict.and(|| Verdict::equal("number of shards", n, tensor.addressable_shards().len())))
}

/// Numbers, nested or not.
fn flat(node: &Node<'_>) -> Parsed<Vec<f32>> {
    if node.value().is_array() {
        return Ok(node.list_of(flat)?.concat());
    }
    Ok(vec![node.number()? as f32])
}
