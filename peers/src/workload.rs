//! The workloads: keys, sizes, memory, flash. They are the same for every system.

use std::path::Path;

use larder_workload::generate::ZipfMandelbrot;

use crate::system::System;
use crate::tables::Tables;

const MIB: u64 = 1 << 20;
/// Keys of `graph_leader`: a 64th of `numKeys` in the published config.json.
const GRAPH_KEYS: u64 = 71_605_574 / 64;

/// Sizes of values, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sizes {
    /// 100 to 1000 bytes.
    Small,
    /// 2 to 16 KiB.
    Large,
    /// Four fifths small, the rest large.
    Mixed,
    /// From the files of a published workload.
    Published,
}

/// The flash of a workload, and how the systems divide it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flash {
    pub(crate) bytes: u64,
    /// Larder's region size, and foyer's block size.
    pub(crate) region_bytes: u32,
    /// Bytes that foyer may hold before they are written; see its `submit_queue_size_threshold`.
    pub(crate) queue_bytes: u64,
    /// Percent of the flash for Larder's small-object engine, as in CacheLib's BigHash.
    pub(crate) soc_percent: f64,
}

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// A description for people.
    pub(crate) about: &'static str,
    pub(crate) keys: u64,
    /// Exponent of the Zipf distribution; 0 means the popularity of the published files.
    pub(crate) zipf: f64,
    pub(crate) sizes: Sizes,
    /// Memory budget as each system counts it.
    pub(crate) dram_bytes: u64,
    pub(crate) flash: Option<Flash>,
    /// Percent of sets among the operations.
    pub(crate) set_percent: u32,
    /// Whether every key is set once at the start.
    pub(crate) prefilled: bool,
    pub(crate) warm_ops: u64,
    pub(crate) ops: u64,
    /// Threads (in DRAM) or tasks (with flash): one run for each entry.
    pub(crate) clients: &'static [usize],
    /// Whether budgets are adjusted so that every system has as much resident memory as foyer.
    pub(crate) equal_resident: bool,
    pub(crate) systems: &'static [System],
}

/// The length of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As published in docs/peers.md.
    Full,
    /// An eighth of memory, flash and keys, and fewer operations.
    Quick,
    /// For tests: takes only a moment.
    Tiny,
}

impl Scale {
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("full", Self::Full), ("quick", Self::Quick), ("tiny", Self::Tiny)];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scale)| *scale == self).map_or("", |(name, _)| name)
    }
}

const DRAM: Workload = Workload {
    name: "dram",
    about: "hits only: 250k keys of 100-1000 B in 256 MiB, zipf 0.9, get:set 4:1",
    keys: 250_000,
    zipf: 0.9,
    sizes: Sizes::Small,
    dram_bytes: 256 * MIB,
    flash: None,
    set_percent: 20,
    prefilled: true,
    warm_ops: 1_000_000,
    ops: 5_000_000,
    clients: &[2],
    equal_resident: false,
    systems: &System::IN_DRAM,
};

const HYBRID: Workload = Workload {
    name: "HM",
    about: "mixed sizes: 2M keys, 80 % of 100-1000 B, 20 % of 2-16 KiB, 256 MiB and 4 GiB flash",
    keys: 2_000_000,
    zipf: 0.99,
    sizes: Sizes::Mixed,
    dram_bytes: 256 * MIB,
    flash: Some(Flash {
        bytes: 4096 * MIB,
        region_bytes: 16 << 20,
        queue_bytes: 64 * MIB,
        soc_percent: 25.0,
    }),
    set_percent: 20,
    prefilled: false,
    warm_ops: 3_000_000,
    ops: 1_000_000,
    clients: &[2, 64],
    equal_resident: false,
    systems: &System::HYBRID,
};

const FLASH: Flash =
    Flash { bytes: 1024 * MIB, region_bytes: 16 << 20, queue_bytes: 64 * MIB, soc_percent: 25.0 };

