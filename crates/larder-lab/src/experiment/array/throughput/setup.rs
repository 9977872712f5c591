//! What is played: workloads, drives, and how full they are.

use std::str::FromStr;

use crate::Error;
use crate::experiment::array::shards::Speed;
use crate::experiment::{Parameter, Settings};

pub(super) const SHARDS: Parameter = Parameter {
    name: "shards",
    default: "1,8",
    help: "drives, each 1 to 128: the first number is played with every `filled`, the others with the first `filled`",
};
pub(super) const SHARD_MIB: Parameter = Parameter {
    name: "shard_mib",
    default: "4096,2048",
    help: "capacity of a drive in MiB, for each `filled` or for all, each 64 to 65536; index memory is one part in \
           8192 of it",
};
pub(super) const CLIENTS: Parameter = Parameter {
    name: "clients",
    default: "100",
    help: "clients for each drive, 1 to 4096; the artifact's script has 100 threads for one drive",
};
pub(super) const OPS: Parameter = Parameter {
    name: "ops",
    default: "60000",
    help: "operations of a run, 1000 to 1000000000; the second half counts",
};
pub(super) const DRIVE: Parameter = Parameter {
    name: "drive",
    default: "pm9a3",
    help: "one-plane: it programs 0.75 GB/s; pm9a3: reads and programs 3 GB/s, as the paper's drive",
};
pub(super) const FILLED: Parameter = Parameter {
    name: "filled",
    default: "3,85",
    help: "percent of the flash that values fill, each 1 to 95; the artifact's script stores 32 GB on 1 TB",
};
pub(super) const LOADS: Parameter = Parameter {
    name: "workloads",
    default: "hotspot,uniform,zipf,ycsb-a,ycsb-b,ycsb-c,ycsb-d,twitter-ttl",
    help: "hotspot, uniform, zipf: half of the operations are SETs; ycsb-a to ycsb-d; twitter-ttl: a fifth are SETs, \
           with times to live",
};
pub(super) const PARAMETERS: &[Parameter] =
    &[SHARDS, SHARD_MIB, CLIENTS, OPS, DRIVE, FILLED, LOADS];

pub(super) const VALUE_BYTES: u64 = 32 << 10;
/// The paper's ratio: 128 GB of DRAM for 1 PB.
const FLASH_PER_DRAM: u64 = 8192;
/// Bytes of an entry of uDepot, and of one with a time to live.
const ENTRY_BYTES: u64 = 8;
const ENTRY_TTL_BYTES: u64 = 16;
/// Entries of the largest index, SlickCache's.
const SLOT_BYTES: u64 = 24;
const TABLE_BYTES: u64 = 16 << 10;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// The generator with its parameters, except for the number of records.
    pub(super) generator: &'static str,
    pub(super) has_ttls: bool,
}

const fn workload(name: &'static str, generator: &'static str) -> Workload {
    Workload { name, generator, has_ttls: false }
}

const WORKLOADS: [Workload; 8] = [
    workload("hotspot", "hotspot:sets=50,bytes=32768"),
    workload("uniform", "uniform:sets=50,bytes=32768"),
    workload("zipf", "zipf:sets=50,bytes=32768"),
    workload("ycsb-a", "ycsb-a:bytes=32768"),
    workload("ycsb-b", "ycsb-b:bytes=32768"),
    workload("ycsb-c", "ycsb-c:bytes=32768"),
    workload("ycsb-d", "ycsb-d:bytes=32768"),
    Workload { has_ttls: true, ..workload("twitter-ttl", "twitter-ttl:bytes=32768") },
];

impl FromStr for Workload {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        WORKLOADS.into_iter().find(|it| it.name == name).ok_or(())
    }
}

impl Workload {
    /// Bytes of an entry of uDepot.
    pub(super) fn entry_bytes(self) -> u64 {
        if self.has_ttls { ENTRY_TTL_BYTES } else { ENTRY_BYTES }
    }
}

/// A number of drives, and how full they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Percent.
    pub(super) filled: u64,
    pub(super) shards: u64,
    pub(super) shard_bytes: u64,
}

