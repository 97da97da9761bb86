//! A calibrated model as a file.

use super::{AlphaBetaCost, Link, check};
use crate::{DeviceMesh, Error, ErrorKind, Result};
use rustc_hash::FxHasher;
use serde::{Deserialize, Serialize};
use std::fs;
use std::hash::Hasher;
use std::path::Path;

const FORMAT: &str = "sharding cost model 1";

/// The file, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: String,
    /// The mesh, for people.
    mesh: String,
    /// Its digest: devices, shape and names.
    digest: String,
    /// A digest of all figures, so that a file that was cut or changed is found out.
    check: String,
    memory_seconds_per_byte: f64,
    axis: Vec<StoredAxis>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAxis {
    name: String,
    size: usize,
    latency_seconds: f64,
    seconds_per_byte: f64,
}

impl Stored {
    fn digest_of(&self) -> String {
        let mut hasher = FxHasher::default();
        hasher.write(self.digest.as_bytes());
        hasher.write_u64(self.memory_seconds_per_byte.to_bits());
        for axis in &self.axis {
            hasher.write(axis.name.as_bytes());
            hasher.write_usize(axis.size);
            hasher.write_u64(axis.latency_seconds.to_bits());
            hasher.write_u64(axis.seconds_per_byte.to_bits());
        }
        hex(hasher.finish())
    }
}

fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::File, format!("a cost model is damaged: {what}")).with_fix(
        "measure again: calibrate(&mesh)?.write(&path, &mesh)?; figures of your own belong into the program: \
             AlphaBetaCost::new(link)?.with_axis(\"tp\", other)?",
    )
}

impl AlphaBetaCost {
    /// The model as TOML, for this mesh only: the link of each of its axes, and the memory.
    ///
    /// ```
    /// use sharding_core::plan::{AlphaBetaCost, fabric};
    /// use sharding_core::{BackendKind, DeviceMesh};
    /// let mesh = DeviceMesh::simulated(BackendKind::SIM, [4, 8], ["dp", "tp"])?;
    /// let cost = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)?.with_axis("tp", fabric::NVLINK_4.link)?;
    /// let text = cost.to_toml(&mesh)?;
    /// assert_eq!(AlphaBetaCost::from_toml(&text, &mesh)?.link("tp"), fabric::NVLINK_4.link);
    /// let other = DeviceMesh::simulated(BackendKind::SIM, [8, 4], ["dp", "tp"])?;
    /// assert!(AlphaBetaCost::from_toml(&text, &other).is_err());
    /// # Ok::<(), sharding_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::File`] if it cannot be written as TOML.
    pub fn to_toml(&self, mesh: &DeviceMesh) -> Result<String> {
        let axis = (0..mesh.ndim()).map(|axis| {
            let link = self.link(mesh.axis_name(axis));
            StoredAxis {
                name: mesh.axis_name(axis).to_owned(),
                size: mesh.size(axis),
                latency_seconds: link.latency,
                seconds_per_byte: link.seconds_per_byte,
            }
        });
        let mut stored = Stored {
            format: FORMAT.to_owned(),
            mesh: mesh.to_string(),
            digest: hex(mesh.digest()),
            check: String::new(),
            memory_seconds_per_byte: self.memory,
            axis: axis.collect(),
        };
        stored.check = stored.digest_of();
        toml::to_string(&stored).map_err(|error| Error::new(ErrorKind::File, format!("no TOML: {error}")))
    }

