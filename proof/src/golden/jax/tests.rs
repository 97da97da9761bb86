//! The replay itself: cases are compared and not believed.

use super::*;
use serde_json::{Value, json};

/// Passed, failed and skipped cases of a file of one case.
fn check(case: Value, want: [usize; 3]) {
    let file = json!({"suite": "jax", "cases": [case]});
    let mut report = Report::new(Vec::new());
    replay(&Node::root(&file, "test.json"), &mut report).unwrap();
    assert_eq!(report.counts(), want, "{file}");
}
const PASSES: [usize; 3] = [1, 0, 0];
const FAILS: [usize; 3] = [0, 1, 0];
const SKIPPED: [usize; 3] = [0, 0, 1];

/// A case of a sharding by name over `x` of 2, and of it another sharding, shape or want.
fn named(change: impl Fn(&mut Value)) -> Value {
    let mut case = json!({
        "id": 1, "kind": "named_sharding", "mesh": {"shape": [2], "axis_names": ["x"]}, "spec": [["x"]], "global_shape": [4],
        "want": {
            "shard_shape": [2], "indices": [[[0, 2]], [[2, 4]]], "fully_replicated": false, "replica_ids": [0, 0],
            "hlo": "{devices=[2]<=[2]}", "canonical_spec": ["x"], "memory_kind": "device",
        },
    });
    change(&mut case);
    case
}
fn error(stage: &str, class: &str) -> impl Fn(&mut Value) {
    let error = json!({"stage": stage, "type": class});
    move |case| {
        case.as_object_mut().unwrap().remove("want");
        case["error"] = error.clone();
    }
}

#[test]
fn every_answer_of_a_sharding_is_compared() {
    check(named(|_| ()), PASSES);
    for (field, wrong) in [
        ("shard_shape", json!([4])),
        ("indices", json!([[[0, 2]], [[0, 2]]])),
        ("indices", json!([[[0, 2]]])),
        ("fully_replicated", json!(true)),
        ("replica_ids", json!([0, 1])),
        ("hlo", json!("{replicated}")),
        ("canonical_spec", json!(["x", null])),
        ("memory_kind", json!("pinned_host")),
    ] {
        check(named(|case| case["want"][field] = wrong.clone()), FAILS);
    }
    // What the file calls a quirk is not required.
    let quirk = |case: &mut Value| {
        case["want"]["fully_replicated"] = json!(true);
        case["note"] = json!("quirk: says so of axes of size 1");
    };
    check(named(quirk), SKIPPED);
}

#[test]
fn errors_are_compared_by_kind_and_stage() {
    let case = |change: &dyn Fn(&mut Value), error: &dyn Fn(&mut Value)| {
        named(|case| {
            change(case);
            error(case);
        })
    };
    let odd = |case: &mut Value| case["global_shape"] = json!([3]);
    let scalar = |case: &mut Value| case["global_shape"] = json!([]);
    let twice = |case: &mut Value| case["spec"] = json!(["z", "z"]);
    let unknown = |case: &mut Value| case["spec"] = json!(["z"]);
    let memory = |case: &mut Value| case["memory_kind"] = json!("hbm");
    let nowhere = |case: &mut Value| case["abstract"] = json!(true);
    let manual = |case: &mut Value| {
        case["mesh"]["axis_types"] = json!(["Manual"]);
        case["spec"] = json!([null]);
    };
    let raw = |case: &mut Value| case["spec"] = json!(null);
    let no_name = |case: &mut Value| case["unreduced"] = json!([null]);
    let nested = |case: &mut Value| case["spec"] = json!([["x", ["y"]]]);
    for (change, stage, class) in [
        (&odd as &dyn Fn(&mut Value), "shard_shape", "IndivisibleError"),
        (&scalar, "check_rank", "ValueError"),
        (&twice, "construct", "DuplicateSpecError"),
        (&unknown, "construct", "ValueError"),
        (&memory, "construct", "ValueError"),
        (&nowhere, "devices_indices_map", "ValueError"),
        (&manual, "shard_shape", "AssertionError"),
        (&raw, "construct", "TypeError"),
        (&nested, "construct", "ValueError"),
        (&no_name, "construct", "ValueError"),
    ] {
        check(case(change, &error(stage, class)), PASSES);
        // No error, or another one.
        check(case(&|_| (), &error(stage, class)), FAILS);
        check(case(change, &error("construct", "IndivisibleError")), FAILS);
    }
    check(case(&odd, &error("check_rank", "ValueError")), FAILS);
    check(case(&scalar, &error("shard_shape", "IndivisibleError")), FAILS);
    check(case(&unknown, &error("construct", "DuplicateSpecError")), FAILS);
    check(case(&twice, &error("construct", "ValueError")), FAILS);
}

