//! The grid of a mesh: sizes and names of its axes, and what follows from them without devices.

use crate::text::clean;
use crate::{Error, ErrorKind, Result};
use smallvec::SmallVec;
use std::fmt;

/// Sizes and names of mesh axes that are known to be valid.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Grid {
    pub(super) shape: SmallVec<[usize; 4]>,
    pub(super) names: SmallVec<[Box<str>; 4]>,
}

impl Grid {
    pub(super) fn axis_names(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.names.iter().map(|name| &**name)
    }
    pub(super) fn axis_name(&self, axis: usize) -> &str {
        self.names.get(axis).map_or("", |name| name)
    }
    pub(super) fn size(&self, axis: usize) -> usize {
        self.shape.get(axis).copied().unwrap_or(1)
    }
    pub(super) fn num_devices(&self) -> usize {
        self.shape.iter().product()
    }

    /// The axis of that name; `mesh` is how errors call the mesh, as in all methods here.
    pub(super) fn axis_index(&self, mesh: &dyn fmt::Display, name: &str) -> Result<usize> {
        self.axis_names().position(|known| known == name).ok_or_else(|| {
            let known: Vec<_> = self.axis_names().collect();
            Error::new(ErrorKind::Axis, format!("{mesh} has no mesh axis '{name}'"))
                .with_fix(format!("use one of {}", known.join(", ")))
        })
    }

    pub(super) fn axis_size(&self, mesh: &dyn fmt::Display, axes: &[usize]) -> Result<usize> {
        axes.iter().try_fold(1_usize, |n, axis| Ok(n.saturating_mul(self.checked_axis(mesh, *axis)?)))
    }

    pub(super) fn device_coord(
        &self,
        mesh: &dyn fmt::Display,
        position: usize,
        axes: &[usize],
    ) -> Result<usize> {
        let devices = self.num_devices();
        if position >= devices {
            return Err(Error::new(
                ErrorKind::Axis,
                format!("device {position} is out of range for {mesh} of {devices} devices"),
            )
            .with_fix(format!("use a position in 0..{devices}")));
        }
        axes.iter().try_fold(0_usize, |coord, axis| {
            let size = self.checked_axis(mesh, *axis)?;
            Ok(coord.saturating_mul(size).saturating_add(self.coord(position, *axis)))
        })
    }

    fn checked_axis(&self, mesh: &dyn fmt::Display, axis: usize) -> Result<usize> {
        self.shape.get(axis).copied().ok_or_else(|| {
            let ndim = self.shape.len();
            Error::new(
                ErrorKind::Axis,
                format!("mesh axis {axis} is out of range for {mesh} of {ndim} mesh axes"),
            )
            .with_fix(format!("use an axis in 0..{ndim}"))
        })
    }

    pub(super) fn coord(&self, position: usize, axis: usize) -> usize {
        position / self.stride(axis).max(1) % self.size(axis).max(1)
    }

    pub(super) fn stride(&self, axis: usize) -> usize {
        self.shape.iter().skip(axis.saturating_add(1)).product()
    }

    pub(super) fn group(&self, position: usize, axes: &[usize]) -> SmallVec<[usize; 8]> {
        let mut base = position;
        let mut group: SmallVec<[usize; 8]> = SmallVec::from_elem(0, 1);
        for (i, axis) in axes.iter().enumerate() {
            if axes.iter().take(i).any(|earlier| earlier == axis) {
                continue;
            }
            base -= self.coord(position, *axis) * self.stride(*axis);
            group = group
                .iter()
                .flat_map(|offset| (0..self.size(*axis)).map(move |c| offset + c * self.stride(*axis)))
                .collect();
        }
        group.iter_mut().for_each(|offset| *offset += base);
        group
    }

    /// That axes exist, are distinct, and that there is one: what a sub-mesh keeps.
    pub(super) fn check_kept(&self, mesh: &dyn fmt::Display, axes: &[usize]) -> Result<()> {
        self.axis_size(mesh, axes)?;
        if let Some(twice) =
            axes.iter().enumerate().find(|(i, axis)| axes.iter().take(*i).any(|a| a == *axis))
        {
            return Err(Error::new(
                ErrorKind::DuplicateAxis,
                format!("the mesh axis '{}' of {mesh} is given twice", self.axis_name(*twice.1)),
            )
            .with_fix("name each mesh axis once"));
        }
        if axes.is_empty() {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("a sub-mesh of {mesh} needs at least one mesh axis"),
            )
            .with_fix("name an axis, or DeviceMesh::single(device) for one device"));
        }
        Ok(())
    }

    /// The grid of some of the axes, in the order given.
    pub(super) fn keep(&self, axes: &[usize]) -> Self {
        Self {
            shape: axes.iter().map(|axis| self.size(*axis)).collect(),
            names: axes.iter().map(|axis| self.axis_name(*axis).into()).collect(),
        }
    }

    /// `name(dp=2, tp=4)`.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        write!(f, "{name}(")?;
        for (i, (axis, size)) in self.names.iter().zip(&self.shape).enumerate() {
            write!(f, "{}{}={size}", if i > 0 { ", " } else { "" }, clean(axis))?;
        }
        f.write_str(")")
    }
}
