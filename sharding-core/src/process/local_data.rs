//! What each process has of an array, put together without moving anything.

use super::{HostCopy, HostData};
use crate::placement::Ranges;
use crate::tensor::{check_host_data, resolve};
use crate::{Error, ErrorKind, Region, Result, Scope, Shape, Target, Tensor, TensorLayout, making};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;
use std::panic::Location;

/// Whether several processes may bring the same part of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaPolicy {
    /// No: an error names the part.
    Disallow,
    /// Yes, and they bring equal data: nothing is compared, and nothing is sent. Where they do not, results depend on the
    /// plan.
    AssumeConsistent,
}

/// How [`Tensor::from_process_local_data`] takes the data. A bare [`ReplicaPolicy`] is one: nothing claimed of the process,
/// and the data copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalDataOptions {
    policy: ReplicaPolicy,
    copy: HostCopy,
    index: Option<u32>,
    count: Option<u32>,
}

impl LocalDataOptions {
    /// Options with this policy for replicas.
    pub fn new(policy: ReplicaPolicy) -> Self {
        Self { policy, copy: HostCopy::Always, index: None, count: None }
    }
    /// Whether owned memory is kept.
    #[must_use]
    pub fn with_copy(self, copy: HostCopy) -> Self {
        Self { copy, ..self }
    }
    /// The index that this process has; an error where it has another.
    #[must_use]
    pub fn with_process_index(self, index: u32) -> Self {
        Self { index: Some(index), ..self }
    }
    /// The number of processes there are; an error where there are others.
    #[must_use]
    pub fn with_process_count(self, count: u32) -> Self {
        Self { count: Some(count), ..self }
    }

    /// What is claimed of the process is so.
    fn check(&self) -> Result<()> {
        let scope = Scope::current();
        let refuse = |kind, what: String, fix: &str| Err(Error::new(kind, what).with_fix(fix));
        if let Some(index) = self.index.filter(|index| *index != scope.process()) {
            return refuse(
                ErrorKind::Process,
                format!("this is process {}, not {index}", scope.process()),
                "claim the index of the process that calls, or leave it out",
            );
        }
        if self.count == Some(0) {
            return refuse(
                ErrorKind::Argument,
                "there is at least one process, and the count claimed is 0".to_owned(),
                "claim the number of processes, or leave it out",
            );
        }
        if let Some(count) = self.count.filter(|count| *count != scope.process_count()) {
            return refuse(
                ErrorKind::Process,
                format!("{} processes run this program, not {count}", scope.process_count()),
                "claim the number of processes, or leave it out",
            );
        }
        Ok(())
    }
}

impl From<ReplicaPolicy> for LocalDataOptions {
    fn from(policy: ReplicaPolicy) -> Self {
        Self::new(policy)
    }
}

impl Tensor {
    /// A tensor from what each process has of it: every process calls this with its own part, and nothing is gathered,
    /// sent or compared. As tinax's `from_process_local_data` and JAX's `make_array_from_process_local_data`.
    ///
    /// On every tensor axis the local extent is either the global one, and then the data is indexed as the whole is; or the
    /// number of indices that this process's devices hold on that axis, in ascending order. Axes are looked at one by
    /// one: devices that form no block touch more rows times columns than they hold elements.
    ///
    /// ```no_run
    /// use sharding_core::{Device, DeviceMesh, DeviceMapping, HostData, Place, ReplicaPolicy, Tensor};
    ///
    /// // Process 0 has the first half of the rows on two devices, process 1 the second.
    /// let device = |process, slot| Device::cpu().with_process(process).with_slot(slot);
    /// let mesh = DeviceMesh::new(&[device(0, 0), device(0, 1), device(1, 0), device(1, 1)], [4], ["x"])?;
    /// let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)])?;
    /// let mine = HostData::borrowed(&[0.0_f32, 1.0, 2.0, 3.0], [4])?;
    /// let x = Tensor::from_process_local_data(&mine, [8], &rows, ReplicaPolicy::Disallow)?;
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// For the first of these that holds: [`ErrorKind::Dimensions`] if data and global shape have not one number of axes;
    /// [`ErrorKind::Argument`] or [`ErrorKind::Process`] if what is claimed of the process is not so; as
    /// [`TensorLayout::new`], and [`ErrorKind::Mapping`] for Partial and Unknown placements; [`ErrorKind::Process`] if this
    /// process addresses no device; [`ErrorKind::Shape`] if a local extent is none of the two; [`ErrorKind::Process`] if
    /// two processes hold one part and the policy is [`ReplicaPolicy::Disallow`]; else what the backend says.
    #[track_caller]
    pub fn from_process_local_data(
        data: &HostData<'_>,
        global_shape: impl Into<Shape>,
        target: &(impl Target + ?Sized),
        options: impl Into<LocalDataOptions>,
    ) -> Result<Self> {
        let (shape, options) = (global_shape.into(), options.into());
        let value = [format!("local value: {}{} of {shape}", data.dtype(), data.shape())];
        assembled(data, &shape, target, options, Location::caller())
            .map_err(|error| error.with_op("from_process_local_data").with_operands(value))
    }
}

