//! A calibrated model as a file.

use super::{AlphaBetaCost, Link, check};
use crate::{Device, DeviceMesh, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::{fmt, fs};

const FORMAT: &str = "sharding cost model 2";

/// The file, as it is written.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    format: String,
    /// The mesh, for people.
    mesh: String,
    /// A digest of all else, so that a file that was cut or changed is found out.
    check: String,
    memory_seconds_per_byte: f64,
    /// The devices of the mesh in its order; see [`Run`].
    devices: Vec<String>,
    axis: Vec<StoredAxis>,
}

/// What every format has.
#[derive(Deserialize)]
struct Head {
    format: String,
}

/// A device, and those that follow it: so many more slots of it, or ordinals.
struct Run {
    first: Device,
    count: usize,
    by_slot: bool,
}

impl Run {
    /// Whether a device continues it; a run of one device goes either way.
    fn takes(&mut self, device: Device) -> bool {
        let Ok(count) = u32::try_from(self.count) else { return false };
        let after = |by_slot: bool| {
            let (slots, ordinals) = if by_slot { (count, 0) } else { (0, count) };
            let (slot, ordinal) =
                (self.first.slot.checked_add(slots)?, self.first.ordinal.checked_add(ordinals)?);
            Some(Device { slot, ordinal, ..self.first })
        };
        let by_slot = [true, false].into_iter().find(|by_slot| after(*by_slot) == Some(device));
        let Some(by_slot) = by_slot.filter(|by_slot| self.count == 1 || *by_slot == self.by_slot) else {
            return false;
        };
        (self.count, self.by_slot) = (self.count + 1, by_slot);
        true
    }
}

/// As `0:1/2 8 slots cpu`: process, ordinal and slot of the first, how many of what, and their kind, which may be any text and so
/// stands last.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device { process, kind, ordinal, slot } = self.first;
        let what = if self.by_slot { "slots" } else { "ordinals" };
        write!(f, "{process}:{ordinal}/{slot} {} {what} {kind}", self.count)
    }
}

