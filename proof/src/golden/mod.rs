//! Replays of reference cases that other systems computed.
//!
//! A file is one suite; its field `suite` says which replay reads it. What makes a case pass stands in
//! `tests/golden/README.md`. A case's id is never looked at, but by the list of allowed differences.

mod allow;
mod data;
mod dtensor;
mod explicit_ops;
mod indices;
mod jax;
mod json;
mod max_layout;
mod max_plan;
mod max_transfer;
mod report;
mod room;
mod shard_map;
mod spelling;
mod tinax;

use json::{Malformed, Node};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Replays the files, or all those beside the list of allowed differences if there is none. Prints a line per failing
/// case, a line per group that is skipped, and last `N passed, N failed, N skipped`.
///
/// The exit status is 1 if a case failed, 2 if a file cannot be read as what it says it is.
pub fn run(files: &[PathBuf]) -> ExitCode {
    match replay(files) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("golden: {error}");
            ExitCode::from(2)
        }
    }
}

fn replay(files: &[PathBuf]) -> Result<bool, Malformed> {
    let folder = folder();
    let mut report = Report::new(allow::read(&folder.join(allow::FILE))?);
    let found;
    let files = if files.is_empty() {
        found = json_files(&folder)?;
        &found
    } else {
        files
    };
    // A panic inside a case is that case's failure and is printed as one; the default hook would print it twice.
    std::panic::set_hook(Box::new(|_| {}));
    for file in files {
        replay_file(file, &mut report)?;
    }
    Ok(report.finish())
}

fn replay_file(file: &Path, report: &mut Report) -> Result<(), Malformed> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Malformed::new(format!("cannot read {}: {error}", file.display())))?;
    let value = serde_json::from_str(&text)
        .map_err(|error| Malformed::new(format!("{} is not JSON: {error}", file.display())))?;
    replay_value(&value, &file.display().to_string(), report)
}

/// Replays the text of a file and prints nothing; gives the numbers of cases that passed, failed and were skipped.
///
/// # Errors
/// If it is no file of reference cases.
pub fn replay_text(text: &str) -> Result<[usize; 3], String> {
    let mut report = Report::silent();
    let value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    replay_value(&value, "text", &mut report).map_err(|error| error.to_string())?;
    Ok(report.counts())
}

fn replay_value(value: &serde_json::Value, file: &str, report: &mut Report) -> Result<(), Malformed> {
    let root = Node::root(value, file);
    let suite = root.field("suite")?.text()?;
    report.begin(suite);
    match suite {
        "dtensor" => dtensor::replay(&root, report),
        "explicit_ops" => explicit_ops::replay(&root, report),
        "jax" => jax::replay(&root, report),
        "max_layout" => max_layout::replay(&root, report),
        "max_plan" => max_plan::replay(&root, report),
        "max_transfer" => max_transfer::replay(&root, report),
        "shard_map" => shard_map::replay(&root, report),
        "tinax" => tinax::replay(&root, report),
        _ => {
            report.skip(suite, "there is no replay of this suite yet", root.count_cases());
            Ok(())
        }
    }
}

/// Where the reference cases lie.
fn folder() -> PathBuf {
    // Cargo sets the variable for `cargo run`, so a build folder shared by several checkouts reads the right one.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.join("../tests/golden")
}