fn assembled(
    data: &HostData<'_>,
    shape: &Shape,
    target: &(impl Target + ?Sized),
    options: LocalDataOptions,
    at: &'static Location<'static>,
) -> Result<Tensor> {
    if data.shape().len() != shape.len() {
        return Err(Error::new(
            ErrorKind::Dimensions,
            format!(
                "the local data has {} axes, the global shape {shape} has {}",
                data.shape().len(),
                shape.len()
            ),
        )
        .with_fix("reshape the local data to as many axes, of extent 1 where there is nothing"));
    }
    options.check()?;
    let layout = TensorLayout::new(data.dtype(), shape, target)?;
    check_host_data(&layout)?;
    let (_, positions) = resolve(layout.mesh())?;
    if positions.is_empty() {
        return Err(Error::new(
            ErrorKind::Process,
            format!("process {} addresses no device of {}", Scope::current().process(), layout.mesh()),
        )
        .with_fix("call it in the processes that the mesh spans"));
    }
    let spans = (0..shape.len()).map(|axis| Spans::new(&layout, &positions, axis));
    let spans: SmallVec<[Spans; 4]> = spans.collect();
    for (axis, ((spans, local), global)) in
        spans.iter().zip(data.shape().iter()).zip(shape.iter()).enumerate()
    {
        if *local != *global && *local != spans.extent {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "the local data has extent {local} on axis {axis}; this process holds {} of {global} indices there",
                    spans.extent
                ),
            )
            .with_fix(format!("give the {} that it holds, or all {global}", spans.extent)));
        }
    }
    if options.policy == ReplicaPolicy::Disallow {
        check_replicas(&layout)?;
    }
    let locate = |region: &Region| -> Region {
        let local = |((ranges, spans), (local, global)): ((&Ranges, &Spans), (&usize, &usize))| {
            if local == global { ranges.clone() } else { spans.local(ranges) }
        };
        region.iter().zip(&spans).zip(data.shape().iter().zip(shape.iter())).map(local).collect()
    };
    making("from_process_local_data", at, &layout, || {
        if options.copy == HostCopy::WhereNeeded
            && let Some(tensor) = Tensor::from_host_views(&layout, data, locate)?
        {
            return Ok(tensor);
        }
        Tensor::from_host_pieces(layout.clone(), data, locate)
    })
}

/// The indices of one tensor axis that this process's devices hold.
struct Spans {
    /// Distinct ranges, ascending, each with the place of its first index in the local data.
    ranges: Vec<(Range<usize>, usize)>,
    extent: usize,
}

impl Spans {
    fn new(layout: &TensorLayout, positions: &[usize], axis: usize) -> Self {
        let extent = layout.shape().extent(axis);
        let held = |position: &usize| layout.mapping().ranges(axis, extent, *position);
        let mut held: Vec<Range<usize>> = positions.iter().flat_map(held).filter(|r| !r.is_empty()).collect();
        // A placement cuts an axis into parts, so distinct ranges do not overlap.
        held.sort_unstable_by_key(|range| range.start);
        held.dedup();
        let mut extent = 0;
        let ranges = held.into_iter().map(|range| {
            let at = extent;
            extent += range.len();
            (range, at)
        });
        let ranges = ranges.collect();
        Self { ranges, extent }
    }

    /// Where ranges of the whole lie in the local data.
    fn local(&self, ranges: &[Range<usize>]) -> Ranges {
        let at = |range: &Range<usize>| {
            let found = self.ranges.binary_search_by_key(&range.start, |(held, _)| held.start);
            let start = found.ok().and_then(|i| self.ranges.get(i)).map_or(0, |(_, at)| *at);
            // Ranges without an index lie nowhere.
            if range.is_empty() { 0..0 } else { start..start + range.len() }
        };
        ranges.iter().map(at).collect()
    }
}

/// No two processes hold one part that has elements.
fn check_replicas(layout: &TensorLayout) -> Result<()> {
    let mesh = layout.mesh();
    if !mesh.is_multi_process() {
        return Ok(());
    }
    let mut holders: FxHashMap<Region, crate::Device> = FxHashMap::default();
    for (position, device) in mesh.devices().enumerate() {
        let region = layout.region(position);
        if region.iter().any(|ranges| ranges.iter().all(Range::is_empty)) {
            continue;
        }
        let first = *holders.entry(region).or_insert(device);
        if first.process != device.process {
            let part: Vec<String> =
                layout.region(position).iter().map(|ranges| format!("{ranges:?}")).collect();
            return Err(Error::new(
                ErrorKind::Process,
                format!("{first} and {device} hold the same part, [{}], in two processes", part.join(", ")),
            )
            .with_fix("ReplicaPolicy::AssumeConsistent, if both processes have the same data"));
        }
    }
    Ok(())
}
