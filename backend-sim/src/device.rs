//! The positions that stand for a mesh, and what every device held and did.

use crate::collective::{CollectiveUse, same_collective};
use sharding_core::backend::{MemoryUse, Positions, Storage, guarded};
use sharding_core::plan::{CostModel, CostUnit, Roofline};
use sharding_core::trace::{Runs, table};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Error, ErrorKind, Result, Scope, caller};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Up to this many devices all positions of a mesh hold shards; of a larger mesh only its corners.
pub const ALL_POSITIONS: usize = 64;

/// All positions of a small mesh; the corners of a large one: at most 2 along each mesh axis, so at most 256.
pub(crate) fn positions(mesh: &DeviceMesh) -> Result<Positions> {
    let positions: Positions = if mesh.num_devices() <= ALL_POSITIONS {
        (0..mesh.num_devices()).collect()
    } else {
        let mut corners = vec![0];
        for axis in 0..mesh.ndim() {
            let last = (mesh.size(axis) - 1) * mesh.stride(axis);
            let ends = if last == 0 { vec![0] } else { vec![0, last] };
            corners = corners.iter().flat_map(|corner| ends.iter().map(move |end| corner + end)).collect();
        }
        corners.into()
    };
    let other = positions.iter().filter_map(|position| mesh.device(*position));
    match other.into_iter().find(|device| device.kind != BackendKind::SIM) {
        None => Ok(positions),
        Some(device) => {
            Err(Error::new(ErrorKind::Backend, format!("{mesh} names {device}, which is not a sim device"))
                .with_fix("use devices of one kind: DeviceMesh::simulated(BackendKind::SIM, shape, names)"))
        }
    }
}

/// What one device held and did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceUse {
    /// Bytes alive now.
    pub live: u64,
    /// The most bytes that were alive at once.
    pub peak: u64,
    /// Estimated floating-point operations of its kernels.
    pub flops: f64,
    /// Bytes that its kernels read and write.
    pub bytes: f64,
    /// Seconds of its kernels on the [`Machine`] in force; 0 without one.
    pub seconds: f64,
}

/// What programs are timed for: devices, and what connects them.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The peaks of a device.
    pub device: Roofline,
    /// The model that collectives are timed by; one in seconds.
    pub network: Arc<dyn CostModel>,
}

/// Floating-point operations of a kernel, by the units that do them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flops {
    /// Those of matrix products.
    pub(crate) products: f64,
    /// All others.
    pub(crate) others: f64,
}

impl Flops {
    pub(crate) const fn products(products: f64) -> Self {
        Self { products, others: 0.0 }
    }
    pub(crate) const fn others(others: f64) -> Self {
        Self { products: 0.0, others }
    }
    fn all(self) -> f64 {
        self.products + self.others
    }
}

/// What one kernel does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) dtype: DType,
    pub(crate) flops: Flops,
    /// Read and written.
    pub(crate) bytes: f64,
}

/// A kernel on one device.
struct Launch {
    name: &'static str,
    device: Device,
    effort: Effort,
    /// Whether it has a tensor of which another device than the corners may hold more.
    uneven: bool,
}

/// The uses of one kind of kernel on all devices that hold shards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelUse {
    /// Launches, one per device.
    pub count: u64,
    /// Estimated floating-point operations, of all launches together.
    pub flops: f64,
    /// Bytes read and written, of all launches together.
    pub bytes: f64,
    /// Seconds on the [`Machine`] in force, of all launches together; 0 without one.
    pub seconds: f64,
}

/// What happened in a [`Simulation`]; [`fmt::Display`] writes it as a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Collectives in the order in which they first ran, equal ones counted.
    pub collectives: Vec<CollectiveUse>,
    /// Kernels by name.
    pub kernels: BTreeMap<&'static str, KernelUse>,
    /// Every device that held or did something.
    pub devices: BTreeMap<Device, DeviceUse>,
    /// Whether a mesh of more than [`ALL_POSITIONS`] devices had a tensor of which the first device does not hold the
    /// most, such as a `Ragged` one: then peaks, operations and seconds are those of the corners, and another device may
    /// have more. It is seen where such a tensor is moved, or is an operand or result of a kernel.
    pub uneven: bool,
    /// Whether kernels were timed.
    pub timed: bool,
}

