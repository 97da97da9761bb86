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

/// NVLink of the third generation, as between the A100 of one server: 600 GB/s for both directions together.
pub const NVLINK_3: Fabric = Fabric {
    name: "NVLink 3",
    link: Link::new(0.6e-6, 300e9),
    source: "bandwidth: NVIDIA A100 data sheet, 600 GB/s of both directions; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of NVLink, ring, LL",
};

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

/// InfiniBand HDR, one port of four lanes: 200 Gbit/s each way.
pub const INFINIBAND_HDR: Fabric = Fabric {
    name: "InfiniBand HDR",
    link: Link::new(2.7e-6, 25e9),
    source: "bandwidth: NVIDIA ConnectX-6 data sheet, 200 Gbit/s; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of the network, ring, LL",
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

/// Ethernet of 100 Gbit/s with remote direct memory access (RoCE), whose messages go the same way as those of InfiniBand:
/// NCCL has one transport for both, and one latency. TCP takes longer per message: measure it.
pub const ETHERNET_100G: Fabric = Fabric {
    name: "Ethernet 100G",
    link: Link::new(2.7e-6, 12.5e9),
    source: "bandwidth: IEEE Std 802.3ba-2010, a MAC data rate of 100 Gbit/s, of which headers of frames take a part; latency: NCCL 2.20 src/graph/tuning.cc, hwLat of the network, ring, LL, to which the transport of RoCE (src/transport/net_ib.cc) adds none of its own",
};

/// One channel of DDR4-3200, for devices that are slots of one host: what they send is copied in its memory.
pub const HOST_MEMORY: Fabric = Fabric {
    name: "host memory",
    link: Link::new(0.0, 25.6e9 / 2.0),
    source: "bandwidth: JEDEC JESD79-4, 3200 MT/s by 8 bytes is 25.6 GB/s, each byte sent is read and written; latency: none is published, so none counts: calibrate",
};

/// All of them.
pub const ALL: [Fabric; 9] = [
    NVLINK_3,
    NVLINK_4,
    NVLINK_5,
    INFINIBAND_HDR,
    INFINIBAND_NDR,
    PCIE_4,
    PCIE_5,
    ETHERNET_100G,
    HOST_MEMORY,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_figures_and_where_they_come_from() {
        for (i, fabric) in ALL.iter().enumerate() {
            assert!(fabric.link.is_valid() && fabric.link.seconds_per_byte > 0.0, "{fabric:?}");
            assert!(
                fabric.source.contains("bandwidth: ") && fabric.source.contains("latency: "),
                "{fabric:?}"
            );
            assert!(ALL.iter().skip(i + 1).all(|other| other.name != fabric.name), "{fabric:?}");
        }
        // 16 lanes of 32 GT/s are 63.0 GB/s, four lanes of NDR 50.
        assert!((1.0 / PCIE_5.link.seconds_per_byte / 63.015e9 - 1.0).abs() < 1e-4);
        assert!((1.0 / INFINIBAND_NDR.link.seconds_per_byte / 50e9 - 1.0).abs() < 1e-12);
    }
}
