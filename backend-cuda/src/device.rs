//! The GPUs of this machine, and the positions of a mesh on them.

use cudarc::driver::{CudaContext, sys};
use sharding_core::backend::Positions;
use sharding_core::{BackendKind, Device, DeviceMesh, Error, ErrorKind, Result, Scope};
use std::panic::catch_unwind;

fn unavailable(message: impl Into<String>, fix: &str) -> Error {
    Error::new(ErrorKind::Backend, message).with_fix(fix)
}

/// The GPUs that the driver shows to this process.
///
/// Without a driver library `cudarc` panics at the first call, so the library is looked for first; an incomplete one
/// (a stub for building containers, a driver older than the bindings) panics at the first symbol that it lacks.
pub(crate) fn probe() -> Result<Vec<Device>> {
    // SAFETY: it opens the driver library under its usual names and closes it again, as the first call would; the
    // library's initialisers are those that any CUDA program runs.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable(
            "no CUDA driver on this machine: the library libcuda.so.1 is not found",
            "install the NVIDIA driver (in a container: run it with GPU access), or use BackendKind::CPU",
        ));
    }
    let count = catch_unwind(CudaContext::device_count).map_err(|_| {
        unavailable(
            "the CUDA driver library lacks a function that is needed: it is a stub, or too old",
            "update the NVIDIA driver, and keep stub libraries out of LD_LIBRARY_PATH",
        )
    })?;
    let count = count.map_err(|error| {
        unavailable(format!("the CUDA driver does not start: {error}"), "see whether nvidia-smi lists a GPU")
            .with_source(error)
    })?;
    let process = Scope::current().process();
    let devices: Vec<Device> = (0..u32::try_from(count).unwrap_or(0))
        .map(|ordinal| Device::new(BackendKind::CUDA, ordinal).with_process(process))
        .collect();
    if devices.is_empty() {
        return Err(unavailable(
            "the CUDA driver shows no GPU to this process",
            "see whether CUDA_VISIBLE_DEVICES hides them",
        ));
    }
    Ok(devices)
}

/// The positions of a mesh that are on GPUs of this process.
pub(crate) fn positions(mesh: &DeviceMesh) -> Result<Positions> {
    let process = Scope::current().process();
    let known = probe()?;
    let mut found = Vec::new();
    for (position, device) in mesh.devices().enumerate() {
        if device.process != process || device.kind != BackendKind::CUDA {
            continue;
        }
        if !known.iter().any(|gpu| gpu.same_ordinal(device)) {
            return Err(unavailable(
                format!("{mesh} names {device} at position {position}; there are {} GPUs", known.len()),
                "use the devices that the backend lists: backend_of(BackendKind::CUDA)?.devices()",
            ));
        }
        found.push(position);
    }
    Ok(found.into())
}