impl Log {
    /// The most bytes that were alive on any one device at once.
    pub fn peak_bytes(&self) -> u64 {
        self.devices.values().map(|device| device.peak).max().unwrap_or(0)
    }
    /// Bytes that one device sends in all collectives, by the volume price; of the device that sends most.
    pub fn bytes_moved(&self) -> f64 {
        Runs::cost(self.collectives.iter().map(|one| (one.bytes, &one.runs)))
    }
    /// Seconds of all collectives, on the device for which they are most; `None` if one was not timed.
    pub fn communication_seconds(&self) -> Option<f64> {
        let each: Option<Vec<_>> =
            self.collectives.iter().map(|one| Some((one.seconds?, &one.runs))).collect();
        each.map(Runs::cost)
    }
    /// Seconds of the kernels of the device that takes longest; `None` if they were not timed.
    pub fn compute_seconds(&self) -> Option<f64> {
        let most = self.devices.values().map(|device| device.seconds).fold(0.0, f64::max);
        (self.timed || self.kernels.is_empty()).then_some(most)
    }
    /// Seconds of the whole: kernels and collectives one after the other, nothing at the same time.
    pub fn seconds(&self) -> Option<f64> {
        Some(self.compute_seconds()? + self.communication_seconds()?)
    }
    /// The collectives, those that take longest together first; by bytes where none was timed.
    pub fn costliest(&self) -> Vec<&CollectiveUse> {
        let mut all: Vec<&CollectiveUse> = self.collectives.iter().collect();
        let key = |one: &CollectiveUse| (one.total_seconds().unwrap_or(0.0), one.total_bytes());
        all.sort_by(|a, b| {
            let ((a, a_bytes), (b, b_bytes)) = (key(a), key(b));
            b.total_cmp(&a).then(b_bytes.total_cmp(&a_bytes))
        });
        all
    }
    /// The most floating-point operations that any one device does.
    pub fn flops(&self) -> f64 {
        self.devices.values().map(|device| device.flops).fold(0.0, f64::max)
    }

    /// A time for a table.
    fn time(&self, seconds: f64) -> String {
        if self.timed { format!("{seconds:.3e}") } else { "-".to_owned() }
    }

    /// The devices that hold something, as if nothing had happened before.
    fn alive(&self) -> BTreeMap<Device, DeviceUse> {
        let alive = |(device, one): (&Device, &DeviceUse)| {
            let now = DeviceUse { live: one.live, peak: one.live, ..DeviceUse::default() };
            (one.live > 0).then_some((*device, now))
        };
        self.devices.iter().filter_map(alive).collect()
    }

    fn count_kernel(&mut self, kernel: &Launch, seconds: Option<f64>) {
        let Effort { flops, bytes, .. } = kernel.effort;
        let one = KernelUse { count: 1, flops: flops.all(), bytes, seconds: seconds.unwrap_or(0.0) };
        self.timed |= seconds.is_some();
        self.uneven |= kernel.uneven;
        let all = self.kernels.entry(kernel.name).or_default();
        all.count += one.count;
        all.flops += one.flops;
        all.bytes += one.bytes;
        all.seconds += one.seconds;
        let device = self.devices.entry(kernel.device).or_default();
        device.flops += one.flops;
        device.bytes += one.bytes;
        device.seconds += one.seconds;
    }

    fn count_collective(&mut self, collective: &CollectiveUse) {
        match self.collectives.iter_mut().find(|known| same_collective(known, collective)) {
            Some(known) => {
                known.runs.add(&collective.runs);
                known.count = known.runs.most();
            }
            None => self.collectives.push(collective.clone()),
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["op", "collective", "mesh axes", "count", "bytes/device", "seconds", "line"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.collectives.iter().map(|one| {
            let by = one.kind.reduce_op().map_or(String::new(), |op| format!("({op})"));
            [
                one.op.to_owned(),
                format!("{}{by}", one.kind.name()),
                one.axes.join(","),
                one.count.to_string(),
                format!("{:.0}", one.bytes),
                one.seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.3e}")),
                one.at.map_or("-".to_owned(), |line| line.to_string()),
            ]
        }));
        table(f, "", &rows, 3..=5)?;
        let head = ["kernel", "count", "flops", "bytes", "seconds"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.kernels.iter().map(|(name, one)| {
            let (flops, bytes) = (format!("{:.0}", one.flops), format!("{:.0}", one.bytes));
            [(*name).to_owned(), one.count.to_string(), flops, bytes, self.time(one.seconds)]
        }));
        f.write_str("\n")?;
        table(f, "", &rows, 1..=4)?;
        let head = ["device", "live bytes", "peak bytes", "flops", "seconds"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(self.devices.iter().map(|(device, one)| {
            let (live, peak, flops) =
                (one.live.to_string(), one.peak.to_string(), format!("{:.0}", one.flops));
            [device.to_string(), live, peak, flops, self.time(one.seconds)]
        }));
        f.write_str("\n")?;
        table(f, "", &rows, 1..=4)?;
        f.write_str("\n")?;
        if self.uneven {
            writeln!(f, "some tensors are split unevenly: devices other than these may hold and do more")?;
        }
        Ok(())
    }
}

/// Counts what happens on sim devices. Every thread has one of its own; [`Simulation::enter`] puts another in force,
/// so that several threads count together. A [`Simulation::record`] is of what the thread does that called it, and of those that
/// enter the [`Simulation::current`] that it finds inside: several threads may record one simulation at a time.
///
/// Time is modelled where somebody says on what: a [`Machine`] for kernels and collectives, or a cost model in seconds in
/// the [`Scope`] for collectives alone. Neither overlaps with the other. A machine changes no plans: for those, put the
/// same cost model in the scope.
///
/// ```
/// use backend_sim::{Machine, Simulation};
/// use sharding_core::plan::{AlphaBetaCost, fabric, roofline};
/// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, Place, Tensor};
/// use std::sync::Arc;
/// let network = Arc::new(AlphaBetaCost::new(fabric::NVLINK_4.link)?);
/// let simulation = Simulation::on(Machine { device: roofline::H100_SXM, network });
/// let mesh = DeviceMesh::simulated(BackendKind::SIM, [8], ["tp"])?;
/// let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)])?;
/// let (moved, log) = simulation.record(|| {
///     let x = Tensor::from_slice(&[0_f32; 4096], [64, 64], &rows)?;
///     x.transfer_to(&DeviceMapping::replicated(&mesh))
/// });
/// moved?;
/// let gather = &log.collectives[0];
/// assert_eq!((gather.bytes, gather.at.is_some()), (14336.0, true));
/// // Three steps of 0.6 microseconds, and 14336 bytes at 450 GB/s.
/// assert!((gather.seconds.unwrap() - (1.8e-6 + 14336.0 / 450e9)).abs() < 1e-12);
/// assert_eq!(log.seconds(), gather.seconds);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Simulation {
    inner: Arc<Inner>,
    /// The records that what is counted belongs to, by their numbers.
    records: Arc<[u64]>,
}

