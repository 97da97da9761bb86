//! What is checked when wrapping and calling, where values lie, and what threads inherit.

use super::*;
use sharding_core::manual::threads;
use std::sync::atomic::{AtomicUsize, Ordering};

#[track_caller]
fn refused(builder: ShardMapBuilder, kind: ErrorKind, text: &str) {
    let error = builder.wrap(|_, [x]| Ok([x])).unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(text), "{error:?}");
    assert_eq!(error.op(), Some("shard_map"));
}

#[test]
fn wrapping_checks_all_but_the_arguments() {
    let mesh = manual(0, &[2, 2], &["x", "y"]);
    let one = || shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec!["x"]]);
    refused(one().in_specs([]), ErrorKind::Argument, "0 in_specs for a function of 1 arguments");
    refused(
        one().out_specs([spec![], spec![]]),
        ErrorKind::Argument,
        "2 out_specs for a function of 1 results",
    );
    refused(one().in_specs([spec!["z"]]), ErrorKind::Axis, "no mesh axis 'z'");
    refused(one().out_specs([spec!["x", "x"]]), ErrorKind::DuplicateAxis, "out_specs[0]");
    refused(one().axis_names(["x", "z"]), ErrorKind::Axis, "no mesh axis 'z'");
    refused(one().axis_names(["x", "x"]), ErrorKind::DuplicateAxis, "given twice");
    refused(one().axis_names(["y"]), ErrorKind::Axis, "'x' is not manual in this region");
    let unreduced = spec!["x"].with_unreduced(["y"]).unwrap();
    refused(one().in_specs([unreduced]), ErrorKind::Mapping, "psum");
    refused(
        one().in_specs([spec![sharding_core::SpecEntry::unconstrained()]]),
        ErrorKind::Mapping,
        "and no more",
    );
    let half = mesh.with_axis_types([AxisType::Manual, AxisType::Explicit]).unwrap();
    let text = "shard_map(&mesh.with_axis_types([AxisType::Manual, AxisType::Manual])?)";
    refused(shard_map(&half).in_specs([spec!["x"]]).out_specs([spec!["x"]]), ErrorKind::Mesh, text);
    one().axis_names(["x"]).wrap(|_, [x]| Ok([x])).unwrap();
    let large = DeviceMesh::simulated(BackendKind::CPU, [4097], ["x"]).unwrap();
    let large = large.with_axis_types([AxisType::Manual]).unwrap();
    refused(shard_map(&large).in_specs([spec![]]).out_specs([spec![]]), ErrorKind::Mesh, "at most 4096");
    let far = Device::cpu().with_process(1);
    let far = DeviceMesh::new(&[far], [1], ["x"]).unwrap().with_axis_types([AxisType::Manual]).unwrap();
    refused(shard_map(&far).in_specs([spec![]]).out_specs([spec![]]), ErrorKind::Process, "no device");
}

#[test]
fn arguments_and_results_are_checked() {
    let _alone = alone();
    let mesh = manual(0, &[2, 2], &["x", "y"]);
    let call = |ins: PartitionSpec, outs: PartitionSpec, x: &Tensor| {
        let region = shard_map(&mesh)
            .in_specs([ins])
            .out_specs([outs])
            .check_vma(false)
            .wrap(|_, [x]| Ok([x]))
            .unwrap();
        region.call([x]).map(|[y]| y)
    };
    let kind = |result: Result<Tensor>| result.unwrap_err().kind();
    assert_eq!(kind(call(spec!["x", "y"], spec![], &iota(&[4], &mesh))), ErrorKind::Dimensions);
    assert_eq!(kind(call(spec!["x"], spec!["x", "y"], &iota(&[4], &mesh))), ErrorKind::Dimensions);
    // The number of axes is checked first.
    assert_eq!(kind(call(spec!["x", "y"], spec![], &iota(&[3], &mesh))), ErrorKind::Dimensions);
    let error = call(spec![("x", "y")], spec![], &iota(&[6], &mesh)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indivisible);
    assert!(
        error.to_string().contains("cuts tensor axis 0 4 ways, which does not divide its size 6"),
        "{error}"
    );
    let other = DeviceMesh::simulated(BackendKind::CPU, [4], ["x"]).unwrap();
    assert_eq!(kind(call(spec!["x"], spec!["x"], &iota(&[4], &other))), ErrorKind::Mesh);
    // A spec that is shorter than the shape, and one with more entries of None than needed.
    assert_eq!(call(spec!["x"], spec!["x", None], &iota(&[4, 3], &mesh)).unwrap().shape()[..], [4, 3]);
    // Without elements, and without axes.
    assert_eq!(call(spec!["x"], spec!["x"], &iota(&[0, 3], &mesh)).unwrap().shape()[..], [0, 3]);
    assert_eq!(call(spec![], spec![], &iota(&[], &mesh)).unwrap().shape().len(), 0);
}

