//! What lies where: the one form in which all kinds of shardings are compared and asked.

use super::Parts;
use crate::placement::{Interned, Ranges};
use crate::split::balanced;
use crate::{DeviceMesh, Error, ErrorKind, Place, Region, Result, Shape};
use smallvec::{SmallVec, smallvec};

/// How a sharding cuts tensors of some number of axes, and which device holds which part.
///
/// Two shardings of the same devices put the same data in the same places exactly if their tilings are
/// [`Tiling::same`]; names, types and shapes of meshes play no role.
#[derive(Clone, Debug)]
pub struct Tiling {
    num_devices: usize,
    ndim: usize,
    // Axes beyond the last one that is cut are whole.
    axes: SmallVec<[Cut; 4]>,
    // What is not told apart by indices: `Partial` of an op, `Unknown`, custom placements without a tensor axis. Each
    // appears once, sorted by digest, and has more than one way.
    terms: SmallVec<[(Place, Parts); 1]>,
}

/// How one tensor axis is cut.
#[derive(Clone, Debug)]
struct Cut {
    parts: Parts,
    // `None`: evenly, or balanced.
    by: Option<&'static Interned>,
    // Shards have no such axis: each holds one index of it.
    dropped: bool,
}

impl Cut {
    fn whole() -> Self {
        Self { parts: Parts::whole(), by: None, dropped: false }
    }
    fn is_whole(&self) -> bool {
        self.by.is_none() && !self.dropped && self.parts.ways() == 1
    }
    fn same(&self, other: &Self, positions: usize) -> bool {
        self.by.map(Place::Custom) == other.by.map(Place::Custom)
            && self.dropped == other.dropped
            && self.parts.same(&other.parts, positions)
    }
}

impl Tiling {
    /// Everything on all of so many devices, for tensors of `ndim` axes.
    pub fn replicated(num_devices: usize, ndim: usize) -> Self {
        Self { num_devices, ndim, axes: SmallVec::new(), terms: SmallVec::new() }
    }

    /// This tiling with a tensor axis cut into parts of balanced (or equal) size.
    ///
    /// # Errors
    /// [`ErrorKind::Dimensions`] if a tensor axis that does not exist would be cut into more than one part.
    pub fn cut(self, tensor_axis: usize, parts: Parts) -> Result<Self> {
        self.cut_by(tensor_axis, parts, None)
    }

    pub(super) fn cut_by(
        mut self,
        tensor_axis: usize,
        parts: Parts,
        by: Option<&'static Interned>,
    ) -> Result<Self> {
        let ndim = self.ndim;
        if tensor_axis < ndim {
            if self.axes.len() <= tensor_axis {
                self.axes.resize_with(tensor_axis + 1, Cut::whole);
            }
            if let Some(cut) = self.axes.get_mut(tensor_axis) {
                *cut = Cut { parts, by, dropped: false };
            }
        } else if parts.ways() > 1 {
            return Err(Error::new(
                ErrorKind::Dimensions,
                format!(
                    "tensor axis {tensor_axis} is cut {} ways, but the tensor has {ndim} axes",
                    parts.ways()
                ),
            )
            .with_fix(format!(
                "ask about at least {} tensor axes, or cut fewer",
                tensor_axis.saturating_add(1)
            )));
        }
        Ok(self)
    }

    /// This tiling with devices that hold different terms of one value (`Partial`), or things with no known relation
    /// (`Unknown`): devices of one part hold the same.
    #[must_use]
    pub fn with_terms(mut self, place: Place, parts: Parts) -> Self {
        if parts.ways() > 1 {
            self.terms.push((place, parts));
            self.terms.sort_by_key(|(place, _)| place.digest());
        }
        self
    }

    /// This tiling with shards that lack a tensor axis, which was cut before: each device holds one index of it.
    #[must_use]
    pub(super) fn dropping(mut self, tensor_axis: usize) -> Self {
        if let Some(cut) = self.axes.get_mut(tensor_axis) {
            cut.dropped = true;
        }
        self
    }
    fn is_kept(&self, tensor_axis: usize) -> bool {
        !self.axes.get(tensor_axis).is_some_and(|cut| cut.dropped)
    }

