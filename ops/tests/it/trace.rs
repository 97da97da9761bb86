//! What a program is seen to do: tables, trace files, assertions.

use serde_json::Value;
use sharding_ops::*;
use std::path::PathBuf;

/// `[4, 8] @ [8, 2]` over the axis that is summed, then relu: one all_reduce of `[4, 2]`, 32 bytes.
fn program(mesh: &DeviceMesh) -> Result<Tensor> {
    let a = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(mesh, [Sharded(1)])?)?;
    let b = full([8, 2], 1.0, DType::F32, &DeviceMapping::new(mesh, [Sharded(0)])?)?;
    relu(&matmul(&a, &b)?)
}

fn mesh(kind: BackendKind) -> DeviceMesh {
    DeviceMesh::simulated(kind, [2], ["tp"]).unwrap()
}

fn sum_over_tp(mesh: &DeviceMesh) -> Result<Tensor> {
    let x = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(mesh, [Sharded(1)])?)?;
    let part = sum(&x, 1, false)?;
    part.all_reduce("tp")
}

/// The line of this file that has the text.
fn line_of(text: &str) -> String {
    let source = include_str!("trace.rs");
    let line = source.lines().position(|line| line.contains(text)).unwrap() + 1;
    format!("ops/tests/it/trace.rs:{line}")
}

#[test]
fn explain_says_what_moved_and_for_whom() {
    let explained = explain(|| -> Result<Tensor> {
        let y = program(&mesh(BackendKind::CPU))?;
        program(&mesh(BackendKind::CPU))?;
        Ok(y)
    });
    assert_eq!(explained.value.as_ref().unwrap().to_vec::<f32>().unwrap(), [8.0; 8]);
    let [step] = &explained.report.steps[..] else { panic!("{explained}") };
    assert_eq!((step.op, step.kind, step.count), ("relu", StepKind::AllReduce(ReduceOp::Sum), 2));
    // 2 (g-1)/g of 32 bytes; a device holds 32 bytes before and 32 after.
    assert_eq!((step.bytes, step.peak, step.seconds), (32.0, 64, None));
    assert_eq!((&step.axes[..], &step.at), (&["tp".to_owned()][..], &line_of("    relu(&matmul(&a, &b)?)")));
    let text = explained.to_string();
    let cells: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(cells[1], ["1", "all_reduce", "tp", "2", "32", "-", "64", "relu", &*step.at]);
    assert_eq!(cells[2][..5], ["total", "2", "64", "-", "64"]);
}

#[test]
fn collectives_wear_their_own_names() {
    let mesh = mesh(BackendKind::CPU);
    let names = |f: &dyn Fn() -> Result<Tensor>| {
        let explained = explain(f);
        explained.value.as_ref().unwrap();
        explained.report.steps.iter().map(|step| (step.op, step.kind.name())).collect::<Vec<_>>()
    };
    assert_eq!(names(&|| sum_over_tp(&mesh)), [("all_reduce", "all_reduce")]);
    let rows = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)]).unwrap()).unwrap();
    assert_eq!(names(&|| rows.all_gather("tp", 0)), [("all_gather", "all_gather")]);
    let part = sum(&full([8, 4], 1.0, DType::F32, rows.mapping()).unwrap(), 0, false).unwrap();
    assert_eq!(names(&|| part.reduce_scatter("tp", 0)), [("reduce_scatter", "reduce_scatter")]);
    let whole = DeviceMapping::replicated(&mesh);
    assert_eq!(names(&|| transfer_to(&rows, &whole)), [("transfer_to", "all_gather")]);
}

/// What moves before the function of a region runs is charged to the call, and what moves in it to the function's lines.
#[test]
fn a_region_is_charged_where_it_is_called() {
    let auto = mesh(BackendKind::CPU);
    let manual = auto.with_axis_types([AxisType::Manual]).unwrap();
    let rows = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(&auto, [Sharded(0)]).unwrap()).unwrap();
    let total = shard_map(&manual)
        .in_specs([spec![None, "tp"]])
        .out_specs([spec![]])
        .wrap(|cx, [x]| Ok([cx.psum(&x, "tp")?])) // in the region
        .unwrap();
    let explained = explain(|| total.call([&rows])); // around the region
    assert_eq!(explained.value.as_ref().unwrap()[0].to_vec::<f32>().unwrap(), [2.0; 16]);
    let steps: Vec<_> =
        explained.report.steps.iter().map(|step| (step.op, step.kind.name(), step.at.clone())).collect();
    let want = [
        ("shard_map", "all_to_all", line_of("// around the region")),
        ("psum", "all_reduce", line_of("// in the region")),
    ];
    assert_eq!(steps, want);
}

