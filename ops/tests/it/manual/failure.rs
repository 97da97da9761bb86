//! Devices that do not do the same: every one of them gets an error that names who did what, nothing hangs, and what was
//! held is free again.

use super::*;
use sharding_core::backend::backend_of;
use sharding_core::manual::threads;

type Function = fn(&ManualCx, Tensor, usize) -> Result<Tensor>;

/// The first device of the mesh.
const SLOT: u32 = 9000;

fn mesh() -> DeviceMesh {
    manual(SLOT, &[2, 2], &["x", "y"])
}

fn live() -> Vec<u64> {
    let backend = backend_of(BackendKind::CPU).unwrap();
    (0..4).map(|i| backend.memory(Device::cpu().with_slot(SLOT + i)).unwrap().live).collect()
}

/// Runs the function on 2x2 devices, numbered row by row; the errors of all devices, and the region's.
fn run(function: Function) -> (Vec<Option<String>>, Error) {
    watched(move || {
        let mesh = mesh();
        let left = Left::new();
        let saw = left.clone();
        let region = shard_map(&mesh)
            .in_specs([spec!["x", "y"]])
            .out_specs([spec!["x", "y"]])
            .wrap(move |cx, [x]| {
                let device = cx.coord(["x", "y"])?;
                let given =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| function(cx, x, device)));
                match given {
                    Ok(given) => {
                        saw.put(device, given.as_ref().err().map(|error| format!("{error:?}")));
                        Ok([given?])
                    }
                    Err(panic) => {
                        saw.put(device, Some("panicked".to_owned()));
                        std::panic::resume_unwind(panic)
                    }
                }
            })
            .unwrap();
        let x = iota(&[4, 4], &mesh);
        let error = region.call([&x]).unwrap_err();
        drop(x);
        (left.take(), error)
    })
}

/// Every device has an error that has one of the texts; so has the region.
#[track_caller]
fn check(function: Function, kind: ErrorKind, texts: &[&str]) {
    let _alone = alone();
    // Once, so that the threads are there.
    run(function);
    let before = (live(), threads());
    let (errors, error) = run(function);
    assert_eq!((live(), threads()), before);
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(errors.len(), 4);
    for error in errors.iter().map(|error| error.as_deref()).chain([Some(&*error.to_string())]) {
        let Some(error) = error else { panic!("a device that went on as if nothing had happened") };
        assert!(error == "panicked" || texts.iter().any(|text| error.contains(text)), "{error}");
    }
    // The same threads work again.
    let sum = shard_map(&mesh())
        .in_specs([spec!["x", "y"]])
        .out_specs([spec![]])
        .wrap(|cx, [x]| Ok([cx.psum(&x, ["x", "y"])?]))
        .unwrap();
    let x = iota(&[2, 2], &mesh());
    let [sum] = watched(move || sum.call([&x])).unwrap();
    let want: f32 = iota(&[2, 2], &mesh()).to_vec::<f32>().unwrap().iter().sum();
    assert_eq!(sum.to_vec::<f32>().unwrap(), [want]);
}

#[test]
fn a_panic() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        assert_ne!(device, 2, "the device that panics");
        cx.psum(&x, ["x", "y"])
    }
    check(function, ErrorKind::Manual, &["device (x=1, y=0) panicked", "device (x=1, y=0) ended the region"]);
    let (_, error) = run(function);
    assert!(error.to_string().contains("the device that panics"), "{error}");
}

#[test]
fn an_early_return() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let y = cx.psum(&x, "x")?;
        if device == 3 { Ok(y) } else { cx.psum(&y, ["x", "y"]) }
    }
    let texts = ["for device (x=1, y=1), which returned after 1 collectives"];
    let _alone = alone();
    let (errors, error) = run(function);
    // The device that returned has no error to get.
    assert_eq!(errors.iter().filter(|error| error.is_none()).count(), 1);
    for error in errors.into_iter().flatten().chain([error.to_string()]) {
        assert!(error.contains(texts[0]) && error.contains("psum of f32[2, 2] over 'x', 'y'"), "{error}");
    }
}

#[test]
fn an_error() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let x = if device == 1 { x.reshape(&[5])? } else { x };
        cx.psum(&x, ["x", "y"])
    }
    check(function, ErrorKind::Shape, &["device (x=0, y=1) failed", "reshape"]);
}

#[test]
fn another_collective() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        if device == 0 { cx.pmax(&x, ["x", "y"]) } else { cx.psum(&x, ["x", "y"]) }
    }
    check(function, ErrorKind::Manual, &["device (x=0, y=0) calls pmax of f32[2, 2]"]);
    let (_, error) = run(function);
    assert!(
        error.to_string().contains(
            "calls psum of f32[2, 2] over 'x', 'y' (its collective 1, at ops/tests/it/manual/failure.rs:"
        ),
        "{error}"
    );
}

