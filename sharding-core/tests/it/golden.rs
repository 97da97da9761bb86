//! Cases of another system's transfers: equal placements and shapes, the value kept, a price at most theirs.

use crate::host::HOST;
use crate::value;
use serde_json::Value;
use sharding_core::backend::StepKind;
use sharding_core::plan::{CostModel, StepQuery, VolumeCost};
use sharding_core::redistribute::Program;
use sharding_core::{DType, Device, DeviceMapping, DeviceMesh, Place, ReduceOp, Shape, TensorLayout};

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

fn mesh(value: &Value) -> DeviceMesh {
    let names: Vec<&str> =
        value["axis_names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    if names == ["_"] {
        return DeviceMesh::single(Device::new(HOST, 0));
    }
    DeviceMesh::simulated(HOST, numbers(&value["shape"]), names).unwrap()
}

fn places(value: &Value) -> Vec<Place> {
    let place = |text: &Value| match text.as_str().unwrap() {
        "R" => Place::Replicated,
        "P" => Place::PARTIAL,
        "U" => Place::Unknown,
        split => Place::Sharded(split[1..].parse().unwrap()),
    };
    value.as_array().unwrap().iter().map(place).collect()
}

/// The price of recorded steps by the formula that prices ours.
fn price(steps: &[Value], source: &TensorLayout, target: &TensorLayout) -> f64 {
    let mesh = source.mesh();
    let mut now = source.places().to_vec();
    let mut total = 0.0;
    for step in steps {
        let tensor_axis = step["tensor_axis"].as_u64().map(|axis| Place::Sharded(axis as u8));
        let (kind, to) = match step["op"].as_str().unwrap() {
            "allreduce" => (StepKind::AllReduce(ReduceOp::Sum), Place::Replicated),
            "allgather" => (StepKind::AllGather, Place::Replicated),
            "reduce_scatter" => (StepKind::ReduceScatter(ReduceOp::Sum), tensor_axis.unwrap()),
            "local_split" => (StepKind::LocalSlice, tensor_axis.unwrap()),
            "keep_one_copy" => (StepKind::KeepOneCopy(ReduceOp::Sum), Place::PARTIAL),
            // Between meshes of the same devices shards stay; a scatter sends each device its part of the first's copy.
            "relabel" | "move_shard_to_same_position" => continue,
            "scatter" => {
                let received =
                    (1..target.mesh().num_devices()).map(|p| target.local_shape(p).elements()).max();
                total += received.unwrap_or(0) as f64 * 4.0;
                continue;
            }
            other => panic!("unknown step {other}"),
        };
        let axes = numbers(&step["mesh_axes"]);
        let outside: usize = (0..now.len())
            .filter(|axis| !axes.contains(axis) && now[*axis].tensor_axis().is_some())
            .map(|axis| mesh.size(axis))
            .product();
        total += VolumeCost.step(&StepQuery {
            kind,
            mesh,
            axes: &axes,
            group: mesh.axis_size(&axes).unwrap(),
            bytes: source.bytes() as f64 / outside as f64,
            received: 0.0,
        });
        axes.iter().for_each(|axis| now[*axis] = to);
    }
    total
}

fn check(case: &Value) {
    let id = &case["id"];
    let from = mesh(&case["mesh"]);
    let to = if case["to_mesh"].is_null() { from.clone() } else { mesh(&case["to_mesh"]) };
    let shape = Shape::from(numbers(&case["shape"]));
    let source = DeviceMapping::new(&from, places(&case["from"])).unwrap();
    let source = TensorLayout::new(DType::F32, shape.clone(), source).unwrap();
    let mapping = DeviceMapping::new(&to, places(&case["to"])).unwrap();
    let whole = value::random(shape.elements(), DType::F32, id.as_u64().unwrap());
    let moved = value::place(&source, &whole).transfer_to(&mapping);
    if !case["error"].is_null() {
        assert!(moved.is_err(), "case {id} is an error there");
        return;
    }
    let moved = moved.unwrap_or_else(|error| panic!("case {id}: {error}"));
    assert_eq!(moved.layout().places(), places(&case["placements"]), "case {id}");
    for (shard, want) in moved.shards().iter().zip(case["local_shapes"].as_array().unwrap()) {
        assert_eq!(shard.shape()[..], numbers(want), "case {id}");
    }
    if case["value_preserved"] == true {
        assert_eq!(value::value(&moved), whole, "case {id}");
    }
    let program = Program::search(&source, moved.layout(), &VolumeCost).unwrap();
    let theirs = price(case["steps"].as_array().unwrap(), &source, moved.layout());
    assert!(
        program.cost <= theirs * (1.0 + 1e-9),
        "case {id}: {} > {theirs}: {:?}",
        program.cost,
        program.steps
    );
}

#[test]
fn transfers_of_the_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/max_transfer.json");
    let suite: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = suite["cases"].as_array().unwrap();
    assert!(cases.len() > 300);
    cases.iter().for_each(check);
}
