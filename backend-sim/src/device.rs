//! The positions that stand for a mesh, and what every device held and did.

use crate::collective::{CollectiveUse, same_collective};
use sharding_core::backend::{MemoryUse, Positions, Storage, guarded};
use sharding_core::plan::{CostModel, CostUnit, Roofline};
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
    /// Bytes that one device sends in all collectives, by the volume price.
    pub fn bytes_moved(&self) -> f64 {
        self.collectives.iter().map(|collective| collective.bytes * collective.count as f64).sum()
    }
    /// Seconds of all collectives; `None` if one was not timed.
    pub fn communication_seconds(&self) -> Option<f64> {
        self.collectives.iter().map(CollectiveUse::total_seconds).sum()
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

    fn add(&mut self, other: Self) {
        for collective in other.collectives {
            self.count_collective(collective);
        }
        for (name, kernel) in other.kernels {
            let known = self.kernels.entry(name).or_default();
            known.count += kernel.count;
            known.flops += kernel.flops;
            known.bytes += kernel.bytes;
            known.seconds += kernel.seconds;
        }
        self.uneven |= other.uneven;
        self.timed |= other.timed;
        for (device, use_) in other.devices {
            let known = self.devices.entry(device).or_default();
            known.live = use_.live;
            known.peak = known.peak.max(use_.peak);
            known.flops += use_.flops;
            known.bytes += use_.bytes;
            known.seconds += use_.seconds;
        }
    }

    fn count_collective(&mut self, collective: CollectiveUse) {
        match self.collectives.iter_mut().find(|known| same_collective(known, &collective)) {
            Some(known) => known.count += collective.count,
            None => self.collectives.push(collective),
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16} {:<20} {:<16} {:>8} {:>16} {:>12}  line",
            "op", "collective", "mesh axes", "count", "bytes/device", "seconds"
        )?;
        for one in &self.collectives {
            let by = one.kind.reduce_op().map_or(String::new(), |op| format!("({op})"));
            writeln!(
                f,
                "{:<16} {:<20} {:<16} {:>8} {:>16.0} {:>12}  {}",
                one.op,
                format!("{}{by}", one.kind.name()),
                one.axes.join(","),
                one.count,
                one.bytes,
                one.seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.3e}")),
                one.at.map_or("-".to_owned(), |line| line.to_string()),
            )?;
        }
        writeln!(f, "{:<16} {:>8} {:>16} {:>16} {:>12}", "kernel", "count", "flops", "bytes", "seconds")?;
        for (name, one) in &self.kernels {
            let seconds = self.time(one.seconds);
            writeln!(f, "{name:<16} {:>8} {:>16.0} {:>16.0} {seconds:>12}", one.count, one.flops, one.bytes)?;
        }
        writeln!(
            f,
            "{:<16} {:>16} {:>16} {:>16} {:>12}",
            "device", "live bytes", "peak bytes", "flops", "seconds"
        )?;
        for (device, one) in &self.devices {
            let (device, seconds) = (device.to_string(), self.time(one.seconds));
            writeln!(f, "{device:<16} {:>16} {:>16} {:>16.0} {seconds:>12}", one.live, one.peak, one.flops)?;
        }
        if self.uneven {
            writeln!(f, "some tensors are split unevenly: devices other than these may hold and do more")?;
        }
        Ok(())
    }
}

/// Counts what happens on sim devices. Every thread has one of its own; [`Simulation::enter`] puts another in force,
/// so that several threads count together.
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
pub struct Simulation(Arc<Inner>);

