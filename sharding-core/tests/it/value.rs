//! The value of a sharded tensor, computed from index ranges alone: what redistribution must keep.

use sharding_core::backend::{LocalArrays, backend_of};
use sharding_core::{DType, Element, Place, ReduceOp, Tensor, TensorLayout};

/// Small integers in any dtype: sums and products of a few are exact in all of them.
pub(crate) type Whole = Vec<i64>;

/// Row-major numbers of the whole's elements that a device holds, in the order of its local array.
pub(crate) fn held(layout: &TensorLayout, position: usize) -> Vec<usize> {
    let mut held = vec![0];
    for (ranges, extent) in layout.region(position).iter().zip(layout.shape().iter()) {
        let indices: Vec<usize> = ranges.iter().cloned().flatten().collect();
        held = held.iter().flat_map(|flat| indices.iter().map(move |i| flat * extent + i)).collect();
    }
    held
}

fn combine(op: ReduceOp, dtype: DType, a: i64, b: i64) -> i64 {
    match op {
        ReduceOp::Sum if dtype == DType::Bool => a | b,
        ReduceOp::Sum => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    }
}

/// The place of a device along the Partial mesh axes, and the number of such places.
fn part(layout: &TensorLayout, position: usize) -> (usize, usize) {
    let mesh = layout.mesh();
    let axes: Vec<usize> = (0..mesh.ndim()).filter(|axis| layout.places()[*axis].is_partial()).collect();
    (mesh.device_coord(position, &axes).unwrap(), mesh.axis_size(&axes).unwrap())
}

/// Part number `part` of `parts` of an element: together they combine to it, and where that is possible each is different
/// and none is an identity.
fn term(op: ReduceOp, dtype: DType, value: i64, part: usize, parts: usize, salt: usize) -> i64 {
    let term = |i: usize| 3 * i as i64 - 4 + (salt % 3) as i64;
    let keeper = salt % parts;
    match (op, dtype) {
        (ReduceOp::Sum | ReduceOp::Max, DType::Bool) => {
            value * i64::from(part == keeper || salt.is_multiple_of(2))
        }
        (ReduceOp::Prod | ReduceOp::Min, DType::Bool) => {
            value.max(i64::from(part != keeper && salt % 2 == 1))
        }
        (ReduceOp::Sum, _) if part == keeper => {
            value - (0..parts).filter(|i| *i != keeper).map(term).sum::<i64>()
        }
        (ReduceOp::Sum, _) => term(part),
        _ if part == keeper => value,
        (ReduceOp::Prod, _) => 1,
        (ReduceOp::Max, _) => value - 1 - part as i64,
        (ReduceOp::Min, _) => value + 1 + part as i64,
    }
}

/// Elements that look random.
pub(crate) fn random(elements: usize, dtype: DType, seed: u64) -> Whole {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % 99) as i64
    };
    (0..elements).map(|_| if dtype == DType::Bool { next() % 2 } else { next() - 40 }).collect()
}

fn to_bytes(dtype: DType, values: &[i64]) -> Vec<u8> {
    match dtype {
        DType::F32 => f32::to_bytes(&values.iter().map(|value| *value as f32).collect::<Vec<_>>()),
        DType::I64 => i64::to_bytes(values),
        _ => bool::to_bytes(&values.iter().map(|value| *value != 0).collect::<Vec<_>>()),
    }
}

fn from_bytes(dtype: DType, bytes: &[u8]) -> Vec<i64> {
    match dtype {
        DType::F32 => f32::from_bytes(bytes).iter().map(|value| *value as i64).collect(),
        DType::I64 => i64::from_bytes(bytes),
        _ => bool::from_bytes(bytes).iter().map(|value| i64::from(*value)).collect(),
    }
}

