//! A backend written on the suites' own definitions: slow, complete, and breakable on purpose.

use sharding_core::backend::{
    Backend, BackendDef, Collectives, Exchange, HeldBytes, HostMemory, InProcess, LocalArray, LocalArrays,
    LocalMeta, MemoryLedger, MemoryUse, Move, Positions, Primitive, Step, Storage, Support, Work,
};
use sharding_core::conformance::host::{HostArray, unravel};
use sharding_core::conformance::naive;
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Error, ErrorKind, Result, Scalar, Shape};
use std::any::Any;
use std::sync::Arc;

/// The kind of the sound one.
pub const NAIVE: BackendKind = BackendKind::new("naive");

inventory::submit! {
    BackendDef { kind: NAIVE, open: || Ok(Arc::new(Naive { kind: NAIVE, fault: Fault::None })), at: (file!(), line!()) }
}

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Reads ignore strides.
    ReadIgnoresStrides,
    /// A write to a shared storage reaches the other holders.
    CopyWritesThrough,
    /// Empty reductions give 0 for every op.
    EmptyReduceIsZero,
    /// An index out of range wraps round.
    GatherWraps,
    /// Reductions go from left to right.
    LinearTree,
    /// The results of max are those of sum.
    MaxIsSum,
    /// It says Yes to what it cannot do.
    Dishonest,
    /// It says No to what it can do.
    Modest,
    /// The copy of a shared storage counts no bytes.
    CopiesUncounted,
    /// The peak never goes down.
    PeakStays,
}

pub struct Naive {
    pub kind: BackendKind,
    pub fault: Fault,
}

static LEDGER: MemoryLedger = MemoryLedger::new();

struct Bytes {
    device: Device,
    bytes: Vec<u8>,
    _held: HeldBytes,
}

impl Storage for Bytes {
    fn device(&self) -> Device {
        self.device
    }
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Naive {
    fn bytes<'a>(&self, array: &'a LocalArray) -> &'a [u8] {
        &array.storage().as_any().downcast_ref::<Bytes>().unwrap().bytes
    }

    fn host(&self, array: &LocalArray) -> HostArray {
        let mut bytes = vec![0; array.bytes()];
        self.read(array, &mut bytes).unwrap();
        let values = sharding_core::conformance::host::scalars(array.dtype(), &bytes);
        HostArray { dtype: array.dtype(), shape: array.shape().clone(), values }
    }

    /// Writes elements at indices of an array, whose storage is copied first where it is shared.
    fn put(&self, into: &mut LocalArray, elements: &[(Vec<usize>, Scalar)]) -> Result<()> {
        let meta = into.meta().clone();
        if Arc::get_mut(into.storage_mut()).is_none() && self.fault != Fault::CopyWritesThrough {
            let (device, bytes) = (into.device(), self.bytes(into).to_vec());
            let counted = if self.fault == Fault::CopiesUncounted { 0 } else { bytes.len() };
            let copy = Bytes { device, bytes, _held: LEDGER.hold(device, counted) };
            *into.storage_mut() = Arc::new(copy);
        }
        let size = meta.dtype.size();
        let Some(storage) = Arc::get_mut(into.storage_mut()) else {
            return Ok(()); // the fault: the write is lost
        };
        let bytes = &mut storage.as_any_mut().downcast_mut::<Bytes>().unwrap().bytes;
        for (index, value) in elements {
            let at: isize = index.iter().zip(&meta.strides).map(|(i, stride)| *i as isize * stride).sum();
            let at = (meta.offset as isize + at) as usize * size;
            let Some(slot) = bytes.get_mut(at..at + size) else {
                return Err(Error::new(ErrorKind::Backend, format!("{index:?} is outside {meta:?}")));
            };
            slot.copy_from_slice(&value.to_bytes(meta.dtype).unwrap());
        }
        Ok(())
    }

    fn run(&self, primitive: &Primitive, inputs: &[&LocalArray], output: &LocalArray) -> Result<HostArray> {
        let host: Vec<HostArray> = inputs.iter().map(|x| self.host(x)).collect();
        let mut host: Vec<HostArray> = host;
        if let (Fault::GatherWraps, Primitive::Gather(gather)) = (self.fault, primitive) {
            for value in &mut host[1].values {
                *value = Scalar::Int((value.as_f64() as i64).rem_euclid(gather.bound.max(1)));
            }
        }
        let mut primitive = primitive.clone();
        if let (Fault::MaxIsSum, Primitive::Reduce(reduce)) = (self.fault, &mut primitive) {
            reduce.op = sharding_core::ReduceOp::Sum;
        }
        let refs: Vec<&HostArray> = host.iter().collect();
        let mut made = naive::primitive(&primitive, &refs, output.dtype(), output.shape())?;
        if let (Fault::EmptyReduceIsZero, Primitive::Reduce(_)) = (self.fault, &primitive)
            && host[0].values.is_empty()
        {
            let zero = sharding_core::ReduceOp::Sum.identity(made.dtype);
            made.values.fill(zero);
        }
        Ok(made)
    }
}

fn no(what: &Primitive) -> Error {
    Error::new(ErrorKind::Backend, format!("the naive backend does not run {what:?} on these dtypes"))
}

