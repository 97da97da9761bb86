//! The one device there is, the positions of a mesh on it, its instruction sets and its threads.

use sharding_core::backend::Positions;
use sharding_core::{BackendKind, Device, DeviceMesh, Error, ErrorKind, Result, Scope};
use std::sync::LazyLock;

static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// Runs loops compiled for the best instruction set of this machine. What `work` calls must be inlined into it.
#[inline(always)]
pub(crate) fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnOnce() -> R> pulp::WithSimd for Work<F> {
        type Output = R;
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, _: S) -> R {
            (self.0)()
        }
    }
    ARCH.dispatch(Work(work))
}

/// Runs a kernel that is written on vectors, compiled for the best instruction set of this machine.
#[inline(always)]
pub(crate) fn dispatch<W: pulp::WithSimd>(work: W) -> W::Output {
    ARCH.dispatch(work)
}

/// Work below this, in elements that are added, runs on the calling thread: it takes about ten microseconds, and to wake the
/// pool takes the caller a few.
const INLINE: usize = 1 << 17;

/// Whether work of this many elementary steps is worth the pool. Depends on shapes only.
pub(crate) fn is_large(steps: usize) -> bool {
    steps >= INLINE
}

/// The CPU of this process.
pub(crate) fn probe() -> Vec<Device> {
    vec![Device::cpu().with_process(Scope::current().process())]
}

/// The most devices of a mesh: every one of them costs memory here, if only for its place in a list.
const MOST_DEVICES: usize = 1 << 20;

/// The positions of a mesh that are on the CPU of this process.
pub(crate) fn positions(mesh: &DeviceMesh) -> Result<Positions> {
    if mesh.num_devices() > MOST_DEVICES {
        return Err(Error::new(
            ErrorKind::Backend,
            format!("{mesh} has {} devices; one CPU plays at most {MOST_DEVICES}", mesh.num_devices()),
        )
        .with_fix("DeviceMesh::simulated(BackendKind::SIM, shape, names) for meshes of any size"));
    }
    let process = Scope::current().process();
    let mut found = Vec::new();
    for (position, device) in mesh.devices().enumerate() {
        if device.process != process || device.kind != BackendKind::CPU {
            continue;
        }
        if device.ordinal != 0 {
            return Err(Error::new(
                ErrorKind::Backend,
                format!("{mesh} names {device} at position {position}, but a process has one CPU, cpu:0"),
            )
            .with_fix("DeviceMesh::simulated(BackendKind::CPU, shape, names) for several slots of it"));
        }
        found.push(position);
    }
    Ok(found.into())
}
