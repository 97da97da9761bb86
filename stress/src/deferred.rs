//! A backend of the kind `deferred`: calls return at once, each device works on its own thread and finishes when it likes,
//! and failures come back late. It computes on the CPU backend.
//!
//! This is what a GPU backend looks like from above; the contract of `sharding_core::backend` says what callers see.

use sharding_core::backend::{
    Backend, BackendDef, Collectives, Exchange, HeldBytes, HostMemory, InProcess, LocalArray, LocalArrays,
    LocalMeta, MemoryLedger, MemoryUse, Move, Positions, Primitive, Step, Storage, Support, Work, backend_of,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Error, ErrorKind, Result, Scope, Shape};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The kind of these devices.
pub const KIND: BackendKind = BackendKind::new("deferred");

/// Two devices may be used, as two ordinals or as slots.
#[derive(Default)]
pub struct Deferred {
    queues: Mutex<HashMap<Device, Sender<Job>>>,
    late: Arc<Mutex<HashMap<Device, (String, String)>>>,
    log: Arc<Mutex<Vec<(Device, &'static str)>>>,
    fail: Mutex<Option<&'static str>>,
    most: Mutex<HashMap<&'static str, usize>>,
}

/// Bytes count here from when they are asked for; what the CPU backend counts for them comes later.
static LEDGER: MemoryLedger = MemoryLedger::new();

type Job = Box<dyn FnOnce() + Send>;
type Made = std::result::Result<LocalArray, String>;

/// An array that is made at some time.
struct Cell {
    device: Device,
    held: HeldBytes,
    /// Whether somebody is going to make it: else its values are not defined.
    claimed: AtomicBool,
    made: Mutex<Option<Made>>,
    ready: Condvar,
}

impl Storage for Cell {
    fn device(&self) -> Device {
        self.device
    }
    fn bytes(&self) -> usize {
        self.held.bytes()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Cell {
    fn set(&self, made: Made) {
        self.claimed.store(true, Ordering::Release);
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        self.ready.notify_all();
    }
    fn wait(&self) -> Made {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*made {
                Some(made) => return made.clone(),
                None => made = self.ready.wait(made).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

fn cell(array: &LocalArray) -> Option<&Cell> {
    array.storage().as_any().downcast_ref()
}

/// The CPU array behind a view, once it is made.
fn made(array: &LocalArray) -> Made {
    let whole = cell(array).ok_or("an array of another backend")?.wait()?;
    Ok(LocalArray::new(array.meta().clone(), whole.storage().clone()))
}

fn cpu() -> Result<&'static Arc<dyn Backend>> {
    backend_of(BackendKind::CPU)
}

impl Deferred {
    /// What has been done, in the order in which it finished: device and op.
    pub fn log(&self) -> Vec<(Device, &'static str)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// The most devices that one launch on behalf of `op` was for.
    pub fn most_devices(&self, op: &str) -> usize {
        self.most.lock().unwrap_or_else(PoisonError::into_inner).get(op).copied().unwrap_or(0)
    }
    /// Lets the next launch on behalf of `op` fail, late.
    pub fn fail_next(&self, op: &'static str) {
        *self.fail.lock().unwrap_or_else(PoisonError::into_inner) = Some(op);
    }

    fn array(&self, device: Device, dtype: DType, shape: &Shape) -> LocalArray {
        let meta = LocalMeta::contiguous(dtype, shape.clone());
        let bytes = shape.elements() * dtype.size();
        LocalArray::new(
            meta,
            Arc::new(Cell {
                device,
                held: LEDGER.hold(device, bytes),
                claimed: AtomicBool::new(false),
                made: Mutex::new(None),
                ready: Condvar::new(),
            }),
        )
    }

    /// The late failure of a device, once.
    fn due(&self, device: Device) -> Result<()> {
        match self.late.lock().unwrap_or_else(PoisonError::into_inner).remove(&device) {
            Some((op, message)) => {
                Err(Error::new(ErrorKind::Backend, format!("{op} failed on {device}: {message}")).with_op(op))
            }
            None => Ok(()),
        }
    }

    /// Queues the making of `output` on its device.
    fn later(
        &self,
        op: &'static str,
        output: &LocalArray,
        work: impl FnOnce() -> Made + Send + 'static,
    ) -> Result<()> {
        let device = output.device();
        let storage = output.storage().clone();
        if let Some(cell) = cell(output) {
            cell.claimed.store(true, Ordering::Release);
        }
        let (late, log) = (self.late.clone(), self.log.clone());
        let fail = {
            let mut fail = self.fail.lock().unwrap_or_else(PoisonError::into_inner);
            if *fail == Some(op) { fail.take() } else { None }
        };
        let job: Job = Box::new(move || {
            // Devices drift apart: the second one is slower.
            thread::sleep(Duration::from_micros(if device.slot == 0 && device.ordinal == 0 {
                300
            } else {
                20
            }));
            let made = if fail.is_some() { Err("the device fell off the bus".to_owned()) } else { work() };
            if let Err(message) = &made {
                late.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(device)
                    .or_insert((op.to_owned(), message.clone()));
            }
            log.lock().unwrap_or_else(PoisonError::into_inner).push((device, op));
            if let Some(cell) = storage.as_any().downcast_ref::<Cell>() {
                cell.set(made);
            }
        });
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.entry(device).or_insert_with(|| {
            let (sender, receiver) = channel::<Job>();
            thread::spawn(move || receiver.into_iter().for_each(|job| job()));
            sender
        });
        queue.send(job).map_err(|_| Error::new(ErrorKind::Backend, format!("the thread of {device} is gone")))
    }
}

impl Backend for Deferred {
    fn kind(&self) -> BackendKind {
        KIND
    }
    fn devices(&self) -> Result<Vec<Device>> {
        Ok(vec![Device::new(KIND, 0), Device::new(KIND, 1)])
    }
    fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
        let process = Scope::current().process();
        Ok((0..mesh.num_devices())
            .filter(|p| mesh.device(*p).is_some_and(|device| device.process == process))
            .collect())
    }
    fn shares_memory(&self, a: Device, b: Device) -> bool {
        a == b
    }
    fn supports(&self, primitive: &Primitive, inputs: &[LocalMeta]) -> Support {
        match cpu() {
            Ok(cpu) => cpu.supports(primitive, inputs),
            Err(error) => Support::No(error.to_string()),
        }
    }
    fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
        Ok(self.array(device, dtype, shape))
    }
    fn write(&self, bytes: &[u8], into: &mut LocalArray) -> Result<()> {
        self.due(into.device())?;
        let mut array = cpu()?.alloc(into.device(), into.dtype(), into.shape())?;
        cpu()?.write(bytes, &mut array)?;
        let fresh = self.array(into.device(), into.dtype(), into.shape());
        if let Some(cell) = cell(&fresh) {
            cell.set(Ok(array));
        }
        *into = fresh;
        Ok(())
    }
    fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()> {
        let array = match made(array) {
            Ok(array) => array,
            Err(message) => {
                self.due(array.device())?;
                return Err(Error::new(ErrorKind::Backend, format!("the array was never made: {message}")));
            }
        };
        self.due(array.device())?;
        cpu()?.read(&array, into)
    }
    fn adopt(&self, _: Device, _: &Arc<dyn HostMemory>, _: &LocalMeta) -> Result<Option<LocalArray>> {
        Ok(None)
    }
    fn peek<'a>(&self, _: &'a LocalArray) -> Result<Option<&'a [u8]>> {
        Ok(None)
    }
    fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
        for step in moves {
            self.due(step.into.device())?;
            let old = step.into.clone();
            let pieces: Vec<_> = step.pieces.to_vec();
            let op = step.op;
            // The target may be a view: the new cell stands for its whole storage.
            let whole = self.array(old.device(), old.dtype(), old.shape());
            let fresh = LocalArray::new(old.meta().clone(), whole.storage().clone());
            // A target that nobody makes has no values to keep.
            let known = cell(&old).is_some_and(|cell| cell.claimed.load(Ordering::Acquire));
            self.later(op, &fresh, move || {
                let cpu = cpu().map_err(|error| error.to_string())?;
                let mut target = match known {
                    true => made(&old)?,
                    false => cpu
                        .alloc(old.device(), old.dtype(), old.shape())
                        .map_err(|error| error.to_string())?,
                };
                let pieces = pieces
                    .iter()
                    .map(|(view, at)| Ok((made(view)?, at.clone())))
                    .collect::<std::result::Result<Vec<_>, String>>()?;
                cpu.copy(&mut [Move { op, pieces: &pieces, into: &mut target }])
                    .map_err(|error| error.to_string())?;
                Ok(target)
            })?;
            *step.into = fresh;
        }
        Ok(())
    }
    fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
        if let Some(first) = work.first() {
            let mut all = self.most.lock().unwrap_or_else(PoisonError::into_inner);
            let most = all.entry(first.op).or_default();
            *most = work.len().max(*most);
        }
        for part in work {
            self.due(part.device)?;
            // What cannot run at all is said at once.
            let metas: Vec<LocalMeta> = part.inputs.iter().map(|input| input.meta().clone()).collect();
            if let Support::No(reason) = Backend::supports(self, primitive, &metas) {
                return Err(Error::new(ErrorKind::Backend, reason).with_op(part.op));
            }
            let inputs: Vec<LocalArray> = part.inputs.iter().map(|input| (*input).clone()).collect();
            for output in part.outputs.iter() {
                let (op, device, primitive, inputs) =
                    (part.op, part.device, primitive.clone(), inputs.clone());
                let (dtype, shape) = (output.dtype(), output.shape().clone());
                self.later(op, output, move || {
                    let inputs = inputs.iter().map(made).collect::<std::result::Result<Vec<_>, String>>()?;
                    let inputs: Vec<&LocalArray> = inputs.iter().collect();
                    let run = || -> Result<LocalArray> {
                        let mut outputs = [cpu()?.alloc(device, dtype, &shape)?];
                        cpu()?.launch(
                            &primitive,
                            &mut [Work { op, device, inputs: &inputs, outputs: &mut outputs }],
                        )?;
                        let [output] = outputs;
                        Ok(output)
                    };
                    run().map_err(|error| error.to_string())
                })?;
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
    fn synchronize(&self, device: Device) -> Result<()> {
        let marker = self.array(device, DType::Bool, &Shape::from([0]));
        let empty = cpu()?.alloc(device, DType::Bool, &Shape::from([0]))?;
        self.later("synchronize", &marker, move || Ok(empty))?;
        if let Some(cell) = cell(&marker) {
            // Only the waiting counts; what failed before is told by `due`.
            let _ = cell.wait();
        }
        self.due(device)
    }
    fn collectives(&self) -> &dyn Collectives {
        self
    }
}

impl Collectives for Deferred {
    fn supports(&self, step: &Step) -> Support {
        InProcess(self).supports(step)
    }
    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        InProcess(self).run(op, step, shards)
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

/// The one backend of this kind.
pub fn backend() -> Arc<Deferred> {
    static BACKEND: std::sync::OnceLock<Arc<Deferred>> = std::sync::OnceLock::new();
    BACKEND.get_or_init(Arc::default).clone()
}

inventory::submit! { BackendDef { kind: KIND, open: || Ok(backend()), at: (file!(), line!()) } }