impl Place {
    /// Bytes of DRAM for the index of a drive.
    pub(super) fn dram_bytes(self) -> u64 {
        self.shard_bytes / FLASH_PER_DRAM
    }

    /// Number of values of a drive before clients come.
    pub(super) fn values(self) -> u64 {
        (self.shard_bytes * self.filled / 100 / VALUE_BYTES).max(1)
    }

    /// Tables or pages for which a drive has room, enough for any index.
    pub(super) fn tables(self) -> u64 {
        (2 * self.values() * SLOT_BYTES / TABLE_BYTES + 16).next_multiple_of(8)
    }

    /// Bytes of these tables.
    pub(super) fn table_bytes(self) -> u64 {
        self.tables() * TABLE_BYTES
    }
}

/// All that is played.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clients: u64,
    pub(super) ops: u64,
    pub(super) speed: Speed,
    pub(super) places: Vec<Place>,
    pub(super) workloads: Vec<Workload>,
}

impl Plan {
    pub(super) fn read(settings: &Settings) -> Result<Self, Error> {
        let each = |name: &str, range: std::ops::RangeInclusive<u64>| {
            let list = settings.list::<u64>(name)?;
            match list.iter().find(|it| !range.contains(it)) {
                Some(wrong) => {
                    let complaint = format!("must be {} to {}", range.start(), range.end());
                    Err(settings.refuse(name, &wrong.to_string(), &complaint))
                }
                None => Ok(list),
            }
        };
        let shards = each(SHARDS.name, 1..=128)?;
        let filled = each(FILLED.name, 1..=95)?;
        let mib = each(SHARD_MIB.name, 64..=65_536)?;
        if mib.len() > 1 && mib.len() != filled.len() {
            let complaint = "must be one number, or one for each of `filled`";
            return Err(settings.refuse(SHARD_MIB.name, settings.text(SHARD_MIB.name), complaint));
        }
        let mib = mib.into_iter().cycle();
        let of_first = filled.iter().zip(mib).map(|(&filled, mib)| Place {
            filled,
            shards: shards[0],
            shard_bytes: mib << 20,
        });
        let of_first: Vec<Place> = of_first.collect();
        let others = shards[1..].iter().map(|&shards| Place { shards, ..of_first[0] });
        let places = [of_first.clone(), others.collect()].concat();
        Ok(Self {
            clients: settings.within(CLIENTS.name, 1..=4096)?,
            ops: settings.within(OPS.name, 1000..=1_000_000_000)?,
            speed: settings.get(DRIVE.name)?,
            places,
            workloads: settings.list(LOADS.name)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(assignments: &[&str]) -> Result<Plan, Error> {
        let assignments: Vec<String> = assignments.iter().map(|&it| it.to_owned()).collect();
        Plan::read(&Settings::new("test", PARAMETERS, &assignments)?)
    }

    #[test]
    fn one_drive_is_filled_in_every_way_and_the_others_in_the_first() {
        let places = |assignments| {
            let places = plan(assignments).unwrap().places;
            let parts = |it: &Place| (it.shards, it.filled, it.shard_bytes >> 20);
            places.iter().map(parts).collect::<Vec<_>>()
        };
        assert_eq!(places(&[]), [(1, 3, 4096), (1, 85, 2048), (8, 3, 4096)]);
        let same = places(&["shards=2,1", "shard_mib=64", "filled=5,6"]);
        assert_eq!(same, [(2, 5, 64), (2, 6, 64), (1, 5, 64)]);
        let refused = plan(&["shard_mib=64,64,64"]).unwrap_err().to_string();
        assert!(refused.contains("one for each of `filled`"), "{refused}");
    }

    #[test]
    fn a_place_has_the_room_of_the_artifact() {
        let place = Place { filled: 85, shards: 1, shard_bytes: 2 << 30 };
        assert_eq!((place.dram_bytes(), place.values()), (256 << 10, 55_705));
        assert!(place.table_bytes() >= place.values() * SLOT_BYTES);
    }
}