/// Sizes that add up to more than can be counted are as many as can be counted: watching breaks no program.
#[cfg(feature = "sim")]
#[test]
fn bytes_beyond_counting_break_nothing() {
    let file = Scratch::new("huge");
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [1 << 20, 1 << 10], ["dp", "tp"]).unwrap();
    let places = DeviceMapping::new(&mesh, [Sharded(0), Sharded(1)]).unwrap();
    // 2^60 bytes, about as many as a tensor may have; sixteen times that are beyond counting.
    let x = full([1 << 29, 1 << 29], 1.0, DType::F32, &places).unwrap();
    let trace = trace_to_file(&file.0).unwrap();
    let explained = explain(|| -> Result<Tensor> {
        let y = add(&x, &x)?.transfer_to(&DeviceMapping::new(&mesh, [Sharded(1), Sharded(0)])?)?;
        assert_eq!(concat(&vec![x.clone(); 17], 0).unwrap_err().kind(), ErrorKind::Overflow);
        Ok(y)
    });
    trace.finish().unwrap();
    explained.value.as_ref().unwrap();
    assert!(explained.report.bytes() > 0.0 && explained.report.peak() > 0, "{explained}");
    let events = file.events();
    let joined = events.iter().find(|event| event["name"] == "concat" && event["cat"] == "op").unwrap();
    assert_eq!(joined["args"]["bytes"].as_u64(), Some(u64::MAX), "{joined}");
}

/// The largest shard may be any device's: the peak is its.
#[test]
fn the_peak_is_that_of_the_device_that_holds_most() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [100], ["tp"]).unwrap();
    let mut sizes = vec![1; 100];
    sizes[80] = 50;
    let ragged = DeviceMapping::new(&mesh, [Ragged::place(0, sizes)]).unwrap();
    let x = full([149], 1.0, DType::F32, &ragged).unwrap();
    let explained = explain(|| x.transfer_to(&DeviceMapping::replicated(&mesh)));
    explained.value.as_ref().unwrap();
    assert_eq!(explained.report.peak(), 4 * (50 + 149), "{explained}");
}

#[cfg(feature = "sim")]
#[test]
fn explain_needs_no_data() {
    let explained = explain(|| program(&mesh(BackendKind::SIM)));
    assert!(explained.value.is_ok());
    assert_eq!((explained.report.steps.len(), explained.report.bytes()), (1, 32.0));
    // The simulator's own log has the names too.
    let mesh = mesh(BackendKind::SIM);
    let (_, log) = backend_sim::record(|| sum_over_tp(&mesh).unwrap());
    assert_eq!(log.collectives.iter().map(|one| one.op).collect::<Vec<_>>(), ["all_reduce"]);
}

#[test]
fn explain_takes_seconds_from_a_model_that_has_them() {
    #[derive(Debug)]
    struct Slow;
    impl CostModel for Slow {
        fn key(&self) -> u64 {
            77
        }
        fn unit(&self) -> CostUnit {
            CostUnit::Seconds
        }
        fn transition(
            &self,
            transition: sharding_core::placement::Transition,
            bytes: f64,
            mesh: &DeviceMesh,
            axis: usize,
        ) -> f64 {
            VolumeCost.transition(transition, bytes, mesh, axis)
        }
        fn step(&self, query: &sharding_core::plan::StepQuery<'_>) -> f64 {
            VolumeCost.step(query) / 1e9
        }
    }
    let scope = (*Scope::current()).clone().with_cost(std::sync::Arc::new(Slow));
    let explained = scope.enter(|| explain(|| program(&mesh(BackendKind::CPU))));
    assert!((explained.report.seconds().unwrap() - 32e-9).abs() < 1e-15, "{explained}");
    assert!(explained.to_string().contains("3.200e-8"), "{explained}");
}

