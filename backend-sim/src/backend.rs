//! The contract's methods, each handed to the file of its subject.

use crate::collective::SimCollectives;
use crate::device::{Effort, Flops};
use crate::{
    Simulation, copy, device, dot, element, fused, gather, iota, map, memory, random, reduce, storage,
};
use sharding_core::backend::{
    Backend, Collectives, HostMemory, LocalArray, LocalMeta, MemoryUse, Move, Positions, Primitive, Support,
    Work,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Result, Shape};
use std::sync::Arc;

/// The backend of the device kind `sim`. It has no state of its own: see [`Simulation`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SimBackend;

impl Backend for SimBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::SIM
    }

    /// One: slots of it make a mesh of any size.
    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device::new(BackendKind::SIM, 0)])
    }

    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        device::positions(mesh)
    }

    fn shares_memory(&self, a: Device, b: Device) -> bool {
        a == b
    }

    /// Everything: nothing is computed.
    fn supports(&self, _: &Primitive, _: &[LocalMeta]) -> Support {
        Support::Yes
    }

    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        storage::alloc(device, dtype, shape)
    }

    /// Drops the bytes.
    fn write(&self, _: &[u8], into: &mut LocalArray) -> Result<()> {
        storage::own(into)
    }

    fn read(&self, array: &LocalArray, _: &mut [u8]) -> Result<()> {
        Err(element::no_data(array))
    }

    /// There is no data.
    fn adopt(&self, _: Device, _: &Arc<dyn HostMemory>, _: &LocalMeta) -> Result<Option<LocalArray>> {
        Ok(None)
    }

    /// There is no data.
    fn peek<'a>(&self, _: &'a LocalArray) -> Result<Option<&'a [u8]>> {
        Ok(None)
    }

    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
        copy::regions(moves)
    }

    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        let simulation = Simulation::current();
        for work in work {
            let output = work.outputs.first();
            let flops = match primitive {
                Primitive::Map(expr) => Flops::others(map::flops(expr, output)),
                Primitive::Reduce(_) => Flops::others(reduce::flops(work.inputs)),
                Primitive::Dot => Flops::products(dot::flops(work.inputs, output)),
                Primitive::Gather(_) => Flops::others(gather::FLOPS),
                Primitive::Copy(_) => Flops::others(copy::FLOPS),
                Primitive::Iota(_) => Flops::others(iota::flops(output)),
                Primitive::Random(random) => Flops::others(random::flops(random, output)),
                Primitive::Fused(op) => fused::flops(op, work.inputs, output),
                _ => Flops::others(0.0),
            };
            let effort = Effort {
                dtype: output.map_or(DType::F32, LocalArray::dtype),
                flops,
                bytes: match primitive {
                    Primitive::Gather(_) => gather::bytes(work.inputs, output),
                    Primitive::Copy(_) => copy::bytes(output),
                    _ => element::bytes(work.inputs, work.outputs),
                },
            };
            simulation.count_kernel(element::kernel_name(primitive), work.device, effort);
        }
        Ok(())
    }

    fn memory(&self, device: Device) -> Result<MemoryUse> {
        Ok(memory::of(device))
    }

    fn reset_peak_memory(&self, device: Device) -> Result<()> {
        memory::reset_peak(device);
        Ok(())
    }

    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }

    fn collectives(&self) -> &dyn Collectives {
        &SimCollectives
    }
}