#[test]
fn other_mesh_axes() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        cx.psum(&cx.psum(&x, if device == 0 { "y" } else { "x" })?, ["x", "y"])
    }
    // What is noticed first depends on who comes first.
    check(function, ErrorKind::Manual, &["every device waits: device (", "psum of f32[2, 2] over 'y'"]);
}

#[test]
fn the_same_mesh_axes_in_another_order() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        cx.psum(&x, if device == 0 { ["y", "x"] } else { ["x", "y"] })
    }
    check(function, ErrorKind::Manual, &["over 'y', 'x'"]);
}

#[test]
fn another_shape() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let x = if device == 0 { x.reshape(&[4])? } else { x };
        cx.psum(&x, ["x", "y"])
    }
    check(function, ErrorKind::Manual, &["psum of f32[4]"]);
}

#[test]
fn another_dtype() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let x = if device == 2 { x.cast(DType::F64)? } else { x };
        cx.psum(&x, ["x", "y"])
    }
    check(function, ErrorKind::Manual, &["psum of f64[2, 2]"]);
}

#[test]
fn another_permutation() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        cx.ppermute(&x, ["x", "y"], if device == 2 { [(0, 1)] } else { [(1, 0)] })
    }
    check(function, ErrorKind::Manual, &["[(0, 1)]"]);
}

#[test]
fn another_number_of_rounds() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let mut x = x;
        for _ in 0..3 + usize::from(device == 0) {
            x = cx.psum(&x, "x")?;
        }
        cx.pmax(&x, ["x", "y"])
    }
    check(function, ErrorKind::Manual, &["(its collective 4, at"]);
}

#[test]
fn an_error_that_is_swallowed() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        let given = cx.psum(&x, if device == 0 { "y" } else { "x" });
        given.or(Ok(x))
    }
    let _alone = alone();
    let (errors, error) = run(function);
    assert!(errors.iter().all(Option::is_none));
    assert_eq!(error.kind(), ErrorKind::Manual, "{error}");
}

#[test]
fn an_error_in_one_group_only() {
    // The other group, which is in order, is told too: the results of the region cannot be put together.
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        if device == 1 {
            return cx.psum(&x, "z");
        }
        cx.psum(&cx.psum(&x, "x")?, ["x", "y"])
    }
    check(function, ErrorKind::Axis, &["device (x=0, y=1) failed", "no mesh axis 'z'"]);
}

#[test]
fn a_region_in_a_region() {
    fn function(cx: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        // Each device has a region of its own, on meshes that nobody else has; in one of them devices disagree.
        let mesh = manual(9100 + 2 * device as u32, &[2], &["z"]);
        let inner =
            shard_map(&mesh).in_specs([spec!["z"]]).out_specs([spec!["z"]]).wrap(move |cx, [x]| {
                let own = cx.coord("z")?;
                Ok([if device == 3 && own == 1 { cx.pmax(&x, "z")? } else { cx.psum(&x, "z")? }])
            })?;
        let [y] = inner.call([&x.transfer_to(&DeviceMapping::replicated(&mesh))?])?;
        cx.psum(&y.transfer_to(&DeviceMapping::replicated(cx.mesh()))?, ["x", "y"])
    }
    check(function, ErrorKind::Manual, &["device (z=1) calls pmax", "device (x=1, y=1) failed"]);
}

#[test]
fn a_result_of_another_shape() {
    fn function(_: &ManualCx, x: Tensor, device: usize) -> Result<Tensor> {
        if device == 0 { x.reshape(&[1, 4]) } else { Ok(x) }
    }
    let _alone = alone();
    let (_, error) = run(function);
    assert!(error.to_string().contains("device (x=0, y=0) gave f32[1, 4]"), "{error}");
}

#[test]
fn results_that_are_dropped_free_what_they_held() {
    let _alone = alone();
    let before = live();
    watched(|| {
        let mesh = mesh();
        let region = shard_map(&mesh)
            .in_specs([spec!["x", "y"]])
            .out_specs([])
            .wrap(|cx, [x]| {
                // Nobody looks at what comes out.
                drop(cx.psum(&x, "x")?);
                cx.all_gather(&x, "y", 0)?;
                Ok([])
            })
            .unwrap();
        let [] = region.call([&iota(&[4, 4], &mesh)]).unwrap();
    });
    assert_eq!(live(), before);
}
