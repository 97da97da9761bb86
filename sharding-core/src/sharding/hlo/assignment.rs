//! Tile assignments: which device holds which tile.

use super::runs::{Axes, Run, Runs, strides};
use crate::sharding::Parts;
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most devices for which a list is made where arithmetic does not do.
const MOST_LISTED: usize = 1 << 20;

/// Which device holds which tile of a grid: a number in `0..n` for each of the `n` places of the grid, each once.
///
/// The numbers are places in an ordered list of devices. They are either listed, or given by arithmetic (XLA's *iota*
/// form): the numbers `0..n` as an array of some shape, its axes in another order, read row by row. That form answers for
/// one of a million devices without a list. Two assignments are equal if grid and numbers are, in whichever form.
///
/// ```
/// use sharding_core::sharding::TileAssignment;
/// // [[0, 4], [1, 5], [2, 6], [3, 7]]
/// let columns = TileAssignment::iota([4, 2], [2, 4], [1, 0])?;
/// assert_eq!(columns.device(3), Some(5));
/// assert_eq!(columns, TileAssignment::listed([4, 2], [0, 4, 1, 5, 2, 6, 3, 7])?);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone)]
pub struct TileAssignment {
    dims: Axes,
    devices: Devices,
}

#[derive(Clone)]
enum Devices {
    Runs(Runs),
    List(Arc<List>),
}

struct List {
    devices: Box<[usize]>,
    /// Where each device is in the list above.
    positions: Box<[usize]>,
}

