//! `place_host_array`.

use super::layout;
use super::misuse::{FLAG, HOST, Outcome, Read, sizes};
use super::values;
use crate::golden::json::{Node, Parsed};
use serde_json::{Value, json};
use sharding_core::{DType, HostCopy, NamedSharding, Result, Shape, Sharding, Tensor};

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    let dtype = match dtype(&input.value()["dtype"]) {
        Ok(dtype) => dtype,
        Err(outcome) => return Ok(outcome),
    };
    Ok(match read(input.value()) {
        Ok((sharding, shape, copy)) => Outcome::Called(
            sharding.and_then(|sharding| placed(&sharding, dtype, &Shape::new(shape?)?, copy)),
        ),
        Err(reason) => Outcome::Unwritable(reason),
    })
}

type Arguments = (Result<NamedSharding>, Result<Vec<usize>>, HostCopy);

fn read(input: &Value) -> Read<Arguments> {
    let copy = match &input["copy"] {
        Value::Null | Value::Bool(true) => HostCopy::Always,
        Value::Bool(false) => HostCopy::WhereNeeded,
        _ => return Err(FLAG),
    };
    Ok((layout::made(input)?, sizes(&input["shape"])?, copy))
}

/// The dtype that JAX makes of a NumPy array's: it has no 64-bit numbers unless told so, and we are not JAX, so we place
/// what it would have placed.
pub(super) fn dtype(name: &Value) -> std::result::Result<DType, Outcome> {
    const DTYPES: [(&str, DType); 15] = [
        ("bool", DType::Bool),
        ("int8", DType::I8),
        ("int16", DType::I16),
        ("int32", DType::I32),
        ("int64", DType::I32),
        ("uint8", DType::U8),
        ("uint16", DType::U16),
        ("uint32", DType::U32),
        ("uint64", DType::U32),
        ("float16", DType::F16),
        ("bfloat16", DType::BF16),
        ("float32", DType::F32),
        ("float64", DType::F32),
        ("int", DType::I32),
        ("float", DType::F32),
    ];
    let name = name.as_str().unwrap_or("float32");
    match DTYPES.iter().find(|(known, _)| *known == name) {
        Some((_, dtype)) => Ok(*dtype),
        None if name.starts_with("complex") || name.starts_with("float8") || name.ends_with("int4") => {
            Err(Outcome::Unread(format!("a dtype that we lack: {name}")))
        }
        None => Err(Outcome::Unwritable(HOST)),
    }
}

fn placed(sharding: &NamedSharding, dtype: DType, shape: &Shape, copy: HostCopy) -> Result<Value> {
    let source = values::iota(dtype, shape.elements());
    let x = Tensor::place_host_array(&values::host(dtype, shape, &source, copy)?, sharding, copy)?;
    values::check(&x, shape, &source)?;
    let tiling = sharding.tiling(shape.len())?;
    // A tensor axis that is whole everywhere is spelled null.
    let index = |axis: usize, range: &std::ops::Range<usize>| match tiling.ways(axis) {
        1 => Value::Null,
        _ => json!([range.start, range.end]),
    };
    let held: Vec<_> = x.addressable_indices().collect();
    let mut indices = Vec::new();
    for device in sharding.device_order()?.devices() {
        let region = held.iter().find(|(holder, _)| *holder == device).map(|(_, region)| region);
        let region = region.into_iter().flatten().enumerate();
        indices.push(
            region
                .flat_map(|(axis, ranges)| ranges.iter().map(move |range| (axis, range)))
                .map(|(axis, range)| index(axis, range))
                .collect::<Vec<_>>(),
        );
    }
    Ok(json!({
        "logical_nbytes": x.logical_payload_nbytes(),
        "addressable_nbytes": x.addressable_payload_nbytes(),
        "indices": indices,
    }))
}