    /// The number of tensor axes it was made for.
    pub fn ndim(&self) -> usize {
        self.ndim
    }
    /// The number of devices.
    pub fn num_devices(&self) -> usize {
        self.num_devices
    }
    /// How many parts a tensor axis is cut into.
    pub fn ways(&self, tensor_axis: usize) -> usize {
        self.axes.get(tensor_axis).map_or(1, |cut| cut.parts.ways())
    }
    /// The part of a tensor axis that the device at a position holds.
    pub fn part(&self, tensor_axis: usize, position: usize) -> usize {
        self.axes.get(tensor_axis).map_or(0, |cut| cut.parts.part(position))
    }
    /// Whether every device holds everything.
    pub fn is_fully_replicated(&self) -> bool {
        self.terms.is_empty() && self.axes.iter().all(Cut::is_whole)
    }
    /// The placements by which devices hold terms of a value, or things with no known relation.
    pub fn terms(&self) -> impl ExactSizeIterator<Item = Place> + '_ {
        self.terms.iter().map(|(place, _)| *place)
    }

    /// Whether both put the same data at the same positions, whatever the shape of the tensor.
    pub fn same(&self, other: &Self) -> bool {
        if self.is_fully_replicated() && other.is_fully_replicated() {
            return true;
        }
        self.num_devices == other.num_devices
            && self.ndim == other.ndim
            && (0..self.axes.len().max(other.axes.len())).all(|axis| {
                match (self.axes.get(axis), other.axes.get(axis)) {
                    (Some(a), Some(b)) => a.same(b, self.num_devices),
                    (a, b) => a.or(b).is_none_or(Cut::is_whole),
                }
            })
            && self.terms.len() == other.terms.len()
            && self
                .terms
                .iter()
                .zip(&other.terms)
                .all(|((p, a), (q, b))| p == q && a.same(b, self.num_devices))
    }

    /// The index ranges of a tensor axis of that extent at a position.
    pub fn ranges(&self, tensor_axis: usize, extent: usize, position: usize) -> Ranges {
        let Some(Cut { parts, by, .. }) = self.axes.get(tensor_axis) else { return smallvec![0..extent] };
        match by {
            Some(custom) => custom.placement().ranges(extent, parts.ways(), parts.part(position)),
            None => smallvec![balanced(extent, parts.ways(), parts.part(position))],
        }
    }
    /// The index ranges of every tensor axis at a position.
    pub fn region(&self, shape: &Shape, position: usize) -> Region {
        shape.iter().enumerate().map(|(axis, extent)| self.ranges(axis, *extent, position)).collect()
    }
    /// The shape of the shard at a position.
    pub fn local_shape(&self, shape: &Shape, position: usize) -> Shape {
        let region = self.region(shape, position);
        let kept = region.iter().enumerate().filter(|(axis, _)| self.is_kept(*axis));
        kept.map(|(_, ranges)| ranges.iter().map(|range| range.len()).sum()).collect()
    }

    /// The shape of every shard, if they are alike; else the first tensor axis where they differ.
    pub(super) fn even_shape(&self, shape: &Shape) -> std::result::Result<Shape, usize> {
        let size = |custom: &Interned, extent: usize, ways: usize, part: usize| -> usize {
            custom.placement().ranges(extent, ways, part).iter().map(|range| range.len()).sum()
        };
        shape
            .iter()
            .enumerate()
            .filter(|(axis, _)| self.is_kept(*axis))
            .map(|(axis, extent)| {
                let Some(Cut { parts, by, .. }) = self.axes.get(axis) else { return Ok(*extent) };
                let ways = parts.ways().max(1);
                let (each, even) = match by {
                    None => (extent / ways, extent % ways == 0),
                    Some(custom) => {
                        let first = size(custom, *extent, ways, 0);
                        (first, (1..ways).all(|part| size(custom, *extent, ways, part) == first))
                    }
                };
                if even { Ok(each) } else { Err(axis) }
            })
            .collect()
    }

    /// How many devices before that one hold the same indices: its replica id.
    ///
    /// Costs a few divisions where parts are counted by digits and extents divide, else a walk over the devices before.
    pub fn replica_id(&self, shape: &Shape, position: usize) -> usize {
        if let Some(id) = self.replica_by_digits(shape, position) {
            return id;
        }
        let region = self.region(shape, position);
        (0..position).filter(|earlier| self.region(shape, *earlier) == region).count()
    }

    fn replica_by_digits(&self, shape: &Shape, position: usize) -> Option<usize> {
        let mut used: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        for (cut, extent) in self.axes.iter().zip(shape.iter()) {
            let ways = cut.parts.ways();
            // Of an extent of 0 all parts are the same empty range; with fewer elements than parts some are.
            if ways == 1 || (*extent == 0 && cut.by.is_none()) {
                continue;
            }
            if cut.by.is_some() || *extent < ways {
                return None;
            }
            used.extend(cut.parts.as_digits()?.iter().map(|(size, stride)| (*stride, *size)));
        }
        used.sort_unstable();
        // Replicas differ in what lies between the digits that count; earlier ones are smaller there.
        let (mut id, mut below, mut weight) = (0, 1, 1);
        for (stride, size) in used.into_iter().chain([(self.num_devices, 1)]) {
            // Digits that overlap are no grid: the walk decides.
            if stride.checked_rem(below)? != 0 {
                return None;
            }
            let free = stride / below;
            id += position / below % free.max(1) * weight;
            weight *= free;
            below = stride.saturating_mul(size);
        }
        Some(id)
    }
}

/// Digits of mesh axes, in the order given: what counts the parts of a tensor axis that they split.
pub(super) fn mesh_digits(shape: &[usize], axes: impl IntoIterator<Item = usize>) -> Parts {
    Parts::digits(axes.into_iter().filter_map(|axis| {
        let below = shape.get(axis.checked_add(1)?..)?.iter().product();
        Some((*shape.get(axis)?, below))
    }))
}

/// The position of a device, or an error that names the devices.
pub(super) fn position_in(
    mesh: &DeviceMesh,
    device: crate::Device,
    what: &dyn std::fmt::Display,
) -> Result<usize> {
    mesh.position_of(device).ok_or_else(|| {
        let first = mesh.device(0).map(|first| first.to_string()).unwrap_or_default();
        Error::new(ErrorKind::Argument, format!("{device} is not a device of {what}"))
            .with_fix(format!("ask about one of its {} devices, {first} and following", mesh.num_devices()))
    })
}
