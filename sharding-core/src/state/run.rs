//! Making states, and asking what lies where in them.

use super::init::{Mode, Site};
use super::layouts::{AbstractTensor, StateLayouts, StateSharding};
use super::leaf::{about, mapping_of};
use super::path::{Declared, SpecOf};
use super::{Init, NamedTensors, ShardedState, StatePath};
use crate::{
    AbstractMesh, AxisType, DeviceMesh, Error, ErrorKind, NamedSharding, PartitionSpec, RandomKey, Result,
    Scope, Sharding, Tensor,
};
use std::collections::BTreeSet;

/// What a state would be on a mesh: names, dtypes, shapes and shardings, without memory and without devices. The initialiser
/// runs once; what its makers make has a layout and no shards.
///
/// What it makes otherwise may take memory: ops on its tensors compute shapes only, but a tensor from data is one. As
/// tinax's function of that name.
///
/// # Errors
/// [`ErrorKind::Mesh`] for a mesh with a Manual axis, or with both Auto and Explicit ones; [`ErrorKind::Argument`] if two tensors have
/// one name; [`ErrorKind::Axis`] for a mesh axis that the mesh does not have, [`ErrorKind::Dimensions`] or [`ErrorKind::Indivisible`]
/// for a shape that does not fit its spec; else what the initialiser says.
pub fn abstract_sharded_state<S: ShardedState>(
    mesh: &AbstractMesh,
    initializer: impl FnOnce(&Init<'_, S>) -> Result<S>,
) -> Result<StateLayouts> {
    let state = || {
        check_mesh(mesh.axis_types(), mesh)?;
        let nowhere = DeviceMesh::elsewhere(mesh);
        let state = run::<S>(&nowhere, RandomKey::new(0), Mode::Abstract, initializer)?;
        let mut tensors = Vec::new();
        for (name, declared, tensor) in all(&state)? {
            let sharding = sharding_of(&declared, tensor, |spec| NamedSharding::on_abstract(mesh, spec))
                .map_err(|error| about(error, &name))?;
            tensors.push(AbstractTensor { name, meta: tensor.layout().meta().clone(), sharding });
        }
        Ok(StateLayouts { mesh: mesh.clone(), tensors })
    };
    state().map_err(|error: Error| error.with_op("abstract_sharded_state"))
}

/// A state on a mesh. The initialiser runs once, and every device makes its own piece of each tensor, so that nobody holds the
/// whole. The numbers of a key are the same on every mesh, and those of a tensor whatever others there are: see
/// [`Leaf::key`](super::Leaf::key).
///
/// While it runs, `mesh` is the default mesh of the [`Scope`]. A tensor that it makes without the field's
/// [`Leaf`](super::Leaf) is redistributed to the field's spec afterwards. As tinax's function of that name.
///
/// # Errors
/// As [`abstract_sharded_state`], and what redistributing says.
pub fn eager_sharded_init<S: ShardedState>(
    mesh: &DeviceMesh,
    key: impl Into<RandomKey>,
    initializer: impl FnOnce(&Init<'_, S>) -> Result<S>,
) -> Result<S> {
    on_mesh("eager_sharded_init", mesh, key.into(), Mode::Eager, initializer)
}

/// A state from a source of weights, by the dotted names of its tensors: what the initialiser makes is read instead, every
/// device its own piece. Shapes and dtypes that the initialiser or the fields say must be those of the source; what they
/// leave open, the source says. Tensors that the state does not have are not looked at;
/// [`Tracked`](super::Tracked) tells which.
///
/// # Errors
/// As [`eager_sharded_init`]; [`ErrorKind::Shape`] or [`ErrorKind::DType`] where the source has another; else what the source says, such
/// as that it has no tensor of a name.
pub fn sharded_load<S: ShardedState>(
    mesh: &DeviceMesh,
    source: &dyn NamedTensors,
    initializer: impl FnOnce(&Init<'_, S>) -> Result<S>,
) -> Result<S> {
    on_mesh("sharded_load", mesh, RandomKey::new(0), Mode::Load(source), initializer)
}

/// The sharding of each tensor of a state on a mesh, by its own annotation: a moment of an optimizer may be split
/// otherwise than its parameter, and a counter not at all. Where tensors lie now counts for those only whose fields are
/// `placed`. As tinax's function of that name.
///
/// # Errors
/// As [`abstract_sharded_state`].
pub fn state_shardings<S: ShardedState>(
    state: &S,
    mesh: &DeviceMesh,
) -> Result<Vec<(String, StateSharding)>> {
    let shardings = || {
        check_mesh(mesh.axis_types(), mesh)?;
        let one = |(name, declared, tensor): (String, Declared, &Tensor)| {
            let sharding = sharding_of(&declared, tensor, |spec| NamedSharding::new(mesh, spec))
                .map_err(|error| about(error, &name))?;
            Ok((name, sharding))
        };
        all(state)?.into_iter().map(one).collect::<Result<Vec<_>>>()
    };
    shardings().map_err(|error: Error| error.with_op("state_shardings"))
}

fn on_mesh<'s, S: ShardedState>(
    op: &'static str,
    mesh: &DeviceMesh,
    key: RandomKey,
    mode: Mode<'s>,
    initializer: impl FnOnce(&Init<'s, S>) -> Result<S>,
) -> Result<S> {
    let state = || {
        check_mesh(mesh.axis_types(), mesh)?;
        let mut state = run::<S>(mesh, key, mode, initializer)?;
        all(&state)?;
        let mut tensors = Vec::new();
        state.visit_mut(&StatePath::root(), &mut |at, tensor| {
            tensors.push((at.name(), at.declared().clone(), tensor));
        });
        for (name, declared, tensor) in tensors {
            settle(mesh, &declared, tensor).map_err(|error| about(error, &name))?;
        }
        Ok(state)
    };
    state().map_err(|error: Error| error.with_op(op))
}

fn run<'s, S: ShardedState>(
    mesh: &DeviceMesh,
    key: RandomKey,
    mode: Mode<'s>,
    initializer: impl FnOnce(&Init<'s, S>) -> Result<S>,
) -> Result<S> {
    let scope = (*Scope::current()).clone().with_mesh(mesh.clone());
    scope.enter(|| initializer(&S::init_at(&Site::root(mesh.clone(), key, mode))))
}

/// Lays a tensor out as its field says, if it does not lie so.
fn settle(mesh: &DeviceMesh, declared: &Declared, tensor: &mut Tensor) -> Result<()> {
    let nothing = PartitionSpec::default();
    let spec = match &declared.spec {
        SpecOf::Placed => return Ok(()),
        SpecOf::Nothing => &nothing,
        SpecOf::Spec(spec) => spec,
    };
    let mapping = mapping_of(mesh, spec, tensor.shape())?;
    if *tensor.mapping() != mapping {
        *tensor = tensor.transfer_to(&mapping)?;
    }
    Ok(())
}

/// All tensors, if no two have one name.
fn all<S: ShardedState>(state: &S) -> Result<Vec<(String, Declared, &Tensor)>> {
    let mut tensors = Vec::new();
    state.visit(&StatePath::root(), &mut |at, tensor| {
        tensors.push((at.name(), at.declared().clone(), tensor))
    });
    let mut names = BTreeSet::new();
    if let Some((name, ..)) = tensors.iter().find(|(name, ..)| !names.insert(name)) {
        return Err(Error::new(
            ErrorKind::Argument,
            format!("two tensors of the state have the name '{name}'"),
        )
        .with_fix("use other keys of maps, or #[sharding(name = \"..\")]"));
    }
    Ok(tensors)
}

/// The sharding of a tensor, checked for its shape.
fn sharding_of(
    declared: &Declared,
    tensor: &Tensor,
    named: impl Fn(PartitionSpec) -> Result<NamedSharding>,
) -> Result<StateSharding> {
    let sharding = match &declared.spec {
        SpecOf::Nothing => named(PartitionSpec::default())?,
        SpecOf::Spec(spec) => named(spec.clone())?,
        SpecOf::Placed => {
            // Names where they say the same; a split by heads, say, has none.
            let mapping = tensor.mapping();
            let spelled =
                NamedSharding::try_from(mapping).and_then(|sharding| named(sharding.spec().clone()));
            return Ok(match spelled {
                Ok(sharding) if sharding.shard_shape(tensor.shape()).is_ok() => {
                    StateSharding::Named(sharding.into())
                }
                _ => StateSharding::Placed(mapping.clone()),
            });
        }
    };
    sharding.shard_shape(tensor.shape())?;
    Ok(StateSharding::Named(sharding.into()))
}

/// As tinax: nothing is Manual, and all axes are of one type.
fn check_mesh(types: &[AxisType], mesh: &dyn std::fmt::Display) -> Result<()> {
    let wrong = |message: String, fix: &str| Err(Error::new(ErrorKind::Mesh, message).with_fix(fix));
    if types.contains(&AxisType::Manual) {
        return wrong(
            format!("{mesh} has a Manual axis: a state is made outside of manual regions"),
            "mesh.with_axis_types(..) of Auto or Explicit",
        );
    }
    if types.iter().any(|of| Some(of) != types.first()) {
        return wrong(
            format!("{mesh} has both Auto and Explicit axes: a state wants all of one type"),
            "mesh.with_axis_types(..) of one type",
        );
    }
    Ok(())
}
