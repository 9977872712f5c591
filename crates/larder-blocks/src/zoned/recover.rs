//! Recovery when a store is opened: the log, and a header at the start of each zone that has a block.
//!
//! A zone with a header is a block. Its size is given by the write pointer; if the zone is full, the block is full,
//! unless the log has recorded a smaller size. A zone with less than a header in it, or with a damaged header and
//! nothing after it, is an allocation that a loss of power interrupted: it is free.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Error, ErrorKind, Io, IoBuffer, Zone, ZoneState, ZonedDevice};

use super::log::{self, FoundLog, Log, refusal};
use super::page::{self, PAGE_BYTES, Page};
use crate::info::{BlockId, StoreInfo, Stream};
use crate::isolation::IsolationLevel;
use crate::ledger::BlockState;

const PAGE: u64 = PAGE_BYTES as u64;

/// The division of a device.
#[derive(Debug, Clone)]
pub(super) struct Division {
    pub(super) log: [Zone; 2],
    /// Zones that can have a block.
    pub(super) zones: Vec<Zone>,
    pub(super) info: StoreInfo,
}

/// What was found.
pub(super) struct RecoveredZones {
    pub(super) uuid: Uuid,
    pub(super) log: Log,
    /// The number of the next block.
    pub(super) next_block: u64,
    pub(super) blocks: Vec<(Zone, BlockState)>,
    pub(super) free: Vec<Zone>,
    /// Bytes of the blocks that were closed early.
    pub(super) closed_early: BTreeMap<u64, u64>,
}

impl Division {
    /// The division of a device with these zones.
    pub(super) fn plan(device: &Arc<dyn ZonedDevice>, zones: Vec<Zone>) -> Result<Self, Error> {
        let name = format!("blocks on the zones of {}", device.info().name);
        let fail = |complaint: String| Error::new(ErrorKind::Setup, format!("{name}: {complaint}"));
        if !PAGE.is_multiple_of(u64::from(device.info().block_bytes)) {
            let block = device.info().block_bytes;
            return Err(fail(format!(
                "the device has blocks of {block} bytes: must divide {PAGE}"
            )));
        }
        let is_usable =
            |zone: &Zone| !matches!(zone.state, ZoneState::Conventional | ZoneState::Offline);
        let mut zones = zones.into_iter().filter(is_usable);
        let (Some(one), Some(other)) = (zones.next(), zones.next()) else {
            return Err(fail("it has less than two zones with a write pointer".to_owned()));
        };
        let (log, zones) = ([one, other], Vec::from_iter(zones));
        let capacity =
            zones.iter().map(|zone| zone.capacity_bytes).min().unwrap_or(0) / PAGE * PAGE;
        if capacity < 2 * PAGE {
            return Err(fail("no zone is left for a block behind the two of the log".to_owned()));
        }
        if log.iter().any(|zone| !log::fits(zone, zones.len())) {
            let what = format!(
                "its first two zones are too short for the log of {} blocks; use longer zones",
                zones.len()
            );
            return Err(fail(what));
        }
        // The log may have both of its zones active for a while.
        let active = device.limits().active.map(|most| most.saturating_sub(2));
        if active == Some(0) {
            let most = device.limits().active.unwrap_or(0);
            return Err(fail(format!("{most} zones may be active, and at least 3 are needed")));
        }
        let info = StoreInfo {
            name,
            block_bytes: capacity - PAGE,
            page_bytes: u32::try_from(PAGE).expect("a page is short"),
            blocks: zones.len() as u64,
            streams: 1,
            open_blocks_max: active,
            isolation: IsolationLevel::Unknown,
            kind: "zones",
        };
        Ok(Self { log, zones, info })
    }
}

/// Reads the device. Writes nothing.
pub(super) async fn recover(
    device: &Arc<dyn ZonedDevice>,
    division: &Division,
) -> Result<RecoveredZones, Error> {
    let Division { log: zones, info, .. } = division;
    let refuse = |what: &str| Err(refusal(info, what));
    let halves =
        [log::read(device, &zones[0], info).await?, log::read(device, &zones[1], info).await?];
    let newest = (0..).zip(halves).filter_map(|(half, found)| Some((half, found?)));
    let newest = newest.max_by_key(|(_, found): &(usize, FoundLog)| found.generation);
    let Some((half, found)) = newest else {
        return refuse("there is none; format it if nothing on it is needed");
    };
    let FoundLog { uuid, generation, next_block, closed_early } = found;
    let closed_early: BTreeMap<u64, u64> =
        closed_early.into_iter().map(|it| (it.block, it.bytes)).collect();
    let (mut blocks, mut free) = (Vec::new(), Vec::new());
    for zone in &division.zones {
        match header(device, zone, info).await? {
            None => free.push(*zone),
            Some((of, block, _)) if of != uuid || block >= next_block => {
                let what =
                    format!("the zone at {} has a block of another one; format it", zone.start);
                return refuse(&what);
            }
            Some((_, block, tag)) => {
                blocks.push((*zone, state_of(zone, info, (block, tag), closed_early.get(&block))));
            }
        }
    }
    blocks.sort_by_key(|(_, state)| state.block);
    if let Some(two) = blocks.windows(2).find(|two| two[0].1.block == two[1].1.block) {
        return refuse(&format!("two of its zones have the block {}", two[0].1.block));
    }
    let closed_early = closed_early.into_iter().filter(|(block, _)| {
        blocks.binary_search_by_key(block, |(_, state)| state.block.number()).is_ok()
    });
    let closed_early = closed_early.collect();
    let log = Log::found(*zones, uuid, (half, generation), next_block);
    Ok(RecoveredZones { uuid, log, next_block, blocks, free, closed_early })
}

fn state_of(
    zone: &Zone,
    info: &StoreInfo,
    (block, tag): (u64, u64),
    closed_early: Option<&u64>,
) -> BlockState {
    let written = zone.written_bytes().saturating_sub(PAGE);
    let whole = (written / PAGE * PAGE).min(info.block_bytes);
    let written_bytes = closed_early.map_or(whole, |&bytes| bytes.min(whole));
    BlockState {
        block: BlockId::new(block),
        tag,
        stream: Stream::DEFAULT,
        written_bytes,
        // After a partial page nothing can be written at the right place.
        closed: written_bytes < info.block_bytes
            && (closed_early.is_some()
                || whole < written
                || matches!(zone.state, ZoneState::ReadOnly | ZoneState::Full)),
    }
}

/// The header of a zone: store, number and tag of its block.
async fn header(
    device: &Arc<dyn ZonedDevice>,
    zone: &Zone,
    info: &StoreInfo,
) -> Result<Option<(Uuid, u64, u64)>, Error> {
    if zone.written_bytes() < PAGE {
        return Ok(None);
    }
    let read = Io::Read { offset: zone.start, buffer: IoBuffer::zeroed(PAGE_BYTES) };
    let buffer = device.submit(read).await.map_err(|failure| failure.error)?;
    match page::decode(buffer.as_slice()) {
        Some((uuid, Page::Header { block, tag })) => Ok(Some((uuid, block, tag))),
        _ if zone.written_bytes() == PAGE && page::later_version(buffer.as_slice()).is_none() => {
            Ok(None)
        }
        _ => {
            let what =
                format!("the zone at {} has something else, or is damaged; format it", zone.start);
            Err(refusal(info, &what))
        }
    }
}
