//! Ready-made [`Shape`]s, each number with its source.
//!
//! They are kinds of storage, not products: enough to see what a cache gains in front of each. Fitted numbers are
//! marked as such.

use super::shape::{Seek, Shape, Sourced, Transfer};

const PMEM: &str = "Izraelevitz et al. 2019, arXiv 1903.05714: one Optane DC module of 256 GB";
const P4800X: &str = "Intel's specification of the Optane SSD DC P4800X (AnandTech 11930)";
const PM9A3: &str = "Samsung's announcement of the PM9A3, U.2 (2020)";
const EVO_870: &str = "Samsung's specification of the 870 EVO (KitGuru's review lists it)";
const EXOS_2X14: &str = "Seagate's specification of the Exos 2X14, one of its two actuators";

/// One module of persistent memory, in blocks.
pub const PERSISTENT_MEMORY: Shape = Shape {
    name: "persistent memory",
    block_bytes: 512,
    channels: Sourced::fitted(16, "threads with which reads come to their full rate"),
    read: Transfer {
        latency_ns: Sourced::published(305, PMEM),
        bytes_per_s: Sourced::published(6_600_000_000, PMEM),
    },
    write: Transfer {
        latency_ns: Sourced::published(94, PMEM),
        bytes_per_s: Sourced::published(2_300_000_000, PMEM),
    },
    is_duplex: false,
    flush_ns: Sourced::fitted(100, "a fence: as long as a store takes to be persistent"),
    volatile_cache: false,
    deallocate_ns: Sourced::fitted(0, "nothing is to be done"),
    seek: None,
};

/// An SSD of 3D XPoint.
pub const OPTANE_SSD: Shape = Shape {
    name: "Optane SSD",
    block_bytes: 512,
    channels: Sourced::fitted(6, "550 thousand reads of 4 KiB a second at 10 us each"),
    read: Transfer {
        latency_ns: Sourced::fitted(8_300, "with the transfer 10 us for 4 KiB, as specified"),
        bytes_per_s: Sourced::published(2_400_000_000, P4800X),
    },
    write: Transfer {
        latency_ns: Sourced::fitted(8_000, "with the transfer 10 us for 4 KiB, as specified"),
        bytes_per_s: Sourced::published(2_000_000_000, P4800X),
    },
    is_duplex: false,
    flush_ns: Sourced::fitted(8_000, "a command: it has no volatile buffer"),
    volatile_cache: false,
    deallocate_ns: Sourced::fitted(8_000, "a command"),
    seek: None,
};

/// A data-centre NVMe SSD with TLC flash, while its write buffer is never full.
pub const NVME_TLC: Shape = Shape {
    name: "NVMe TLC SSD",
    block_bytes: 512,
    channels: Sourced::fitted(72, "900 thousand reads of 4 KiB a second at 80 us each"),
    read: Transfer {
        latency_ns: Sourced::fitted(79_000, "with the transfer 80 us, as TLC of its time takes"),
        bytes_per_s: Sourced::published(6_500_000_000, PM9A3),
    },
    write: Transfer {
        latency_ns: Sourced::fitted(14_000, "a write that finds room in the buffer, about 15 us"),
        bytes_per_s: Sourced::published(3_500_000_000, PM9A3),
    },
    is_duplex: true,
    flush_ns: Sourced::fitted(14_000, "a command: its buffer outlives a loss of power"),
    volatile_cache: false,
    deallocate_ns: Sourced::fitted(20_000, "a command and a change of the map"),
    seek: None,
};

/// A desktop SATA SSD.
pub const SATA_SSD: Shape = Shape {
    name: "SATA SSD",
    block_bytes: 512,
    channels: Sourced::fitted(8, "98 thousand reads of 4 KiB a second at 77 us each"),
    read: Transfer {
        latency_ns: Sourced::fitted(69_600, "with the transfer 13 thousand 4 KiB a second alone"),
        bytes_per_s: Sourced::published(560_000_000, EVO_870),
    },
    write: Transfer {
        latency_ns: Sourced::fitted(20_000, "with the transfer 36 thousand 4 KiB a second alone"),
        bytes_per_s: Sourced::published(530_000_000, EVO_870),
    },
    is_duplex: false,
    flush_ns: Sourced::fitted(2_000_000, "a program or two: its buffer is volatile; assumed"),
    volatile_cache: true,
    deallocate_ns: Sourced::fitted(100_000, "assumed"),
    seek: None,
};

/// A disk of 7200 revolutions per minute without a write cache.
pub const HDD: Shape = Shape {
    name: "disk, 7200 turns a minute",
    block_bytes: 512,
    channels: Sourced::fitted(1, "one arm"),
    read: Transfer {
        latency_ns: Sourced::fitted(50_000, "a command; assumed"),
        bytes_per_s: Sourced::published(262_000_000, EXOS_2X14),
    },
    write: Transfer {
        latency_ns: Sourced::fitted(50_000, "a command; assumed"),
        bytes_per_s: Sourced::published(262_000_000, EXOS_2X14),
    },
    is_duplex: false,
    flush_ns: Sourced::fitted(50_000, "a command: writes are on the disk when they end"),
    volatile_cache: false,
    deallocate_ns: Sourced::fitted(50_000, "a command that does nothing"),
    seek: Some(Seek {
        shortest_ns: Sourced::fitted(500_000, "to the next track; assumed"),
        longest_ns: Sourced::fitted(14_000_000, "a third of the way, the average, takes 8.3 ms"),
        half_turn_ns: Sourced::published(4_160_000, EXOS_2X14),
    }),
};

/// All of them, fastest first.
pub const ALL: [Shape; 5] = [PERSISTENT_MEMORY, OPTANE_SSD, NVME_TLC, SATA_SSD, HDD];