#[test]
fn terms_are_answered_up_to_the_index_map() {
    let sum = |case: &mut Value| {
        case["mesh"] =
            json!({"shape": [2, 2], "axis_names": ["x", "y"], "axis_types": ["Explicit", "Explicit"]});
        case["unreduced"] = json!(["y"]);
        case["partial"] = json!({"shard_shape": [2], "fully_replicated": false, "hlo": "{devices=[2,2]<=[4] last_tile_dims={unreduced}}"});
        error("devices_indices_map", "NotImplementedError")(case);
    };
    check(named(sum), PASSES);
    check(
        named(|case| {
            sum(case);
            case["partial"]["hlo"] = json!("{unreduced}");
        }),
        FAILS,
    );
    check(
        named(|case| {
            sum(case);
            case["mesh"]["axis_types"] = json!(["Auto", "Auto"]);
        }),
        FAILS,
    );
}

fn equivalent(change: impl Fn(&mut Value)) -> Value {
    let mut case = json!({
        "id": 1, "kind": "equivalent", "ndim": 2,
        "a": {"mesh": {"shape": [2, 2], "axis_names": ["x", "y"]}, "spec": [["x", "y"]]},
        "b": {"mesh": {"shape": [4], "axis_names": ["d"]}, "spec": ["d", null]},
        "want": {"equal": false, "equivalent": true},
    });
    change(&mut case);
    case
}

#[test]
fn both_relations_are_compared() {
    check(equivalent(|_| ()), PASSES);
    check(equivalent(|case| case["want"]["equal"] = json!(true)), FAILS);
    check(equivalent(|case| case["want"]["equivalent"] = json!(false)), FAILS);
    check(equivalent(|case| case["a"]["spec"] = json!([["y", "x"]])), FAILS);
    check(equivalent(|case| case["b"]["memory_kind"] = json!("pinned_host")), FAILS);
    let itself = |case: &mut Value| {
        case["b"] = case["a"].clone();
        case["want"]["equal"] = json!(true);
    };
    check(equivalent(itself), PASSES);
    let types = |case: &mut Value| {
        itself(case);
        case["b"]["mesh"]["axis_types"] = json!(["Explicit", "Auto"]);
        case["want"]["equal"] = json!(false);
    };
    check(equivalent(types), PASSES);
    let single = |memory: &'static str| {
        move |case: &mut Value| {
            case["a"] = json!({"device_id": 3});
            case["b"] = json!({"device_id": 3, "memory_kind": memory});
            case["want"] = json!({"equal": memory == "device", "equivalent": memory == "device"});
        }
    };
    check(equivalent(single("device")), PASSES);
    check(equivalent(single("unpinned_host")), PASSES);
    let beyond = |case: &mut Value| {
        case["ndim"] = json!(0);
        error("is_equivalent_to", "IndexError")(case);
    };
    check(equivalent(beyond), PASSES);
    check(equivalent(error("is_equivalent_to", "IndexError")), FAILS);
}

#[test]
fn specs_keep_what_they_are_given() {
    let spec = |input: Value, partitions: Value| json!({"id": 1, "kind": "partition_spec", "input": input, "want": {"partitions": partitions}});
    check(spec(json!([["x"], [], "", [null], 1]), json!(["x", null, null, null, 1])), PASSES);
    check(spec(json!(["x"]), json!(["x", null])), FAILS);
    // Theirs takes a none among names; ours cannot say it.
    check(spec(json!([["x", null]]), json!([["x", null]])), PASSES);
    let mut overlapping = spec(json!(["x"]), json!(["x"]));
    check(overlapping.clone(), PASSES);
    overlapping["unreduced"] = json!(["x"]);
    check(overlapping.clone(), FAILS);
    error("construct", "ValueError")(&mut overlapping);
    check(overlapping, PASSES);
    let equal = |a: Value, b: Value, equal: bool| {
        check(
            json!({"id": 1, "kind": "partition_spec_eq", "a": a, "b": b, "want": {"equal": equal}}),
            PASSES,
        );
        check(
            json!({"id": 1, "kind": "partition_spec_eq", "a": a, "b": b, "want": {"equal": !equal}}),
            FAILS,
        );
    };
    equal(json!(["x"]), json!([["x"]]), true);
    equal(json!(["x", null]), json!(["x"]), false);
    equal(json!([{"unconstrained": true}]), json!([null]), false);
}

