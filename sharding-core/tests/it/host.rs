//! Three backends of plain vectors, for tests: `host`, whose slots share memory, `apart`, of whose slots only three
//! neighbours do, and `alone`, of whose slots no two do. The bytes that live on each slot are counted.

use sharding_core::backend::{
    Backend, BackendDef, BinaryOp, Collectives, HeldBytes, HostMemory, InProcess, LocalArray, LocalMeta,
    MemoryLedger, MemoryUse, Move, Node, Positions, Primitive, Step, Storage, Support, Work,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Error, ErrorKind, Result, Scalar, Shape};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const HOST: BackendKind = BackendKind::new("host");
pub(crate) const APART: BackendKind = BackendKind::new("apart");
pub(crate) const ALONE: BackendKind = BackendKind::new("alone");

inventory::submit! { BackendDef { kind: HOST, open: || Ok(Arc::new(Host(HOST))), at: (file!(), line!()) } }
inventory::submit! { BackendDef { kind: ALONE, open: || Ok(Arc::new(Host(ALONE))), at: (file!(), line!()) } }
inventory::submit! { BackendDef { kind: APART, open: || Ok(Arc::new(Host(APART))), at: (file!(), line!()) } }

struct Host(BackendKind);

static LEDGER: MemoryLedger = MemoryLedger::new();

struct Bytes {
    device: Device,
    bytes: Vec<u8>,
    _held: HeldBytes,
}

thread_local! {
    /// Live bytes and their peak, per slot: of this thread, where the ledger counts all tests that run.
    static LIVE: RefCell<BTreeMap<u32, (usize, usize)>> = const { RefCell::new(BTreeMap::new()) };
}

impl Bytes {
    fn new(device: Device, bytes: Vec<u8>) -> Self {
        LIVE.with_borrow_mut(|live| {
            let (now, peak) = live.entry(device.slot).or_default();
            *now += bytes.len();
            *peak = (*peak).max(*now);
        });
        Self { device, _held: LEDGER.hold(device, bytes.len()), bytes }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // At the end of a thread the counts may be gone already.
        let _ = LIVE.try_with(|live| {
            if let Some((now, _)) = live.borrow_mut().get_mut(&self.device.slot) {
                *now -= self.bytes.len();
            }
        });
    }
}

