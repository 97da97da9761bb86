//! A backend of the kind `pretend`: several threads of one program play the processes of a mesh that spans them. Each runs
//! the same program on its own shards; collectives meet at a rendezvous, where what one process says is compared with
//! what the others say.

use sharding_core::backend::{
    Backend, BackendDef, Collectives, Exchange, HostMemory, InProcess, LocalArray, LocalArrays, LocalMeta,
    MemoryUse, Move, Positions, Primitive, Step, Support, Work, backend_of,
};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Error, ErrorKind, Result, Scope, Shape};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The kind of these devices.
pub const KIND: BackendKind = BackendKind::new("pretend");

/// How long a process waits for the others before it calls them lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// One process's view: the devices whose process is that of the scope in force.
struct Pretend;

/// The whole mesh at once, for the one who runs a collective when all have come.
struct Whole;

/// What the processes bring to one collective.
#[derive(Default)]
struct Meeting {
    said: BTreeMap<u32, String>,
    brought: BTreeMap<usize, LocalArrays>,
    outcome: Option<std::result::Result<LocalArrays, String>>,
    left: usize,
}

/// Meetings by number: every process counts its collectives.
#[derive(Default)]
struct Rendezvous {
    meetings: Mutex<BTreeMap<u64, Meeting>>,
    changed: Condvar,
}

static RENDEZVOUS: Rendezvous = Rendezvous { meetings: Mutex::new(BTreeMap::new()), changed: Condvar::new() };