impl TileAssignment {
    /// The numbers `0..n` as an array of shape `reshape`, with its axes in the order `perm`, read row by row into a grid of
    /// shape `dims`.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a size is 0, `perm` does not name each axis of `reshape` once, or the products of `dims`
    /// and `reshape` differ; [`ErrorKind::Overflow`] if a product does not fit.
    pub fn iota(
        dims: impl AsRef<[usize]>,
        reshape: impl AsRef<[usize]>,
        perm: impl AsRef<[usize]>,
    ) -> Result<Self> {
        let (dims, reshape, perm) = (dims.as_ref(), reshape.as_ref(), perm.as_ref());
        let (n, numbers) = (checked_product(dims)?, checked_product(reshape)?);
        if n != numbers {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "a tile assignment of shape {dims:?} has {n} tiles, but {reshape:?} has {numbers} devices"
                ),
            )
            .with_fix("make the products of both equal"));
        }
        let mut seen = vec![false; reshape.len()];
        let fresh = |axis: &usize| seen.get_mut(*axis).is_some_and(|seen| !std::mem::replace(seen, true));
        if perm.len() != reshape.len() || !perm.iter().all(fresh) {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "the order {perm:?} does not name each of the {} axes of {reshape:?} once",
                    reshape.len()
                ),
            )
            .with_fix(format!("write an order of 0..{}, or none", reshape.len())));
        }
        Ok(Self { dims: dims.into(), devices: Devices::Runs(Runs::of_iota(reshape, perm)) })
    }

    /// The numbers `0..n`, row by row in a grid of shape `dims`.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a size is 0, [`ErrorKind::Overflow`] if their product does not fit.
    pub fn row_major(dims: impl AsRef<[usize]>) -> Result<Self> {
        let dims = dims.as_ref();
        Self::iota(dims, [checked_product(dims)?], [0])
    }

    /// A list of devices, row by row in a grid of shape `dims`.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a size is 0, the list has not one device per tile, or does not have each number below its
    /// length once; [`ErrorKind::Overflow`] if the product of the sizes does not fit.
    pub fn listed(dims: impl AsRef<[usize]>, devices: impl AsRef<[usize]>) -> Result<Self> {
        let (dims, devices) = (dims.as_ref(), devices.as_ref());
        let n = checked_product(dims)?;
        if devices.len() != n {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "a tile assignment of shape {dims:?} has {n} tiles, but {} devices are listed",
                    devices.len()
                ),
            )
            .with_fix(format!("list {n} devices")));
        }
        let mut positions = vec![usize::MAX; n];
        for (at, device) in devices.iter().enumerate() {
            let what = match positions.get_mut(*device) {
                Some(position) if *position == usize::MAX => {
                    *position = at;
                    continue;
                }
                Some(position) => format!("stands at {position} already"),
                None => format!("is out of range for {n} devices"),
            };
            return Err(Error::new(
                ErrorKind::Mapping,
                format!("the device {device} at {at} in the list of a tile assignment {what}"),
            )
            .with_fix(format!("list each number in 0..{n} once")));
        }
        let list = List { devices: devices.into(), positions: positions.into() };
        Ok(Self { dims: dims.into(), devices: Devices::List(Arc::new(list)) })
    }

    /// The shape of the grid.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }
    /// The number of devices, and of places in the grid.
    pub fn num_devices(&self) -> usize {
        self.dims.iter().product()
    }
    /// The device at a row-major position of the grid.
    pub fn device(&self, position: usize) -> Option<usize> {
        match &self.devices {
            Devices::Runs(runs) => (position < self.num_devices()).then(|| runs.device(position)),
            Devices::List(list) => list.devices.get(position).copied(),
        }
    }
    /// The row-major position in the grid of a device.
    pub fn position(&self, device: usize) -> Option<usize> {
        match &self.devices {
            Devices::Runs(runs) => (device < self.num_devices()).then(|| runs.position(device)),
            Devices::List(list) => list.positions.get(device).copied(),
        }
    }
    /// All devices, in row-major order of the grid.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        (0..self.num_devices()).map(|position| self.device(position).unwrap_or(position))
    }
    /// Shape and order of the iota form, in the canonical spelling; `None` for a list.
    pub fn iota_form(&self) -> Option<(Vec<usize>, Vec<usize>)> {
        match &self.devices {
            Devices::Runs(runs) => {
                let (reshape, perm) = runs.iota();
                Some((reshape.into_vec(), perm.into_vec()))
            }
            Devices::List(_) => None,
        }
    }

    /// The digits of each dimension, if all are digits of the devices' numbers; looks through a list.
    pub(super) fn digits(&self) -> Option<Vec<SmallVec<[Run; 2]>>> {
        match &self.devices {
            Devices::Runs(runs) => runs.grouped(&self.dims),
            Devices::List(list) => Runs::of_list(&list.devices)?.grouped(&self.dims),
        }
    }

    /// For every dimension, which part of it each device holds.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if that takes a list of more devices than are listed.
    pub(in crate::sharding) fn parts(&self) -> Result<Vec<Parts>> {
        if let Some(groups) = self.digits() {
            let digits =
                |runs: &SmallVec<[Run; 2]>| Parts::digits(runs.iter().map(|run| (run.size, run.stride)));
            return Ok(groups.iter().map(digits).collect());
        }
        self.check_listed()?;
        let part = |(dim, stride): (&usize, &usize)| {
            let parts =
                (0..self.num_devices()).map(|device| self.position(device).unwrap_or(0) / stride % dim);
            Parts::listed(*dim, parts.collect::<Vec<_>>())
        };
        Ok(self.dims.iter().zip(&strides(&self.dims)).map(part).collect())
    }

    /// The same devices, row by row in a grid of another shape.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if a size is 0 or the products differ, [`ErrorKind::Overflow`] if the product does not fit.
    pub(in crate::sharding) fn reshape(&self, dims: &[usize]) -> Result<Self> {
        let n = checked_product(dims)?;
        if n != self.num_devices() {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!(
                    "a grid of shape {:?} cannot be read as {dims:?}: {} tiles against {n}",
                    self.dims(),
                    self.num_devices()
                ),
            )
            .with_fix("keep the product of the sizes"));
        }
        Ok(Self { dims: dims.into(), devices: self.devices.clone() })
    }

    /// The grid with its axes in another order, which must name each once.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if that takes a list of more devices than are listed.
    pub(in crate::sharding) fn transpose(&self, order: &[usize]) -> Result<Self> {
        let dims: Axes = order.iter().filter_map(|axis| self.dims.get(*axis).copied()).collect();
        // Axes of size 1 may stand anywhere.
        if order.iter().filter(|axis| self.dims.get(**axis).is_some_and(|dim| *dim > 1)).is_sorted() {
            return Ok(Self { dims, devices: self.devices.clone() });
        }
        if let Devices::Runs(runs) = &self.devices
            && let Some(groups) = runs.grouped(&self.dims)
        {
            let runs = order.iter().filter_map(|axis| groups.get(*axis)).flatten().copied();
            return Ok(Self { dims, devices: Devices::Runs(Runs::new(runs)) });
        }
        let old = Runs::of_iota(&self.dims, order);
        self.relisted(dims, |_, at| self.device(old.device(at)))
    }

    /// The grid with the devices along its last axis in ascending order.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if that takes a list of more devices than are listed.
    pub(in crate::sharding) fn with_last_axis_sorted(&self) -> Result<Self> {
        let last = self.dims.last().copied().unwrap_or(1);
        if last == 1 {
            return Ok(self.clone());
        }
        if let Devices::Runs(runs) = &self.devices
            && let Some(mut groups) = runs.grouped(&self.dims)
        {
            // Strides are nested, so the larger digit first is the smaller device first.
            if let Some(group) = groups.last_mut() {
                group.sort_unstable_by_key(|run| std::cmp::Reverse(run.stride));
            }
            let runs = Runs::new(groups.into_iter().flatten());
            return Ok(Self { dims: self.dims.clone(), devices: Devices::Runs(runs) });
        }
        let mut group = Vec::new();
        let sorted = self.relisted(self.dims.clone(), |_, at| {
            if at % last == 0 {
                group = (at..at + last).filter_map(|at| self.device(at)).collect();
                group.sort_unstable();
            }
            group.get(at % last).copied()
        })?;
        // Where nothing changed, arithmetic still does.
        Ok(if sorted == *self { self.clone() } else { sorted })
    }

    /// Whether a list may be made, if it is none already.
    fn check_listed(&self) -> Result<()> {
        let n = self.num_devices();
        if n <= MOST_LISTED || matches!(self.devices, Devices::List(_)) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Overflow,
            format!("{self} cuts within a factor of {n} devices, which takes a list; at most {MOST_LISTED} are listed"),
        )
        .with_fix("use sizes that the factors of the iota form divide by"))
    }

    fn relisted(&self, dims: Axes, mut device: impl FnMut(&Self, usize) -> Option<usize>) -> Result<Self> {
        self.check_listed()?;
        let n = self.num_devices();
        let devices: Vec<usize> = (0..n).filter_map(|at| device(self, at)).collect();
        Self::listed(dims, devices)
    }
}

