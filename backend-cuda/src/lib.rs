//! The cuda backend: NVIDIA GPUs by `cudarc`, whose libraries are opened at run time.
//!
//! It registers itself for the device kind `cuda`; a program links it through the feature `cuda` of `sharding-ops`,
//! or with `use backend_cuda as _;`. It compiles without a toolkit, and on a machine without a driver every call is
//! an error that says what is missing.
//!
//! **What it can do today:** find the GPUs of this machine and place meshes on them. Memory, kernels and collectives
//! are errors of kind [`ErrorKind::Backend`](sharding_core::ErrorKind::Backend) that name what is not there yet, and
//! [`supports`](sharding_core::backend::Backend::supports) says so before anything runs.
//!
//! ```
//! use sharding_core::{BackendKind, backend::backend_of};
//! use backend_cuda as _;
//!
//! match backend_of(BackendKind::CUDA)?.devices() {
//!     Ok(gpus) => println!("{} GPUs", gpus.len()),
//!     Err(error) => println!("{error}"), // no driver: what to install
//! }
//! # Ok::<(), sharding_core::Error>(())
//! ```

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

pub use backend::CudaBackend;

inventory::submit! {
    sharding_core::backend::BackendDef {
        kind: sharding_core::BackendKind::CUDA,
        open: || Ok(std::sync::Arc::new(CudaBackend)),
        at: (file!(), line!()),
    }
}
