//! HLO-style shardings: tiles of a tensor over numbered devices, as XLA writes them.
//!
//! Devices are numbers here: places in some ordered list of devices, such as the row-major order of a mesh.

mod assignment;
mod mesh_axes;
mod named;
mod runs;
mod text;

#[cfg(test)]
mod tests;

pub use assignment::TileAssignment;
pub use mesh_axes::MeshAxes;

use crate::{Error, ErrorKind, MAX_TENSOR_AXES, Result};
use runs::Axes;
use smallvec::SmallVec;

/// What the devices of one tile are to each other.
///
/// In this order the subgroups of a canonical sharding stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subgroup {
    /// Each device has a view of its own, in a manual region.
    Manual,
    /// Each holds a term; the tile is their combination.
    Unreduced,
    /// All hold the same.
    Replicated,
}

impl Subgroup {
    const ALL: [Self; 3] = [Self::Manual, Self::Unreduced, Self::Replicated];

    /// `manual`, `unreduced`, `replicated`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Unreduced => "unreduced",
            Self::Replicated => "replicated",
        }
    }
}

/// How a tensor, or each of several, lies on numbered devices: XLA's `HloSharding`.
///
/// Values are canonical: what puts the same data in the same places in the same number of dimensions is equal, whether its
/// devices are listed or in iota form.
///
/// * subgroups of one kind are one, of size above 1, and stand in the order of [`Subgroup`], after the data dimensions;
/// * the devices of a replicated subgroup are in ascending order;
/// * where no data dimension is split and there is one kind of subgroup, or one device, the sharding is that kind.
///
/// The text is XLA's, and is read back:
///
/// ```
/// use sharding_core::sharding::{HloSharding, Subgroup, TileAssignment};
/// let tiles = TileAssignment::iota([2, 2, 2], [8], [0])?;
/// let rows = HloSharding::tiled(tiles, [Subgroup::Replicated, Subgroup::Replicated])?;
/// assert_eq!(rows.to_string(), "{devices=[2,4]<=[8] last_tile_dim_replicate}");
/// assert_eq!("{devices=[2,4]1,0,3,2,4,5,6,7 last_tile_dim_replicate}".parse::<HloSharding>()?, rows);
/// # Ok::<(), sharding_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HloSharding(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Whole(Subgroup),
    Unknown,
    Maximal(usize),
    Tuple(Box<[HloSharding]>),
    Tiled(TileAssignment, SmallVec<[Subgroup; 2]>),
}

/// The kind of an [`HloSharding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HloKind {
    /// Every device holds the whole.
    Replicated,
    /// One device holds the whole, and no other holds anything.
    Maximal,
    /// Several tensors, each with a sharding of its own.
    Tuple,
    /// A grid of tiles.
    Tiled,
    /// Each device has a view of its own, in a manual region.
    Manual,
    /// Nothing is said.
    Unknown,
    /// Every device holds a term of the shape of the whole.
    Unreduced,
}

impl HloSharding {
    /// Every device holds the whole.
    pub const fn replicated() -> Self {
        Self(Form::Whole(Subgroup::Replicated))
    }
    /// Each device has a view of its own.
    pub const fn manual() -> Self {
        Self(Form::Whole(Subgroup::Manual))
    }
    /// Every device holds a term of the whole.
    pub const fn unreduced() -> Self {
        Self(Form::Whole(Subgroup::Unreduced))
    }
    /// Nothing is said.
    pub const fn unknown() -> Self {
        Self(Form::Unknown)
    }
    /// The device of that number holds the whole, and no other holds anything.
    pub const fn maximal(device: usize) -> Self {
        Self(Form::Maximal(device))
    }

    /// Several tensors, each with a sharding of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if one of them is a tuple itself.
    pub fn tuple(elements: impl IntoIterator<Item = Self>) -> Result<Self> {
        let elements: Box<[Self]> = elements.into_iter().collect();
        if let Some(at) = elements.iter().position(|element| element.kind() == HloKind::Tuple) {
            return Err(Error::new(
                ErrorKind::Mapping,
                format!("element {at} of a tuple of shardings is a tuple"),
            )
            .with_fix("give the shardings of all tensors in one flat tuple"));
        }
        Ok(Self(Form::Tuple(elements)))
    }