#[test]
fn where_nothing_moved_nobody_was_asked_for_seconds() {
    let report =
        explain(|| full([2], 1.0, DType::F32, &DeviceMapping::replicated(&mesh(BackendKind::CPU)))).report;
    assert_eq!((report.steps.len(), report.seconds()), (0, None));
}

#[test]
fn scopes_inside_are_watched_and_those_outside_not() {
    let mesh = mesh(BackendKind::CPU);
    let explained = explain(|| {
        let inner = explain(|| auto_reshard(Policy::silent(), || program(&mesh)));
        let scope = Scope::current();
        std::thread::scope(|threads| {
            threads.spawn(|| (*scope).clone().enter(|| program(&mesh).unwrap()));
            threads.spawn(|| program(&mesh).unwrap());
        });
        inner.report.steps.len()
    });
    assert_eq!(explained.value, 1);
    assert_eq!(explained.report.steps.iter().map(|step| step.count).sum::<usize>(), 2, "{explained}");
}

/// A file of its own that goes away again.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sharding-trace-{}-{name}.json", std::process::id())))
    }

    /// The events, each of which lies in its lane inside or outside of every other.
    fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let all: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let all = all.as_array().unwrap().clone();
        let spans: Vec<&Value> = all.iter().filter(|event| event["ph"] == "X").collect();
        // Nanoseconds, to compare without rounding.
        let nanos = |event: &Value, key| (event[key].as_f64().unwrap() * 1e3).round() as i64;
        let range = |event: &Value| {
            let start = nanos(event, "ts");
            (start, start + nanos(event, "dur"))
        };
        for (i, a) in spans.iter().enumerate() {
            for b in spans.iter().skip(i + 1).filter(|b| b["tid"] == a["tid"]) {
                let ((a0, a1), (b0, b1)) = (range(a), range(b));
                // A nanosecond for the rounding of start and duration.
                let apart = a1 <= b0 + 2 || b1 <= a0 + 2;
                let nested = (a0 <= b0 + 2 && b1 <= a1 + 2) || (b0 <= a0 + 2 && a1 <= b1 + 2);
                assert!(apart || nested, "{a} and {b} cross");
            }
        }
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The lane of that name.
fn lane(events: &[Value], name: &str) -> Value {
    let named = |event: &&Value| event["name"] == "thread_name" && event["args"]["name"] == name;
    events.iter().find(named).unwrap_or_else(|| panic!("no lane {name} in {events:?}"))["tid"].clone()
}