#[test]
fn arguments_come_from_any_mesh_of_the_grid_and_results_lie_on_the_callers() {
    let _alone = alone();
    let mesh = manual(0, &[2, 2], &["x", "y"]);
    let auto = mesh.with_axis_types([AxisType::Auto; 2]).unwrap();
    let elsewhere = manual(500, &[2, 2], &["x", "y"]);
    let one = DeviceMesh::single(Device::cpu().with_slot(77));
    let region = shard_map(&mesh)
        .in_specs([spec!["x", "y"]])
        .out_specs([spec!["y", "x"]])
        .wrap(|_, [x]| Ok([x.permute(&[1, 0])?]))
        .unwrap();
    let split = DeviceMapping::new(&auto, [Sharded(1), Sharded(1)]).unwrap();
    let whole = iota(&[4, 6], &auto);
    let want = whole.permute(&[1, 0]).unwrap().to_vec::<f32>().unwrap();
    let parts =
        whole.transfer_to(&DeviceMapping::new(&auto, [Replicated, Partial(ReduceOp::Sum)]).unwrap()).unwrap();
    for x in [
        whole.clone(),
        whole.transfer_to(&split).unwrap(),
        parts,
        iota(&[4, 6], &elsewhere),
        iota(&[4, 6], &one),
    ] {
        let [y] = region.call([&x]).unwrap();
        assert_eq!((y.mesh(), y.mesh().axis_types()), (&mesh, mesh.axis_types()));
        assert_eq!(y.layout().places(), [Sharded(1), Sharded(0)]);
        assert_eq!(y.to_vec::<f32>().unwrap(), want, "{}", x.layout());
    }
}

#[test]
fn names_in_another_order_than_the_mesh() {
    let _alone = alone();
    let mesh = manual(0, &[2, 3], &["x", "y"]);
    let region = shard_map(&mesh)
        .in_specs([spec![("y", "x")]])
        .out_specs([spec![("x", "y")]])
        .wrap(|_, [x]| Ok([x]))
        .unwrap();
    let x = Tensor::from_slice(&[0, 1, 2, 3, 4, 5], [6], &DeviceMapping::replicated(&mesh)).unwrap();
    let [y] = region.call([&x]).unwrap();
    // Device (x, y) had number 2y + x.
    assert_eq!(y.to_vec::<i32>().unwrap(), [0, 2, 4, 1, 3, 5]);
    let back = shard_map(&mesh)
        .in_specs([spec![("x", "y")]])
        .out_specs([spec![("y", "x")]])
        .wrap(|_, [x]| Ok([x]))
        .unwrap();
    let [z] = back.call([&y]).unwrap();
    assert_eq!(z.to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]);
    // The same devices, in a mesh whose axes stand in the spec's order.
    assert_eq!(z.mesh().axis_names().collect::<Vec<_>>(), ["y", "x"]);
    for device in 0..6 {
        let name = mesh.device(device).unwrap();
        let position = z.mesh().position_of(name).unwrap();
        assert_eq!(z.shard_to_vec::<i32>(position).unwrap(), y.shard_to_vec::<i32>(device).unwrap());
    }
}