/// The devices of a mesh as runs, as many of them in each as there can be: a list is written in one way, and no two are alike.
fn runs(mesh: &DeviceMesh) -> Vec<String> {
    let mut runs: Vec<Run> = Vec::new();
    for device in mesh.devices() {
        if !runs.last_mut().is_some_and(|last| last.takes(device)) {
            runs.push(Run { first: device, count: 1, by_slot: true });
        }
    }
    runs.iter().map(ToString::to_string).collect()
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAxis {
    name: String,
    size: usize,
    latency_seconds: f64,
    seconds_per_byte: f64,
}

impl Stored {
    fn to_text(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::new(ErrorKind::File, format!("no TOML: {error}")))
    }

    /// The digest of the text without one: FNV-1a of 64 bits, which is the same in every version of this crate.
    fn digest(&self) -> Result<String> {
        let text = Self { check: String::new(), ..self.clone() }.to_text()?;
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Ok(format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step)))
    }
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
            check: String::new(),
            memory_seconds_per_byte: self.memory,
            devices: runs(mesh),
            axis: axis.collect(),
        };
        stored.check = stored.digest()?;
        stored.to_text()
    }

    /// The model that [`AlphaBetaCost::to_toml`] wrote for this mesh.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if the text is cut or changed, [`ErrorKind::Mesh`] if it is for another mesh.
    pub fn from_toml(text: &str, mesh: &DeviceMesh) -> Result<Self> {
        let head: Head = toml::from_str(text).map_err(|error| damaged(error.message()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("its format is {:?}, not {FORMAT:?}", head.format)));
        }
        let stored: Stored = toml::from_str(text).map_err(|error| damaged(error.message()))?;
        if stored.check != stored.digest()? {
            return Err(damaged("its check is not that of its text"));
        }
        let fits = |(axis, own): (usize, &StoredAxis)| {
            own.name == mesh.axis_name(axis) && own.size == mesh.size(axis)
        };
        let same_grid = stored.axis.len() == mesh.ndim() && stored.axis.iter().enumerate().all(fits);
        if !same_grid || stored.devices != runs(mesh) {
            let on = if same_grid { "other devices, or the same in another order" } else { &stored.mesh };
            return Err(Error::new(
                ErrorKind::Mesh,
                format!("the cost model was measured on {on}, not on these devices of {mesh}"),
            )
            .with_fix("measure this mesh: calibrate(&mesh)?.write(&path, &mesh)?"));
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
                .with_fix("give a path in a folder that exists and may be written")
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
            .map_err(|error| error.with_operands([format!("file: {}", path.display())]))
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
    fn every_changed_byte_is_found_or_says_nothing() {
        let (mesh, _, text) = stored();
        let want = AlphaBetaCost::from_toml(&text, &mesh).unwrap();
        for at in 0..text.len() {
            for byte in *b"0179x\"-+e. \n#=[" {
                let mut changed = text.clone().into_bytes();
                changed[at] = byte;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                match AlphaBetaCost::from_toml(&changed, &mesh) {
                    Ok(got) => assert_eq!(got, want, "{changed}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::File, "{changed}: {error}"),
                }
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
            lying.check = lying.digest().unwrap();
            let error = AlphaBetaCost::from_toml(&toml::to_string(&lying).unwrap(), &mesh).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::File, "{error}");
        }
        lying.axis.pop();
        lying.check = lying.digest().unwrap();
        let error = AlphaBetaCost::from_toml(&toml::to_string(&lying).unwrap(), &mesh).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mesh, "{error}");
        // The words for people are part of what must not change.
        let error = AlphaBetaCost::from_toml(&text.replace("dp=4", "dp=2"), &mesh).unwrap_err();
        assert!(error.to_string().contains("its check"), "{error}");
        let error = AlphaBetaCost::from_toml("format = \"sharding cost model 1\"", &mesh).unwrap_err();
        assert!(error.to_string().contains("model 2"), "{error}");
    }

    /// Whatever is wrong, the error says with which file, and what to do.
    #[test]
    fn errors_name_the_file() {
        let (own, cost, _) = stored();
        let path = std::env::temp_dir().join(format!("sharding-cost-{}.toml", std::process::id()));
        let nowhere = path.join("no/folder.toml");
        let read = |mesh: &DeviceMesh| AlphaBetaCost::read(&path, mesh).unwrap_err();
        let mut errors = vec![cost.write(&nowhere, &own).unwrap_err(), read(&own)];
        cost.write(&path, &own).unwrap();
        errors.push(read(&mesh([8, 4])));
        fs::write(&path, "format = 1").unwrap();
        errors.push(read(&own));
        fs::remove_file(&path).unwrap();
        for error in errors {
            assert!(error.fix().is_some() && error.to_string().contains("sharding-cost-"), "{error}");
        }
    }

    #[test]
    fn another_mesh_is_refused() {
        let (_, _, text) = stored();
        let error = AlphaBetaCost::from_toml(&text, &mesh([8, 4])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mesh);
        assert!(error.to_string().contains("dp=4, tp=8"), "{error}");
    }

    /// The devices themselves are compared, in their order: no digest stands for them.
    #[test]
    fn the_same_grid_of_other_devices_is_refused() {
        let on = |kind: &'static str, devices: [(u32, u32, u32); 4]| {
            let device = |(process, ordinal, slot)| {
                Device::new(BackendKind::new(kind), ordinal).with_slot(slot).with_process(process)
            };
            DeviceMesh::new(&devices.map(device), [2, 2], ["dp", "tp"]).unwrap()
        };
        let meshes = [
            on("cpu", [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)]),
            on("cpu", [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4)]),
            on("cpu", [(0, 0, 3), (0, 0, 2), (0, 0, 1), (0, 0, 0)]),
            on("cpu", [(0, 0, 0), (0, 0, 2), (0, 0, 1), (0, 0, 3)]),
            on("cpu", [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)]),
            on("cpu", [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]),
            on("cpu", [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]),
            on("cpu", [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3)]),
            on("gpu", [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)]),
        ];
        let cost = AlphaBetaCost::new(fabric::NVLINK_4.link).unwrap();
        for (i, measured) in meshes.iter().enumerate() {
            let text = cost.to_toml(measured).unwrap();
            for (k, mesh) in meshes.iter().enumerate() {
                match AlphaBetaCost::from_toml(&text, mesh) {
                    Ok(_) => assert_eq!(i, k),
                    Err(error) => {
                        assert!(i != k && error.kind() == ErrorKind::Mesh, "{i} {k}: {error}");
                        assert!(error.to_string().contains("another order"), "{error}");
                    }
                }
            }
        }
        // A range of devices stays one, however many there are.
        let many = DeviceMesh::simulated(BackendKind::SIM, [1 << 10, 1 << 10], ["dp", "tp"]).unwrap();
        assert!(cost.to_toml(&many).unwrap().len() < 1000);
    }
}
