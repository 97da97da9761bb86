//! Kinds of memory, and which of them devices have.

use crate::{BackendKind, Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// The memory of a device that holds the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The device's own memory.
    #[default]
    Device,
    /// Host memory that the device can reach by transfers.
    PinnedHost,
    /// Host memory that the operating system may move.
    UnpinnedHost,
}

impl MemoryKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Device, Self::PinnedHost, Self::UnpinnedHost];

    /// `device`, `pinned_host`, `unpinned_host`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::PinnedHost => "pinned_host",
            Self::UnpinnedHost => "unpinned_host",
        }
    }

    /// The kinds that devices of a backend know: all of them on host memory and without data, else the device's own
    /// memory and pinned host memory.
    pub fn known(kind: BackendKind) -> &'static [Self] {
        match kind {
            BackendKind::CPU | BackendKind::SIM => &Self::ALL,
            _ => &[Self::Device, Self::PinnedHost],
        }
    }

    /// This kind, if devices of a backend know it.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds they know.
    pub fn checked(self, kind: BackendKind) -> Result<Self> {
        let known = Self::known(kind);
        if known.contains(&self) {
            return Ok(self);
        }
        Err(unknown(self.name(), &format!("devices of {kind}"), known))
    }
}

fn unknown(name: &str, whose: &str, known: &[MemoryKind]) -> Error {
    let known: Vec<_> = known.iter().map(|kind| kind.name()).collect();
    Error::new(ErrorKind::MemoryKind, format!("{whose} have no memory kind '{name}'"))
        .with_fix(format!("use one of {}", known.join(", ")))
}

impl FromStr for MemoryKind {
    type Err = Error;

    /// # Errors
    /// [`ErrorKind::MemoryKind`], naming the kinds there are.
    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| unknown(name, "devices", &Self::ALL))
    }
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_unknown_ones_name_the_known() {
        for kind in MemoryKind::ALL {
            assert_eq!(kind.name().parse::<MemoryKind>().unwrap(), kind);
        }
        let error = "hbm".parse::<MemoryKind>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryKind);
        assert_eq!(error.fix(), Some("use one of device, pinned_host, unpinned_host"));
        let error = MemoryKind::UnpinnedHost.checked(BackendKind::CUDA).unwrap_err();
        assert_eq!(error.fix(), Some("use one of device, pinned_host"));
        assert!(MemoryKind::UnpinnedHost.checked(BackendKind::CPU).is_ok());
    }
}
