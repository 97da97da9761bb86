//! Conversions between placements and names: lossless, or an error of kind [`ErrorKind::Conversion`].

use super::entry::Names;
use super::named::{axis_of, split_places};
use super::{NamedMapping, PartitionSpec, SpecEntry};
use crate::{DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Places, ReduceOp, Result};
use smallvec::smallvec;

impl PartitionSpec {
    /// What is left open to a compiler is not said, and placements have no words for that.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] for an unconstrained entry.
    pub(crate) fn check_said(&self) -> Result<()> {
        match self.entries().iter().position(SpecEntry::is_unconstrained) {
            None => Ok(()),
            Some(axis) => Err(Error::new(
                ErrorKind::Conversion,
                format!("{self} does not say how tensor axis {axis} lies: its entry is unconstrained"),
            )
            .with_fix("write None, or the names of mesh axes, for this entry")),
        }
    }

    /// The placements that this spec says, on a mesh that has all its names.
    ///
    /// A [`DeviceMapping`] splits a tensor axis over several mesh axes in mesh order, so a spec that names them in
    /// another order has no such mapping. Unreduced axes are Partial sums; reduced ones replicate.
    ///
    /// # Errors
    /// [`ErrorKind::Conversion`] for an unconstrained entry, if a mesh axis is used twice, several names of one entry are not in mesh order, or
    /// an entry is beyond the axes that a tensor may have; [`ErrorKind::Axis`] for a name that the mesh does not have.
    pub fn to_mapping(&self, mesh: &DeviceMesh) -> Result<DeviceMapping> {
        let mut places: Places = smallvec![Place::Replicated; mesh.ndim()];
        split_places(mesh, self, &mut places)?;
        for entry in self.entries() {
            let mut last = None;
            for name in entry.names() {
                let axis = Some(mesh.axis_index(name)?);
                if axis < last {
                    let ordered = entry.names().filter_map(|name| Some((axis_of(mesh, name)?, name)));
                    let mut ordered: Vec<_> = ordered.collect();
                    ordered.sort_unstable();
                    let ordered: Vec<_> = ordered.into_iter().map(|(_, name)| name).collect();
                    return Err(Error::new(
                        ErrorKind::Conversion,
                        format!("{entry} in {self} is not in the order of the axes of {mesh}; a device mapping has no other order"),
                    )
                    .with_fix(format!("write them as {ordered:?}, or order the mesh axes so")));
                }
                last = axis;
            }
        }
        // An unreduced axis splits nothing: a spec that says both cannot be made.
        for name in self.unreduced() {
            if let Some(place) = places.get_mut(mesh.axis_index(name)?) {
                *place = Place::PARTIAL;
            }
        }
        DeviceMapping::new(mesh, places)
    }
}

/// The names that spell a mapping: the spec, and the unreduced mesh axes.
fn spell(mapping: &DeviceMapping) -> Result<(PartitionSpec, Names)> {
    let mesh = mapping.mesh();
    let (mut spec, mut unreduced) = (PartitionSpec::default(), Names::new());
    for (axis, place) in mapping.places().iter().enumerate() {
        let name = mesh.axis_name(axis);
        match place {
            Place::Replicated => {}
            Place::Sharded(tensor_axis) => spec.push(usize::from(*tensor_axis), name),
            Place::Partial(ReduceOp::Sum) => unreduced.push(name.into()),
            Place::Partial(_) | Place::Unknown | Place::Custom(_) => {
                return Err(Error::new(ErrorKind::Conversion, format!("{place} has no spelling by names"))
                    .with_mesh_axis(name, mesh.size(axis))
                    .with_fix(
                        "keep the DeviceMapping, or transfer_to Replicated, Sharded or Partial(sum) first",
                    ));
            }
        }
    }
    unreduced.sort_unstable();
    Ok((spec, unreduced))
}

impl TryFrom<&DeviceMapping> for NamedMapping {
    type Error = Error;
    fn try_from(mapping: &DeviceMapping) -> Result<Self> {
        let (spec, unreduced) = spell(mapping)?;
        Ok(Self::from_parts(spec, unreduced, mapping.clone()))
    }
}

impl TryFrom<&DeviceMapping> for PartitionSpec {
    type Error = Error;
    fn try_from(mapping: &DeviceMapping) -> Result<Self> {
        let (spec, unreduced) = spell(mapping)?;
        spec.with_unreduced(unreduced)
    }
}

