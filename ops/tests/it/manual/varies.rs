//! Over which axes a value may vary, and what is refused for it.

use super::*;

type Function = fn(&ManualCx, [Tensor; 2]) -> Result<[Tensor; 1]>;

/// `x` is split over both mesh axes, `w` over none; the result claims to be the same on all devices.
fn run(function: Function, out: PartitionSpec, check: bool) -> Result<Vec<f32>> {
    let mesh = manual(0, &[2, 2], &["x", "y"]);
    let region = shard_map(&mesh)
        .in_specs([spec!["x", "y"], spec![]])
        .out_specs([out])
        .check_vma(check)
        .wrap(function)?;
    let [y] = region.call([&iota(&[2, 2], &mesh), &iota(&[2, 2], &mesh)])?;
    y.to_vec::<f32>()
}

/// The mesh axis that the refusal names, if the result is refused.
#[track_caller]
fn check(function: Function, refused: Option<&str>) {
    let _alone = alone();
    match (run(function, spec![], true), refused) {
        (Ok(_), None) => {}
        (Err(error), Some(axis)) => {
            assert_eq!((error.kind(), error.mesh_axis()), (ErrorKind::Manual, Some((axis, 2))), "{error}");
            let fix = error.fix().unwrap().to_owned();
            assert!(fix.contains(&format!("cx.psum(&y, \"{axis}\")?")), "{fix}");
        }
        (got, _) => panic!("{got:?}, and not {refused:?}"),
    }
}

#[test]
fn arguments_vary_over_the_axes_of_their_spec() {
    check(|_, [x, _]| Ok([x]), Some("x"));
    check(|_, [_, w]| Ok([w]), None);
    check(|_, [x, w]| Ok([x.add(&w)?]), Some("x"));
    check(|_, [_, w]| Ok([w.add(&w)?.exp()?]), None);
}

#[test]
fn reductions_take_their_axes_away() {
    check(|cx, [x, _]| Ok([cx.psum(&x, "x")?]), Some("y"));
    check(|cx, [x, _]| Ok([cx.psum(&x, "y")?]), Some("x"));
    check(|cx, [x, _]| Ok([cx.pmax(&cx.pmean(&x, "y")?, "x")?]), None);
    check(|cx, [x, _]| Ok([cx.pmin(&x, ["y", "x"])?]), None);
    // Within groups of the axis they do not.
    check(|cx, [x, _]| Ok([cx.psum(&x, Over::from(["x", "y"]).within([[0, 1], [2, 3]]))?]), Some("x"));
}

#[test]
fn what_moves_still_varies() {
    check(|cx, [x, _]| Ok([cx.all_gather(&cx.psum(&x, "y")?, "x", 0)?]), Some("x"));
    check(|cx, [_, w]| Ok([cx.all_gather(&w, "x", 0)?]), Some("x"));
    check(|cx, [x, _]| Ok([cx.all_gather(&cx.psum(&x, "y")?, Over::from("x").invarying(), 0)?]), None);
    check(|cx, [_, w]| Ok([cx.ppermute(&w, "y", [(0, 1)])?]), Some("y"));
    check(|cx, [_, w]| Ok([cx.psum_scatter_tiled(&w, "y", 0)?]), Some("y"));
    check(|cx, [_, w]| Ok([cx.all_to_all_tiled(&w, "x", 0, 1)?]), Some("x"));
    check(|cx, [_, _]| Ok([cx.axis_index("x")?.cast(DType::F32)?]), Some("x"));
    check(|cx, [_, _]| Ok([cx.pmax(&cx.axis_index("x")?.cast(DType::F32)?, "x")?]), None);
}