fn json_files(folder: &Path) -> Result<Vec<PathBuf>, Malformed> {
    let listed = std::fs::read_dir(folder)
        .map_err(|error| Malformed::new(format!("cannot list {}: {error}", folder.display())))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Passed, failed and skipped cases of a file.
    fn check(file: serde_json::Value, want: [usize; 3]) {
        let mut report = Report::silent();
        replay_value(&file, "test.json", &mut report).unwrap();
        assert_eq!(report.counts(), want, "{file}");
    }

    #[test]
    fn cases_are_compared_and_not_believed() {
        let split = |want: serde_json::Value| json!({"suite": "max_layout", "even_shard_sizes": [{"id": "a", "size": 7, "pieces": 2, "want": want}]});
        check(split(json!([4, 3])), [1, 0, 0]);
        check(split(json!([3, 4])), [0, 1, 0]);
        check(split(json!({"error": {}})), [0, 1, 0]);
        check(json!({"suite": "max_layout", "transition_sets": {"DEFAULT": ["R>S"]}}), [0, 1, 0]);
        let row = |cost: f64| json!({"suite": "max_layout", "transition_cost": {"rows": [[[4], 0, "S0", "R", "allgather", cost]]}});
        check(row(768.0), [1, 0, 0]);
        check(row(767.0), [0, 1, 0]);
    }

    fn transfer(change: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
        let mut case = json!({
            "id": 1, "mesh": {"shape": [2], "axis_names": ["tp"]}, "shape": [5, 2], "from": ["P"], "to": ["S0"],
            "placements": ["S0"], "local_shapes": [[3, 2], [2, 2]],
            "steps": [{"op": "reduce_scatter", "tensor_axis": 0, "mesh_axes": [0]}],
        });
        change(&mut case);
        json!({"suite": "max_transfer", "cases": [case]})
    }

    #[test]
    fn a_transfer_is_run_and_priced() {
        check(transfer(|_| ()), [1, 0, 0]);
        check(transfer(|case| case["steps"] = json!([])), [0, 1, 0]);
        check(transfer(|case| case["local_shapes"] = json!([[2, 2], [3, 2]])), [0, 1, 0]);
        check(transfer(|case| case["placements"] = json!(["R"])), [0, 1, 0]);
        check(transfer(|case| case["error"] = json!({})), [0, 1, 0]);
        let unknown = json!({"to": ["U"], "error": {}, "steps": []});
        check(
            transfer(|case| case.as_object_mut().unwrap().extend(unknown.as_object().unwrap().clone())),
            [1, 0, 0],
        );
    }

    fn plan(change: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
        let mut case = json!({
            "id": 1, "op": "matmul", "args": [{"t": 0}, {"t": 1}], "kwargs": {},
            "mesh": {"shape": [2], "axis_names": ["tp"]},
            "tensors": [
                {"name": "lhs", "dtype": "f32", "shape": [4, 8], "placements": ["S1"]},
                {"name": "rhs", "dtype": "f32", "shape": [8, 2], "placements": ["R"]},
            ],
            "policy": {"allowed": "DEFAULT", "mode": "silent"},
            "want": {"inputs": [["S1"], ["S0"]], "outputs": [["P"]], "cost": [0.5], "rows": 6},
        });
        change(&mut case);
        json!({"suite": "max_plan", "cases": [case]})
    }

    #[test]
    fn a_plan_is_compared_and_run() {
        check(plan(|_| ()), [1, 0, 0]);
        check(plan(|case| case["want"]["cost"] = json!([0.25])), [0, 1, 0]);
        // Cheaper than theirs is right, other placements at the same cost are not.
        check(plan(|case| case["want"]["cost"] = json!([9.0])), [1, 0, 0]);
        let whole = |case: &mut serde_json::Value| {
            case["want"]["inputs"] = json!([["R"], ["R"]]);
            case["want"]["outputs"] = json!([["R"]]);
        };
        check(plan(whole), [0, 1, 0]);
        check(plan(|case| case["want"] = json!({"error": {"stage": "plan"}, "rows": 6})), [0, 1, 0]);
        check(plan(|case| case["want"] = json!({"error": {"stage": "rule"}})), [0, 1, 0]);
        let raise = |case: &mut serde_json::Value| case["policy"]["mode"] = json!("raise");
        check(plan(raise), [0, 1, 0]);
        let refused = |case: &mut serde_json::Value| {
            raise(case);
            case["want"] = json!({"error": {"stage": "plan"}, "rows": 6});
        };
        check(plan(refused), [1, 0, 0]);
        check(plan(|case| case["op"] = json!("unheard_of")), [0, 0, 1]);
        check(plan(|case| case["tensors"][0]["dtype"] = json!("f128")), [0, 0, 1]);
        check(plan(|case| case["kwargs"] = json!({"transposed": true})), [0, 0, 1]);
    }

    #[test]
    fn a_plan_that_is_wrong_itself_is_no_measure() {
        // Each device joins its own pieces: rows 0 and 2 on the first, where the whole has 0 and 1 first.
        let file = |inputs: serde_json::Value| {
            json!({"suite": "max_plan", "cases": [{
                "id": 1, "op": "concat", "args": [[{"t": 0}, {"t": 1}], 0], "kwargs": {},
                "mesh": {"shape": [2], "axis_names": ["tp"]},
                "tensors": [
                    {"name": "a", "dtype": "f32", "shape": [2, 3], "placements": ["S0"]},
                    {"name": "b", "dtype": "f32", "shape": [2, 3], "placements": ["S0"]},
                ],
                "policy": {"allowed": "DEFAULT", "mode": "silent"},
                "want": {"inputs": [inputs, inputs], "outputs": [inputs], "cost": [0], "rows": 4},
            }]})
        };
        check(file(json!(["S0"])), [1, 0, 0]);
        check(file(json!(["S1"])), [0, 1, 0]);
    }

    fn dtensor(change: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
        let array = |shape: &[usize], data: &[f64]| json!({"shape": shape, "dtype": "float32", "data": data});
        let mut case = json!({
            "id": 1, "kind": "op", "op": "sum(0)", "mesh_shape": [2],
            "inputs": [{
                "placements": ["P(avg)"], "global": array(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                "locals": [array(&[3, 2], &[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]), array(&[3, 2], &[0.0; 6])],
            }],
            "reference": [array(&[2], &[9.0, 12.0])],
        });
        change(&mut case);
        json!({"suite": "dtensor", "cases": [case]})
    }

    #[test]
    fn values_of_dtensor_are_compared() {
        check(dtensor(|_| ()), [1, 0, 0]);
        check(dtensor(|case| case["reference"][0]["data"][1] = json!(12.5)), [0, 1, 0]);
        check(dtensor(|case| case["reference"][0]["dtype"] = json!("float64")), [0, 1, 0]);
        // The parts are what the devices hold, not the whole once more.
        check(dtensor(|case| case["inputs"][0]["locals"][1]["data"][0] = json!(2.0)), [0, 1, 0]);
        let pieces = |case: &mut serde_json::Value| case["inputs"][0]["placements"] = json!(["S(0)"]);
        check(dtensor(pieces), [1, 0, 0]);
        check(dtensor(|case| case["op"] = json!("sum(0,keepdim)")), [0, 1, 0]);
        check(dtensor(|case| case["op"] = json!("unheard_of(0)")), [0, 0, 1]);
        check(dtensor(|case| case["kind"] = json!("grad")), [0, 0, 1]);
        check(dtensor(|case| case["inputs"][0]["placements"] = json!(["MaskP(0)"])), [0, 0, 1]);
        check(dtensor(|case| case["inputs"][0]["placements"] = json!(["_S(0,2)"])), [1, 0, 0]);
        // What each device holds: two mesh axes that split rows strided, the second the outermost.
        let shards = |devices: [f64; 4]| {
            dtensor(|case| {
                let array = |data: &[f64]| json!({"dtype": "float32", "shape": [data.len()], "data": data});
                let locals: Vec<_> = devices.iter().map(|value| array(&[*value])).collect();
                let whole = array(&[1.0, 2.0, 3.0, 4.0]);
                case["kind"] = json!("distribute");
                case["mesh_shape"] = json!([2, 2]);
                case["inputs"] =
                    json!([{"global": whole, "placements": ["_S(0,2)", "S(0)"], "locals": locals}]);
                case["outputs"] = json!([{"locals": locals, "full": whole}]);
                case["reference"] = json!([whole]);
            })
        };
        check(shards([1.0, 3.0, 2.0, 4.0]), [1, 0, 0]);
        check(shards([1.0, 2.0, 3.0, 4.0]), [0, 1, 0]);
        let moved = |case: &mut serde_json::Value, to: &str| {
            case["kind"] = json!("redistribute");
            case["attrs"] = json!({"to": [to]});
            case["reference"] = json!([case["inputs"][0]["global"].clone()]);
        };
        check(dtensor(|case| moved(case, "S(1)")), [1, 0, 0]);
        let wrong = |case: &mut serde_json::Value| {
            moved(case, "S(1)");
            case["reference"][0]["data"][3] = json!(0.0);
        };
        check(dtensor(wrong), [0, 1, 0]);
        let stored = |value: f64| {
            dtensor(|case| {
                case["op"] = json!("in-place x[:2, 1] = 7");
                case["reference"][0] = case["inputs"][0]["global"].clone();
                case["reference"][0]["data"][1] = json!(7);
                case["reference"][0]["data"][3] = json!(value);
            })
        };
        check(stored(7.0), [1, 0, 0]);
        check(stored(14.0), [0, 1, 0]);
        let table = |sizes: &[usize]| json!({"suite": "dtensor", "chunk_table": {"rows": [{"n": 4, "k": 3, "balanced_sizes": sizes}]}, "cases": []});
        check(table(&[2, 1, 1]), [1, 0, 0]);
        check(table(&[2, 2, 0]), [0, 1, 0]);
    }

    #[test]
    fn placements_on_explicit_axes_are_compared() {
        let explicit = |change: &dyn Fn(&mut serde_json::Value)| {
            let input = json!({"shape": [8, 4], "dtype": "float32", "spec": ["x", "y"]});
            let mut case = json!({
                "id": 1, "op": "sum", "params": {"axis": 0}, "inputs": [input],
                "want": {"shape": [4], "spec": ["y"]},
            });
            change(&mut case);
            let mesh = json!({"mesh": {"shape": [2, 2], "axis_names": ["x", "y"]}});
            json!({"suite": "explicit_ops", "generator": mesh, "cases": [case]})
        };
        // Partial over what was reduced; nothing else will do.
        check(explicit(&|_| ()), [1, 0, 0]);
        check(explicit(&|case| case["want"]["spec"] = json!([null])), [0, 1, 0]);
        check(explicit(&|case| case["want"]["spec"] = json!(["x"])), [0, 1, 0]);
        check(explicit(&|case| case["want"]["shape"] = json!([8])), [0, 1, 0]);
        check(explicit(&|case| case["inputs"][0]["spec"] = json!([null, "y"])), [1, 0, 0]);
        let unreduced = |case: &mut serde_json::Value| case["want"]["unreduced"] = json!(["x"]);
        check(explicit(&unreduced), [1, 0, 0]);
        let over_another = |case: &mut serde_json::Value| {
            case["inputs"][0]["spec"] = json!([null, "y"]);
            unreduced(case);
        };
        check(explicit(&over_another), [0, 1, 0]);
        // An error with the line to write is as good as a result.
        let gathered = |case: &mut serde_json::Value| {
            case["op"] = json!("softmax");
            case["params"] = json!({"axis": 0});
        };
        check(explicit(&gathered), [1, 0, 0]);
        let refused = |case: &mut serde_json::Value| {
            case.as_object_mut().unwrap().remove("want");
            case["error"] = json!({});
        };
        check(explicit(&refused), [1, 0, 0]);
        check(explicit(&|case| case["op"] = json!("unheard_of")), [0, 0, 1]);
    }

    #[test]
    fn a_region_is_run_and_every_block_compared() {
        let file = |change: &dyn Fn(&mut serde_json::Value)| {
            let block = |x: f64| json!({"shape": [1], "data": [x]});
            let mut case = json!({
                "id": 1, "mesh": {"shape": [2], "axis_names": ["x"]}, "op": "psum", "params": {"axis": "x"},
                "in_spec": ["x"], "input": {"shape": [2], "data": [1.0, 2.0]}, "out_spec": [], "check_vma": true,
                "shards_in": [block(1.0), block(2.0)], "output": block(3.0), "shards_out": [block(3.0), block(3.0)],
            });
            change(&mut case);
            json!({"suite": "shard_map", "cases": [case]})
        };
        check(file(&|_| ()), [1, 0, 0]);
        check(file(&|case| case["output"]["data"] = json!([4.0])), [0, 1, 0]);
        check(file(&|case| case["shards_in"][1]["data"] = json!([1.0])), [0, 1, 0]);
        check(file(&|case| case["shards_out"][1]["data"] = json!([1.0])), [0, 1, 0]);
        check(file(&|case| case["error"] = json!({})), [0, 1, 0]);
        let unnamed = |case: &mut serde_json::Value| {
            case["params"]["axis"] = json!("y");
            case["error"] = json!({});
        };
        check(file(&unnamed), [1, 0, 0]);
        check(file(&|case| case["op"] = json!("unheard_of")), [0, 0, 1]);
        let quirk = |case: &mut serde_json::Value| {
            case["output"]["data"] = json!([4.0]);
            case["note"] = json!("a quirk");
        };
        check(file(&quirk), [0, 0, 1]);
    }

    /// Each is refused with a text, and nothing of it is made.
    #[test]
    fn a_case_that_asks_for_too_much_fails() {
        let most = 1_u64 << 40;
        for file in [
            json!({"suite": "max_layout", "even_shard_sizes": [{"id": 1, "size": 7, "pieces": most, "want": [7]}]}),
            json!({"suite": "max_layout", "mesh": [{"id": 1, "devices": most, "mesh_shape": [most], "axis_names": ["x"], "want": {}}]}),
            transfer(|case| case["mesh"]["shape"] = json!([most])),
            transfer(|case| case["shape"] = json!([most, 2])),
            // Also where any error would do.
            transfer(|case| {
                case["shape"] = json!([most, 2]);
                case["error"] = json!({});
            }),
            plan(|case| case["mesh"]["shape"] = json!([1 << 20])),
            plan(|case| case["tensors"][0]["shape"] = json!([most, 8])),
            // Small operands of a large result, also where an extent of 0 hides it.
            plan(|case| {
                case["op"] = json!("tile");
                case["args"] = json!([{"t": 0}, [1 << 20, 1 << 20]]);
            }),
            plan(|case| {
                case["tensors"][0]["shape"] = json!([1 << 14, 1]);
                case["tensors"][1]["shape"] = json!([1, 1 << 14]);
            }),
            plan(|case| case["tensors"][0]["shape"] = json!([0, most])),
            dtensor(|case| case["mesh_shape"] = json!([most])),
            dtensor(|case| case["op"] = json!(format!("expand({most},3,2)"))),
            dtensor(|case| case["op"] = json!(format!("repeat({most},1)"))),
            json!({"suite": "dtensor", "chunk_table": {"rows": [{"n": 4, "k": most, "balanced_sizes": [4]}]}, "cases": []}),
            json!({"suite": "jax", "cases": [{
                "id": 1, "kind": "device_put", "mesh": {"shape": [2], "axis_names": ["x"]}, "spec": ["x"],
                "global_shape": [most], "data": "iota_f32_row_major", "want": {},
            }]}),
            json!({"suite": "tinax", "cases": [{
                "id": 1, "fn": "place_host_array", "want": {},
                "input": {"mesh": {"shape": [most], "axis_names": ["x"]}, "partitions": ["x"], "shape": [4]},
            }]}),
        ] {
            check(file, [0, 1, 0]);
        }
    }

    #[test]
    fn what_is_not_replayed_is_counted() {
        check(
            json!({"suite": "unheard_of", "groups": {"a": [{"id": 1}, {"id": 2}], "b": [{"id": 3}]}}),
            [0, 0, 3],
        );
        check(json!({"suite": "max_layout", "new_group": [{"id": 1}]}), [0, 0, 1]);
    }

    #[test]
    fn a_malformed_file_is_an_error_that_says_where() {
        let error = |file: serde_json::Value| {
            replay_value(&file, "test.json", &mut Report::new(Vec::new())).unwrap_err().to_string()
        };
        assert_eq!(error(json!({})), "test.json: should be an object with the field 'suite', found {}");
        assert!(error(json!({"suite": "max_plan"})).contains("'cases'"));
    }

    #[test]
    fn a_case_that_cannot_be_read_fails_and_the_others_count() {
        let case = |placement: &str| json!({"id": placement, "shape": [2], "placements": [placement], "mesh": {"shape": [2], "axis_names": ["tp"]}, "want": [[1], [1]]});
        let [passed, failed, skipped] = {
            let mut report = Report::new(Vec::new());
            let file = json!({"suite": "max_layout", "local_shapes": [case("X"), case("S0")]});
            replay_value(&file, "test.json", &mut report).unwrap();
            report.counts()
        };
        assert_eq!((passed, failed, skipped), (1, 1, 0));
        check(json!({"suite": "jax", "cases": [{"id": 1}, {"id": 2, "kind": "unheard_of"}]}), [0, 1, 1]);
        check(
            json!({"suite": "tinax", "cases": [{"id": 1, "fn": 3}, {"id": 2, "fn": "unheard_of"}]}),
            [0, 1, 1],
        );
    }
}
