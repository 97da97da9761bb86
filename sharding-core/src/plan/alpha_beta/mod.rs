//! Latency and bandwidth: collectives in seconds.

mod algorithm;
mod calibrate;
pub mod fabric;
mod file;
mod fit;

use super::cost::{CostModel, CostUnit, StepQuery};
use crate::DeviceMesh;
use crate::backend::StepKind;
use crate::placement::Transition;
use crate::{Error, ErrorKind, ReduceOp, Result};
pub use algorithm::Algorithm;
use algorithm::{Effort, options};
pub use calibrate::calibrate;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How long a message takes on its way: `latency + bytes * seconds_per_byte`, the model of Hockney, "The communication
/// challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3), 1994.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Seconds that a message of no bytes takes (alpha).
    pub latency: f64,
    /// Seconds per byte that one device sends (beta): one by the bandwidth of one direction.
    pub seconds_per_byte: f64,
}

impl Link {
    /// A link by its latency in seconds and the bytes per second of one direction.
    pub const fn new(latency: f64, bytes_per_second: f64) -> Self {
        Self { latency, seconds_per_byte: 1.0 / bytes_per_second }
    }

    /// The slower in each respect.
    fn slower(self, other: Self) -> Self {
        Self {
            latency: self.latency.max(other.latency),
            seconds_per_byte: self.seconds_per_byte.max(other.seconds_per_byte),
        }
    }

    fn is_valid(self) -> bool {
        [self.latency, self.seconds_per_byte].iter().all(|x| (0.0..MOST).contains(x))
    }
}

/// No latency, and no time of a byte, is as much: a collective of any size takes a finite time.
const MOST: f64 = 1e200;

/// A cost model in seconds: a latency per message and a time per byte for each mesh axis, and for each collective the
/// cheapest of its [algorithms](Algorithm) for the size and the group.
///
/// Devices send to one other at a time and receive at the same time; nothing else is on the links, and nothing overlaps.
/// A collective over several mesh axes at once counts with the slowest of their links. What a device combines or copies
/// itself takes the time of its memory.
///
/// ```
/// use sharding_core::plan::{AlphaBetaCost, fabric};
/// use sharding_core::redistribute::Program;
/// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
/// // Eight GPUs on NVLink in a server, four servers on InfiniBand.
/// let mesh = DeviceMesh::simulated(BackendKind::SIM, [4, 8], ["dp", "tp"])?;
/// let cost = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)?.with_axis("tp", fabric::NVLINK_4.link)?;
/// let seconds = |places: [Place; 2]| -> sharding_core::Result<f64> {
///     let source = TensorLayout::new(DType::F32, [8192, 8192], DeviceMapping::new(&mesh, places)?)?;
///     let target = source.with_mapping(DeviceMapping::replicated(&mesh))?;
///     Ok(Program::search(&source, &target, &cost)?.cost)
/// };
/// // 256 MiB: 2 * 7/8 of it at 450 GB/s, or 2 * 3/4 of it at 50 GB/s.
/// let inside = seconds([Place::Replicated, Place::PARTIAL])?;
/// let between = seconds([Place::PARTIAL, Place::Replicated])?;
/// assert!((1.0e-3..1.4e-3).contains(&inside), "{inside}");
/// assert!((8.0e-3..8.5e-3).contains(&between), "{between}");
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AlphaBetaCost {
    rest: Link,
    axes: Vec<(String, Link)>,
    /// Seconds per byte that a device reads or writes in its own memory.
    memory: f64,
}

impl AlphaBetaCost {
    /// The same link on every mesh axis, and no time for what a device does in its own memory.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if a figure of the link is negative or not finite, as that of a bandwidth of 0.
    pub fn new(link: Link) -> Result<Self> {
        check(link, "every mesh axis")?;
        Ok(Self::of(link))
    }

    /// A model of a link that is known to be valid.
    fn of(rest: Link) -> Self {
        Self { rest, axes: Vec::new(), memory: 0.0 }
    }

