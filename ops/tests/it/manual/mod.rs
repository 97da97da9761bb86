//! Manual regions: values, claims, and what happens when devices disagree.

mod collective;
mod failure;
mod on_mesh;
mod region;
mod varies;

use sharding_ops::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// One test of regions at a time: some count threads.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mesh whose axes are all manual, of slots that no other test uses.
fn manual(first_slot: u32, shape: &[usize], names: &[&str]) -> DeviceMesh {
    let n: usize = shape.iter().product();
    let devices: Vec<Device> = (0..n as u32).map(|i| Device::cpu().with_slot(first_slot + i)).collect();
    let mesh = DeviceMesh::new(&devices, shape, names).unwrap();
    mesh.with_axis_types(vec![AxisType::Manual; shape.len()]).unwrap()
}

fn iota(shape: &[usize], mesh: &DeviceMesh) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i| (i * 7 % 11) as f32 - 4.0).collect();
    Tensor::from_slice(&values, shape, &DeviceMapping::replicated(mesh)).unwrap()
}

/// Runs `f` on a thread; a hang fails the test.
fn watched<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(f()));
    let Ok(value) = result.recv_timeout(Duration::from_secs(60)) else { panic!("it hangs, or panicked") };
    value
}

/// What devices leave for the test, by their numbers.
struct Left<T>(Arc<Mutex<Vec<(usize, T)>>>);

impl<T> Clone for Left<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Left<T> {
    fn new() -> Self {
        Self(Arc::default())
    }
    fn put(&self, device: usize, value: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((device, value));
    }
    /// In the order of the devices.
    fn take(&self) -> Vec<T> {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.sort_by_key(|(device, _)| *device);
        all.into_iter().map(|(_, value)| value).collect()
    }
}