fn names_on(events: &[Value], lane: &Value) -> Vec<String> {
    let on = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == *lane);
    on.map(|event| event["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_trace_has_a_lane_per_device() {
    let file = Scratch::new("lanes");
    let mesh = mesh(BackendKind::CPU);
    let trace = trace_to_file(&file.0).unwrap();
    program(&mesh).unwrap();
    trace.finish().unwrap();
    // What runs later is not in it.
    program(&mesh).unwrap();
    let events = file.events();
    for device in ["cpu:0", "cpu:0/1"] {
        let on = names_on(&events, &lane(&events, device));
        assert_eq!(on.iter().filter(|name| *name == "dot").count(), 1, "{on:?}");
        assert_eq!(on.iter().filter(|name| *name == "all_reduce").count(), 1, "{on:?}");
    }
    let find = |name: &str| events.iter().find(|event| event["name"] == name && event["ph"] == "X").unwrap();
    let (matmul, relu, reshard, step, dot) =
        (find("matmul"), find("relu"), find("reshard"), find("all_reduce"), find("dot"));
    assert_eq!(matmul["args"]["bytes"], 4 * 8 * 4 + 8 * 2 * 4);
    assert_eq!(matmul["args"]["operands"], "f32[4, 8] {tp: Sharded(1)}, f32[8, 2] {tp: Sharded(0)}");
    assert_eq!(matmul["args"]["results"], "f32[4, 2] {tp: Partial(sum)}");
    assert_eq!(relu["args"]["at"], line_of("    relu(&matmul(&a, &b)?)"));
    assert_eq!(reshard["args"]["bytes"], 32);
    assert_eq!((&step["args"]["bytes"], &step["args"]["axes"]), (&Value::from(32), &Value::from("tp")));
    assert_eq!(dot["args"]["inputs"], "f32[4, 4], f32[4, 2]");
    assert_eq!(dot["args"]["bytes"], 4 * (16 + 8 + 8));
    // The collective lies inside the reshard, and that inside of relu.
    let range = |event: &Value| {
        let ts = event["ts"].as_f64().unwrap();
        (ts, ts + event["dur"].as_f64().unwrap())
    };
    for (inner, outer) in [(step, reshard), (reshard, relu), (dot, matmul)] {
        let ((a0, a1), (b0, b1)) = (range(inner), range(outer));
        assert!(b0 <= a0 + 0.002 && a1 <= b1 + 0.002, "{inner} is not inside {outer}");
    }
}

#[test]
fn a_trace_is_whole_after_a_panic_and_after_an_error() {
    let file = Scratch::new("panic");
    let mesh = mesh(BackendKind::CPU);
    let outcome = std::panic::catch_unwind(|| {
        let _trace = trace_to_file(&file.0).unwrap();
        program(&mesh).unwrap();
        panic!("the program \"ends\" here");
    });
    assert!(outcome.is_err());
    assert!(file.events().iter().any(|event| event["name"] == "relu"));

    let file = Scratch::new("error");
    let fails = || -> Result<()> {
        let _trace = trace_to_file(&file.0)?;
        let y = program(&mesh)?;
        matmul(&y, &y)?;
        Ok(())
    };
    assert_eq!(fails().unwrap_err().op(), Some("matmul"));
    let events = file.events();
    assert_eq!(events.iter().filter(|event| event["name"] == "matmul").count(), 2, "the one that failed too");
}

#[test]
fn every_thread_and_every_device_has_a_lane_of_its_own() {
    let file = Scratch::new("threads");
    let mesh = mesh(BackendKind::CPU);
    let x = full([2], 1.0, DType::F32, &DeviceMapping::new(&mesh, [Sharded(0)]).unwrap()).unwrap();
    let trace = trace_to_file(&file.0).unwrap();
    let scope = Scope::current();
    const THREADS: usize = 1100;
    for _ in 0..THREADS {
        std::thread::scope(|threads| {
            threads.spawn(|| (*scope).clone().enter(|| relu(&x)).unwrap());
        });
    }
    trace.finish().unwrap();
    let events = file.events();
    let lanes = events.iter().filter(|event| event["name"] == "thread_name");
    let mut lanes: Vec<i64> = lanes.map(|event| event["tid"].as_i64().unwrap()).collect();
    assert_eq!(lanes.len(), THREADS + 2);
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes.len(), THREADS + 2, "lanes are shared");
}

/// A trace inside a trace: each has what ran while it was open, in whatever order they end.
#[test]
fn traces_nest() {
    let (outer_file, inner_file) = (Scratch::new("outer"), Scratch::new("inner"));
    let mesh = mesh(BackendKind::CPU);
    let outer = trace_to_file(&outer_file.0).unwrap();
    program(&mesh).unwrap();
    let inner = trace_to_file(&inner_file.0).unwrap();
    program(&mesh).unwrap();
    outer.finish().unwrap();
    program(&mesh).unwrap();
    inner.finish().unwrap();
    program(&mesh).unwrap();
    for file in [outer_file, inner_file] {
        let products = file.events().iter().filter(|event| event["name"] == "matmul").count();
        assert_eq!(products, 2);
    }
}