    /// The same with another link on the mesh axis of this name.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if a figure of the link is negative or not finite.
    pub fn with_axis(mut self, name: impl Into<String>, link: Link) -> Result<Self> {
        let name = name.into();
        check(link, &format!("mesh axis '{name}'"))?;
        match self.axes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = link,
            None => self.axes.push((name, link)),
        }
        Ok(self)
    }

    /// The same with a bandwidth of the devices' own memory, in bytes per second read or written.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it is not positive, or so small that a byte takes no finite time.
    pub fn with_memory(mut self, bytes_per_second: f64) -> Result<Self> {
        let memory = 1.0 / bytes_per_second;
        if bytes_per_second.is_nan() || bytes_per_second <= 0.0 || memory.is_infinite() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("a memory of {bytes_per_second} bytes per second moves nothing"),
            )
            .with_fix("give the bandwidth of the data sheet in bytes per second, such as 3.35e12"));
        }
        self.memory = memory;
        Ok(self)
    }

    /// The link of a mesh axis.
    pub fn link(&self, name: &str) -> Link {
        self.axes.iter().find(|(known, _)| known == name).map_or(self.rest, |(_, link)| *link)
    }

    /// Seconds per byte that a device reads or writes in its own memory.
    pub fn memory_seconds_per_byte(&self) -> f64 {
        self.memory
    }

    /// The algorithm that a step is priced by, and its seconds.
    pub fn choice(&self, query: &StepQuery<'_>) -> (Algorithm, f64) {
        let bytes = match query.kind {
            StepKind::AllToAll => query.bytes / query.group as f64,
            StepKind::Permute | StepKind::Move => query.received,
            _ => query.bytes,
        };
        self.cheapest(query.kind, bytes, query.group, self.slowest(query.mesh, query.axes))
    }

    fn slowest(&self, mesh: &DeviceMesh, axes: &[usize]) -> Link {
        // A mesh axis of size 1 sends nothing.
        let links =
            axes.iter().filter(|axis| mesh.size(**axis) > 1).map(|axis| self.link(mesh.axis_name(*axis)));
        links.reduce(Link::slower).unwrap_or(self.rest)
    }

    fn cheapest(&self, kind: StepKind, bytes: f64, group: usize, link: Link) -> (Algorithm, f64) {
        let mut best = (Algorithm::Local, f64::INFINITY);
        for (algorithm, effort) in options(kind, bytes, group) {
            let seconds = self.seconds(&effort, link);
            if seconds < best.1 {
                best = (algorithm, seconds);
            }
        }
        best
    }

    fn seconds(&self, effort: &Effort, link: Link) -> f64 {
        effort.messages * link.latency + effort.sent * link.seconds_per_byte + effort.touched * self.memory
    }
}

fn check(link: Link, whose: &str) -> Result<()> {
    if link.is_valid() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Argument,
        format!(
            "a link of {} seconds and {} seconds per byte on {whose} is none",
            link.latency, link.seconds_per_byte
        ),
    )
    .with_fix(
        "give a latency that is not negative and a bandwidth that moves something: Link::new(2e-6, 50e9)",
    ))
}

impl CostModel for AlphaBetaCost {
    fn key(&self) -> u64 {
        // A hash that mixes all bits: figures that are powers of two differ in few.
        let mut hasher = DefaultHasher::new();
        "alpha-beta".hash(&mut hasher);
        let mut link = |link: Link| {
            hasher.write_u64(link.latency.to_bits());
            hasher.write_u64(link.seconds_per_byte.to_bits());
        };
        link(self.rest);
        self.axes.iter().for_each(|(_, own)| link(*own));
        self.axes.iter().for_each(|(name, _)| name.hash(&mut hasher));
        hasher.write_u64(self.memory.to_bits());
        hasher.finish()
    }

