//! Placements: what one mesh axis does to a tensor.
//!
//! [`Place`] is the small `Copy` value that mappings hold. The four built-in placements are its variants; anything
//! else implements the open trait [`Placement`] and is interned by [`Place::custom`]. Two placements ship on the
//! open trait itself: [`Ragged`] and [`Interleaved`].

mod check;
mod interleaved;
mod intern;
mod ragged;
mod transition;

pub use interleaved::Interleaved;
pub use intern::Interned;
pub use ragged::Ragged;
pub use transition::{ALL_TRANSITIONS, DEFAULT_TRANSITIONS, Transition, TransitionKind, TransitionSet};

use crate::text::clean;
use crate::{DType, Result, Scalar};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// The index ranges of one tensor axis that a device holds, in the order in which its local array holds them.
pub type Ranges = SmallVec<[Range<usize>; 1]>;

/// How the parts of a [`Place::Partial`] combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReduceOp {
    /// Their sum.
    #[default]
    Sum,
    /// Their maximum.
    Max,
    /// Their minimum.
    Min,
    /// Their product.
    Prod,
}

impl ReduceOp {
    /// Whether the order in which elements of `dtype` are combined matters to the bits of the result.
    pub(crate) fn rounds(self, dtype: DType) -> bool {
        dtype.is_float() && matches!(self, ReduceOp::Sum | ReduceOp::Prod)
    }

    /// The value that changes nothing, in `dtype`.
    pub fn identity(self, dtype: DType) -> Scalar {
        let number = |value: i32| {
            if dtype.is_float() { Scalar::Float(f64::from(value)) } else { Scalar::Int(i64::from(value)) }
        };
        match (self, dtype) {
            (ReduceOp::Sum, DType::Bool) => Scalar::Bool(false),
            (ReduceOp::Prod, DType::Bool) => Scalar::Bool(true),
            (ReduceOp::Sum, _) => number(0),
            (ReduceOp::Prod, _) => number(1),
            (ReduceOp::Max, _) => dtype.lowest(),
            (ReduceOp::Min, _) => dtype.highest(),
        }
    }

    /// `sum`, `max`, `min`, `prod`.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::Prod => "prod",
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one mesh axis does to a tensor.
#[derive(Clone, Copy)]
pub enum Place {
    /// Every device holds the whole.
    Replicated,
    /// The tensor axis is split: balanced, larger parts first.
    Sharded(u8),
    /// Every device holds a term; the value is their combination.
    Partial(ReduceOp),
    /// Every device holds something of its own, with no known relation.
    Unknown,
    /// A placement on the open trait.
    Custom(&'static Interned),
}

/// A placement that is not built in.
///
/// Equal keys must mean equal index ranges: an unbalanced shard never wears a balanced label. All answers are pure. A layout
/// is refused if the ranges do not cover every index once; see [`Interned::check`].
pub trait Placement: Any + Debug + Send + Sync {
    /// Name and words; equality, hash, text, digest and stored form come from it.
    fn key(&self) -> PlacementKey;
    /// The tensor axis that it localises, if any.
    fn tensor_axis(&self) -> Option<usize>;
    /// Itself on another tensor axis, so that rules carry it.
    fn on_axis(&self, tensor_axis: usize) -> Arc<dyn Placement>;
    /// Whether it can place an axis of this extent over so many devices.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping), saying what does not fit.
    fn check(&self, extent: usize, ways: usize) -> Result<()>;
    /// The index ranges that position `part` of `ways` holds; over all parts they cover `0..extent` exactly once.
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges;
    /// What a transition to another placement on the same mesh axis needs.
    fn transition_to(&self, to: Place, extent: usize, ways: usize) -> Transition;
}

/// Name and words of a placement: all that tells it from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlacementKey {
    /// The placement's name, unique over all crates (`Ragged`, `my_crate::Zigzag`).
    pub name: &'static str,
    /// Its parameters, the tensor axis among them.
    pub words: SmallVec<[u64; 4]>,
}

impl Place {
    /// `Partial(Sum)`.
    pub const PARTIAL: Self = Place::Partial(ReduceOp::Sum);

    /// Interns a placement of the open trait: equal keys give the same value.
    pub fn custom(placement: impl Placement) -> Self {
        intern::intern(Arc::new(placement))
    }

    /// The tensor axis that it localises: that of `Sharded` and of custom placements that have one.
    pub fn tensor_axis(self) -> Option<usize> {
        match self {
            Place::Sharded(axis) => Some(usize::from(axis)),
            Place::Custom(custom) => custom.tensor_axis(),
            Place::Replicated | Place::Partial(_) | Place::Unknown => None,
        }
    }

    /// A localising placement on another tensor axis; others are themselves.
    #[must_use]
    pub fn on_axis(self, tensor_axis: usize) -> Self {
        match self {
            Place::Sharded(_) => sharded(tensor_axis),
            Place::Custom(custom) if custom.tensor_axis().is_some() => {
                intern::intern(custom.placement().on_axis(tensor_axis))
            }
            other => other,
        }
    }

    /// Whether it is `Partial` of any op.
    pub fn is_partial(self) -> bool {
        matches!(self, Place::Partial(_))
    }

    /// The combination of a `Partial`.
    pub fn reduce_op(self) -> Option<ReduceOp> {
        match self {
            Place::Partial(op) => Some(op),
            _ => None,
        }
    }

    /// A number equal for equal placements in every process.
    pub fn digest(self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// `Sharded` on a tensor axis given as `usize`; axes beyond any shape stay beyond every shape.
pub fn sharded(tensor_axis: usize) -> Place {
    Place::Sharded(u8::try_from(tensor_axis).unwrap_or(u8::MAX))
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Place::Replicated, Place::Replicated) | (Place::Unknown, Place::Unknown) => true,
            (Place::Sharded(a), Place::Sharded(b)) => a == b,
            (Place::Partial(a), Place::Partial(b)) => a == b,
            // Interned: equal keys are one address.
            (Place::Custom(a), Place::Custom(b)) => std::ptr::eq(*a, *b),
            _ => false,
        }
    }
}
impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Place::Replicated => state.write_u64(0),
            Place::Sharded(axis) => state.write_u64(0x100 | u64::from(*axis)),
            Place::Partial(op) => state.write_u64(0x200 | *op as u64),
            Place::Unknown => state.write_u64(1),
            Place::Custom(custom) => state.write_u64(custom.digest()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Replicated => f.write_str("Replicated"),
            Place::Sharded(axis) => write!(f, "Sharded({axis})"),
            Place::Partial(op) => write!(f, "Partial({op})"),
            Place::Unknown => f.write_str("Unknown"),
            // Its words are a user's own: they must not break the line that they stand in.
            Place::Custom(custom) => f.write_str(&clean(&format!("{:?}", custom.placement()))),
        }
    }
}
impl Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