/// Work of several threads on the same devices at the same time: no lane has events that cross.
#[test]
fn threads_that_share_devices_cross_in_no_lane() {
    let file = Scratch::new("shared");
    let mesh = mesh(BackendKind::CPU);
    let rows = DeviceMapping::new(&mesh, [Sharded(0)]).unwrap();
    let x = full([1 << 14], 1.0, DType::F32, &rows).unwrap();
    let trace = trace_to_file(&file.0).unwrap();
    let scope = Scope::current();
    let begin = std::sync::Barrier::new(4);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                begin.wait();
                (*scope).clone().enter(|| {
                    for _ in 0..20 {
                        relu(&x).unwrap().transfer_to(&DeviceMapping::replicated(&mesh)).unwrap();
                    }
                });
            });
        }
    });
    trace.finish().unwrap();
    // Reading them compares every two of a lane.
    let events = file.events();
    let lanes = events.iter().filter(|event| event["name"] == "thread_name");
    let names: Vec<&str> = lanes.map(|event| event["args"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"cpu:0") && names.contains(&"cpu:0/1"), "{names:?}");
    // One device's lanes are at most as many as threads.
    assert!(names.iter().filter(|name| name.starts_with("cpu:0/1")).count() <= 4, "{names:?}");
    let kernels = events.iter().filter(|event| event["cat"] == "kernel").count();
    assert_eq!(kernels, 4 * 20 * 2, "none is lost");
}

#[test]
fn a_trace_that_cannot_be_written_is_an_error() {
    let error = trace_to_file("/no/such/folder/trace.json").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::File);
    assert!(error.fix().is_some() && error.to_string().contains("trace.json"), "{error}");
    if std::path::Path::new("/dev/full").exists() {
        let trace = trace_to_file("/dev/full").unwrap();
        program(&mesh(BackendKind::CPU)).unwrap();
        let error = trace.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::File, "{error}");
        assert!(error.fix().is_some() && error.to_string().contains("/dev/full"), "{error}");
    }
}

#[test]
fn a_trace_of_names_that_json_escapes() {
    let file = Scratch::new("names");
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["t\"\\\n\u{1}é"]).unwrap();
    let trace = trace_to_file(&file.0).unwrap();
    program(&mesh).unwrap();
    trace.finish().unwrap();
    let events = file.events();
    assert!(events.iter().any(|event| event["args"]["axes"] == "t\"\\\n\u{1}é"), "{events:?}");
}

#[test]
fn assertions_on_communication() {
    let mesh = mesh(BackendKind::CPU);
    let y = assert_comm!([all_reduce("tp") <= 32], program(&mesh)).unwrap();
    assert_eq!(y.layout().places(), [Replicated]);
    assert_comm!([], full([2], 1.0, DType::F32, y.mapping())).unwrap();
    // The mode that was in force stays: nothing moves under `raise`.
    assert!(assert_comm!([], auto_reshard(Policy::raise(), || program(&mesh))).is_err());

    let message = |outcome: std::thread::Result<Result<Tensor>>| -> String {
        outcome.unwrap_err().downcast_ref::<String>().unwrap().clone()
    };
    let here = std::panic::AssertUnwindSafe(|| assert_comm!([all_reduce("tp") <= 31], program(&mesh)));
    let text = message(std::panic::catch_unwind(here));
    for part in [
        "all_reduce(tp) sends 32 bytes per device, at most 31 are allowed",
        // The table, and the planner's report with the line to write.
        &line_of("    relu(&matmul(&a, &b)?)"),
        "write: let x = x.transfer_to(&DeviceMapping::replicated(x.mesh()))?;",
        &line_of("assert_comm!([all_reduce(\"tp\") <= 31], program"),
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let text =
        message(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_comm!([], program(&mesh)))));
    assert!(text.contains("all_reduce(tp) ran, with 32 bytes per device, and is not allowed"), "{text}");
    // Several mesh axes in any order.
    let grid = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"]).unwrap();
    let parts = DeviceMapping::new(&grid, [Partial(ReduceOp::Sum); 2]).unwrap();
    let x = full([4], 1.0, DType::F32, &parts).unwrap();
    let whole = DeviceMapping::replicated(&grid);
    assert_comm!([all_reduce("dp", "tp") <= 24], x.transfer_to(&whole)).unwrap();
    assert_comm!([all_reduce("tp", "dp") <= 24], x.transfer_to(&whole)).unwrap();
    let other = || assert_comm!([all_reduce("tp") <= 32, all_gather("tp") <= 8], program(&mesh));
    let text = message(std::panic::catch_unwind(std::panic::AssertUnwindSafe(other)));
    assert!(text.contains("all_gather(tp) did not run"), "{text}");
    // A program that failed says why, whatever else its value can be.
    let failed = || assert_comm!([all_reduce("tp") <= 32], auto_reshard(Policy::raise(), || program(&mesh)));
    let text = message(std::panic::catch_unwind(std::panic::AssertUnwindSafe(failed)));
    let error = auto_reshard(Policy::raise(), || program(&mesh)).unwrap_err().to_string();
    let first = error.lines().next().unwrap();
    assert!(text.contains("all_reduce(tp) did not run"), "{text}");
    assert!(text.contains(&format!("The program gave an error:\n{first}")), "{text}");
    assert_eq!(assert_comm!([], None::<u8>), None);
    assert_eq!(assert_comm!([], Err::<(), &str>("as it is")), Err("as it is"));
    // What is no number allows nothing.
    let none = || assert_comm!([all_reduce("tp") <= f64::NAN], program(&mesh));
    let text = message(std::panic::catch_unwind(std::panic::AssertUnwindSafe(none)));
    assert!(text.contains("at most NaN are allowed"), "{text}");
}