#[test]
fn mesh_axes_of_one_device_may_stand_anywhere() {
    let _alone = alone();
    let mesh = manual(0, &[4, 1], &["x", "y"]);
    let region = shard_map(&mesh)
        .in_specs([spec![("y", "x")]])
        .out_specs([spec![("y", "x")]])
        .wrap(|_, [x]| Ok([x]))
        .unwrap();
    let x = iota(&[8], &mesh);
    let [y] = region.call([&x]).unwrap();
    assert_eq!((y.mesh(), y.layout().places()), (&mesh, &[Sharded(0); 2][..]));
    assert_eq!(y.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
}

#[test]
fn the_memory_of_an_argument_stays() {
    let _alone = alone();
    let mesh = manual(0, &[2], &["x"]);
    let kind = MemoryKind::PinnedHost;
    let region = shard_map(&mesh)
        .in_specs([spec!["x"], spec!["x"]])
        .out_specs([spec!["x"], spec!["x"], spec![]])
        .wrap(move |cx, [a, b]| {
            assert_eq!((a.mapping().memory_kind(), b.mapping().memory_kind()), (kind, MemoryKind::default()));
            let sum = cx.psum(&a, "x")?;
            Ok([a, b, sum])
        })
        .unwrap();
    let b = iota(&[4], &mesh);
    let a = b.transfer_to(&DeviceMapping::replicated(&mesh).with_memory_kind(kind)).unwrap();
    let kinds = region.call([&a, &b]).unwrap().map(|y| y.mapping().memory_kind());
    assert_eq!(kinds, [kind, MemoryKind::default(), kind]);
}

#[test]
fn axes_that_are_not_manual_stay() {
    let _alone = alone();
    let mesh = manual(0, &[2, 4], &["x", "y"]).with_axis_types([AxisType::Manual, AxisType::Auto]).unwrap();
    let auto = mesh.with_axis_types([AxisType::Auto; 2]).unwrap();
    let place =
        |x: &Tensor, places: [Place; 2]| x.transfer_to(&DeviceMapping::new(&auto, places).unwrap()).unwrap();
    let (a, b) = (iota(&[6, 10], &auto), iota(&[10, 7], &auto));
    let want = a.matmul(&b).unwrap().sum(0, true).unwrap().to_vec::<f32>().unwrap();
    let region = shard_map(&mesh)
        .axis_names(["x"])
        .in_specs([spec!["x"], spec![]])
        .out_specs([spec![]])
        .wrap(|cx, [a, b]| {
            assert_eq!(cx.mesh().to_string(), "DeviceMesh(y=4)");
            // Ops reshard on the axis that remains as they do outside.
            let product = a.matmul(&b)?;
            Ok([cx.psum(&product.sum(0, true)?, "x")?])
        })
        .unwrap();
    // The rows of `a` are split over both: two blocks, and inside each is whole on y again.
    for (first, second) in [
        ([Replicated, Sharded(1)], [Replicated, Sharded(0)]),
        ([Replicated, Replicated], [Replicated, Sharded(1)]),
        ([Sharded(0), Sharded(0)], [Replicated, Replicated]),
        ([Sharded(1), Partial(ReduceOp::Sum)], [Sharded(0), Sharded(1)]),
    ] {
        let [y] = region.call([&place(&a, first), &place(&b, second)]).unwrap();
        assert_eq!(y.mesh(), &mesh);
        assert_eq!(y.to_vec::<f32>().unwrap(), want, "{first:?} {second:?}");
    }
}

#[test]
fn collectives_beside_axes_that_remain() {
    let _alone = alone();
    let mesh = manual(0, &[3, 2], &["x", "y"]).with_axis_types([AxisType::Manual, AxisType::Auto]).unwrap();
    let auto = mesh.with_axis_types([AxisType::Auto; 2]).unwrap();
    type Function = fn(&ManualCx, &Tensor) -> Result<Tensor>;
    let functions: [(Function, PartitionSpec); 7] = [
        (|cx, x| cx.psum(x, "x"), spec![]),
        (|cx, x| cx.pmax(x, "x"), spec![]),
        (|cx, x| cx.all_gather_tiled(x, Over::from("x").invarying(), 1), spec![]),
        (|cx, x| cx.all_gather(x, Over::from("x").invarying(), 1), spec![]),
        (|cx, x| cx.psum_scatter_tiled(x, "x", 1), spec![None, "x"]),
        (|cx, x| cx.all_to_all_tiled(x, "x", 1, 0), spec![None, "x"]),
        (|cx, x| cx.ppermute(x, "x", [(0, 2), (1, 0)]), spec!["x"]),
    ];
    for (function, out) in functions {
        let region = shard_map(&mesh)
            .axis_names(["x"])
            .in_specs([spec!["x"]])
            .out_specs([out])
            .wrap(move |cx, [x]| Ok([function(cx, &x)?]))
            .unwrap();
        let mut want = None;
        for place in
            [Replicated, Sharded(0), Sharded(1), Sharded(2), Partial(ReduceOp::Sum), Partial(ReduceOp::Max)]
        {
            let x =
                iota(&[6, 3, 5], &auto).transfer_to(&DeviceMapping::new(&auto, [Replicated, place]).unwrap());
            let [y] = region.call([&x.unwrap()]).unwrap();
            let got = y.to_vec::<f32>().unwrap();
            assert_eq!(want.get_or_insert_with(|| got.clone()), &got, "{place}");
        }
    }
}

#[test]
fn regions_nest() {
    let _alone = alone();
    let mesh = manual(0, &[2, 2], &["x", "y"]);
    let outer_mesh = mesh.with_axis_types([AxisType::Manual, AxisType::Auto]).unwrap();
    let region = |out: PartitionSpec, inner_out: PartitionSpec, reduce: bool| {
        shard_map(&outer_mesh)
            .axis_names(["x"])
            .in_specs([spec!["x", "y"].with_entries(["x"]).unwrap()])
            .out_specs([out])
            .wrap(move |cx, [x]| {
                let own = cx.mesh().with_axis_types([AxisType::Manual])?;
                let inner = shard_map(&own)
                    .in_specs([spec![None, "y"]])
                    .out_specs([inner_out.clone()])
                    .wrap(|cx, [x]| Ok([cx.psum(&x, "y")?]))?;
                let [y] = inner.call([&x])?;
                let y = y.on(cx.mesh())?;
                Ok([if reduce { cx.psum(&y, "x")? } else { y }])
            })
            .unwrap()
    };
    let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2], &DeviceMapping::replicated(&mesh)).unwrap();
    let [y] = region(spec!["x"], spec![], false).call([&x]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 7.0]);
    let [y] = region(spec![], spec![], true).call([&x]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [10.0]);
    // What the inner region gives still varies over the outer one's axis.
    let error = region(spec![], spec![], false).call([&x]).unwrap_err();
    assert_eq!(error.mesh_axis(), Some(("x", 2)), "{error}");
}

