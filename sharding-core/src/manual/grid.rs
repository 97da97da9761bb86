//! Where the members of a region stand: its manual mesh axes, what remains for each member, and the groups that meet.

use super::agreement::GroupKey;
use super::over::Over;
use super::sync::whole;
use crate::tensor::{device_at, resolve};
use crate::{AxisType, DeviceMesh, Error, ErrorKind, Result, Scope};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex};

/// The most members a region may have: each needs a thread.
pub(super) const MOST_MEMBERS: usize = 4096;

/// Numbers of mesh axes.
pub(super) type Axes = SmallVec<[usize; 4]>;

/// One addressable coordinate of the manual axes.
pub(super) struct Member {
    /// Its coordinate, row-major over the manual axes in mesh order.
    pub(super) coord: usize,
    /// The position of its first device.
    pub(super) origin: usize,
    /// The mesh that remains: the axes that are not manual, or one device.
    pub(super) mesh: DeviceMesh,
}

/// The mesh of a region, cut along its manual axes.
pub(super) struct Grid {
    pub(super) mesh: DeviceMesh,
    /// The manual axes, in mesh order.
    pub(super) manual: Axes,
    /// The others, in mesh order.
    pub(super) rest: Axes,
    /// Ascending by coordinate.
    pub(super) members: Vec<Member>,
    groups: Mutex<FxHashMap<(usize, Over), Arc<Group>>>,
}

/// Members that meet in a collective, in the order in which their axes are written.
pub(super) struct Group {
    /// What tells it from groups of other members.
    pub(super) key: GroupKey,
    /// How many coordinates it has, those of other processes included.
    pub(super) size: usize,
    /// The members of this process, in the order of the group.
    pub(super) members: Arc<[usize]>,
    /// The place of each of them in the group.
    pub(super) places: Vec<usize>,
    /// The devices: the axes of the group, then those that remain.
    pub(super) mesh: DeviceMesh,
    /// How many of its axes are the group's.
    pub(super) axes: usize,
}

/// A name for several axes together that none of the others has.
fn joined_name(over: &Over, others: &[&str]) -> String {
    let mut joined = over.names().collect::<Vec<_>>().join("+");
    while others.contains(&joined.as_str()) {
        joined.push('+');
    }
    joined
}

impl Group {
    /// A name for the axes of the group together.
    pub(super) fn joined_name(&self, over: &Over) -> String {
        let rest: Vec<&str> = (self.axes..self.mesh.ndim()).map(|axis| self.mesh.axis_name(axis)).collect();
        joined_name(over, &rest)
    }
}

