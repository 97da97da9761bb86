//! Devices that fail: all end, with an error that says which and why, and nothing is held.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

type Function = fn(&ManualCx, Tensor, usize) -> Result<Tensor>;

fn run(function: Function) -> Result<Tensor> {
    watched(move || {
        let mesh = manual(&[2, 2]);
        let region = shard_map(&mesh).in_specs([spec!["x", "y"]]).out_specs([spec!["x", "y"]]);
        let region = region.wrap(move |cx, [x]| {
            let device = cx.coord(["x", "y"])?;
            Ok([function(cx, x, device)?])
        })?;
        Ok(region.call([&numbers(&[4, 4], &mesh)])?.into_iter().next().unwrap())
    })
}

/// The region fails so, a second time too, and leaves nothing behind.
#[track_caller]
fn check(function: Function, kind: ErrorKind, texts: &[&str]) {
    let _alone = alone();
    let _ = run(function);
    let before = Before::now();
    let error = run(function).unwrap_err();
    before.still();
    assert_eq!(error.kind(), kind, "{error}");
    let text = format!("{error}");
    assert!(texts.iter().all(|wanted| text.contains(wanted)), "{text}\n  without one of {texts:?}");
    assert!(error.op().is_some(), "{error:?}");
}

/// What it holds panics when it goes.
struct Bomb(&'static str);
impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a drop that panics: {}", self.0);
    }
}
/// A payload that panics when it is dropped, whoever does it.
struct Payload;
impl Drop for Payload {
    fn drop(&mut self) {
        std::panic::panic_any(Payload2);
    }
}
struct Payload2;
impl Drop for Payload2 {
    fn drop(&mut self) {
        std::panic::panic_any("a payload of a payload");
    }
}

#[test]
fn a_panic_while_others_are_in_the_next_collective() {
    check(
        |cx, x, device| {
            let x = cx.psum(&x, "x")?;
            if device == 3 {
                std::thread::sleep(Duration::from_millis(20));
                panic!("late")
            }
            cx.psum(&cx.psum(&x, "y")?, ["x", "y"])
        },
        ErrorKind::Manual,
        &["device (x=1, y=1)", "late"],
    );
}

#[test]
fn a_panic_in_a_drop() {
    check(
        |cx, x, device| {
            let _bomb = (device == 1).then_some(Bomb("a local"));
            cx.psum(&x, "x")
        },
        ErrorKind::Manual,
        &["a drop that panics: a local"],
    );
}

#[test]
fn a_panic_whose_payload_panics() {
    for device in [0, 2] {
        let function: Function = match device {
            0 => |cx, x, device| if device == 0 { std::panic::panic_any(Payload) } else { cx.psum(&x, "x") },
            _ => |cx, x, device| if device == 2 { std::panic::panic_any(Payload) } else { cx.psum(&x, "x") },
        };
        check(function, ErrorKind::Manual, &["panicked"]);
    }
}

#[test]
fn all_panic_at_once() {
    check(|_, _, _| panic!("everybody"), ErrorKind::Manual, &["everybody"]);
}

#[test]
fn arguments_that_are_wrong_everywhere() {
    check(|cx, x, _| cx.psum(&x, "nowhere"), ErrorKind::Axis, &["nowhere"]);
    check(|cx, x, _| cx.psum(&x, ["x", "x"]), ErrorKind::DuplicateAxis, &["twice"]);
    check(|cx, x, _| cx.all_gather(&x, "x", isize::MIN), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.all_gather(&x, "x", isize::MAX), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.all_gather(&x, "x", -4), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.all_to_all(&x, "x", isize::MIN, 0), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.all_to_all_tiled(&x, "x", 0, isize::MIN), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.psum_scatter(&x, "x", 2), ErrorKind::Axis, &["out of range"]);
    check(|cx, x, _| cx.ppermute(&x, "x", [(0, 1), (1, 1)]), ErrorKind::Argument, &["two pairs"]);
    check(|cx, x, _| cx.ppermute(&x, "x", [(0, usize::MAX)]), ErrorKind::Argument, &["out of range"]);
    check(|cx, x, _| cx.pshuffle(&x, "x", [0, 0]), ErrorKind::Argument, &["two pairs"]);
    check(|cx, x, _| cx.pshuffle(&x, "x", []), ErrorKind::Argument, &["0 numbers"]);
    check(
        |cx, x, _| cx.psum_scatter_tiled(&x.reshape(&[4])?.slice_to(3)?, "x", 0),
        ErrorKind::Indivisible,
        &["pad it to 4"],
    );
    check(
        |cx, x, _| cx.psum(&x, Over::from("x").within([vec![0], vec![0]])),
        ErrorKind::Argument,
        &["exactly one"],
    );
    check(|cx, x, _| cx.psum(&x, Over::from(&[][..])), ErrorKind::Axis, &["at least one"]);
}