#[derive(Default)]
struct Inner {
    log: Mutex<Log>,
    machine: Option<Machine>,
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
        Self(Arc::new(Inner { log: Mutex::default(), machine: Some(machine) }))
    }

    /// The machine that it is timed for.
    pub fn machine(&self) -> Option<&Machine> {
        self.0.machine.as_ref()
    }

    /// The one in force on this thread.
    pub fn current() -> Self {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Runs `f` with this simulation in force on this thread.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Simulation>);
        impl Drop for Restore {
            fn drop(&mut self) {
                if let Some(outer) = self.0.take() {
                    CURRENT.with(|current| *current.borrow_mut() = outer);
                }
            }
        }
        let outer = CURRENT.with(|current| current.replace(self.clone()));
        let _restore = Restore(Some(outer));
        f()
    }

    /// What happened so far.
    pub fn log(&self) -> Log {
        self.lock().clone()
    }

    /// Forgets what happened; arrays that are alive still count, and are the new peaks.
    pub fn reset(&self) {
        self.take();
    }

    /// Bytes alive on a device.
    pub fn live_bytes(&self, device: Device) -> u64 {
        self.lock().devices.get(&device).map_or(0, |device| device.live)
    }

    /// The most bytes that were alive on a device at once.
    pub fn peak_bytes(&self, device: Device) -> u64 {
        self.lock().devices.get(&device).map_or(0, |device| device.peak)
    }

    /// Bytes alive on a device, and the most there were at once.
    pub(crate) fn memory(&self, device: Device) -> MemoryUse {
        self.lock()
            .devices
            .get(&device)
            .map_or(MemoryUse::default(), |one| MemoryUse { live: one.live, peak: one.peak })
    }

    /// Makes the bytes alive on a device its peak.
    pub(crate) fn reset_peak(&self, device: Device) {
        if let Some(one) = self.lock().devices.get_mut(&device) {
            one.peak = one.live;
        }
    }

    /// Runs `f` in this simulation; gives the part of the log that it made. Peaks are those during `f`, of all that
    /// is alive.
    pub fn record<T>(&self, f: impl FnOnce() -> T) -> (T, Log) {
        /// Puts the log together again, also where `f` panics.
        struct Before<'a>(&'a Simulation, Log);
        impl Drop for Before<'_> {
            fn drop(&mut self) {
                let mut log = self.0.lock();
                let during = std::mem::replace(&mut *log, std::mem::take(&mut self.1));
                log.add(during);
            }
        }
        let _before = Before(self, self.take());
        let value = self.enter(f);
        (value, self.log())
    }

    fn take(&self) -> Log {
        let mut log = self.lock();
        let alive = |(device, one): (&Device, &DeviceUse)| {
            (one.live > 0)
                .then_some((*device, DeviceUse { live: one.live, peak: one.live, ..DeviceUse::default() }))
        };
        let rest = Log { devices: log.devices.iter().filter_map(alive).collect(), ..Log::default() };
        std::mem::replace(&mut *log, rest)
    }

    pub(crate) fn count_kernel(&self, name: &'static str, device: Device, effort: Effort) {
        let Effort { dtype, flops, bytes } = effort;
        let seconds =
            self.machine().map(|machine| machine.device.seconds(dtype, flops.products, flops.others, bytes));
        let uneven = caller().is_some_and(|caller| caller.uneven);
        let mut log = self.lock();
        log.timed |= seconds.is_some();
        // On a mesh that is held whole, all devices are counted.
        log.uneven |= uneven && device.slot.max(device.ordinal) as usize >= ALL_POSITIONS;
        let kernel = log.kernels.entry(name).or_default();
        kernel.count += 1;
        kernel.flops += flops.all();
        kernel.bytes += bytes;
        kernel.seconds += seconds.unwrap_or(0.0);
        let one = log.devices.entry(device).or_default();
        one.flops += flops.all();
        one.bytes += bytes;
        one.seconds += seconds.unwrap_or(0.0);
    }

    pub(crate) fn count_uneven(&self) {
        self.lock().uneven = true;
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
        self.lock().count_collective(collective);
    }

    /// Bytes on a device until the storage is dropped, on whatever thread.
    pub(crate) fn hold(&self, device: Device, bytes: usize) -> Result<Arc<dyn Storage>> {
        let mut log = self.lock();
        let known = log.devices.entry(device).or_default();
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
        Ok(Arc::new(Held { device, bytes, simulation: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        // No code of users runs under the lock, so a log is never half-written.
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Simulation").field(&*self.lock()).finish()
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
        if let Some(known) = self.simulation.lock().devices.get_mut(&self.device) {
            known.live = known.live.saturating_sub(self.bytes as u64);
        }
    }
}
