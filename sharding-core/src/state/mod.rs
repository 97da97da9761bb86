//! State: structs of tensors, such as models and optimizers, whose tensors have dotted names and specs.
//!
//! `#[derive(ShardedState)]` on a struct of tensors and of other such structs makes one definition of it serve for
//! everything: [`abstract_sharded_state`] (what would lie where, without memory), [`eager_sharded_init`] (random or
//! constant values, every device making its own piece), [`sharded_load`] (the same from a file of weights),
//! [`state_shardings`] (the sharding of each tensor of a value) and [`StateTensors`] (iteration by name).
//!
//! | on a field | meaning |
//! |---|---|
//! | `#[sharding("tp", None)]` | the [`PartitionSpec`](crate::PartitionSpec): an entry for each tensor axis, a name of a mesh axis, `None`, or a tuple of names |
//! | none | Replicated |
//! | `#[sharding(placed)]` | the sharding is where the tensor lies: the initialiser says, with [`Leaf::mapping`] |
//! | `#[sharding(name = "w")]` | another name than that of the field |
//! | `#[sharding(shape = [4, 8], dtype = BF16)]` | what the initialiser does not say: see [`Leaf`] |
//! | `#[sharding(skip)]` | no state: a plain value, of any type |
//!
//! Fields are [`Tensor`]s, derived structs, and `Option`, `Box`, `Vec`, arrays, tuples and `BTreeMap<String, _>` of these; a
//! spec on such a field is that of every tensor in it. (A `HashMap` has another order in every process, and names have one.) A
//! struct may hold itself through a vector or a map. `#[sharding(crate = path)]` on the struct names a crate that
//! re-exports `sharding_core::__private`, where `sharding_core` is no dependency.
//!
//! The initialiser is a function from [`Init`], which has a field for each field of the struct: a [`Leaf`] for a tensor, an
//! [`Init`] of their own for other structs, and [`Many`] or [`ByName`] for vectors and maps. A misspelt field is a compile error.
//! `sharding_ops` adds the makers `uniform`, `normal`, `bernoulli`, `full`, `zeros` and `ones` to [`Leaf`].
//!
//! ```
//! use sharding_core::state::{Init, abstract_sharded_state};
//! use sharding_core::{AbstractMesh, Result, ShardedState, Tensor};
//!
//! #[derive(ShardedState)]
//! struct Linear {
//!     #[sharding("tp", None)]
//!     weight: Tensor,
//!     #[sharding("tp")]
//!     bias: Option<Tensor>,
//! }
//!
//! #[derive(ShardedState)]
//! struct Model {
//!     layers: Vec<Linear>,
//!     #[sharding(skip)]
//!     eps: f64,
//! }
//!
//! impl Linear {
//!     fn new(init: &Init<Self>, outputs: usize, inputs: usize) -> Result<Self> {
//!         // `build` is what makers are written on; with `sharding_ops`: `.uniform(-0.1..0.1)?`.
//!         let make = |leaf: sharding_core::state::Leaf| {
//!             leaf.build(|layout, _| Tensor::from_callback(layout.clone(), |_, _| Ok(())))
//!         };
//!         Ok(Self { weight: make(init.weight.shape([outputs, inputs]))?, bias: Some(make(init.bias.shape([outputs]))?) })
//!     }
//! }
//!
//! let mesh = AbstractMesh::new([2, 4], ["dp", "tp"])?;
//! let layouts = abstract_sharded_state::<Model>(&mesh, |init| {
//!     Ok(Model { layers: init.layers.each(2, |init, i| Linear::new(init, 8, 4 * (i + 1)))?, eps: 1e-5 })
//! })?;
//! let names: Vec<&str> = layouts.iter().map(|tensor| tensor.name()).collect();
//! assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]);
//! // A quarter of each, on every device.
//! assert_eq!((layouts.bytes(), layouts.bytes_per_device()?), (4 * (8 * 4 + 8 + 8 * 8 + 8), 8 * 4 + 8 + 8 * 8 + 8));
//! # Ok::<(), sharding_core::Error>(())
//! ```
//!
//! **Names that the mesh lacks** are an error of kind [`ErrorKind::Axis`](crate::ErrorKind::Axis), as in JAX, and not Replicated as in
//! [`NamedMapping`](crate::NamedMapping). **Extents** must divide, as in JAX: what is to be split unevenly is `placed`. **Meshes** have
//! no Manual axis, and are all Auto or all Explicit; else the error is of kind [`ErrorKind::Mesh`](crate::ErrorKind::Mesh).

mod containers;
mod init;
mod layouts;
mod leaf;
mod path;
mod run;
mod source;
mod tensors;
mod tracked;

pub use init::{ByName, Init, Many, Site};
pub use layouts::{AbstractTensor, StateLayouts, StateSharding};
pub use leaf::Leaf;
pub use path::{Declared, StatePath};
pub use run::{abstract_sharded_state, eager_sharded_init, sharded_load, state_shardings};
pub use source::{NamedTensors, Renamed};
pub use tensors::StateTensors;
pub use tracked::Tracked;

use crate::Tensor;

/// Who is shown the tensors of a state.
pub type See<'v, 'a> = dyn FnMut(&StatePath<'_>, &'a Tensor) + 'v;

/// Who is shown the tensors of a state, to replace them.
pub type SeeMut<'v, 'a> = dyn FnMut(&StatePath<'_>, &'a mut Tensor) + 'v;

/// Tensors with names and specs; derived, see [`state`](self).
///
/// To implement it by hand, hand every part the path of its name, in one order, the same in all three functions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no state",
    label = "no tensor, no struct with `#[derive(ShardedState)]`, and no Option, Box, Vec, array, tuple or BTreeMap<String, _> of these",
    note = "write `#[sharding(skip)]` on the field if it holds no tensors"
)]
pub trait ShardedState: Sized {
    /// Whether a spec on a field of this type is that of the tensors in it; a struct has specs of its own.
    const TAKES_SPEC: bool;

    /// What an initialiser is given to make it.
    type Init<'s>;

    /// That, for a place in a state.
    fn init_at<'s>(at: &Site<'s>) -> Self::Init<'s>;

    /// Shows all tensors, in the order of their declaration.
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>);

    /// Shows all tensors to be replaced, in the same order.
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>);
}
