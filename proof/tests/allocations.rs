//! How often a small call asks the allocator for memory: a call that asks more often than today is slower than today.

use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Result, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is the system's allocator; the count has no destructor, so that it is there as long as the thread.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: as the trait asks.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    // SAFETY: as the trait asks.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often the allocator is asked in one call, when caches know it.
fn count(mut call: impl FnMut() -> Result<Tensor>) -> usize {
    (0..3).for_each(|_| drop(call().unwrap()));
    let before = COUNT.get();
    drop(call().unwrap());
    COUNT.get() - before
}

fn matrix(place: Place) -> Tensor {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let mapping = DeviceMapping::new(&mesh, [place]).unwrap();
    Tensor::from_slice(&[1.0_f32; 64], [8, 8], &mapping).unwrap()
}

#[test]
fn small_calls_allocate_results_and_nothing_else() {
    let (rows, columns) = (matrix(Place::Sharded(0)), matrix(Place::Sharded(1)));
    // A tensor and two storages; their memory is that of results dropped before.
    assert_eq!(count(|| sharding_ops::add(&rows, &rows)), 3);
    let part = || sharding_ops::matmul(&columns, &rows);
    assert_eq!(count(part), 3);
    // The product, the sum of its parts in one storage, and the relu of that: one storage and a tensor.
    assert_eq!(count(|| sharding_ops::relu(&part()?)), 6);
}