thread_local! {
    static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Starts the count of this process's collectives at a number that no other program in this process uses.
pub fn begin(program: u64) {
    COUNT.set(program << 32);
}

fn processes(mesh: &DeviceMesh) -> Vec<u32> {
    let mut all: Vec<u32> = mesh.devices().map(|device| device.process).collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl Collectives for Pretend {
    fn supports(&self, step: &Step) -> Support {
        InProcess(&Whole).supports(step)
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        let brought = shards.into_iter().map(|shard| LocalArrays::from_elem(shard, 1)).collect();
        self.meet(op, step, (step.source.mesh(), step.target.mesh()), brought, |whole| {
            InProcess(&Whole).run(op, step, whole.into_iter().flatten().collect())
        })
    }

    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        let mesh = exchange.result.mesh();
        let at = |i: usize| shards.iter().filter_map(|shards| shards.get(i).cloned()).collect();
        let brought = (0..self.positions(mesh)?.len()).map(at).collect();
        self.meet(op, exchange, (mesh, mesh), brought, |whole: Vec<LocalArrays>| {
            let operand = |k: usize| whole.iter().filter_map(|shards| shards.get(k).cloned()).collect();
            let shards: Vec<LocalArrays> = (0..exchange.operands.len()).map(operand).collect();
            InProcess(&Whole).exchange(op, exchange, &shards)
        })
    }
}

impl Pretend {
    /// All processes of a mesh bring what they hold at each of their positions; the last to come runs, and each takes its part.
    fn meet(
        &self,
        op: &'static str,
        what: &dyn fmt::Display,
        (mesh, target): (&DeviceMesh, &DeviceMesh),
        brought: Vec<LocalArrays>,
        run: impl FnOnce(Vec<LocalArrays>) -> Result<LocalArrays>,
    ) -> Result<LocalArrays> {
        let all = processes(mesh);
        let me = Scope::current().process();
        let number = COUNT.replace(COUNT.get() + 1);
        let positions = self.positions(mesh)?;
        let mut meetings = RENDEZVOUS.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = meetings.entry(number).or_default();
        meeting.said.insert(me, format!("{op}: {what}"));
        meeting.brought.extend(positions.iter().copied().zip(brought));
        if meeting.said.len() == all.len() {
            let first = meeting.said.values().next().cloned().unwrap_or_default();
            let agreed = meeting.said.values().all(|said| *said == first);
            let whole: Vec<LocalArrays> = std::mem::take(&mut meeting.brought).into_values().collect();
            meeting.outcome = Some(if agreed {
                run(whole).map_err(|error| error.to_string())
            } else {
                let said: Vec<String> = meeting
                    .said
                    .iter()
                    .map(|(process, said)| format!("process {process} calls {said}"))
                    .collect();
                Err(format!("processes disagree: {}", said.join("; ")))
            });
            RENDEZVOUS.changed.notify_all();
        }
        loop {
            let Some(meeting) = meetings.get_mut(&number) else {
                return Err(Error::new(ErrorKind::Process, "the meeting is over").with_op(op));
            };
            if let Some(outcome) = meeting.outcome.clone() {
                meeting.left += 1;
                if meeting.left == all.len() {
                    meetings.remove(&number);
                }
                let whole = outcome.map_err(|message| Error::new(ErrorKind::Process, message).with_op(op))?;
                let target = self.positions(target)?;
                return Ok(target.iter().filter_map(|position| whole.get(*position).cloned()).collect());
            }
            let (guard, waited) =
                RENDEZVOUS.changed.wait_timeout(meetings, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            meetings = guard;
            let late =
                meetings.get(&number).filter(|meeting| waited.timed_out() && meeting.outcome.is_none());
            if let Some(meeting) = late {
                let missing: Vec<u32> =
                    all.iter().filter(|process| !meeting.said.contains_key(process)).copied().collect();
                return Err(Error::new(
                    ErrorKind::Process,
                    format!("process {missing:?} did not come to {what} within {PATIENCE:?}"),
                )
                .with_op(op));
            }
        }
    }
}

fn cpu() -> Result<&'static Arc<dyn Backend>> {
    backend_of(BackendKind::CPU)
}

/// Both views compute on the CPU backend and differ in what they address only.
macro_rules! on_cpu {
    ($type:ident, $positions:expr, $collectives:expr) => {
        impl Backend for $type {
            fn kind(&self) -> BackendKind {
                KIND
            }
            fn devices(&self) -> Result<Vec<Device>> {
                Ok(vec![Device::new(KIND, 0)])
            }
            fn positions(&self, mesh: &DeviceMesh) -> Result<Positions> {
                let positions: fn(&DeviceMesh) -> Positions = $positions;
                Ok(positions(mesh))
            }
            fn shares_memory(&self, a: Device, b: Device) -> bool {
                a.process == b.process
            }
            fn supports(&self, primitive: &Primitive, inputs: &[LocalMeta]) -> Support {
                cpu().map_or_else(
                    |error| Support::No(error.to_string()),
                    |cpu| cpu.supports(primitive, inputs),
                )
            }
            fn alloc(&self, device: Device, dtype: DType, shape: &Shape) -> Result<LocalArray> {
                cpu()?.alloc(device, dtype, shape)
            }
            fn write(&self, bytes: &[u8], into: &mut LocalArray) -> Result<()> {
                cpu()?.write(bytes, into)
            }
            fn read(&self, array: &LocalArray, into: &mut [u8]) -> Result<()> {
                cpu()?.read(array, into)
            }
            fn adopt(
                &self,
                device: Device,
                memory: &Arc<dyn HostMemory>,
                meta: &LocalMeta,
            ) -> Result<Option<LocalArray>> {
                cpu()?.adopt(device, memory, meta)
            }
            fn peek<'a>(&self, array: &'a LocalArray) -> Result<Option<&'a [u8]>> {
                cpu()?.peek(array)
            }
            fn copy(&self, moves: &mut [Move<'_>]) -> Result<()> {
                cpu()?.copy(moves)
            }
            fn launch(&self, primitive: &Primitive, work: &mut [Work<'_>]) -> Result<()> {
                cpu()?.launch(primitive, work)
            }
            fn memory(&self, device: Device) -> Result<MemoryUse> {
                cpu()?.memory(device)
            }
            fn reset_peak_memory(&self, device: Device) -> Result<()> {
                cpu()?.reset_peak_memory(device)
            }
            fn synchronize(&self, device: Device) -> Result<()> {
                cpu()?.synchronize(device)
            }
            fn collectives(&self) -> &dyn Collectives {
                $collectives
            }
        }
    };
}

on_cpu!(
    Pretend,
    |mesh| {
        let me = Scope::current().process();
        (0..mesh.num_devices())
            .filter(|p| mesh.device(*p).is_some_and(|device| device.process == me))
            .collect()
    },
    &Pretend
);
on_cpu!(Whole, |mesh| (0..mesh.num_devices()).collect(), &InProcess(&Whole));

inventory::submit! { BackendDef { kind: KIND, open: || Ok(Arc::new(Pretend)), at: (file!(), line!()) } }
