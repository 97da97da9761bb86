//! Manual regions as their most demanding users would use them: devices that fail in every way, values that look the same
//! and are not, mesh axes that remain, and many callers at once. Each under a watchdog.

mod claim;
mod failure;
mod load;
mod rest;
mod value;

use sharding_core::backend::backend_of;
use sharding_core::manual::threads;
use sharding_ops::*;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// One of these tests at a time: some count threads and bytes.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on a thread of its own; a hang fails the test.
#[track_caller]
fn watched<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(f()));
    match result.recv_timeout(Duration::from_secs(15)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("it panicked"),
    }
}

/// The first slot that only these tests use.
const SLOT: u32 = 20_000;

/// A mesh whose axes are all manual.
fn manual(shape: &[usize]) -> DeviceMesh {
    let n = shape.iter().product::<usize>() as u32;
    let devices: Vec<Device> = (0..n).map(|i| Device::cpu().with_slot(SLOT + i)).collect();
    let mesh = DeviceMesh::new(&devices, shape, &["x", "y", "z"][..shape.len()]).unwrap();
    mesh.with_axis_types(vec![AxisType::Manual; shape.len()]).unwrap()
}

fn live() -> Vec<u64> {
    let backend = backend_of(BackendKind::CPU).unwrap();
    (0..8).map(|i| backend.memory(Device::cpu().with_slot(SLOT + i)).unwrap().live).collect()
}

/// Small whole numbers of both signs, the same on all devices.
fn numbers(shape: &[usize], mesh: &DeviceMesh) -> Tensor {
    Tensor::from_slice(&super::values(shape.iter().product()), shape, &DeviceMapping::replicated(mesh))
        .unwrap()
}

/// What holds after a region that failed: memory and threads as before, and regions work.
struct Before(Vec<u64>, usize);

impl Before {
    fn now() -> Self {
        // How many threads regions inside of regions need at once is chance: the most that they can are made first.
        let mesh = manual(&[8]);
        let region = shard_map(&mesh).in_specs([spec!["x"]]).out_specs([spec!["x"]]).wrap(|_, [x]| Ok([x]));
        region.and_then(|region| region.call([&numbers(&[8], &mesh)])).unwrap();
        Self(live(), threads())
    }
    #[track_caller]
    fn still(&self) {
        assert_eq!((live(), threads()), (self.0.clone(), self.1));
        let sum = watched(|| {
            let mesh = manual(&[2, 2]);
            let region = shard_map(&mesh).in_specs([spec!["x", "y"]]).out_specs([spec![]]);
            let [y] =
                region.wrap(|cx, [x]| Ok([cx.psum(&x, ["x", "y"])?]))?.call([&numbers(&[2, 2], &mesh)])?;
            y.to_vec::<f32>()
        });
        assert_eq!(sum.unwrap(), [super::values(4).iter().sum::<f32>()]);
    }
}
