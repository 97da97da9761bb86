//! Many regions at once, from many threads, in many forms; and how much of a machine they take.

use super::*;
use sharding_core::{Recorder, Transfer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn sums(mesh: &DeviceMesh) -> ShardMap<1, 1> {
    let region = shard_map(mesh).in_specs([spec!["x"]]).out_specs([spec![]]);
    region.wrap(|cx, [x]| Ok([cx.psum(&x.sum(0, true)?, "x")?])).unwrap()
}

#[test]
fn user_threads_share_a_region() {
    let _alone = alone();
    watched(|| {
        let mesh = manual(&[4]);
        let (region, x) = (sums(&mesh), numbers(&[8], &mesh));
        let want = [super::super::values(8).iter().sum::<f32>()];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        assert_eq!(region.call([&x]).unwrap()[0].to_vec::<f32>().unwrap(), want);
                    }
                });
            }
        });
    });
}

/// Every worker of the pool waits in a region whose kernels are large enough to want the pool.
#[test]
fn regions_on_all_workers_of_the_pool() {
    let _alone = alone();
    watched(|| {
        let mesh = manual(&[2]);
        let x =
            Tensor::from_slice(&vec![1.0_f32; 2 * 400 * 400], [800, 400], &DeviceMapping::replicated(&mesh))
                .unwrap();
        let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec![]]).wrap(|cx, [x]| {
            let x = cx.psum(&x, "x")?;
            // The first devices, on the workers, wait; the others come late, with much to do.
            let x = if cx.coord("x")? == 1 { x.matmul(&x)?.add(&x)?.softmax(1)?.matmul(&x)? } else { x };
            Ok([cx.psum(&x, "x")?])
        });
        let region = region.unwrap();
        rayon::scope(|scope| {
            for _ in 0..2 * rayon::current_num_threads() {
                scope.spawn(|_| drop(region.call([&x]).unwrap()));
            }
        });
    });
}

#[test]
fn regions_in_regions_in_regions() {
    fn nested(depth: usize, x: &Tensor) -> Result<Tensor> {
        let mesh = manual(&[2]);
        let region = shard_map(&mesh).in_specs([spec![]]).out_specs([spec![]]).wrap(move |cx, [x]| {
            let y = if depth == 0 { x } else { nested(depth - 1, &x)? };
            Ok([cx.pmax(&y.transfer_to(&DeviceMapping::replicated(cx.mesh()))?, "x")?])
        })?;
        Ok(region.call([&x.transfer_to(&DeviceMapping::replicated(&mesh))?])?.into_iter().next().unwrap())
    }
    let _alone = alone();
    let y = watched(|| nested(6, &numbers(&[3], &manual(&[2]))).and_then(|y| y.to_vec::<f32>())).unwrap();
    assert_eq!(y, super::super::values(3));
}

#[test]
fn more_nested_axes_than_are_followed() {
    fn nested(x: &Tensor) -> Result<Tensor> {
        // Only the first device goes on: the others would double at each depth.
        let mesh = manual(&[2]);
        let region = shard_map(&mesh).in_specs([spec![]]).out_specs([spec!["x"]]).wrap(|cx, [x]| {
            Ok([if cx.coord("x")? == 0 {
                nested(&x)?.transfer_to(&DeviceMapping::replicated(cx.mesh()))?
            } else {
                x
            }])
        })?;
        Ok(region.call([&x.transfer_to(&DeviceMapping::replicated(&mesh))?])?.into_iter().next().unwrap())
    }
    let _alone = alone();
    let error = watched(|| nested(&numbers(&[2], &manual(&[2])))).unwrap_err();
    let mut text = format!("{error:?}");
    let mut source: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(inner) = source {
        text += &inner.to_string();
        source = inner.source();
    }
    assert!(text.contains("more than 64 mesh axes are nested"), "{error}");
}

#[derive(Default)]
struct Counts(AtomicUsize, AtomicUsize);
impl Recorder for Counts {
    fn record(&self, _: &Call<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn transfer(&self, _: &Transfer<'_>) -> Result<()> {
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn what_is_in_force_is_in_force_inside() {
    let _alone = alone();
    watched(|| {
        let mesh = manual(&[4]);
        let default = DeviceMesh::single(Device::cpu());
        let counts = Arc::new(Counts::default());
        let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec![]]).wrap(|cx, [x]| {
            assert_eq!(Scope::current().policy(), Policy::raise());
            assert_eq!(Scope::current().mesh(), Some(&DeviceMesh::single(Device::cpu())));
            Ok([cx.psum(&x.add(1.0)?, "x")?])
        });
        let (region, x) = (region.unwrap(), numbers(&[8], &mesh));
        let recorded = (*Scope::current()).clone().with_recorder(counts.clone()).with_mesh(default);
        let explained =
            explain(|| recorded.with_policy(Policy::raise()).enter(|| region.call([&x]).unwrap()));
        assert_eq!(counts.0.load(Ordering::SeqCst), 4, "one add per device");
        let _ = explained;
        // The watchers outside see what devices move.
        let explained = explain(|| region_free(&mesh).call([&x]).unwrap());
        let report = explained.report.to_string();
        assert!(report.contains("psum") && report.contains("all_reduce"), "{report}");
    });
}

fn region_free(mesh: &DeviceMesh) -> ShardMap<1, 1> {
    sums(mesh)
}

/// A region of the most devices there may be, and memory and time of small ones; the numbers are printed.
#[test]
fn a_region_of_4096_devices() {
    let _alone = alone();
    let spent = watched(|| {
        let wide = DeviceMesh::simulated(BackendKind::CPU, [4096], ["x"]).unwrap();
        let wide = wide.with_axis_types([AxisType::Manual]).unwrap();
        let (region, x) =
            (sums(&wide), Tensor::from_slice(&[1_i32; 8192], [8192], &DeviceMapping::replicated(&wide)));
        let x = x.unwrap();
        let begin = std::time::Instant::now();
        match region.call([&x]) {
            Ok([y]) => assert_eq!(y.to_vec::<i32>().unwrap(), [8192]),
            // A machine may give fewer threads: then it says so, and how many it gave.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Backend, "{error}");
                assert!(error.to_string().contains("threads"), "{error}");
                println!("SKIPPED: {error}");
            }
        }
        begin.elapsed()
    });
    println!("4,096 devices: {spent:?} for the first call, {} threads", threads());
    let resident = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    resident.lines().filter(|line| line.starts_with("VmRSS")).for_each(|line| println!("{line}"));
}

#[test]
fn the_time_of_a_small_region() {
    let _alone = alone();
    for n in [1, 2, 8] {
        let per_call = watched(move || {
            let mesh = manual(&[n]);
            let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec![]]);
            let region = region.wrap(|cx, [x]| Ok([cx.psum(&x, "x")?])).unwrap();
            let rows = DeviceMapping::new(&mesh, [Sharded(0)]).unwrap();
            let x = Tensor::from_slice(&vec![1.0_f32; n * 1024], [n * 1024], &rows).unwrap();
            for _ in 0..20 {
                region.call([&x]).unwrap();
            }
            let (begin, rounds) = (std::time::Instant::now(), 100);
            for _ in 0..rounds {
                region.call([&x]).unwrap();
            }
            begin.elapsed() / rounds
        });
        println!("a region of {n} devices, psum of 4 KiB: {per_call:?}");
        assert!(per_call < Duration::from_millis(50), "{per_call:?}");
    }
}
