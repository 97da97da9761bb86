//! The cpu backend: host memory on [`ndarray`], kernels that vectorise, matrix products by the `gemm` crate.
//!
//! It registers itself for the device kind `cpu`; a program links it through the feature `cpu` of `sharding-ops`, or
//! with `use backend_cpu as _;`.
//!
//! * **Memory.** An array is one allocation, not cleared, plus one reference count. Views, replicas and gathers share
//!   it; a shared one is copied before it is written.
//! * **Dtypes.** f32, i64 and bool. The list is written once, in `element.rs`; what a dtype can do is its arithmetic
//!   there.
//! * **Work.** Small work runs on the calling thread. Large kernels split over the rayon pool at places that depend on
//!   the shape only, so results do not depend on the number of threads. Loops are compiled for several instruction
//!   sets and chosen at run time; none contracts `a * b + c`, except inside matrix products.
//! * **Integers** wrap. Division rounds towards zero; dividing by zero is an error of kind
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
mod reduce;
mod storage;

pub use backend::CpuBackend;

inventory::submit! {
    sharding_core::backend::BackendDef {
        kind: sharding_core::BackendKind::CPU,
        open: || Ok(std::sync::Arc::new(CpuBackend)),
        at: (file!(), line!()),
    }
}