impl Backend for Naive {
    fn kind(&self) -> BackendKind {
        self.kind
    }
    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device::new(self.kind, 0)])
    }
    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        Ok((0..mesh.num_devices()).collect())
    }
    fn shares_memory(&self, _: Device, _: Device) -> bool {
        true
    }
    fn supports(&self, primitive: &Primitive, inputs: &[LocalMeta]) -> Support {
        // Run on ones: the definitions say which dtypes they have.
        let ones: Vec<HostArray> = inputs
            .iter()
            .map(|meta| {
                let one = if meta.dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(1) };
                let one = if meta.dtype.is_float() { Scalar::Float(1.0) } else { one };
                HostArray::filled(meta.dtype, &Shape::from(vec![1; meta.shape.len()]), one)
            })
            .collect();
        let refs: Vec<&HostArray> = ones.iter().collect();
        let known = match primitive {
            Primitive::Map(_) => {
                let ndim = inputs.iter().map(|meta| meta.shape.len()).max().unwrap_or(0);
                naive::primitive(primitive, &refs, DType::F32, &Shape::from(vec![1; ndim])).is_ok()
            }
            Primitive::Fused(_) => inputs.iter().all(|meta| meta.dtype.is_float()),
            Primitive::Random(_) => naive::is_defined(primitive, &[]),
            _ => true,
        };
        match self.fault {
            Fault::Dishonest => Support::Yes,
            Fault::Modest if matches!(primitive, Primitive::Dot) => Support::No("it is modest".to_owned()),
            _ if known => Support::Yes,
            _ => Support::No("the dtype has no such function".to_owned()),
        }
    }
    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        let (mut bytes, size) = (Vec::new(), shape.elements() * dtype.size());
        if bytes.try_reserve_exact(size).is_err() {
            return Err(Error::new(ErrorKind::Backend, format!("no memory for {size} bytes")));
        }
        bytes.resize(size, 0xAA);
        let meta = LocalMeta::contiguous(dtype, shape.clone());
        Ok(LocalArray::new(meta, Arc::new(Bytes { device, _held: LEDGER.hold(device, bytes.len()), bytes })))
    }
    fn write(&self, bytes: &[u8], into: &mut LocalArray) -> Result<()> {
        let values = sharding_core::conformance::host::scalars(into.dtype(), bytes);
        let shape = into.shape().clone();
        let elements: Vec<_> =
            values.into_iter().enumerate().map(|(flat, value)| (unravel(&shape, flat), value)).collect();
        self.put(into, &elements)
    }
    fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()> {
        let (meta, all, size) = (array.meta(), self.bytes(array), array.dtype().size());
        for (flat, element) in into.chunks_exact_mut(size).enumerate() {
            let index = unravel(&meta.shape, flat);
            let step: isize = index.iter().zip(&meta.strides).map(|(i, stride)| *i as isize * stride).sum();
            let step = if self.fault == Fault::ReadIgnoresStrides { flat as isize } else { step };
            let at = (meta.offset as isize + step) as usize * size;
            element.copy_from_slice(all.get(at..at + size).unwrap_or(&[0; 8][..size]));
        }
        Ok(())
    }
    fn adopt(&self, _: Device, _: &Arc<dyn HostMemory>, _: &LocalMeta) -> Result<Option<LocalArray>> {
        Ok(None)
    }
    fn peek<'a>(&self, _: &'a LocalArray) -> Result<Option<&'a [u8]>> {
        Ok(None)
    }
    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
        for one in moves {
            let mut elements = Vec::new();
            for (source, start) in one.pieces {
                let host = self.host(source);
                for (flat, value) in host.values.iter().enumerate() {
                    let index = unravel(&host.shape, flat);
                    elements.push((index.iter().zip(start).map(|(i, start)| i + start).collect(), *value));
                }
            }
            self.put(one.into, &elements)?;
        }
        Ok(())
    }
    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        for one in work {
            let metas: Vec<LocalMeta> = one.inputs.iter().map(|x| x.meta().clone()).collect();
            if !matches!(self.fault, Fault::Dishonest | Fault::Modest)
                && !Backend::supports(self, primitive, &metas).is_yes()
            {
                return Err(no(primitive).with_op(one.op));
            }
            for output in one.outputs.iter_mut() {
                let made = self.run(primitive, one.inputs, output).map_err(|error| error.with_op(one.op))?;
                self.write(&made.to_bytes(), output)?;
            }
        }
        Ok(())
    }
    fn memory(&self, device: Device) -> Result<MemoryUse> {
        Ok(LEDGER.of(device))
    }
    fn reset_peak_memory(&self, device: Device) -> Result<()> {
        if self.fault != Fault::PeakStays {
            LEDGER.reset_peak(device);
        }
        Ok(())
    }
    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }
    fn collectives(&self) -> &dyn Collectives {
        self
    }
}

impl Collectives for Naive {
    fn supports(&self, _: &Step) -> Support {
        Support::Yes
    }
    fn run(&self, _: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        let host: Vec<HostArray> = shards.iter().map(|shard| self.host(shard)).collect();
        let mut made = naive::step(step, &host)?;
        if let (Fault::LinearTree, Some(op)) = (self.fault, step.kind.reduce_op()) {
            for (position, shard) in made.iter_mut().enumerate() {
                let group = step.source.mesh().group(position, &step.axes);
                let mut sum = host[group[0]].clone();
                for member in &group[1..] {
                    sum.combine(op, &host[*member]);
                    let rounded = sum.to_bytes();
                    sum.values = sharding_core::conformance::host::scalars(sum.dtype, &rounded);
                }
                if sum.shape == shard.shape {
                    *shard = sum;
                }
            }
        }
        made.iter().zip(step.target.mesh().devices()).map(|(shard, device)| shard.put(self, device)).collect()
    }
    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        InProcess(self).exchange(op, exchange, shards)
    }
}
