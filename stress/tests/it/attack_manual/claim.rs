//! Values that are claimed to be the same on all devices: what differs is refused, what does not is not.

use super::*;
use std::sync::Arc;

type Function = fn(&ManualCx, [Tensor; 3]) -> Result<Tensor>;

/// `x` is split over both mesh axes, `v` and `w` over none and unequal; the result claims to be the same on all devices.
fn run(function: Function) -> Result<Vec<f32>> {
    watched(move || {
        let mesh = manual(&[2, 2]);
        let region = shard_map(&mesh).in_specs([spec!["x", "y"], spec![], spec![]]).out_specs([spec![]]);
        let region = region.wrap(move |cx, args| Ok([function(cx, args)?]))?;
        let v = numbers(&[2, 2], &mesh);
        let w = numbers(&[4, 2], &mesh.with_axis_types([AxisType::Auto; 2])?).slice(&[(2..).into()])?;
        let x = Tensor::from_slice(&[1.0_f32, -2.0, 3.0, -4.0], [2, 2], &DeviceMapping::replicated(&mesh))?;
        let [y] = region.call([&x, &v, &w])?;
        let first = y.to_vec::<f32>()?;
        for position in 0..4 {
            assert_eq!(y.shard_to_vec::<f32>(position)?, first, "device {position} holds something else");
        }
        Ok(first)
    })
}

#[track_caller]
fn refused(function: Function) {
    let _alone = alone();
    let error = run(function).expect_err("a value that differs is accepted");
    assert_eq!(error.kind(), ErrorKind::Manual, "{error}");
    assert!(error.to_string().contains("the out_spec does not name the mesh axis"), "{error}");
    assert!(error.fix().unwrap().contains("cx.psum(&y, \""), "{error}");
}

#[track_caller]
fn accepted(function: Function) {
    let _alone = alone();
    run(function).unwrap();
}

#[test]
fn a_choice_between_values_that_are_each_the_same() {
    refused(|cx, [_, v, w]| Ok(if cx.coord("x")? == 0 { v } else { w }));
    refused(|_, [x, v, w]| Ok(if x.to_vec::<f32>()?[0] > 0.0 { v } else { w }));
    refused(|_, [x, v, w]| Ok(if x.shard_to_vec::<f32>(0)?[0] > 0.0 { v } else { w }));
    refused(|_, [x, v, w]| Ok(if x.to_bytes()?[3] & 0x80 == 0 { v } else { w }));
    refused(|_, [x, v, w]| {
        let first = x.addressable_shards().next().unwrap().to_vec::<f32>()?[0];
        Ok(if first > 0.0 { v } else { w })
    });
    refused(|cx, [_, v, w]| Ok(if cx.axis_index("y")?.to_vec::<i32>()? == [0] { v } else { w }));
    refused(|cx, [_, v, w]| {
        let (v, w) = (cx.psum(&v, ["x", "y"])?, cx.psum(&w, ["x", "y"])?);
        Ok(if cx.coord("x")? == 0 { v } else { w })
    });
    // The same whatever was chosen.
    accepted(|cx, [_, v, w]| Ok(if cx.coord("x")? < 7 { v } else { w }));
    accepted(|cx, [x, v, _]| {
        x.to_vec::<f32>()?;
        cx.psum(&v, ["x", "y"])
    });
}

#[test]
fn a_choice_by_what_devices_are() {
    // Nothing follows these; the comparison of builds with debug assertions finds them.
    if cfg!(debug_assertions) {
        refused(|cx, [_, v, w]| Ok(if cx.mesh().device(0).unwrap().slot % 2 == 0 { v } else { w }));
        refused(|_, [x, v, w]| Ok(if x.mesh().device(0).unwrap().slot > SLOT + 1 { v } else { w }));
        refused(|_, [_, v, w]| {
            static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            Ok(if COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst).is_multiple_of(4) { v } else { w })
        });
    }
}

#[test]
fn other_threads_of_a_device() {
    fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(f).join().unwrap())
    }
    refused(|_, [x, ..]| on_a_thread(|| x.add(&x)));
    refused(|_, [x, v, _]| on_a_thread(|| v.add(&x)?.exp()));
    refused(|_, [x, v, w]| Ok(if on_a_thread(|| x.to_vec::<f32>())?[0] > 0.0 { v } else { w }));
    refused(|_, [x, ..]| rayon::join(|| x.mul(&x), || ()).0);
    // A region that another thread calls.
    refused(|cx, [x, ..]| {
        let mesh = cx.mesh().clone();
        on_a_thread(move || {
            let mesh = mesh.with_axis_types(vec![AxisType::Manual; mesh.ndim()])?;
            let inner = shard_map(&mesh).in_specs([spec![]]).out_specs([spec![]]).wrap(|_, [x]| Ok([x]))?;
            Ok(inner.call([&x])?.into_iter().next().unwrap())
        })
    });
    accepted(|cx, [x, v, _]| cx.psum(&on_a_thread(|| x.add(&v))?, ["x", "y"]));
    accepted(|_, [_, v, w]| on_a_thread(|| v.add(&w)));
    accepted(|cx, [x, ..]| {
        let first = on_a_thread(|| x.to_vec::<f32>())?[0];
        let made = full([2], f64::from(first), DType::F32, &DeviceMapping::replicated(cx.mesh()))?;
        cx.pmax(&made, ["x", "y"])
    });
}