#[test]
fn a_subscriber_sees_every_span_with_shapes_and_bytes() {
    use sharding_core::plan::{AlphaBetaCost, Link};
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::format::FmtSpan;
    use tracing_subscriber::util::SubscriberInitExt;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);
    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_span_events(FmtSpan::NEW)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // Whether a span is wanted is asked where it first begins: not by another test's thread, which has no subscriber.
    program(&mesh(BackendKind::CPU)).unwrap();
    // Another thread may be in the middle of asking.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let guard = subscriber.set_default();
    // Another test's thread may have been just about to say that it is not.
    tracing::callsite::rebuild_interest_cache();
    program(&mesh(BackendKind::CPU)).unwrap();
    // Bytes are bytes, whatever the cost model in force counts.
    let seconds = AlphaBetaCost::new(Link::new(1e-6, 1e9)).unwrap();
    let scope = (*Scope::current()).clone().with_cost(Arc::new(seconds));
    scope.enter(|| program(&mesh(BackendKind::CPU))).unwrap();
    drop(guard);
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    for part in [
        "op{name=\"matmul\" operands=f32[4, 8] {tp: Sharded(1)}, f32[8, 2] {tp: Sharded(0)} bytes=192}",
        "reshard{op=\"relu\" from=f32[4, 2] {tp: Partial(sum)} to={tp: Replicated} bytes=32}",
        "redistribute{op=\"relu\" kind=\"all_reduce\" axes=tp from=f32[4, 2] {tp: Partial(sum)} to={tp: Replicated} bytes=32.0}",
        "kernel{op=\"matmul\" name=dot device=cpu:0/1 inputs=f32[4, 4], f32[4, 2] result=f32[4, 2] bytes=128}",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// Whatever makes a tensor is an op with the line that called it, and its kernels lie in it.
#[test]
fn what_makes_a_tensor_is_an_op() {
    let file = Scratch::new("making");
    let mesh = mesh(BackendKind::CPU);
    let rows = DeviceMapping::new(&mesh, [Sharded(0)]).unwrap();
    let one = DeviceMesh::single(Device::cpu());
    let half = Tensor::from_slice(&[1_f32], [1], &DeviceMapping::replicated(&one)).unwrap();
    let second = DeviceMesh::single(Device::cpu().with_slot(1));
    let halves = [half.clone(), half.transfer_to(&DeviceMapping::replicated(&second)).unwrap()];
    let layout = TensorLayout::new(DType::F32, [2], rows.clone()).unwrap();
    let data = HostData::borrowed(&[1_f32, 2.0], [2]).unwrap();
    type Make<'a> = &'a dyn Fn() -> Result<Tensor>;
    let x = full([2], 1.0, DType::F32, &rows).unwrap();
    let policy = ReplicaPolicy::Disallow;
    let first = line!() + 2;
    let makers: [(&str, Make<'_>); 16] = [
        ("full", &|| full([2], 1.0, DType::F32, &rows)),
        ("zeros", &|| zeros([2], DType::F32, &rows)),
        ("ones", &|| ones([2], DType::F32, &rows)),
        ("full_like", &|| full_like(&x, 1.0)),
        ("zeros_like", &|| zeros_like(&x)),
        ("arange", &|| arange(0, 2, 1, DType::F32, &rows)),
        ("uniform", &|| uniform([2], 0.0..1.0, 1, DType::F32, &rows)),
        ("normal", &|| normal([2], 0.0, 1.0, 1, DType::F32, &rows)),
        ("bernoulli", &|| bernoulli([8], 0.5, 1, &rows)),
        ("from_slice", &|| Tensor::from_slice(&[1_f32, 2.0], [2], &rows)),
        ("from_bytes", &|| Tensor::from_bytes(&[0; 8], layout.clone())),
        ("place_host_array", &|| Tensor::place_host_array(&data, &rows, HostCopy::Always)),
        ("from_callback", &|| Tensor::from_callback(layout.clone(), |_, _| Ok(()))),
        ("from_process_local_data", &|| Tensor::from_process_local_data(&data, [2], &rows, policy)),
        ("from_single_device_arrays", &|| Tensor::from_single_device_arrays([2], &rows, &halves)),
        ("rebind_mapping", &|| rebind_mapping(&x, &rows, [2])),
    ];
    let trace = trace_to_file(&file.0).unwrap();
    for (_, make) in &makers {
        make().unwrap();
    }
    trace.finish().unwrap();
    let events = file.events();
    let ops: Vec<&Value> = events.iter().filter(|event| event["cat"] == "op").collect();
    assert_eq!(ops.len(), makers.len(), "{ops:?}");
    for ((i, (name, _)), event) in makers.iter().enumerate().zip(ops) {
        assert_eq!(event["name"], *name);
        assert_eq!((&event["args"]["bytes"], event["args"]["results"].as_str().is_some()), (&8.into(), true));
        assert!(event["args"]["results"].as_str().unwrap().contains("{tp: Sharded(0)}"), "{event}");
        assert_eq!(event["args"]["at"], format!("ops/tests/it/trace.rs:{}", first + i as u32), "{event}");
    }
    // A kernel lies in the span of its op.
    let range = |event: &Value| {
        let ts = event["ts"].as_f64().unwrap();
        (ts, ts + event["dur"].as_f64().unwrap())
    };
    let full = events.iter().find(|event| event["name"] == "full").unwrap();
    let kernel =
        events.iter().find(|event| event["cat"] == "kernel" && event["args"]["op"] == "full").unwrap();
    let ((a0, a1), (b0, b1)) = (range(kernel), range(full));
    assert!(b0 <= a0 + 0.002 && a1 <= b1 + 0.002, "{kernel} is not inside {full}");
}

/// Names of a user's mesh axes, and what placements of a user's own print, break no line of a message.
#[test]
fn words_of_users_break_no_line() {
    use sharding_core::placement::{PlacementKey, Ranges, Transition};
    use std::sync::Arc;

    struct Loud;
    impl std::fmt::Debug for Loud {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Loud {\n\u{202e}}")
        }
    }
    impl sharding_core::Placement for Loud {
        fn key(&self) -> PlacementKey {
            PlacementKey { name: "it::Loud", words: smallvec::SmallVec::new() }
        }
        fn tensor_axis(&self) -> Option<usize> {
            None
        }
        fn on_axis(&self, _: usize) -> Arc<dyn sharding_core::Placement> {
            Arc::new(Self)
        }
        fn check(&self, _: usize, _: usize) -> Result<()> {
            Ok(())
        }
        fn ranges(&self, extent: usize, _: usize, _: usize) -> Ranges {
            std::iter::once(0..extent).collect()
        }
        fn transition_to(&self, _: Place, _: usize, _: usize) -> Transition {
            Transition::Infeasible
        }
    }
    assert_eq!(Place::custom(Loud).to_string(), "Loud {\u{fffd}\u{fffd}}");

    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["t\np"]).unwrap();
    let fails = std::panic::AssertUnwindSafe(|| assert_comm!([all_gather("x\ty") <= 1], program(&mesh)));
    let payload = std::panic::catch_unwind(fails).unwrap_err();
    let text = payload.downcast_ref::<String>().unwrap();
    assert!(text.contains("\n  all_gather(x\u{fffd}y) did not run\n"), "{text}");
    assert!(text.contains("\n  all_reduce(t\u{fffd}p) ran, with 32 bytes per device"), "{text}");
}
