//! The devices of the HotStorage'23 study as shapes, and the processor cost of I/Os.
//!
//! The study shows its bandwidths only in figures whose data is not available. Our values are fitted to what its text
//! says: which device is faster at which size (figure 1), by how much first writes are slower than second ones (figure
//! 3: 40, 25 and 14 % with lines of 4, 16 and 64 KiB on persistent memory, 48 % on the Optane SSD), and by how much the
//! Optane SSD is faster at second writes of 128 lines (figure 4: 25 %). So agreement with those numbers is a fit; the
//! results of the log on the same devices are not.

use larder_block::accounting::timed::{IoCost, ProcessorCost};
use larder_device::model::virtual_time::shape::{Sourced, Transfer};
use larder_device::model::virtual_time::{Shape, shapes};

use crate::Error;
use crate::experiment::{Parameter, Settings};

/// Latency of a single read of `bytes` bytes.
pub(super) fn read_alone_ns(shape: &Shape, bytes: u64) -> u64 {
    shape.read.latency_ns.value + bytes * 1_000_000_000 / shape.read.bytes_per_s.value
}

/// Fitted so that first writes of a line are slower than second ones by the same share as in the study.
const GAPS: &str = "the study's losses of the first access, by line";
const ORDER: &str = "assumed; the study's order of devices holds";

/// A device and how it is driven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Name in metrics.
    pub(super) key: &'static str,
    pub(super) shape: Shape,
    /// Memory behind the block layer: the processor moves the bytes.
    pub(super) is_memory: bool,
}

const fn transfer(latency_ns: u64, bytes_per_s: u64, why: &'static str) -> Transfer {
    Transfer {
        latency_ns: Sourced::fitted(latency_ns, why),
        bytes_per_s: Sourced::fitted(bytes_per_s, why),
    }
}

/// Four modules of Optane persistent memory 200 as a block device.
pub(super) const PMEM: Storage = Storage {
    key: "pmem",
    shape: Shape {
        name: "persistent memory as blocks",
        read: transfer(1_000, 7_500_000_000, ORDER),
        write: transfer(1_300, 4_500_000_000, GAPS),
        ..shapes::PERSISTENT_MEMORY
    },
    is_memory: true,
};

/// An Optane SSD P5800X of 400 GB.
pub(super) const P5800X: Storage = Storage {
    key: "p5800x",
    shape: Shape {
        name: "Optane SSD P5800X",
        read: transfer(6_000, 6_800_000_000, ORDER),
        write: transfer(6_000, 4_200_000_000, ORDER),
        flush_ns: Sourced::fitted(6_000, "a command: it has no volatile buffer"),
        ..shapes::OPTANE_SSD
    },
    is_memory: false,
};

/// A PM9A3 of 960 GB, which writes at less than half the rate of its larger siblings.
pub(super) const PM9A3: Storage = Storage {
    key: "pm9a3",
    shape: Shape {
        name: "PM9A3 of 960 GB",
        write: transfer(12_000, 1_400_000_000, ORDER),
        ..shapes::NVME_TLC
    },
    is_memory: false,
};

/// A SATA SSD PM863 of 960 GB, whose buffer outlives a loss of power.
pub(super) const PM863: Storage = Storage {
    key: "pm863",
    shape: Shape {
        name: "PM863 of 960 GB",
        read: transfer(100_000, 520_000_000, ORDER),
        write: transfer(35_000, 470_000_000, ORDER),
        flush_ns: Sourced::fitted(35_000, "a command: its buffer outlives a loss of power"),
        volatile_cache: false,
        ..shapes::SATA_SSD
    },
    is_memory: false,
};

pub(super) const REQUEST_NS: Parameter = Parameter {
    name: "request_ns",
    default: "2400",
    help: "what a request takes of the processor beside its I/Os, in nanoseconds, 0 to 1000000 (fitted)",
};
pub(super) const MEMORY_IO_NS: Parameter = Parameter {
    name: "memory_io_ns",
    default: "1000",
    help: "what an I/O of persistent memory takes of it beside the copying, 0 to 1000000 (fitted)",
};
pub(super) const DRIVE_IO_NS: Parameter = Parameter {
    name: "drive_io_ns",
    default: "2500",
    help: "what an I/O of a drive takes of it, 0 to 1000000 (fitted)",
};

/// Processor costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    request_ns: u64,
    memory_io_ns: u64,
    drive_io_ns: u64,
}

impl Costs {
    /// Reads the costs from the settings; fails if one is out of range.
    pub(super) fn of(settings: &Settings) -> Result<Self, Error> {
        let within = |parameter: Parameter| settings.within(parameter.name, 0..=1_000_000);
        Ok(Self {
            request_ns: within(REQUEST_NS)?,
            memory_io_ns: within(MEMORY_IO_NS)?,
            drive_io_ns: within(DRIVE_IO_NS)?,
        })
    }

    pub(super) fn with(&self, cache: &Storage, core: &Storage) -> ProcessorCost {
        let io = |of: &Storage| IoCost {
            io_ns: if of.is_memory { self.memory_io_ns } else { self.drive_io_ns },
            is_held: of.is_memory,
        };
        ProcessorCost { request_ns: self.request_ns, cache: io(cache), core: io(core) }
    }
}