#[test]
fn buffers_callbacks_and_random_numbers() {
    refused(|_, [x, v, _]| {
        let mut buffer = TensorBuffer::new(v);
        buffer_store_slice(&mut buffer, &x, &[(0..1).into(), (0..1).into()])?;
        Ok(buffer.to_tensor())
    });
    refused(|cx, [x, ..]| {
        let value = x.to_vec::<f32>()?[0].to_ne_bytes();
        let layout = TensorLayout::new(DType::F32, [1], DeviceMapping::replicated(cx.mesh()))?;
        Tensor::from_callback(layout, |_, bytes| {
            bytes.copy_from_slice(&value);
            Ok(())
        })
    });
    refused(|cx, [x, ..]| {
        let seed = x.to_vec::<f32>()?[0].to_bits();
        uniform([3], 0.0..1.0, u64::from(seed), DType::F32, &DeviceMapping::replicated(cx.mesh()))
    });
    accepted(|cx, _| uniform([3], 0.0..1.0, 7_u64, DType::F32, &DeviceMapping::replicated(cx.mesh())));
    accepted(|cx, _| {
        let layout = TensorLayout::new(DType::F32, [1], DeviceMapping::replicated(cx.mesh()))?;
        Tensor::from_callback(layout, |_, bytes| {
            bytes.copy_from_slice(&5.0_f32.to_ne_bytes());
            Ok(())
        })
    });
}

#[test]
fn device_by_device_calls_inside() {
    refused(|cx, [x, ..]| {
        let out = DeviceMapping::replicated(cx.mesh());
        let [y] = call_on_mesh(cx.mesh()).out_specs([out]).per_device([&x], |_, [x]| Ok([x.add(&x)?]))?;
        Ok(y)
    });
    accepted(|cx, [_, v, w]| {
        let out = DeviceMapping::replicated(cx.mesh());
        let [y] =
            call_on_mesh(cx.mesh()).out_specs([out]).per_device([&v, &w], |_, [v, w]| Ok([v.add(&w)?]))?;
        Ok(y)
    });
}

#[test]
fn tensors_from_outside_and_from_earlier_regions() {
    let _alone = alone();
    let mesh = manual(&[2]);
    let kept: Arc<Mutex<Vec<Tensor>>> = Arc::default();
    let keep = kept.clone();
    let first = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([]).wrap(move |_, [x]| {
        keep.lock().unwrap().push(x.add(1.0)?);
        Ok([])
    });
    let [] = first.unwrap().call([&numbers(&[4], &mesh)]).unwrap();
    let kept: Vec<Tensor> = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(kept.len(), 2);
    // What was kept is a tensor like any other outside.
    let mut all: Vec<f32> = kept.iter().flat_map(|x| x.to_vec::<f32>().unwrap()).collect();
    let mut want: Vec<f32> = super::super::values(4).iter().map(|v| v + 1.0).collect();
    all.sort_by(f32::total_cmp);
    want.sort_by(f32::total_cmp);
    assert_eq!(all, want);
    // On another device than its own it is refused, with what to do.
    let stray = kept[0].clone();
    let error = watched(move || {
        let mesh = manual(&[2]);
        let region = shard_map(&mesh).in_specs([]).out_specs([spec!["x"]]);
        region.wrap(move |cx, []| Ok([cx.psum(&stray, "x")?])).unwrap().call([])
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mesh, "{error}");
    // A constant of the program, made outside.
    let mesh = manual(&[2]);
    let constant = numbers(&[2], &DeviceMesh::single(Device::cpu()));
    let region = shard_map(&mesh)
        .in_specs([])
        .out_specs([spec![]])
        .wrap(move |cx, []| Ok([constant.transfer_to(&DeviceMapping::replicated(cx.mesh()))?.add(1.0)?]));
    let [y] = watched(move || region.unwrap().call([])).unwrap();
    assert_eq!(y.shape()[..], [2]);
}