#[derive(Default)]
struct Inner {
    book: Mutex<Book>,
    machine: Option<Machine>,
}

/// What happened in all, and in every record that has not ended.
#[derive(Default)]
struct Book {
    all: Log,
    records: BTreeMap<u64, Log>,
    /// The number of the next record.
    next: u64,
}

thread_local! {
    static CURRENT: RefCell<Simulation> = RefCell::new(Simulation::default());
}

impl Simulation {
    /// A simulation in which nothing happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// A simulation in which nothing happened, timed for a machine.
    pub fn on(machine: Machine) -> Self {
        let inner = Arc::new(Inner { book: Mutex::default(), machine: Some(machine) });
        Self { inner, records: Arc::default() }
    }

    /// The machine that it is timed for.
    pub fn machine(&self) -> Option<&Machine> {
        self.inner.machine.as_ref()
    }

    /// The one in force on this thread.
    pub fn current() -> Self {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Runs `f` with this simulation in force on this thread. Records of it that are under way on this thread go on.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Simulation>);
        impl Drop for Restore {
            fn drop(&mut self) {
                if let Some(outer) = self.0.take() {
                    CURRENT.with(|current| *current.borrow_mut() = outer);
                }
            }
        }
        let own = Self { inner: self.inner.clone(), records: self.with_records_here() };
        let outer = CURRENT.with(|current| current.replace(own));
        let _restore = Restore(Some(outer));
        f()
    }

    /// The records that it counts for, and those that are under way on this thread.
    fn with_records_here(&self) -> Arc<[u64]> {
        let here = Self::current();
        if !Arc::ptr_eq(&here.inner, &self.inner) || here.records.is_empty() {
            return self.records.clone();
        }
        let more = self.records.iter().filter(|record| !here.records.contains(record));
        here.records.iter().chain(more).copied().collect()
    }

    /// What happened so far.
    pub fn log(&self) -> Log {
        self.lock().all.clone()
    }

    /// Forgets what happened; arrays that are alive still count, and are the new peaks. Records that are under way forget
    /// nothing.
    pub fn reset(&self) {
        let all = &mut self.lock().all;
        *all = Log { devices: all.alive(), ..Log::default() };
    }

    /// Bytes alive on a device.
    pub fn live_bytes(&self, device: Device) -> u64 {
        self.lock().all.devices.get(&device).map_or(0, |device| device.live)
    }

    /// The most bytes that were alive on a device at once.
    pub fn peak_bytes(&self, device: Device) -> u64 {
        self.lock().all.devices.get(&device).map_or(0, |device| device.peak)
    }

    /// Bytes alive on a device, and the most there were at once.
    pub(crate) fn memory(&self, device: Device) -> MemoryUse {
        self.lock()
            .all
            .devices
            .get(&device)
            .map_or(MemoryUse::default(), |one| MemoryUse { live: one.live, peak: one.peak })
    }

    /// Makes the bytes alive on a device its peak.
    pub(crate) fn reset_peak(&self, device: Device) {
        if let Some(one) = self.lock().all.devices.get_mut(&device) {
            one.peak = one.live;
        }
    }

    /// Runs `f` in this simulation; gives the part of the log that it made, on this thread and on others that enter the
    /// [`Simulation::current`] of `f`, as manual regions do. What other threads do in the meantime is not in it, but for bytes
    /// that they hold: peaks are those during `f`, of all that is alive on a device.
    pub fn record<T>(&self, f: impl FnOnce() -> T) -> (T, Log) {
        /// Ends the record, also where `f` panics.
        struct Under<'a>(&'a Simulation, u64);
        impl Under<'_> {
            fn end(&self) -> Log {
                let mut book = self.0.lock();
                let mut log = book.records.remove(&self.1).unwrap_or_default();
                for (device, one) in &mut log.devices {
                    one.live = book.all.devices.get(device).map_or(0, |all| all.live);
                }
                log
            }
        }
        impl Drop for Under<'_> {
            fn drop(&mut self) {
                self.0.lock().records.remove(&self.1);
            }
        }
        let under = Under(self, self.begin());
        let records = self.with_records_here().iter().copied().chain([under.1]).collect();
        let value = Self { inner: self.inner.clone(), records }.enter(f);
        (value, under.end())
    }

    /// Begins a record.
    fn begin(&self) -> u64 {
        let mut book = self.lock();
        let number = book.next;
        book.next += 1;
        let log = Log { devices: book.all.alive(), ..Log::default() };
        book.records.insert(number, log);
        number
    }

    /// Counts something in the whole log and in those of its records.
    fn count(&self, mut f: impl FnMut(&mut Log)) {
        let mut book = self.lock();
        f(&mut book.all);
        for record in &*self.records {
            if let Some(log) = book.records.get_mut(record) {
                f(log);
            }
        }
    }

    pub(crate) fn count_kernel(&self, name: &'static str, device: Device, effort: Effort) {
        let Effort { dtype, flops, bytes } = effort;
        let seconds =
            self.machine().map(|machine| machine.device.seconds(dtype, flops.products, flops.others, bytes));
        // On a mesh that is held whole, all devices are counted.
        let uneven = caller().is_some_and(|caller| caller.uneven)
            && device.slot.max(device.ordinal) as usize >= ALL_POSITIONS;
        let launch = Launch { name, device, effort, uneven };
        self.count(|log| log.count_kernel(&launch, seconds));
    }

    pub(crate) fn count_uneven(&self) {
        self.count(|log| log.uneven = true);
    }

    /// What the machine's network, else the cost model of the scope, says of a collective, if it says seconds.
    pub(crate) fn seconds_by(&self, price: impl Fn(&dyn CostModel) -> f64) -> Result<Option<f64>> {
        let scope = Scope::current();
        let model = self.machine().map_or_else(|| scope.cost(), |machine| &*machine.network);
        // Models are foreign code.
        let asked = || Ok((model.unit() == CostUnit::Seconds).then(|| price(model)));
        let seconds = guarded("the cost model", asked)?;
        if seconds.is_some_and(|seconds| seconds.is_nan() || seconds < 0.0) {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("{model:?} gives a collective {} seconds", seconds.unwrap_or(f64::NAN)),
            )
            .with_fix("let CostModel::step give numbers that are not negative"));
        }
        Ok(seconds)
    }

    pub(crate) fn count_collective(&self, collective: CollectiveUse) {
        self.count(|log| log.count_collective(&collective));
    }

    /// Bytes on a device until the storage is dropped, on whatever thread.
    pub(crate) fn hold(&self, device: Device, bytes: usize) -> Result<Arc<dyn Storage>> {
        let book = &mut *self.lock();
        let known = book.all.devices.entry(device).or_default();
        let live = known.live.checked_add(bytes as u64).ok_or_else(|| {
            Error::new(
                ErrorKind::Overflow,
                format!(
                    "{bytes} more bytes on {device}, which holds {}, are more than can be counted",
                    known.live
                ),
            )
        })?;
        known.live = live;
        known.peak = known.peak.max(live);
        // A device has one memory, whoever fills it.
        for log in book.records.values_mut() {
            let known = log.devices.entry(device).or_default();
            known.peak = known.peak.max(live);
        }
        Ok(Arc::new(Held { device, bytes, simulation: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // No code of users runs under the lock, so a log is never half-written.
        self.inner.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Simulation").field(&self.lock().all).finish()
    }
}

/// [`Simulation::record`] on the simulation in force.
pub fn record<T>(f: impl FnOnce() -> T) -> (T, Log) {
    Simulation::current().record(f)
}

/// A storage of no data.
struct Held {
    device: Device,
    bytes: usize,
    simulation: Simulation,
}

impl Storage for Held {
    fn device(&self) -> Device {
        self.device
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(known) = self.simulation.lock().all.devices.get_mut(&self.device) {
            known.live = known.live.saturating_sub(self.bytes as u64);
        }
    }
}