/// All workloads, at full length.
const ALL: [Workload; 8] = [
    DRAM,
    Workload {
        name: "dramset",
        about: "hits and as many sets: dram with get:set 1:1",
        set_percent: 50,
        ..DRAM
    },
    Workload {
        name: "dramev",
        about: "with evictions: 1M keys of 100-1000 B (566 MB) in 256 MiB, zipf 0.99, look-aside",
        keys: 1_000_000,
        zipf: 0.99,
        prefilled: false,
        warm_ops: 2_000_000,
        ..DRAM
    },
    HYBRID,
    Workload {
        name: "HM128",
        about: "HM with 600k keys in 128 MiB and 1 GiB flash, which is full",
        keys: 600_000,
        dram_bytes: 128 * MIB,
        flash: Some(FLASH),
        warm_ops: 1_500_000,
        ops: 500_000,
        ..HYBRID
    },
    Workload {
        name: "HL",
        about: "large values: 500k keys of 2-16 KiB, 256 MiB and 4 GiB flash",
        keys: 500_000,
        sizes: Sizes::Large,
        flash: Some(Flash { bytes: 4096 * MIB, soc_percent: 0.0, ..FLASH }),
        systems: &System::HYBRID_LARGE,
        warm_ops: 600_000,
        ops: 300_000,
        ..HYBRID
    },
    Workload {
        name: "HS2",
        about: "small values: 2M keys of 100-1000 B, 64 MiB and 1 GiB flash, which is full",
        sizes: Sizes::Small,
        dram_bytes: 64 * MIB,
        flash: Some(Flash { soc_percent: 90.0, ..FLASH }),
        ops: 600_000,
        ..HYBRID
    },
    Workload {
        name: "graph_leader",
        about: "Meta's graph_cache_leader_fbobj, one key in 64: hit ratio at equal resident memory",
        keys: GRAPH_KEYS,
        zipf: 0.0,
        sizes: Sizes::Published,
        dram_bytes: 128 * MIB,
        set_percent: 0,
        prefilled: false,
        warm_ops: 0,
        ops: 5_000_000,
        equal_resident: true,
        ..DRAM
    },
];

impl Workload {
    /// Names of all workloads.
    pub(crate) fn names() -> Vec<&'static str> {
        ALL.iter().map(|workload| workload.name).collect()
    }

    /// The workload with this name, in any case.
    pub(crate) fn find(name: &str, scale: Scale) -> Option<Self> {
        let found = ALL.iter().find(|workload| workload.name.eq_ignore_ascii_case(name))?;
        Some(found.clone().scaled(scale))
    }

    fn scaled(self, scale: Scale) -> Self {
        let by = match scale {
            Scale::Full => return self,
            // Do not scale the keys: the working set must not fit into the processor's caches.
            Scale::Quick if self.prefilled => {
                return Self { warm_ops: self.warm_ops / 8, ops: self.ops / 8, ..self };
            }
            Scale::Quick => 8,
            Scale::Tiny => 64,
        };
        let flash = self.flash.map(|flash| Flash {
            bytes: flash.bytes / by,
            region_bytes: flash.region_bytes / (by as u32),
            queue_bytes: flash.queue_bytes / by,
            ..flash
        });
        Self {
            keys: self.keys / by,
            dram_bytes: self.dram_bytes / by,
            warm_ops: self.warm_ops / by,
            ops: self.ops / by,
            flash,
            ..self
        }
    }
}

/// The source of keys and sizes.
pub(crate) enum Source {
    Zipf { popularity: ZipfMandelbrot, keys: u64, sizes: Sizes },
    Published(Tables),
}

impl Source {
    /// The source of a workload. `data` is the directory of the published files.
    pub(crate) fn of(workload: &Workload, data: Option<&Path>) -> Result<Self, String> {
        if workload.sizes == Sizes::Published {
            let dir = data.ok_or("data: the directory of pop.json and sizes.json is needed")?;
            return Ok(Self::Published(Tables::read(dir, workload.keys)?));
        }
        let (keys, sizes) = (workload.keys, workload.sizes);
        Ok(Self::Zipf { popularity: ZipfMandelbrot::new(keys, 0.0, workload.zipf), keys, sizes })
    }

    /// Number of keys that can be requested more than once.
    pub(crate) fn keys(&self) -> u64 {
        match self {
            Self::Zipf { keys, .. } => *keys,
            Self::Published(tables) => tables.keys(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_found_at_every_scale() {
        for name in Workload::names() {
            for (_, scale) in Scale::ALL {
                let workload = Workload::find(name, scale).unwrap();
                assert_eq!(workload.name, name);
                assert!(workload.ops > 0 && !workload.clients.is_empty());
                if let Some(flash) = workload.flash {
                    assert_eq!(flash.bytes % u64::from(flash.region_bytes), 0, "{name}");
                }
            }
        }
        assert!(Workload::find("hs2", Scale::Full).is_some());
        assert_eq!(Workload::find("none", Scale::Full), None);
    }
}