impl Grid {
    /// # Errors
    /// [`ErrorKind::Axis`] for a name that the mesh lacks; [`ErrorKind::DuplicateAxis`] for one given twice;
    /// [`ErrorKind::Mesh`] for an axis that is not `Manual`, or too many members; [`ErrorKind::Process`] if none is here.
    pub(super) fn new(mesh: &DeviceMesh, names: Option<&[String]>) -> Result<Self> {
        let mut manual = Axes::new();
        match names {
            None => manual.extend(0..mesh.ndim()),
            Some(names) => {
                for name in names {
                    let axis = mesh.axis_index(name)?;
                    if manual.contains(&axis) {
                        return Err(Error::new(
                            ErrorKind::DuplicateAxis,
                            format!("the mesh axis '{name}' is given twice"),
                        )
                        .with_fix("name each mesh axis once"));
                    }
                    manual.push(axis);
                }
                manual.sort_unstable();
            }
        }
        let types = mesh.axis_types();
        if let Some(axis) = manual.iter().find(|axis| types.get(**axis) != Some(&AxisType::Manual)) {
            let types = (0..mesh.ndim()).map(|axis| match (manual.contains(&axis), types.get(axis)) {
                (false, Some(kind)) => format!("AxisType::{kind:?}"),
                _ => "AxisType::Manual".to_owned(),
            });
            let types: Vec<String> = types.collect();
            return Err(Error::new(ErrorKind::Mesh, "a region takes over mesh axes of type Manual only")
                .with_mesh_axis(mesh.axis_name(*axis), mesh.size(*axis))
                .with_fix(format!("shard_map(&mesh.with_axis_types([{}])?)", types.join(", "))));
        }
        let rest: Axes = (0..mesh.ndim()).filter(|axis| !manual.contains(axis)).collect();
        let (_, positions) = resolve(mesh)?;
        let mut coords = Vec::new();
        for position in positions.iter() {
            coords.push(mesh.device_coord(*position, &manual)?);
        }
        coords.sort_unstable();
        coords.dedup();
        if coords.is_empty() {
            return Err(Error::new(ErrorKind::Process, format!("no device of {mesh} is in this process"))
                .with_fix("run the region in a process that has some of the mesh's devices"));
        }
        if coords.len() > MOST_MEMBERS {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("{} coordinates of the manual axes of {mesh} would need a thread each; at most {MOST_MEMBERS} are supported", coords.len()),
            )
            .with_fix("make fewer axes manual: the others stay split inside of the region"));
        }
        let grid = Self { mesh: mesh.clone(), manual, rest, members: Vec::new(), groups: Mutex::default() };
        let members: Result<Vec<Member>> = coords.into_iter().map(|coord| grid.member(coord)).collect();
        Ok(Self { members: members?, ..grid })
    }

    fn member(&self, coord: usize) -> Result<Member> {
        let origin = self.offset(&self.manual, coord);
        let mesh = if self.rest.is_empty() {
            DeviceMesh::single(device_at(&self.mesh, origin)?)
        } else {
            let (devices, shape, names) = self.devices_of([origin], &self.rest)?;
            let types: Vec<AxisType> =
                self.rest.iter().filter_map(|axis| self.mesh.axis_types().get(*axis).copied()).collect();
            DeviceMesh::of_some(&devices, &shape, &names)?.with_axis_types(types)?
        };
        Ok(Member { coord, origin, mesh })
    }

    /// The devices at the origins, each with all of `axes` in row-major order; sizes and names of these.
    fn devices_of(
        &self,
        origins: impl IntoIterator<Item = usize>,
        axes: &[usize],
    ) -> Result<(Vec<crate::Device>, Vec<usize>, Vec<&str>)> {
        let size = self.mesh.axis_size(axes)?;
        let mut devices = Vec::new();
        for origin in origins {
            for i in 0..size {
                devices.push(device_at(&self.mesh, origin + self.offset(axes, i))?);
            }
        }
        let sizes = axes.iter().map(|axis| self.mesh.size(*axis)).collect();
        Ok((devices, sizes, axes.iter().map(|axis| self.mesh.axis_name(*axis)).collect()))
    }

    /// How far a row-major number over some axes is from the device at 0.
    pub(super) fn offset(&self, axes: &[usize], mut number: usize) -> usize {
        let mut offset = 0;
        for axis in axes.iter().rev() {
            let size = self.mesh.size(*axis).max(1);
            offset += number % size * self.mesh.stride(*axis);
            number /= size;
        }
        offset
    }

    /// The member with a coordinate of the manual axes, if this process has it.
    pub(super) fn at_coord(&self, coord: usize) -> Option<usize> {
        match self.members.get(coord) {
            Some(member) if member.coord == coord => Some(coord),
            _ => self.members.binary_search_by_key(&coord, |member| member.coord).ok(),
        }
    }

    /// Manual axes by name, in the order given.
    ///
    /// # Errors
    /// [`ErrorKind::Axis`] for one that is not there, or not manual; [`ErrorKind::DuplicateAxis`] for one given twice.
    pub(super) fn axes<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Axes> {
        let mut axes = Axes::new();
        for name in names {
            let axis = self.mesh.axis_index(name)?;
            if !self.manual.contains(&axis) {
                let manual: Vec<&str> = self.manual.iter().map(|axis| self.mesh.axis_name(*axis)).collect();
                return Err(Error::new(
                    ErrorKind::Axis,
                    format!("the mesh axis '{name}' is not manual in this region"),
                )
                .with_mesh_axis(name, self.mesh.size(axis))
                .with_fix(format!("use one of {}", manual.join(", "))));
            }
            if axes.contains(&axis) {
                return Err(Error::new(
                    ErrorKind::DuplicateAxis,
                    format!("the mesh axis '{name}' is given twice"),
                )
                .with_fix("name each mesh axis once"));
            }
            axes.push(axis);
        }
        if axes.is_empty() {
            let manual: Vec<&str> = self.manual.iter().map(|axis| self.mesh.axis_name(*axis)).collect();
            return Err(Error::new(ErrorKind::Axis, "a collective needs at least one mesh axis")
                .with_fix(format!("name one of {}, or several", manual.join(", "))));
        }
        Ok(axes)
    }

    /// `device (x=0, y=1)`.
    pub(super) fn name(&self, member: usize) -> String {
        let Some(member) = self.members.get(member) else { return format!("member {member}") };
        let coord = |axis: &usize| {
            format!("{}={}", self.mesh.axis_name(*axis), self.mesh.coord(member.origin, *axis))
        };
        format!("device ({})", self.manual.iter().map(coord).collect::<Vec<_>>().join(", "))
    }

    /// The group in which a member meets others over some axes.
    ///
    /// # Errors
    /// As [`Grid::axes`]; [`ErrorKind::Argument`] for groups that do not cover the axes once; [`ErrorKind::Process`] where
    /// some members are in another process.
    pub(super) fn group(&self, member: usize, over: &Over) -> Result<Arc<Group>> {
        if let Some(known) = whole(self.groups.lock()).get(&(member, over.clone())) {
            return Ok(known.clone());
        }
        let made = Arc::new(self.make_group(member, over)?);
        let mut groups = whole(self.groups.lock());
        // Groups by index may be without number.
        if groups.len() > MOST_MEMBERS * 4 {
            groups.clear();
        }
        for member in made.members.iter() {
            groups.insert((*member, over.clone()), made.clone());
        }
        Ok(made)
    }

    fn make_group(&self, member: usize, over: &Over) -> Result<Group> {
        let axes = self.axes(over.names())?;
        let Some(own) = self.members.get(member) else {
            return Err(Error::new(ErrorKind::Internal, format!("there is no member {member}")));
        };
        let size = self.mesh.axis_size(&axes)?;
        let number = self.mesh.device_coord(own.origin, &axes)?;
        let base = own.origin - self.offset(&axes, number);
        let numbers: Vec<usize> = match over.groups_of(size)? {
            None => (0..size).collect(),
            Some(groups) => groups.iter().find(|group| group.contains(&number)).cloned().unwrap_or_default(),
        };
        let origins: Vec<usize> = numbers.iter().map(|number| base + self.offset(&axes, *number)).collect();
        let (mut members, mut places) = (Vec::new(), Vec::new());
        for (place, origin) in origins.iter().enumerate() {
            match self.at_coord(self.mesh.device_coord(*origin, &self.manual)?) {
                Some(member) => {
                    members.push(member);
                    places.push(place);
                }
                None => {
                    let device = device_at(&self.mesh, *origin)?;
                    if device.process != Scope::current().process() {
                        return Err(Error::new(
                            ErrorKind::Process,
                            format!("{device} is in another process; collectives of a region stay in one"),
                        )
                        .with_fix(
                            "make axes manual that stay in a process, or redistribute outside of the region",
                        ));
                    }
                }
            }
        }
        let (devices, rest_sizes, rest_names) = self.devices_of(origins.iter().copied(), &self.rest)?;
        let joined = joined_name(over, &rest_names);
        let (mut sizes, mut names): (Vec<usize>, Vec<&str>) = if over.has_groups() {
            (vec![numbers.len()], vec![&joined])
        } else {
            axes.iter().map(|axis| (self.mesh.size(*axis), self.mesh.axis_name(*axis))).unzip()
        };
        let own_axes = sizes.len();
        sizes.extend(rest_sizes);
        names.extend(rest_names);
        let mask = axes.iter().fold(0_u64, |mask, axis| mask | 1 << axis);
        Ok(Group {
            key: (mask, origins.iter().copied().min().unwrap_or(base)),
            size: numbers.len(),
            members: members.into(),
            places,
            mesh: DeviceMesh::of_some(&devices, &sizes, &names)?,
            axes: own_axes,
        })
    }
}
