//! The description of a vSSD.

use larder_blocks::VssdArray;
use larder_vssd::{Isolation, VssdId, VssdInfo};
use larder_workload::Error;
use serde::Serialize;

use super::image::refused;
use super::output::human;

/// A vSSD, for people and as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Tenant {
    pub(super) vssd: u32,
    /// Its owner; empty if it was not said.
    pub(super) name: String,
    /// What it shares with others: "channels", "dies", "software" or "none".
    pub(super) isolation: String,
    /// The kind of its store.
    #[serde(rename = "rung")]
    pub(super) kind: &'static str,
    pub(super) weight: Option<u32>,
    pub(super) units: u32,
    pub(super) unit: &'static str,
    pub(super) dies: Vec<Die>,
    pub(super) blocks: u32,
    pub(super) allocated: u32,
    pub(super) block_bytes: u64,
    /// Bytes that it can hold.
    pub(super) capacity_bytes: u64,
    /// Bytes that its blocks hold.
    pub(super) written_bytes: u64,
    /// Throughput that it asked for, in MB/s.
    pub(super) mb_s: u32,
    pub(super) read_only: bool,
    /// Whether it lends blocks of its idle dies now.
    pub(super) lends: bool,
    /// Blocks of others on its dies.
    pub(super) lent_blocks: u64,
    /// Its blocks on dies of others.
    pub(super) borrowed_blocks: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Die {
    pub(super) drive: u32,
    pub(super) channel: u32,
    pub(super) die: u32,
}

impl Tenant {
    pub(super) fn of(array: &VssdArray, id: VssdId) -> Result<Self, Error> {
        let of_vssd = |error| refused("vSSD", &error);
        let (store, written_bytes) = array.store_info(id).map_err(of_vssd)?;
        let seen = array.look(|array| {
            let dies_array = array.drive(0).map(|drive| drive.geometry().array);
            array.info(id).map(|info| (info, dies_array))
        });
        let (info, dies_array) = seen
            .map_err(of_vssd)?
            .map_err(|error| Error::run(format!("vSSD {}: {error}", id.0)))?;
        let loans = array.loans().map_err(of_vssd)?;
        let loans = loans.tenants.iter().find(|tenant| tenant.id == id);
        let VssdInfo { name, request, units, blocks, allocated, read_only, .. } = info;
        let block_bytes = store.block_bytes;
        let die = |&(drive, die): &(u32, larder_ssd::nand::DieIndex)| Die {
            drive,
            channel: dies_array.map_or(0, |dies| dies.channel_of(die).0),
            die: die.0,
        };
        Ok(Self {
            vssd: id.0,
            name,
            isolation: store.isolation.to_string(),
            kind: store.kind,
            weight: match request.isolation {
                Isolation::Software { weight } => Some(weight),
                _ => None,
            },
            units,
            unit: match request.isolation {
                Isolation::Channel => "channel",
                Isolation::Die => "die",
                Isolation::Software { .. } | Isolation::None => "quarter of a die",
            },
            dies: info.dies.iter().map(die).collect(),
            blocks,
            allocated,
            block_bytes,
            capacity_bytes: u64::from(blocks) * block_bytes,
            written_bytes,
            mb_s: request.mb_s,
            read_only,
            lends: loans.is_some_and(|loans| loans.lends),
            lent_blocks: loans.map_or(0, |loans| loans.lent),
            borrowed_blocks: loans.map_or(0, |loans| loans.borrowed),
        })
    }

    pub(super) fn all(array: &VssdArray) -> Result<Vec<Self>, Error> {
        array.list().iter().map(|info| Self::of(array, info.id)).collect()
    }

    /// Describes it in a line, without its number.
    pub(super) fn describe(&self) -> String {
        let of = if self.name.is_empty() { String::new() } else { format!(", of {}", self.name) };
        format!(
            "{} of {} × {}, {} blocks of {}, isolation {}{of}",
            human(self.capacity_bytes),
            self.units,
            self.unit,
            self.blocks,
            human(self.block_bytes),
            self.isolation
        )
    }
}
