//! The contract's methods, each handed to the file of its subject.

use crate::collective::CudaCollectives;
use crate::{
    attention, copy, device, dot, element, fused, gather, iota, map, memory, random, reduce, storage,
};
use sharding_core::backend::{
    Backend, Collectives, FusedOp, HostMemory, LocalArray, LocalMeta, MemoryUse, Move, Positions, Primitive,
    Support, Work,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Result, Shape};
use std::sync::Arc;

/// The backend of the device kind `cuda`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CudaBackend;

/// What a primitive waits for.
fn missing(primitive: &Primitive) -> &'static str {
    match primitive {
        Primitive::Map(_) => map::MISSING,
        Primitive::Reduce(_) => reduce::MISSING,
        Primitive::Dot => dot::MISSING,
        Primitive::Gather(_) => gather::MISSING,
        Primitive::Copy(_) => copy::MISSING,
        Primitive::Iota(_) => iota::MISSING,
        Primitive::Random(_) => random::MISSING,
        Primitive::Fused(FusedOp::Attention(_)) => attention::MISSING,
        Primitive::Fused(_) => fused::MISSING,
        _ => "a kernel",
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::CUDA
    }

    fn devices(&self) -> Result<Vec<Device>> {
        device::probe()
    }

    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        device::positions(mesh)
    }

    /// The slots of one GPU share its memory.
    fn shares_memory(&self, a: Device, b: Device) -> bool {
        a.same_ordinal(b)
    }

    fn supports(&self, primitive: &Primitive, _: &[LocalMeta]) -> Support {
        let name = element::kernel_name(primitive);
        Support::No(format!("the cuda backend has no {name} yet: it needs {}", missing(primitive)))
    }

    fn alloc(&self, device: Device, _: DType, _: &Shape) -> Result<LocalArray> {
        Err(storage::no_memory("alloc", device))
    }

    fn write(&self, _: &[u8], into: &mut LocalArray) -> Result<()> {
        Err(storage::no_memory("write", into.device()))
    }

    fn read(&self, array: &LocalArray, _: &mut [u8]) -> Result<()> {
        Err(storage::no_memory("read", array.device()))
    }

    /// GPU memory is not the host's.
    fn adopt(&self, _: Device, _: &Arc<dyn HostMemory>, _: &LocalMeta) -> Result<Option<LocalArray>> {
        Ok(None)
    }

    /// GPU memory is not the host's.
    fn peek<'a>(&self, _: &'a LocalArray) -> Result<Option<&'a [u8]>> {
        Ok(None)
    }

    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
        match moves.first() {
            None => Ok(()),
            Some(first) => Err(element::not_yet("copy", copy::MISSING).with_op(first.op)),
        }
    }

    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        match work.first() {
            None => Ok(()),
            Some(first) => {
                Err(element::not_yet(element::kernel_name(primitive), missing(primitive)).with_op(first.op))
            }
        }
    }

    fn memory(&self, device: Device) -> Result<MemoryUse> {
        memory::of(device)
    }

    fn reset_peak_memory(&self, device: Device) -> Result<()> {
        memory::reset_peak(device)
    }

    /// No work is ever under way.
    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }

    fn collectives(&self) -> &dyn Collectives {
        &CudaCollectives
    }
}