impl From<NamedMapping> for DeviceMapping {
    fn from(named: NamedMapping) -> Self {
        named.mapping().clone()
    }
}
impl From<&NamedMapping> for DeviceMapping {
    fn from(named: &NamedMapping) -> Self {
        named.mapping().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Ragged;
    use crate::{BackendKind, MemoryKind, Scope, spec};
    use proptest::prelude::*;

    fn mesh(shape: &[usize], names: &[&str]) -> DeviceMesh {
        DeviceMesh::simulated(BackendKind::SIM, shape, names).unwrap()
    }
    fn cube() -> DeviceMesh {
        mesh(&[2, 3, 4], &["a", "b", "c"])
    }
    fn place() -> impl Strategy<Value = Place> {
        prop_oneof![
            Just(Place::Replicated),
            (0_u8..4).prop_map(Place::Sharded),
            Just(Place::PARTIAL),
            Just(Place::Unknown),
            Just(Place::Partial(ReduceOp::Max)),
            Just(Ragged::place(3, [3, 1])),
        ]
    }
    fn check(spec: PartitionSpec, unreduced: &[&str], want: Result<&[Place], ErrorKind>) {
        let got = NamedMapping::new(&cube(), spec).and_then(|named| named.with_unreduced(unreduced));
        match want {
            Ok(places) => assert_eq!(got.unwrap().mapping().places(), places),
            Err(kind) => assert_eq!(got.unwrap_err().kind(), kind),
        }
    }

    #[test]
    fn names_resolve_in_mesh_order_and_unknown_ones_replicate() {
        use Place::{Replicated as R, Sharded as S};
        check(spec![("c", "a"), "b"], &[], Ok(&[S(0), S(1), S(0)]));
        check(spec!["nowhere", "c"], &["also nowhere"], Ok(&[R, R, S(1)]));
        check(spec![None], &["b"], Ok(&[R, Place::PARTIAL, R]));
        check(spec!["nowhere", "nowhere"], &[], Ok(&[R, R, R]));
        check(spec!["a", "a"], &[], Err(ErrorKind::Conversion));
        check(spec![("a", "a")], &[], Err(ErrorKind::Conversion));
        check(spec!["a"], &["a"], Err(ErrorKind::Conversion));
        check(spec![None], &["a", "a"], Err(ErrorKind::Conversion));
        let far = (0..16).fold(PartitionSpec::default(), |spec, _| spec.with(None));
        check(far.clone(), &[], Ok(&[R, R, R]));
        check(far.with("a"), &[], Err(ErrorKind::Conversion));
    }

    #[test]
    fn a_spec_is_resolved_again_on_another_mesh() {
        let named = NamedMapping::new(&mesh(&[2], &["x"]), spec!["a", ("b", "x")]).unwrap();
        let named = named.with_unreduced(["c"]).unwrap();
        let on = named.on(&cube()).unwrap();
        assert_eq!(on.mapping().places(), [Place::Sharded(0), Place::Sharded(1), Place::PARTIAL]);
        assert_eq!(on.on(named.mesh()).unwrap(), named);
        let clash = NamedMapping::new(&mesh(&[2], &["x"]), spec!["a", "a"]).unwrap();
        assert_eq!(clash.on(&cube()).unwrap_err().kind(), ErrorKind::Conversion);
    }

    #[test]
    fn the_default_mesh_is_the_scope_s() {
        let error = NamedMapping::scoped(spec!["a"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mesh);
        assert!(error.fix().is_some());
        let scope = (*Scope::current()).clone().with_mesh(cube());
        let named = scope.enter(|| NamedMapping::scoped(spec!["a"])).unwrap();
        assert_eq!(named, NamedMapping::new(&cube(), spec!["a"]).unwrap());
    }

    #[test]
    fn a_spec_converts_only_in_mesh_order() {
        let cube = cube();
        let places = [Place::Sharded(0), Place::Replicated, Place::Sharded(0)];
        assert_eq!(spec![("a", "c")].to_mapping(&cube).unwrap().places(), places);
        let kind = |spec: PartitionSpec| spec.to_mapping(&cube).unwrap_err().kind();
        assert_eq!(kind(spec![("c", "a")]), ErrorKind::Conversion);
        assert_eq!(kind(spec!["a", "a"]), ErrorKind::Conversion);
        assert_eq!(kind(spec!["z"]), ErrorKind::Axis);
    }

    proptest! {
        #[test]
        fn names_and_placements_convert_without_loss_or_not_at_all(a in place(), b in place(), c in place(), host: bool) {
            let Ok(mapping) = DeviceMapping::new(&cube(), [a, b, c]) else { return Ok(()) };
            let mapping = if host { mapping.with_memory_kind(MemoryKind::PinnedHost) } else { mapping };
            let spellable = |place: &Place| {
                matches!(place, Place::Replicated | Place::Sharded(_) | Place::Partial(ReduceOp::Sum))
            };
            match NamedMapping::try_from(&mapping) {
                Ok(named) => {
                    prop_assert!(mapping.places().iter().all(spellable));
                    prop_assert_eq!(&DeviceMapping::from(&named), &mapping);
                    prop_assert_eq!(named.on(&cube()).unwrap(), named);
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Conversion);
                    prop_assert!(!mapping.places().iter().all(spellable));
                }
            }
            if let Ok(spec) = PartitionSpec::try_from(&mapping) {
                let back = spec.to_mapping(&cube()).unwrap();
                prop_assert_eq!(back.places(), mapping.places());
            } else {
                prop_assert!(!mapping.places().iter().all(spellable));
            }
        }
    }
}
