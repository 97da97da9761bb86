//! The cpu backend: host memory, kernels that vectorise, matrix products by panels of its own or by the `gemm` crate.
//!
//! It registers itself for the device kind `cpu`; a program links it through the feature `cpu` of `sharding-ops`, or
//! with `use backend_cpu as _;`.
//!
//! * **Memory.** An array is one block, not cleared, plus one reference count. Views, replicas and gathers share
//!   it; a shared one is copied before it is written. Blocks of dropped arrays are kept for new ones, up to
//!   [`cache_limit`]: memory that is fresh from the system costs more to write than most results cost to compute.
//! * **Dtypes.** All of [`DType::ALL`](sharding_core::DType::ALL); `element.rs` is where they are written. Memory is words of
//!   1, 2, 4 or 8 bytes: copies, gathers and permutations are compiled once for each size. Computation is in five types
//!   (truth values, i64, u64, f32, f64), the other dtypes are converted to one of them and back, chunk by chunk.
//!   f16 and bf16 are computed in f32 through a whole expression, sum or product, and rounded once, to the nearest, ties to
//!   even. A cast is Rust's `as`: integers wrap, floats become the nearest integer towards zero within the range, NaN 0.
//! * **Work.** Small work runs on the calling thread. Large kernels split over the rayon pool at places that depend on
//!   the shape only, so results do not depend on the number of threads. A worker that has helped stays ready for a fifth of
//!   a millisecond before it sleeps, as between the kernels of a layer. Loops are compiled for several instruction
//!   sets and chosen at run time; none contracts `a * b + c`, except inside matrix products
//!   and attention.
//! * **Integers** wrap in their dtype, sums and products too: nothing is widened. Division rounds towards zero; dividing by zero is an error of kind
//!   [`ErrorKind::Kernel`](sharding_core::ErrorKind::Kernel).
//!
//! ```
//! use backend_cpu::CpuBackend;
//! use sharding_core::backend::{Backend, BinaryOp, Expr, Primitive, Work};
//! use sharding_core::{DType, Device, Element, Shape};
//!
//! let (cpu, device, shape) = (CpuBackend, Device::cpu(), Shape::from([3]));
//! let mut x = cpu.alloc(device, DType::F32, &shape)?;
//! cpu.write(&f32::to_bytes(&[1.0, 2.0, 3.0]), &mut x)?;
//! let mut outputs = [cpu.alloc(device, DType::F32, &shape)?];
//! let double = Primitive::Map(Expr::binary(BinaryOp::Add, Expr::input(0), Expr::input(0)));
//! cpu.launch(&double, &mut [Work { op: "double", device, inputs: &[&x], outputs: &mut outputs }])?;
//! let mut bytes = [0; 12];
//! cpu.read(&outputs[0], &mut bytes)?;
//! assert_eq!(f32::from_bytes(&bytes), [2.0, 4.0, 6.0]);
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

pub use backend::CpuBackend;
pub use memory::{cache_limit, cached_bytes, release_cached_memory, set_cache_limit};

inventory::submit! {
    sharding_core::backend::BackendDef {
        kind: sharding_core::BackendKind::CPU,
        open: || Ok(std::sync::Arc::new(CpuBackend)),
        at: (file!(), line!()),
    }
}

// A thread of a region waits after each call, perhaps for long.
inventory::submit! {
    sharding_core::backend::ThreadState {
        capture: || {
            Box::new(|run| {
                run();
                memory::park();
            })
        },
    }
}
