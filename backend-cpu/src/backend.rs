//! The contract's methods, each handed to the file of its subject.

use crate::{collective, copy, device, dot, fused, gather, iota, map, memory, random, reduce, storage};
use sharding_core::backend::{
    Backend, Collectives, HostMemory, LocalArray, LocalMeta, MemoryUse, Move, Positions, Primitive, Support,
    Work,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Result, Shape};
use std::sync::Arc;

/// The backend of the device kind `cpu`. It has no state: all work is done when a call returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

impl Backend for CpuBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::CPU
    }

    fn devices(&self) -> Result<Vec<Device>> {
        Ok(device::probe())
    }

    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        device::positions(mesh)
    }

    fn shares_memory(&self, a: Device, b: Device) -> bool {
        a.same_ordinal(b)
    }

    fn supports(&self, primitive: &Primitive, inputs: &[LocalMeta]) -> Support {
        match primitive {
            Primitive::Map(expr) => map::supports(expr, inputs),
            Primitive::Reduce(reduce) => reduce::supports(reduce, inputs),
            Primitive::Dot => dot::supports(inputs),
            Primitive::Gather(gather) => gather::supports(gather, inputs),
            Primitive::Copy(map) => copy::supports(map, inputs),
            Primitive::Iota(iota) => iota::supports(iota),
            Primitive::Random(random) => random::supports(random),
            Primitive::Fused(op) => fused::supports(op, inputs),
            other => Support::No(format!("the cpu backend does not know {other:?}")),
        }
    }

    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        storage::alloc(device, dtype, shape)
    }

    fn write(&self, bytes: &[u8], into: &mut LocalArray) -> Result<()> {
        storage::write(bytes, into)
    }

    fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()> {
        storage::read(array, into)
    }

    fn adopt(
        &self,
        device: Device,
        memory: &Arc<dyn HostMemory>,
        meta: &LocalMeta,
    ) -> Result<Option<LocalArray>> {
        storage::adopt(device, memory, meta)
    }

    fn peek<'a>(&self, array: &'a LocalArray) -> Result<Option<&'a [u8]>> {
        storage::peek(array).map(Some)
    }

    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
        collective::regions(moves)
    }

    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        match work {
            [one] => launch(primitive, one, 1),
            _ => several(primitive, work),
        }
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
        &collective::COLLECTIVES
    }
}

/// Runs the work of several devices; what is too small to be shared by threads device beside device.
fn several(primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
    if let Some(outcome) = dot::together::run(primitive, work) {
        return outcome;
    }
    if collective::sum::together(primitive, work)? {
        return Ok(());
    }
    let alike = work.len();
    let run = |work: &mut Work<'_>| launch(primitive, work, alike);
    let outputs = || work.iter().flat_map(|work| work.outputs.iter());
    if let Primitive::Map(expr) = primitive
        && map::are_tasks(expr, outputs())
    {
        return device::try_chunks(work, 1, |_, work| work.iter_mut().try_for_each(run));
    }
    work.iter_mut().try_for_each(run)
}

/// Runs the work of one device, of so many for which the primitive is launched.
fn launch(primitive: &Primitive, work: &mut Work<'_>, alike: usize) -> Result<()> {
    run(primitive, work, alike).map_err(|error| error.with_op(work.op))
}

fn run(primitive: &Primitive, work: &mut Work<'_>, alike: usize) -> Result<()> {
    let misfit = |inputs: usize, outputs: usize| {
        storage::internal(format!("{primitive:?} is launched with {inputs} inputs and {outputs} outputs"))
    };
    let (inputs, outputs) = (work.inputs, work.outputs.len());
    let [out] = &mut *work.outputs else { return Err(misfit(inputs.len(), outputs)) };
    match (primitive, inputs) {
        (Primitive::Map(expr), _) => map::run(expr, inputs, out, alike),
        (Primitive::Reduce(reduce), [x]) => reduce::run(reduce, x, out),
        (Primitive::Dot, [a, b]) => dot::run(a, b, out),
        (Primitive::Gather(gather), [table, indices]) => gather::run(gather, table, indices, out),
        (Primitive::Copy(map), _) => copy::run(map, inputs, out),
        (Primitive::Iota(iota), []) => iota::run(iota, out),
        (Primitive::Random(random), []) => random::run(random, out),
        (Primitive::Fused(op), _) => fused::run(op, inputs, out),
        _ => Err(misfit(inputs.len(), outputs)),
    }
}
