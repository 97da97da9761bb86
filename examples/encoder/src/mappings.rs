//! How the model lies on a mesh: what `dp` and `tp` do.

use sharding_ops::nn::Parallel;
use sharding_ops::{BackendKind, DeviceMapping, DeviceMesh, Place};

use crate::{Result, wrong};

/// The mesh axis that splits the sentences of a batch.
const DATA: &str = "dp";

/// The mesh axis that splits weights: heads, MLP columns, vocabulary rows.
const TENSOR: &str = "tp";

/// The most devices of a mesh: each is simulated on this machine.
const MAX_DEVICES: usize = 256;

/// A mesh and the few mappings that the model uses on it.
#[derive(Clone, Debug)]
pub struct Mappings {
    mesh: DeviceMesh,
    /// The index of the mesh axis [`DATA`].
    data: Option<usize>,
    /// What splits weights: the mesh axis [`TENSOR`], if there is one.
    parallel: Parallel,
}

impl Mappings {
    /// A simulated mesh from a text such as `tp=2` or `dp=2,tp=2`.
    ///
    /// # Errors
    /// If the text is not of that form, an axis has another name, no size or one of 0, or stands there twice, or if
    /// there are more than 256 devices.
    pub fn parse(text: &str) -> Result<Self> {
        let with_fix = |message: String| {
            wrong(format!("the mesh '{text}': {message}")).with_fix("--mesh tp=2, or --mesh dp=2,tp=2")
        };
        let mut axes: Vec<(&str, usize)> = Vec::new();
        for part in text.split(',') {
            let Some((name, size)) = part.split_once('=').map(|(name, size)| (name.trim(), size.trim()))
            else {
                return Err(with_fix(format!("'{part}' is not of the form axis=size")));
            };
            if ![DATA, TENSOR].contains(&name) {
                return Err(with_fix(format!(
                    "there is no axis '{name}': dp splits the sentences of a batch, tp the weights"
                )));
            }
            let Ok(size) = size.parse() else {
                return Err(with_fix(format!("the size '{size}' of {name} is not a number of devices")));
            };
            axes.push((name, size));
        }
        let devices = axes.iter().try_fold(1_usize, |devices, (_, size)| devices.checked_mul(*size));
        if devices.is_none_or(|devices| devices > MAX_DEVICES) {
            return Err(with_fix(format!("more than {MAX_DEVICES} devices are not simulated here")));
        }
        let (names, shape): (Vec<&str>, Vec<usize>) = axes.into_iter().unzip();
        let mesh = DeviceMesh::simulated(BackendKind::CPU, &shape, &names)
            .map_err(|error| with_fix(error.message().to_owned()))?;
        let data = names.iter().position(|name| *name == DATA);
        let parallel = match names.contains(&TENSOR) {
            true => Parallel::along(&mesh, TENSOR)?,
            false => Parallel::replicated(&mesh),
        };
        Ok(Self { mesh, data, parallel })
    }

    /// The mesh.
    pub fn mesh(&self) -> &DeviceMesh {
        &self.mesh
    }

    /// How weights lie.
    pub fn parallel(&self) -> &Parallel {
        &self.parallel
    }

    /// An activation: its first tensor axis, the sentences, split over `dp`.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn batch(&self) -> Result<DeviceMapping> {
        let place = |axis| if Some(axis) == self.data { Place::Sharded(0) } else { Place::Replicated };
        DeviceMapping::new(&self.mesh, (0..self.mesh.ndim()).map(place).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Place::{Replicated, Sharded};

    #[test]
    fn an_axis_does_its_own_part_wherever_it_stands() {
        let check = |text: &str, split: &[Place], batch: &[Place]| {
            let mappings = Mappings::parse(text).unwrap();
            assert_eq!(mappings.parallel().split(1, 12, 1).unwrap().places(), split, "{text}");
            assert_eq!(mappings.batch().unwrap().places(), batch, "{text}");
        };
        check("tp=2", &[Sharded(1)], &[Replicated]);
        check("dp=3", &[Replicated], &[Sharded(0)]);
        check("dp=2,tp=3", &[Replicated, Sharded(1)], &[Sharded(0), Replicated]);
        check("tp=3, dp=1", &[Sharded(1), Replicated], &[Replicated, Sharded(0)]);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, want: &str| {
            let error = Mappings::parse(text).unwrap_err().to_string();
            assert!(error.contains(want) && error.contains("fix: --mesh tp=2"), "{text} gave: {error}");
        };
        check("", "not of the form axis=size");
        check("tp=2,", "not of the form axis=size");
        check("tp", "not of the form axis=size");
        check("tp=two", "'two' of tp is not a number");
        check("tp=-1", "'-1' of tp is not a number");
        check("tp=0", "sizes of at least 1");
        check("tp=2,tp=2", "two mesh axes are named 'tp'");
        check("pp=2", "no axis 'pp'");
        check("tp=257", "more than 256 devices");
        check("dp=99999999999,tp=99999999999", "more than 256 devices");
    }
}