trait SliceTo: Sized {
    fn slice_to(&self, n: usize) -> Result<Self>;
}
impl SliceTo for Tensor {
    fn slice_to(&self, n: usize) -> Result<Self> {
        slice(self, &[(0..n as isize).into()])
    }
}

#[test]
fn groups_that_differ() {
    check(
        |cx, x, device| {
            let groups = if device == 0 { [[0, 1], [2, 3]] } else { [[0, 2], [1, 3]] };
            cx.psum(&x, Over::from(["x", "y"]).within(groups))
        },
        ErrorKind::Manual,
        &["within [[0, 1], [2, 3]]"],
    );
    check(
        |cx, x, device| {
            let over = Over::from(["x", "y"]);
            cx.psum(&x, if device == 3 { over } else { over.within([[0, 1], [2, 3]]) })
        },
        ErrorKind::Manual,
        &["psum of f32[2, 2] over"],
    );
}

#[test]
fn a_result_elsewhere_or_too_many() {
    check(
        |_, x, device| match device {
            1 => x.transfer_to(&DeviceMapping::replicated(&DeviceMesh::single(
                Device::cpu().with_slot(SLOT + 7),
            ))),
            _ => Ok(x),
        },
        ErrorKind::Mesh,
        &["device (x=0, y=1)", "lies on"],
    );
    let _alone = alone();
    let error = watched(|| {
        let mesh = manual(&[2, 2]);
        let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec!["x"]]);
        let region = region.wrap_many(|cx, mut xs| {
            if cx.coord("x")? == 1 {
                xs.clear();
            }
            Ok(xs)
        })?;
        region.call(&[&numbers(&[4], &mesh)])
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    assert!(error.to_string().contains("device (x=1, y=0) gave 0 results for 1 out_specs"), "{error}");
}

#[test]
fn an_error_inside_of_a_nested_region_reaches_the_outer_ones_members() {
    check(
        |cx, x, device| {
            let mesh = manual(&[2]);
            let inner =
                shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec!["x"]]).wrap(move |cx, [x]| {
                    assert!(device != 2 || cx.coord("x")? != 1, "deep inside");
                    Ok([cx.psum(&x, "x")?])
                })?;
            let [y] = inner.call([&x.transfer_to(&DeviceMapping::replicated(&mesh))?])?;
            cx.psum(&y.transfer_to(&DeviceMapping::replicated(cx.mesh()))?, ["x", "y"])
        },
        ErrorKind::Manual,
        &["deep inside", "device (x=1, y=0)"],
    );
}

static FAILS: AtomicBool = AtomicBool::new(false);

// Foreign code that runs around the function on the threads of a region.
inventory::submit! {
    sharding_core::backend::ThreadState {
        capture: || {
            let fails = FAILS.load(Ordering::SeqCst);
            Box::new(move |run| {
                assert!(!fails, "a state that panics");
                run();
            })
        },
    }
}

#[test]
fn a_panic_around_the_function() {
    let _alone = alone();
    let sum: Function = |cx, x, _| cx.psum(&x, "x");
    run(sum).unwrap();
    let before = Before::now();
    FAILS.store(true, Ordering::SeqCst);
    let error = run(sum);
    FAILS.store(false, Ordering::SeqCst);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Manual, "{error}");
    assert!(error.to_string().contains("what runs around the function"), "{error}");
    before.still();
}