/// The most bytes that lived on a slot of this thread while `f` ran.
pub(crate) fn peak<T>(slot: u32, f: impl FnOnce() -> T) -> (T, usize) {
    LIVE.with_borrow_mut(|live| live.values_mut().for_each(|(now, peak)| *peak = *now));
    let value = f();
    (value, LIVE.with_borrow(|live| live.get(&slot).map_or(0, |(_, peak)| *peak)))
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

fn bytes(array: &LocalArray) -> &Bytes {
    array.storage().as_any().downcast_ref().unwrap()
}

/// The storage for writing, copied first where others hold it.
fn bytes_mut(array: &mut LocalArray) -> &mut Vec<u8> {
    if Arc::get_mut(array.storage_mut()).is_none() {
        let Bytes { device, bytes, .. } = bytes(array);
        let copy: Arc<dyn Storage> = Arc::new(Bytes::new(*device, bytes.clone()));
        *array.storage_mut() = copy;
    }
    let storage = Arc::get_mut(array.storage_mut()).unwrap();
    &mut storage.as_any_mut().downcast_mut::<Bytes>().unwrap().bytes
}

/// Where the elements lie in the storage, in row-major order.
fn places(meta: &LocalMeta) -> Vec<usize> {
    let mut places = vec![meta.offset as isize];
    for (extent, stride) in meta.shape.iter().zip(&meta.strides) {
        places =
            places.iter().flat_map(|place| (0..*extent).map(move |i| place + i as isize * stride)).collect();
    }
    places.into_iter().map(|place| usize::try_from(place).unwrap()).collect()
}

#[derive(Clone, Copy)]
enum Value {
    Float(f32),
    Int(i64),
    Bool(bool),
}

fn load(dtype: DType, bytes: &[u8]) -> Value {
    match dtype {
        DType::F32 => Value::Float(f32::from_ne_bytes(bytes.try_into().unwrap())),
        DType::I64 => Value::Int(i64::from_ne_bytes(bytes.try_into().unwrap())),
        _ => Value::Bool(bytes[0] != 0),
    }
}

fn store(value: Value) -> Vec<u8> {
    match value {
        Value::Float(value) => value.to_ne_bytes().to_vec(),
        Value::Int(value) => value.to_ne_bytes().to_vec(),
        Value::Bool(value) => vec![u8::from(value)],
    }
}

fn binary(op: BinaryOp, a: Value, b: Value) -> Value {
    use BinaryOp::{Add, And, Max, Min, Mul, Or};
    match (op, a, b) {
        (Add, Value::Float(a), Value::Float(b)) => Value::Float(a + b),
        (Mul, Value::Float(a), Value::Float(b)) => Value::Float(a * b),
        (Max, Value::Float(a), Value::Float(b)) => Value::Float(a.max(b)),
        (Min, Value::Float(a), Value::Float(b)) => Value::Float(a.min(b)),
        (Add, Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_add(b)),
        (Mul, Value::Int(a), Value::Int(b)) => Value::Int(a.wrapping_mul(b)),
        (Max, Value::Int(a), Value::Int(b)) => Value::Int(a.max(b)),
        (Min, Value::Int(a), Value::Int(b)) => Value::Int(a.min(b)),
        (Or, Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
        (And, Value::Bool(a), Value::Bool(b)) => Value::Bool(a && b),
        other => panic!("the test backend has no {:?}", other.0),
    }
}

fn constant(value: Scalar, dtype: DType) -> Value {
    load(dtype, &value.to_bytes(dtype).unwrap())
}

impl Backend for Host {
    fn kind(&self) -> BackendKind {
        self.0
    }
    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device::new(self.0, 0)])
    }
    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        Ok((0..mesh.num_devices()).collect())
    }
    fn shares_memory(&self, a: Device, b: Device) -> bool {
        self.0 == HOST || a.slot == b.slot || (self.0 == APART && a.slot / 3 == b.slot / 3)
    }
    fn supports(&self, primitive: &Primitive, _: &[LocalMeta]) -> Support {
        match primitive {
            Primitive::Map(_) => Support::Yes,
            other => Support::No(format!("{other:?} is not needed here")),
        }
    }
    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        // Not zero, so that what nobody wrote is seen.
        let bytes = vec![0xa5; shape.elements() * dtype.size()];
        Ok(LocalArray::new(LocalMeta::contiguous(dtype, shape.clone()), Arc::new(Bytes::new(device, bytes))))
    }
    fn write(&self, from: &[u8], into: &mut LocalArray) -> Result<()> {
        bytes_mut(into).copy_from_slice(from);
        Ok(())
    }
    fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()> {
        let size = array.dtype().size();
        let all = &bytes(array).bytes;
        for (slot, place) in into.chunks_exact_mut(size).zip(places(array.meta())) {
            slot.copy_from_slice(&all[place * size..][..size]);
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
        for step in moves {
            for (piece, start) in step.pieces {
                let size = piece.dtype().size();
                let mut to = step.into.meta().clone();
                let strides = to.strides.clone();
                to.shape = piece.shape().clone();
                to.offset +=
                    start.iter().zip(&strides).map(|(i, stride)| i * *stride as usize).sum::<usize>();
                let target = bytes_mut(step.into);
                for (from, to) in places(piece.meta()).into_iter().zip(places(&to)) {
                    target[to * size..][..size].copy_from_slice(&bytes(piece).bytes[from * size..][..size]);
                }
            }
        }
        Ok(())
    }
    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        let Primitive::Map(expr) = primitive else {
            return Err(Error::new(ErrorKind::Backend, "only maps"));
        };
        for job in work {
            let [output] = job.outputs else { panic!("a map has one output") };
            for input in job.inputs {
                assert!(self.shares_memory(input.device(), job.device), "an input lies on another device");
            }
            let views: Vec<LocalArray> =
                job.inputs.iter().map(|input| input.broadcast_to(output.shape()).unwrap()).collect();
            let at: Vec<Vec<usize>> = views.iter().map(|view| places(view.meta())).collect();
            let (dtype, n) = (output.dtype(), output.elements());
            let size = dtype.size();
            let target = bytes_mut(output);
            for i in 0..n {
                let mut known: Vec<Value> = Vec::new();
                for node in expr.nodes() {
                    known.push(match *node {
                        Node::Input(k) => {
                            let view = &views[usize::from(k)];
                            let place = at[usize::from(k)][i] * view.dtype().size();
                            load(view.dtype(), &bytes(view).bytes[place..][..view.dtype().size()])
                        }
                        Node::Const(value, dtype) => constant(value, dtype),
                        Node::Binary(op, a, b) => binary(op, known[usize::from(a)], known[usize::from(b)]),
                        other => panic!("the test backend has no {other:?}"),
                    });
                }
                target[i * size..][..size].copy_from_slice(&store(*known.last().unwrap()));
            }
        }
        Ok(())
    }
    fn memory(&self, device: Device) -> Result<MemoryUse> {
        Ok(LEDGER.of(device))
    }
    fn reset_peak_memory(&self, device: Device) -> Result<()> {
        LEDGER.reset_peak(device);
        Ok(())
    }
    fn synchronize(&self, _: Device) -> Result<()> {
        Ok(())
    }
    fn collectives(&self) -> &dyn Collectives {
        self
    }
}

impl Collectives for Host {
    fn supports(&self, step: &Step) -> Support {
        InProcess(self).supports(step)
    }
    fn run(
        &self,
        op: &'static str,
        step: &Step,
        shards: sharding_core::backend::LocalArrays,
    ) -> Result<sharding_core::backend::LocalArrays> {
        InProcess(self).run(op, step, shards)
    }
    fn exchange(
        &self,
        op: &'static str,
        exchange: &sharding_core::backend::Exchange<'_>,
        shards: &[sharding_core::backend::LocalArrays],
    ) -> Result<sharding_core::backend::LocalArrays> {
        InProcess(self).exchange(op, exchange, shards)
    }
}