#[test]
fn each_device_has_a_thread_and_the_callers_scope() {
    let _alone = alone();
    let mesh = manual(0, &[6], &["x"]);
    let left = Left::new();
    let saw = left.clone();
    let region = shard_map(&mesh)
        .in_specs([])
        .out_specs([])
        .wrap(move |cx, []| {
            cx.psum(&cx.axis_index("x")?, "x")?;
            saw.put(cx.coord("x")?, (std::thread::current().id(), Scope::current().policy()));
            Ok([])
        })
        .unwrap();
    let call = || region.call([]).map(|[]| ());
    auto_reshard(Policy::raise(), call).unwrap();
    let (threads_of, policies): (Vec<_>, Vec<_>) = left.take().into_iter().unzip();
    assert!(policies.iter().all(|policy| *policy == Policy::raise()));
    let distinct: std::collections::HashSet<_> = threads_of.iter().collect();
    assert_eq!(distinct.len(), 6);
    assert_eq!(threads_of[0], std::thread::current().id());
    // The next call finds the same ones.
    let before = threads();
    call().unwrap();
    let again: Vec<_> = left.take().into_iter().map(|(thread, _)| thread).collect();
    assert_eq!((again, threads()), (threads_of, before));
}

#[test]
fn what_devices_move_is_seen() {
    let _alone = alone();
    let mesh = manual(0, &[2], &["x"]);
    let region = shard_map(&mesh)
        .in_specs([spec!["x"]])
        .out_specs([spec![]])
        .wrap(|cx, [x]| Ok([cx.psum(&x, "x")?]))
        .unwrap();
    let x =
        Tensor::from_slice(&[1.0_f32, 2.0], [2], &DeviceMapping::new(&mesh, [Sharded(0)]).unwrap()).unwrap();
    let explained = explain(|| region.call([&x]));
    let [step] = &explained.report.steps[..] else { panic!("{explained}") };
    assert_eq!((step.op, step.kind, step.count), ("psum", StepKind::AllReduce(ReduceOp::Sum), 1));
}

#[test]
fn functions_run_at_the_same_time() {
    let _alone = alone();
    // Each waits until all have begun.
    let begun = Arc::new(AtomicUsize::new(0));
    let mesh = manual(0, &[4], &["x"]);
    let region = shard_map(&mesh)
        .in_specs([])
        .out_specs([])
        .wrap(move |_, []| {
            begun.fetch_add(1, Ordering::SeqCst);
            while begun.load(Ordering::SeqCst) < 4 {
                std::thread::yield_now();
            }
            Ok([])
        })
        .unwrap();
    watched(move || region.call([]).map(|[]| ())).unwrap();
}

#[cfg(feature = "sim")]
#[test]
fn without_data() {
    let _alone = alone();
    for (sizes, members) in [(vec![4, 2], 8), (vec![64, 32], 4)] {
        let mesh = DeviceMesh::simulated(BackendKind::SIM, &sizes, ["x", "y"]).unwrap();
        let mesh = mesh.with_axis_types([AxisType::Manual; 2]).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let region = shard_map(&mesh)
            .in_specs([spec!["x", "y"]])
            .out_specs([spec![None, "x"]])
            .wrap(move |cx, [x]| {
                counted.fetch_add(1, Ordering::SeqCst);
                let y = cx.psum(&x, ["y", "x"])?;
                Ok([cx.ppermute(&y, "x", [(0, 1)])?.add(&y)?])
            })
            .unwrap();
        let x = zeros(
            [64, 64],
            DType::F32,
            &DeviceMapping::replicated(&mesh.with_axis_types([AxisType::Auto; 2]).unwrap()),
        );
        let explained = explain(|| region.call([&x.unwrap()]));
        let [y] = explained.value.unwrap();
        assert_eq!(y.shape()[..], [64 / sizes[0], 64 / sizes[1] * sizes[0]]);
        assert_eq!(count.load(Ordering::SeqCst), members);
        assert!(explained.report.steps.iter().any(|step| step.op == "psum"), "{}", explained.report);
    }
}
