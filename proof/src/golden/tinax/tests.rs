//! The replay itself: cases are compared and not believed.

use super::*;
use serde_json::{Value, json};

/// Passed, failed and skipped cases of one case.
fn check(function: &str, input: Value, outcome: Value, want: [usize; 3]) {
    let mut case = json!({"id": "tinax/0", "fn": function, "input": input});
    case.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
    let file = json!({"suite": "tinax", "cases": [case]});
    let mut report = Report::new(Vec::new());
    replay(&Node::root(&file, "test.json"), &mut report).unwrap();
    assert_eq!(report.counts(), want, "{file}");
}
const PASSES: [usize; 3] = [1, 0, 0];
const FAILS: [usize; 3] = [0, 1, 0];
const SKIPPED: [usize; 3] = [0, 0, 1];

fn error(class: &str) -> Value {
    json!({"error": {"type": class}})
}

#[test]
fn what_is_accepted_is_compared() {
    let mesh = |ids: Value, shape: Value| json!({"device_ids": ids, "shape": shape, "axis_names": ["x"], "axis_types": ["Explicit"]});
    let want = |ids: Value| json!({"want": {"axis_sizes": [2], "device_ids": ids}});
    check("make_mesh", mesh(json!([3, 1]), json!([2])), want(json!([3, 1])), PASSES);
    check("make_mesh", mesh(json!([3, 1]), json!([2])), want(json!([1, 3])), FAILS);
    check("make_mesh", mesh(json!([3, 1]), json!([2])), error("ValueError"), FAILS);
    check("make_mesh", mesh(json!([3, 3]), json!([2])), error("ValueError"), PASSES);
    // Bad values are no misuse of types, and no contradiction of the running program.
    check("make_mesh", mesh(json!([3, 3]), json!([2])), error("RuntimeError"), FAILS);
    check("make_mesh", mesh(json!([3, 3]), json!([2])), error("TypeError"), FAILS);
    // What cannot be written is met by any error, and by no result.
    check("make_mesh", mesh(json!([3, 1]), json!([2.0])), error("TypeError"), PASSES);
    check("make_mesh", mesh(json!([3, 1]), json!([true])), want(json!([3, 1])), FAILS);
}

#[test]
fn replicas_of_other_processes_are_seen() {
    let input = |policy: &str| {
        json!({"process_grid": [[0, 1], [0, 1]], "partitions": ["x", null], "local_shape": [8, 8],
            "global_shape": [8, 8], "replica_policy": policy})
    };
    let want = |replicas: bool| json!({"want": {"accepted": true, "has_cross_process_replicas": replicas}});
    check("from_process_local_data", input("assume_consistent"), want(true), PASSES);
    check("from_process_local_data", input("assume_consistent"), want(false), FAILS);
    check("from_process_local_data", input("disallow"), want(true), FAILS);
    check("from_process_local_data", input("disallow"), error("ValueError"), PASSES);
    check("from_process_local_data", input("perhaps"), error("ValueError"), PASSES);
}

#[test]
fn bytes_and_indices_are_compared() {
    let input = |dtype: &str| json!({"mesh": {"shape": [2], "axis_names": ["x"]}, "partitions": ["x", null], "shape": [4, 3], "dtype": dtype});
    let want = |bytes: usize| {
        json!({"want": {"logical_nbytes": bytes, "addressable_nbytes": bytes,
            "indices": [[[0, 2], null], [[2, 4], null]]}})
    };
    check("place_host_array", input("float32"), want(48), PASSES);
    check("place_host_array", input("float32"), want(47), FAILS);
    check("place_host_array", input("complex64"), want(96), SKIPPED);
    check("place_host_array", input("object"), error("TypeError"), PASSES);
}

#[test]
fn a_layout_is_of_explicit_axes() {
    let input = |types: [&str; 2], partitions: Value| json!({"mesh": {"shape": [4, 2], "axis_names": ["x", "y"], "axis_types": types}, "partitions": partitions});
    let explicit = ["Explicit"; 2];
    check("layout", input(explicit, json!([["y", "x"], null])), json!({"want": [["y", "x"], null]}), PASSES);
    check("layout", input(explicit, json!(["y", "x"])), json!({"want": ["x", "y"]}), FAILS);
    check("layout", input(["Explicit", "Auto"], json!([])), json!({"want": []}), FAILS);
    check("layout", input(["Explicit", "Auto"], json!([])), error("ValueError"), PASSES);
    for refused in [json!(["z"]), json!(["x", "x"]), json!([""]), json!([["x", ""]])] {
        check("layout", input(explicit, refused), error("ValueError"), PASSES);
    }
    for unwritable in [json!([1]), json!([[]]), json!("x")] {
        check("layout", input(explicit, unwritable), error("TypeError"), PASSES);
    }
}

#[test]
fn words_are_read_or_counted() {
    let args = |text: &str, outcome: Value, want: [usize; 3]| {
        check("from_process_local_data_args", json!({"override": text}), outcome, want);
    };
    let shape = || json!({"want": {"shape": [16]}});
    args("none", shape(), PASSES);
    args("none", error("ValueError"), FAILS);
    args("process_index 1", error("RuntimeError"), PASSES);
    args("process_index 1", error("TypeError"), FAILS);
    args("process_index 0, process_count 1", shape(), PASSES);
    args("process_count 2", shape(), FAILS);
    args("sharding on AbstractMesh", error("ValueError"), PASSES);
    args("sharding on Auto mesh", error("ValueError"), PASSES);
    args("sharding on Auto mesh", shape(), FAILS);
    args("a riddle", error("ValueError"), SKIPPED);
    // Words that are not understood are no misuse, whatever the category.
    args("a riddle", error("TypeError"), SKIPPED);
    args("copy False", shape(), PASSES);
    args("copy maybe", error("TypeError"), PASSES);
    // What is said later takes nothing back.
    args("process_index 1, policy disallow", error("RuntimeError"), PASSES);
    args("process_index 1, policy disallow", shape(), FAILS);
    let wrapped = |text: &str, outcome: Value, want: [usize; 3]| {
        check("shard_mapped", json!({"case": text}), outcome, want);
    };
    let accepted = || json!({"want": {"accepted": true}});
    wrapped("all manual, P(x) -> P(x)", accepted(), PASSES);
    wrapped("all manual, P(x) -> P((x, y))", accepted(), PASSES);
    wrapped("all manual, P(q) -> P(x)", accepted(), FAILS);
    wrapped("all explicit", error("ValueError"), PASSES);
    wrapped("mixed, axis_names {x}", accepted(), PASSES);
    wrapped("mixed, axis_names {x}, out P(y)", error("ValueError"), PASSES);
    wrapped("mixed, axis_names {y}", accepted(), FAILS);
    check("abstract_sharded_state", json!({}), accepted(), SKIPPED);
}