    /// A grid of tiles: one dimension per axis of the tensor, and then one per subgroup.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] if the grid has fewer dimensions than subgroups, or more data dimensions than a tensor;
    /// [`ErrorKind::Overflow`] if the canonical form takes a list of more devices than are listed.
    pub fn tiled(tiles: TileAssignment, subgroups: impl AsRef<[Subgroup]>) -> Result<Self> {
        let subgroups = subgroups.as_ref();
        let data = match tiles.dims().len().checked_sub(subgroups.len()) {
            Some(data) if data <= MAX_TENSOR_AXES => data,
            found => {
                let what = found.map_or_else(
                    || format!("{} subgroups need as many dimensions", subgroups.len()),
                    |data| {
                        format!("{data} data dimensions are more than the {MAX_TENSOR_AXES} axes of a tensor")
                    },
                );
                return Err(Error::new(
                    ErrorKind::Mapping,
                    format!("the tile assignment {:?}: {what}", tiles.dims()),
                )
                .with_fix("give one dimension per tensor axis, then one per subgroup"));
            }
        };
        if tiles.num_devices() == 1 {
            return Ok(Self::replicated());
        }
        let (data_dims, group_dims) = tiles.dims().split_at_checked(data).unwrap_or((&[], &[]));
        let (mut order, mut dims): (Axes, Axes) = ((0..data).collect(), data_dims.into());
        let mut kinds: SmallVec<[Subgroup; 2]> = SmallVec::new();
        for kind in Subgroup::ALL {
            let mut size = 1;
            for ((axis, of), dim) in (data..).zip(subgroups).zip(group_dims) {
                if *of == kind {
                    order.push(axis);
                    size *= dim;
                }
            }
            if size > 1 {
                dims.push(size);
                kinds.push(kind);
            }
        }
        if let [kind] = kinds.as_slice()
            && data_dims.iter().all(|dim| *dim == 1)
        {
            return Ok(Self(Form::Whole(*kind)));
        }
        let tiles = tiles.transpose(&order)?.reshape(&dims)?;
        let tiles =
            if kinds.last() == Some(&Subgroup::Replicated) { tiles.with_last_axis_sorted()? } else { tiles };
        Ok(Self(Form::Tiled(tiles, kinds)))
    }

    /// What it is.
    pub fn kind(&self) -> HloKind {
        match &self.0 {
            Form::Whole(Subgroup::Replicated) => HloKind::Replicated,
            Form::Whole(Subgroup::Manual) => HloKind::Manual,
            Form::Whole(Subgroup::Unreduced) => HloKind::Unreduced,
            Form::Unknown => HloKind::Unknown,
            Form::Maximal(_) => HloKind::Maximal,
            Form::Tuple(_) => HloKind::Tuple,
            Form::Tiled(..) => HloKind::Tiled,
        }
    }
    /// The grid of tiles: data dimensions, then one dimension per subgroup. Only [`HloKind::Tiled`] has one.
    pub fn tiles(&self) -> Option<&TileAssignment> {
        match &self.0 {
            Form::Tiled(tiles, _) => Some(tiles),
            _ => None,
        }
    }
    /// The subgroups of a grid of tiles, one per dimension after the data dimensions.
    pub fn subgroups(&self) -> &[Subgroup] {
        match &self.0 {
            Form::Tiled(_, subgroups) => subgroups,
            _ => &[],
        }
    }
    /// Into how many tiles each axis of the tensor is cut. Only [`HloKind::Tiled`] knows the number of axes.
    pub fn data_dims(&self) -> Option<&[usize]> {
        let dims = self.tiles()?.dims();
        dims.get(..dims.len().checked_sub(self.subgroups().len())?)
    }
    /// The device of [`HloKind::Maximal`].
    pub fn maximal_device(&self) -> Option<usize> {
        match self.0 {
            Form::Maximal(device) => Some(device),
            _ => None,
        }
    }
    /// The shardings of [`HloKind::Tuple`]; no others have elements.
    pub fn elements(&self) -> &[Self] {
        match &self.0 {
            Form::Tuple(elements) => elements,
            _ => &[],
        }
    }
    /// How many devices it is for. Only [`HloKind::Tiled`] says.
    pub fn num_devices(&self) -> Option<usize> {
        self.tiles().map(TileAssignment::num_devices)
    }

    /// Which tile the device of that number holds: a coordinate per dimension of the grid, those of subgroups last.
    pub fn coordinates(&self, device: usize) -> Option<SmallVec<[usize; 4]>> {
        let tiles = self.tiles()?;
        let position = tiles.position(device)?;
        let strides = runs::strides(tiles.dims());
        Some(tiles.dims().iter().zip(&strides).map(|(dim, stride)| position / stride % dim).collect())
    }
}