    fn unit(&self) -> CostUnit {
        CostUnit::Seconds
    }

    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
        let n = mesh.size(axis);
        // The op does not count: what is combined takes the same time whatever it is.
        let any = ReduceOp::Sum;
        let (kind, bytes) = match transition {
            Transition::Infeasible => return f64::INFINITY,
            Transition::NoOp => return 0.0,
            Transition::LocalSlice => (StepKind::LocalSlice, bytes),
            Transition::KeepOneCopy => (StepKind::KeepOneCopy(any), bytes),
            Transition::AllGather => (StepKind::AllGather, bytes),
            Transition::AllReduce => (StepKind::AllReduce(any), bytes),
            Transition::ReduceScatter => (StepKind::ReduceScatter(any), bytes),
            Transition::AllToAll => (StepKind::AllToAll, bytes / n as f64),
            Transition::Permute => (StepKind::Permute, bytes / n as f64),
        };
        self.cheapest(kind, bytes, n, self.slowest(mesh, &[axis])).1
    }

    fn step(&self, query: &StepQuery<'_>) -> f64 {
        self.choice(query).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendKind;

    fn query(mesh: &DeviceMesh, kind: StepKind, axes: &'static [usize], bytes: f64) -> (Algorithm, f64) {
        let group = axes.iter().map(|axis| mesh.size(*axis)).product();
        let cost = AlphaBetaCost::of(Link::new(1e-5, 1e10)).with_axis("tp", Link::new(1e-6, 1e11)).unwrap();
        let cost = cost.with_memory(1e12).unwrap();
        cost.choice(&StepQuery { kind, mesh, axes, group, bytes, received: bytes })
    }

    #[test]
    fn a_link_that_is_none_is_refused() {
        let (good, inf) = (Link::new(1e-6, 1e9), f64::INFINITY);
        for bad in [
            Link::new(1e-6, 0.0),
            Link::new(1e-6, -1e9),
            Link::new(1e-6, f64::NAN),
            Link::new(-1e-6, 1e9),
            Link::new(inf, 1e9),
            Link::new(0.0, 1e-308),
            Link::new(1e308, 1.0),
            Link::new(f64::NAN, 1e9),
        ] {
            for error in [AlphaBetaCost::new(bad), AlphaBetaCost::of(good).with_axis("tp", bad)] {
                let error = error.unwrap_err();
                assert!(error.kind() == ErrorKind::Argument && error.fix().is_some(), "{error}");
            }
        }
        // Nothing is lost on it, or it is there at once.
        assert!(AlphaBetaCost::new(Link::new(0.0, inf)).is_ok());
    }

    #[test]
    fn the_size_and_the_group_choose_the_algorithm() {
        let mesh = DeviceMesh::simulated(BackendKind::SIM, [6, 8], ["dp", "tp"]).unwrap();
        let reduce = StepKind::AllReduce(ReduceOp::Sum);
        let chosen = |kind, axes, bytes| query(&mesh, kind, axes, bytes).0;
        assert_eq!(chosen(reduce, &[1], 1e3), Algorithm::Doubling);
        assert_eq!(chosen(reduce, &[1], 1e9), Algorithm::HalvingDoubling);
        assert_eq!(chosen(reduce, &[0], 1e9), Algorithm::Ring);
        assert_eq!(chosen(StepKind::AllToAll, &[1], 1e3), Algorithm::Bruck);
        assert_eq!(chosen(StepKind::AllToAll, &[1], 1e9), Algorithm::Direct);
        assert_eq!(chosen(StepKind::AllGather, &[0], 1e3), Algorithm::Bruck);
        assert_eq!(chosen(StepKind::Relabel, &[0], 1e3), Algorithm::Local);
    }

    #[test]
    fn seconds_are_latency_and_bytes() {
        let mesh = DeviceMesh::simulated(BackendKind::SIM, [6, 8], ["dp", "tp"]).unwrap();
        let close =
            |got: f64, want: f64| assert!((got - want).abs() < 1e-12 + want * 1e-9, "{got}, not {want}");
        close(query(&mesh, StepKind::AllGather, &[1], 8e6).1, 3e-6 + 7e6 / 1e11);
        close(query(&mesh, StepKind::Permute, &[1], 1e6).1, 1e-6 + 1e6 / 1e11);
        // Both mesh axes at once: 48 devices, the slower link; a shift of what was gathered.
        close(query(&mesh, StepKind::AllGather, &[0, 1], 48e6).1, 6e-5 + 47e6 / 1e10 + 2.0 * 48e6 / 1e12);
    }

    #[test]
    fn models_are_told_apart_by_their_keys() {
        let link = Link::new(1e-6, 1e11);
        let base = AlphaBetaCost::of(link);
        let others = [
            base.clone().with_axis("tp", link).unwrap(),
            base.clone().with_axis("dp", link).unwrap(),
            base.clone().with_memory(1e12).unwrap(),
            AlphaBetaCost::of(Link { latency: 2e-6, ..link }),
        ];
        let mut keys: Vec<u64> = others.iter().chain([&base]).map(CostModel::key).collect();
        keys.push(crate::plan::VolumeCost.key());
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 6);
        assert_eq!(base.key(), base.clone().key());
    }

    #[test]
    fn figures_that_are_none_are_refused() {
        let base = AlphaBetaCost::of(Link::new(0.0, 1e9));
        for link in
            [Link::new(-1.0, 1e9), Link::new(0.0, 0.0), Link { latency: f64::NAN, seconds_per_byte: 0.0 }]
        {
            let error = base.clone().with_axis("tp", link).unwrap_err();
            assert!(error.to_string().contains("mesh axis 'tp'"), "{error}");
        }
        // The last is positive, and a byte would still take for ever.
        for bad in [0.0, -0.0, -1.0, f64::NAN, f64::NEG_INFINITY, f64::MIN_POSITIVE / 64.0] {
            let error = base.clone().with_memory(bad).unwrap_err();
            assert!(error.kind() == ErrorKind::Argument && error.fix().is_some(), "{bad}: {error}");
        }
        assert_eq!(base.with_memory(f64::INFINITY).unwrap().memory_seconds_per_byte(), 0.0);
    }
}