/// The product of sizes of at least 1.
fn checked_product(sizes: &[usize]) -> Result<usize> {
    if sizes.contains(&0) {
        return Err(Error::new(
            ErrorKind::Mapping,
            format!("a tile assignment has no tiles along a size of 0: {sizes:?}"),
        )
        .with_fix("write 1 where nothing is split"));
    }
    let product = sizes.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
    product.filter(|n| *n <= isize::MAX as usize).ok_or_else(|| {
        Error::new(ErrorKind::Overflow, format!("the sizes {sizes:?} have too many tiles"))
            .with_fix("use smaller sizes")
    })
}

impl PartialEq for TileAssignment {
    fn eq(&self, other: &Self) -> bool {
        self.dims == other.dims
            && match (&self.devices, &other.devices) {
                // Canonical, so equal numbers are equal runs.
                (Devices::Runs(a), Devices::Runs(b)) => a == b,
                (Devices::List(a), Devices::List(b)) => Arc::ptr_eq(a, b) || a.devices == b.devices,
                _ => self.devices().eq(other.devices()),
            }
    }
}
impl Eq for TileAssignment {}

impl Hash for TileAssignment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Both forms must hash alike without going through a million devices: a few of them tell most apart.
        self.dims.hash(state);
        let step = (self.num_devices() / 8).max(1);
        (0..8).for_each(|i| self.device(i * step + i).hash(state));
    }
}

/// `[4,2]<=[2,4]T(1,0)` or `[2,2]0,2,1,3`.
impl fmt::Display for TileAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        write_list(f, self.dims.iter().copied())?;
        f.write_str("]")?;
        match &self.devices {
            Devices::List(list) => write_list(f, list.devices.iter().copied()),
            Devices::Runs(runs) => {
                let (reshape, perm) = runs.iota();
                f.write_str("<=[")?;
                write_list(f, reshape.iter().copied())?;
                f.write_str("]")?;
                if perm.len() > 1 {
                    f.write_str("T(")?;
                    write_list(f, perm.iter().copied())?;
                    f.write_str(")")?;
                }
                Ok(())
            }
        }
    }
}
impl fmt::Debug for TileAssignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, mut numbers: impl Iterator<Item = usize>) -> fmt::Result {
    if let Some(first) = numbers.next() {
        write!(f, "{first}")?;
    }
    numbers.try_for_each(|number| write!(f, ",{number}"))
}