    /// The model that [`AlphaBetaCost::to_toml`] wrote for this mesh.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the text is cut or changed, [`ErrorKind::Mesh`] if it is for another mesh.
    pub fn from_toml(text: &str, mesh: &DeviceMesh) -> Result<Self> {
        let stored: Stored = toml::from_str(text).map_err(|error| damaged(error.message()))?;
        if stored.format != FORMAT {
            return Err(damaged(format!("its format is {:?}, not {FORMAT:?}", stored.format)));
        }
        if stored.check != stored.digest_of() {
            return Err(damaged("its check is not that of its figures"));
        }
        if stored.digest != hex(mesh.digest()) {
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the cost model was measured on {}, not on these devices of {mesh}", stored.mesh),
            )
            .with_fix("measure this mesh: calibrate(&mesh)?.write(&path, &mesh)?"));
        }
        let fits = |(axis, own): (usize, &StoredAxis)| {
            own.name == mesh.axis_name(axis) && own.size == mesh.size(axis)
        };
        if stored.axis.len() != mesh.ndim() || !stored.axis.iter().enumerate().all(fits) {
            return Err(damaged(format!("its axes are not those of {mesh}")));
        }
        let memory = stored.memory_seconds_per_byte;
        if !(memory.is_finite() && memory >= 0.0) {
            return Err(damaged(format!("a memory of {memory} seconds per byte is none")));
        }
        let mut model = Self { memory, ..Self::of(Link { latency: 0.0, seconds_per_byte: 0.0 }) };
        for axis in stored.axis {
            let link = Link { latency: axis.latency_seconds, seconds_per_byte: axis.seconds_per_byte };
            check(link, &axis.name).map_err(|error| damaged(error.message()))?;
            // A group over several axes, and a mesh of other names, count with the slowest.
            model.rest = model.rest.slower(link);
            model.axes.push((axis.name, link));
        }
        Ok(model)
    }

    /// Writes [`AlphaBetaCost::to_toml`] to a file. In a program of several processes one writes, and all read, so that
    /// all plan alike.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the file cannot be written.
    pub fn write(&self, path: &Path, mesh: &DeviceMesh) -> Result<()> {
        fs::write(path, self.to_toml(mesh)?).map_err(|error| {
            Error::new(ErrorKind::File, format!("{} cannot be written: {error}", path.display()))
        })
    }

    /// Reads a file that [`AlphaBetaCost::write`] wrote for this mesh.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if it cannot be read, is cut or changed; [`ErrorKind::Mesh`] if it is for another mesh.
    pub fn read(path: &Path, mesh: &DeviceMesh) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| {
            Error::new(ErrorKind::File, format!("{} cannot be read: {error}", path.display()))
                .with_fix("measure first: calibrate(&mesh)?.write(&path, &mesh)?")
        })?;
        Self::from_toml(&text, mesh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendKind;
    use crate::plan::fabric;

    fn mesh(sizes: [usize; 2]) -> DeviceMesh {
        DeviceMesh::simulated(BackendKind::SIM, sizes, ["dp", "tp"]).unwrap()
    }

    fn stored() -> (DeviceMesh, AlphaBetaCost, String) {
        let mesh = mesh([4, 8]);
        let cost = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)
            .unwrap()
            .with_axis("tp", Link::new(1.0 / 3.0, 7e9));
        let cost = cost.and_then(|cost| cost.with_memory(3.35e12)).unwrap();
        let text = cost.to_toml(&mesh).unwrap();
        (mesh, cost, text)
    }

    #[test]
    fn a_model_comes_back_to_the_bit() {
        let (mesh, cost, text) = stored();
        let back = AlphaBetaCost::from_toml(&text, &mesh).unwrap();
        for name in ["dp", "tp"] {
            assert_eq!(back.link(name), cost.link(name));
        }
        assert_eq!(back.memory, cost.memory);
        assert_eq!(back.to_toml(&mesh).unwrap(), text);
    }

    #[test]
    fn every_cut_is_found() {
        let (mesh, _, text) = stored();
        for end in 0..text.len() {
            match AlphaBetaCost::from_toml(&text[..end], &mesh) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::File, "{error}"),
                // Only what says nothing may be missing: the last end of line.
                Ok(model) => assert_eq!((model.to_toml(&mesh).unwrap(), end + 1), (text.clone(), text.len())),
            }
        }
    }

    #[test]
    fn a_file_that_lies_is_refused() {
        let (mesh, _, text) = stored();
        let figures = [
            ("latency_seconds = 0.333", "latency_seconds = 0.433"),
            ("298507462686567", "398507462686567"),
            ("size = 8", "size = 9"),
            ("\"tp\"", "\"cp\""),
            ("= \"", "= \"x"),
        ];
        for (from, to) in figures {
            let lie = text.replace(from, to);
            assert_ne!(lie, text, "there is no {from} in it");
            let error = AlphaBetaCost::from_toml(&lie, &mesh).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::File, "{from} to {to}: {error}");
        }
        // One that is consistent with itself, and still no link.
        let mut lying: Stored = toml::from_str(&text).unwrap();
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            lying.axis[0].latency_seconds = bad;
            lying.check = lying.digest_of();
            let error = AlphaBetaCost::from_toml(&toml::to_string(&lying).unwrap(), &mesh).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::File, "{error}");
        }
        lying.axis.pop();
        lying.check = lying.digest_of();
        let error = AlphaBetaCost::from_toml(&toml::to_string(&lying).unwrap(), &mesh).unwrap_err();
        assert!(error.to_string().contains("axes are not those"), "{error}");
    }

    #[test]
    fn another_mesh_is_refused() {
        let (_, _, text) = stored();
        let error = AlphaBetaCost::from_toml(&text, &mesh([8, 4])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mesh);
        assert!(error.to_string().contains("dp=4, tp=8"), "{error}");
    }
}