/// A tensor of that value; Partial terms differ, Unknown shards are numbered.
pub(crate) fn place(layout: &TensorLayout, whole: &Whole) -> Tensor {
    let mesh = layout.mesh();
    let backend = backend_of(mesh.device(0).unwrap().kind).unwrap();
    let op = layout.places().iter().find_map(|place| place.reduce_op()).unwrap_or_default();
    let mut shards = LocalArrays::new();
    for position in 0..mesh.num_devices() {
        let (part, parts) = part(layout, position);
        let unknown: i64 = (0..mesh.ndim())
            .filter(|axis| layout.places()[*axis] == Place::Unknown)
            .map(|axis| 1000 * mesh.coord(position, axis) as i64)
            .sum();
        let values: Vec<i64> = held(layout, position)
            .into_iter()
            .map(|i| term(op, layout.dtype(), whole[i], part, parts, i) + unknown)
            .collect();
        let device = mesh.device(position).unwrap();
        let mut shard = backend.alloc(device, layout.dtype(), &layout.local_shape(position)).unwrap();
        backend.write(&to_bytes(layout.dtype(), &values), &mut shard).unwrap();
        shards.push(shard);
    }
    Tensor::from_shards(layout.clone(), (0..mesh.num_devices()).collect(), shards).unwrap()
}

/// The value of a tensor; panics where replicas differ or an element is missing.
pub(crate) fn value(tensor: &Tensor) -> Whole {
    let layout = tensor.layout();
    let mesh = layout.mesh();
    let dtype = layout.dtype();
    let op = layout.places().iter().find_map(|place| place.reduce_op()).unwrap_or_default();
    let parts = part(layout, 0).1;
    let mut terms: Vec<Vec<Option<i64>>> = vec![vec![None; layout.shape().elements()]; parts];
    for (position, shard) in tensor.positions().iter().zip(tensor.shards()) {
        assert_eq!(*shard.shape(), layout.local_shape(*position), "device {position} of {layout}");
        let mut bytes = vec![0; shard.bytes()];
        backend_of(mesh.device(0).unwrap().kind).unwrap().read(shard, &mut bytes).unwrap();
        let (part, _) = part(layout, *position);
        for (i, value) in held(layout, *position).into_iter().zip(from_bytes(dtype, &bytes)) {
            let slot = &mut terms[part][i];
            assert!(slot.is_none_or(|known| known == value), "replicas of {layout} differ at {i}");
            *slot = Some(value);
        }
    }
    let element = |i: usize| {
        let parts = terms.iter().map(|part| part[i].expect("an element is on no device"));
        parts.reduce(|a, b| combine(op, dtype, a, b)).unwrap()
    };
    (0..layout.shape().elements()).map(element).collect()
}

/// A tensor of f32 whose sums round: every part of every element is a number of its own, of any size.
pub(crate) fn floats(layout: &TensorLayout, seed: u64) -> Tensor {
    let mesh = layout.mesh();
    let backend = backend_of(mesh.device(0).unwrap().kind).unwrap();
    let mut shards = LocalArrays::new();
    for position in 0..mesh.num_devices() {
        let (part, parts) = part(layout, position);
        let value = |i: usize| {
            let word = random(
                1,
                DType::I64,
                seed ^ ((i * parts + part) as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d),
            )[0];
            (word as f32 + 0.3) * 10.0_f32.powi((word % 7) as i32)
        };
        let values: Vec<f32> = held(layout, position).into_iter().map(value).collect();
        let device = mesh.device(position).unwrap();
        let mut shard = backend.alloc(device, layout.dtype(), &layout.local_shape(position)).unwrap();
        backend.write(&f32::to_bytes(&values), &mut shard).unwrap();
        shards.push(shard);
    }
    Tensor::from_shards(layout.clone(), (0..mesh.num_devices()).collect(), shards).unwrap()
}

/// The bytes of the shard at a position.
pub(crate) fn bytes(tensor: &Tensor, position: usize) -> Vec<u8> {
    let at = tensor.positions().iter().position(|own| *own == position).unwrap();
    let shard = &tensor.shards()[at];
    let mut bytes = vec![0; shard.bytes()];
    backend_of(tensor.layout().mesh().device(0).unwrap().kind).unwrap().read(shard, &mut bytes).unwrap();
    bytes
}
