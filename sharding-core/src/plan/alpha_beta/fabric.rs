//! Links of common fabrics, as their makers state them.
//!
//! Bandwidths are peaks of one direction, and latencies those of a message in NCCL's own model: real programs reach less.
//! [`calibrate`](super::calibrate) measures a mesh.

use super::Link;

/// A link and where its figures come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// What it is.
    pub name: &'static str,
    /// Its figures.
    pub link: Link,
    /// Where they come from.
    pub source: &'static str,
}

/// NVLink of the fourth generation, as between the H100 of one server: 900 GB/s for both directions together.
pub const NVLINK_4: Fabric = Fabric {
    name: "NVLink 4",
    link: Link::new(0.6e-6, 450e9),
    source: "bandwidth: NVIDIA H100 data sheet, 900 GB/s of both directions; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of NVLink, ring, LL",
};

/// NVLink of the fifth generation, as between the B200 of one server: 1.8 TB/s for both directions together.
pub const NVLINK_5: Fabric = Fabric {
    name: "NVLink 5",
    link: Link::new(0.6e-6, 900e9),
    source: "bandwidth: NVIDIA Blackwell architecture brief, 1.8 TB/s of both directions; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of NVLink, ring, LL (no figure of its own is published there)",
};

/// InfiniBand NDR, one port of four lanes: 400 Gbit/s each way.
pub const INFINIBAND_NDR: Fabric = Fabric {
    name: "InfiniBand NDR",
    link: Link::new(2.7e-6, 50e9),
    source: "bandwidth: NVIDIA ConnectX-7 data sheet, 400 Gbit/s; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of the network, ring, LL",
};

/// PCI Express 4.0 with 16 lanes.
pub const PCIE_4: Fabric = Fabric {
    name: "PCIe 4.0 x16",
    link: Link::new(1.0e-6, 16e9 * 16.0 * 128.0 / 130.0 / 8.0),
    source: "bandwidth: PCI Express Base 4.0, 16 GT/s by 16 lanes in 128b/130b; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of PCI, ring, LL",
};

/// PCI Express 5.0 with 16 lanes.
pub const PCIE_5: Fabric = Fabric {
    name: "PCIe 5.0 x16",
    link: Link::new(1.0e-6, 32e9 * 16.0 * 128.0 / 130.0 / 8.0),
    source: "bandwidth: PCI Express Base 5.0, 32 GT/s by 16 lanes in 128b/130b; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of PCI, ring, LL",
};

/// Ethernet of 100 Gbit/s with remote direct memory access (RoCE). TCP takes longer per message: measure it.
pub const ETHERNET_100G: Fabric = Fabric {
    name: "Ethernet 100G",
    link: Link::new(2.7e-6, 12.5e9),
    source: "bandwidth: IEEE 802.3, 100 Gbit/s; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of the network, ring, LL",
};

/// One channel of DDR4-3200, for devices that are slots of one host: what they send is copied in its memory.
pub const HOST_MEMORY: Fabric = Fabric {
    name: "host memory",
    link: Link::new(0.0, 25.6e9 / 2.0),
    source: "bandwidth: JEDEC JESD79-4, 3200 MT/s by 8 bytes is 25.6 GB/s, each byte sent is read and written; latency: none is published, so none counts: calibrate",
};

/// All of them.
pub const ALL: [Fabric; 7] = [NVLINK_4, NVLINK_5, INFINIBAND_NDR, PCIE_4, PCIE_5, ETHERNET_100G, HOST_MEMORY];