#[test]
fn one_device_holds_all() {
    let single = |change: &dyn Fn(&mut Value)| {
        let mut case = json!({
            "id": 1, "kind": "single_device", "device_id": 2, "global_shape": [3],
            "want": {"shard_shape": [3], "indices": [[[0, 3]]], "fully_replicated": true, "replica_ids": [0]},
        });
        change(&mut case);
        case
    };
    check(single(&|_| ()), PASSES);
    check(single(&|case| case["want"]["indices"] = json!([[[0, 2]]])), FAILS);
    let memory = |case: &mut Value| {
        case["memory_kind"] = json!("hbm");
        error("construct", "ValueError")(case);
    };
    check(single(&memory), PASSES);
    check(json!({"id": 1, "kind": "unheard_of"}), SKIPPED);
}

#[test]
fn placed_arrays_are_compared_shard_by_shard() {
    let put = |change: &dyn Fn(&mut Value)| {
        let shard =
            |index: [usize; 2], data: [f32; 2]| json!({"index": [index], "replica_id": 0, "data": data});
        let mut case = json!({
            "id": 1, "kind": "device_put", "mesh": {"shape": [2], "axis_names": ["x"], "device_ids": [1, 0]},
            "spec": ["x"], "global_shape": [4], "data": "iota_f32_row_major",
            "want": {"shards": [shard([0, 2], [0.0, 1.0]), shard([2, 4], [2.0, 3.0])]},
        });
        change(&mut case);
        case
    };
    check(put(&|_| ()), PASSES);
    check(put(&|case| case["want"]["shards"][1]["data"] = json!([3.0, 2.0])), FAILS);
    check(put(&|case| case["want"]["shards"][1]["replica_id"] = json!(1)), FAILS);
    check(put(&|case| case["want"]["shards"][0]["index"] = json!([[2, 4]])), FAILS);
    check(put(&|case| case["want"]["shards"] = json!([])), FAILS);
    check(put(&|case| error("device_put", "IndivisibleError")(case)), FAILS);
    check(
        put(&|case| {
            error("device_put", "IndivisibleError")(case);
            case["global_shape"] = json!([3]);
        }),
        PASSES,
    );
}

#[test]
fn pieces_are_put_together_where_they_lie() {
    let of = |devices: [u32; 2], outcome: Value| {
        let piece = |device: u32| json!({"device_id": device, "shape": [2]});
        let mut case = json!({
            "id": 1, "kind": "from_single_device_arrays", "mesh": {"shape": [2], "axis_names": ["x"]}, "spec": ["x"],
            "global_shape": [4], "pieces": devices.map(piece),
        });
        case.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        case
    };
    let data = |data: [f32; 4]| json!({"want": {"data": data}});
    check(of([1, 0], data([0.0, 0.0, 1.0, 1.0])), PASSES);
    check(of([1, 0], data([1.0, 1.0, 0.0, 0.0])), FAILS);
    let refused = json!({"error": {"stage": "make_array", "type": "ValueError"}});
    check(of([1, 1], refused.clone()), PASSES);
    check(of([0, 1], refused), FAILS);
}

#[test]
fn meshes_are_compared_and_some_refused_on_purpose() {
    let mesh = |names: Value, sizes: Value, outcome: Value| {
        let mut case = json!({
            "id": 1, "kind": "mesh", "constructor": "make_mesh", "args": {"axis_sizes": sizes, "axis_names": names},
        });
        case.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        case
    };
    let want = |names: Value, sizes: Value, ids: Value| json!({"want": {"axis_sizes": sizes, "axis_names": names, "axis_types": ["Explicit"], "device_ids": ids}});
    check(mesh(json!(["x"]), json!([2]), want(json!(["x"]), json!([2]), json!([0, 1]))), PASSES);
    check(mesh(json!("x"), json!([2]), want(json!(["x"]), json!([2]), json!([0, 1]))), PASSES);
    check(mesh(json!(["x"]), json!([2]), want(json!(["x"]), json!([2]), json!([1, 0]))), FAILS);
    check(mesh(json!(["x"]), json!([16]), want(json!(["x"]), json!([16]), json!([0]))), FAILS);
    check(mesh(json!(["x"]), json!([0]), want(json!(["x"]), json!([0]), json!([]))), SKIPPED);
    let error = json!({"error": {"stage": "construct", "type": "IndexError"}});
    check(mesh(json!(["x"]), json!([0]), error.clone()), PASSES);
    check(mesh(json!(["x"]), json!([2]), error), FAILS);
}
