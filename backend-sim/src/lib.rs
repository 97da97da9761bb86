//! The sim backend: no data. Any program runs on a mesh of any size, and says what it would cost.
//!
//! It registers itself for the device kind `sim`; a program links it through the feature `sim` of `sharding-ops`, or
//! with `use backend_sim as _;`.
//!
//! * **Devices.** Up to [`ALL_POSITIONS`] devices of a mesh hold shards each. Of a larger mesh the corners do, the
//!   first and the last device along every mesh axis: they hold the largest and the smallest shards of balanced
//!   splits, so a mesh of a million devices costs no more than one of four.
//! * **Memory.** Every array counts its bytes on its device until the last holder drops it. Nothing is allocated.
//!   Exact for balanced splits and for `Interleaved`; where another placement of the open trait, such as `Ragged`, gives a
//!   device between the corners more, [`Log::uneven`] says so, and peaks are those of the corners.
//! * **Kernels** are counted with estimated floating-point operations and bytes, **collectives** with the bytes that a device
//!   sends by the volume price ([`VolumeCost`](sharding_core::plan::VolumeCost)) and the line of the program that caused
//!   them.
//! * **Seconds** are modelled on a [`Machine`]: kernels by a [`Roofline`](sharding_core::plan::Roofline), collectives by a
//!   cost model in seconds such as [`AlphaBetaCost`](sharding_core::plan::AlphaBetaCost). Nothing overlaps.
//! * **Values.** Writing drops the bytes; reading is an error of kind
//!   [`ErrorKind::Backend`](sharding_core::ErrorKind::Backend).
//!
//! What happens on a thread is counted by the thread's [`Simulation`]; [`record`] gives the part of a closure.
//!
//! ```
//! use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Tensor};
//!
//! let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 1024], ["dp", "tp"])?;
//! let mapping = DeviceMapping::new(&mesh, [Place::Sharded(0), Place::Sharded(1)])?;
//! let (x, log) = backend_sim::record(|| Tensor::from_slice(&[0_f32; 4096], [2048, 2], &mapping));
//! let x = x?;
//! assert_eq!(x.positions().len(), 4);
//! assert_eq!(log.peak_bytes(), 2 * 4);
//! # Ok::<(), sharding_core::Error>(())
//! ```

#![forbid(unsafe_code)]

mod attention;
mod backend;
mod collective;
mod copy;
mod device;
mod dot;
mod element;
mod fused;
mod gather;
mod iota;
mod map;
mod memory;
mod random;
mod reduce;
mod storage;

pub use backend::SimBackend;
pub use collective::{CollectiveUse, Line};
pub use device::{ALL_POSITIONS, DeviceUse, KernelUse, Log, Machine, Simulation, record};

inventory::submit! {
    sharding_core::backend::BackendDef {
        kind: sharding_core::BackendKind::SIM,
        open: || Ok(std::sync::Arc::new(SimBackend)),
        at: (file!(), line!()),
    }
}

// The devices of a manual region count into the simulation of the thread that called it.
inventory::submit! {
    sharding_core::backend::ThreadState {
        capture: || {
            let simulation = Simulation::current();
            Box::new(move |run| simulation.enter(run))
        },
    }
}