#[test]
fn what_the_host_read_marks_what_follows() {
    // The function may have branched on it.
    check(
        |_, [x, w]| {
            x.to_vec::<f32>()?;
            Ok([w.add(&w)?])
        },
        Some("x"),
    );
    check(
        |cx, [x, w]| {
            cx.psum(&x, "x")?.to_vec::<f32>()?;
            Ok([w.add(&w)?])
        },
        Some("y"),
    );
    check(
        |cx, [_, w]| {
            cx.coord("y")?;
            full([2], 1.0, DType::F32, &DeviceMapping::replicated(cx.mesh()))
                .and_then(|one| Ok([one.add(&w)?]))
        },
        Some("y"),
    );
    // What was there before, and what a reduction gives, is the same on all.
    check(
        |_, [x, w]| {
            let before = w.add(&w)?;
            x.to_vec::<f32>()?;
            Ok([before])
        },
        None,
    );
    check(
        |cx, [x, w]| {
            let w = if x.to_vec::<f32>()?[0] > 0.0 { w.add(&w)? } else { w };
            Ok([cx.psum(&w, ["x", "y"])?])
        },
        None,
    );
    // A value that is the same on all devices tells a device nothing of its own.
    check(
        |_, [_, w]| {
            w.to_vec::<f32>()?;
            Ok([w.add(&w)?])
        },
        None,
    );
}

#[test]
fn a_place_is_made_on_the_way_that_the_host_took() {
    check(
        |cx, [_, _]| {
            cx.coord("x")?;
            Ok([cx.axis_index("y")?.cast(DType::F32)?])
        },
        Some("x"),
    );
}

#[test]
fn an_answer_about_replicas_counts_as_read() {
    check(
        |_, [x, w]| {
            x.check_replicas()?;
            Ok([w.add(&w)?])
        },
        Some("x"),
    );
    check(
        |_, [_, w]| {
            w.check_replicas()?;
            Ok([w.add(&w)?])
        },
        None,
    );
}

#[test]
fn shards_taken_apart_count_as_varying() {
    check(
        |_, [_, w]| Ok([Tensor::from_shards(w.layout().clone(), w.positions().clone(), w.shards().clone())?]),
        Some("x"),
    );
}

#[test]
fn buffers_remember_what_was_written() {
    check(
        |_, [x, w]| {
            let mut buffer = TensorBuffer::new(w);
            buffer_store_slice(&mut buffer, &x, &[(0..1).into(), (0..1).into()])?;
            Ok([buffer.to_tensor()])
        },
        Some("x"),
    );
}

#[test]
fn without_the_check_the_first_device_is_believed() {
    let _alone = alone();
    let all = iota(&[2, 2], &manual(0, &[2, 2], &["x", "y"])).to_vec::<f32>().unwrap();
    assert_eq!(run(|_, [x, _]| Ok([x]), spec![], false).unwrap(), all[..1]);
    assert_eq!(run(|_, [x, _]| Ok([x]), spec!["x"], false).unwrap(), [all[0], all[2]]);
    assert_eq!(run(|_, [x, _]| Ok([x]), spec![None, "y"], false).unwrap(), all[..2]);
    // Every device holds it, not only the first.
    let mesh = manual(0, &[2], &["x"]);
    let region = shard_map(&mesh)
        .in_specs([spec!["x"]])
        .out_specs([spec![]])
        .check_vma(false)
        .wrap(|_, [x]| Ok([x]))
        .unwrap();
    let [y] = region.call([&iota(&[2], &mesh)]).unwrap();
    assert_eq!(y.shard_to_vec::<f32>(0).unwrap(), y.shard_to_vec::<f32>(1).unwrap());
}

#[test]
fn an_axis_that_is_named_need_not_vary() {
    let _alone = alone();
    let w = iota(&[2, 2], &manual(0, &[2, 2], &["x", "y"])).to_vec::<f32>().unwrap();
    // Copies, side by side.
    let stacked = run(|_, [_, w]| Ok([w]), spec!["x"], true).unwrap();
    assert_eq!(stacked, [w.clone(), w].concat());
}

#[test]
fn one_device_does_not_vary() {
    let _alone = alone();
    let mesh = manual(0, &[1, 2], &["x", "y"]);
    let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec![]]).wrap(|_, [x]| Ok([x])).unwrap();
    let [y] = region.call([&iota(&[2], &mesh)]).unwrap();
    assert_eq!(y.shape()[..], [2]);
}
