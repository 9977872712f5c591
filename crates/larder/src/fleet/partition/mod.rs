//! Parts of a device: reads and writes the partition table, which is the content of a label.
//!
//! Before a table names a new part, the part's front is erased, so that older data there is not taken for its content.

mod division;
mod membership;
mod moved;
mod shard_number;
mod table;

use std::sync::Arc;

use larder_device::label::{
    self, AREA_BYTES, FORMAT_VERSION, FRONT_BYTES, Found, Labeller, OldFormat, Uuid,
};
use larder_device::{Device, DeviceInfo, Io, IoBuffer, PlacementHandle};

use crate::base::error::{Error, ErrorKind};
pub(crate) use division::{Division, erase};
pub use membership::ShardState;
pub(crate) use membership::{Membership, Role, Seat, ShardStanding};
pub(crate) use moved::{KEY_PARTS, KeyStep, MovedKeys, after, among};
pub(crate) use shard_number::{SHARDS_MAX, ShardNumber};
pub(crate) use table::{NAME_BYTES_MAX, PARTS_MAX, Part, PartitionTable};

/// Parts start and end at multiples of this, if the device is large enough.
const GRAIN_BYTES: u64 = 1 << 20;
/// A grain is at most `1 / GRAINS_MIN` of the device.
const GRAINS_MIN: u64 = 32;

/// Alignment of parts in bytes: reclaim units if the device reports their size, else mebibytes; the label area's size
/// if those are too large for the device.
pub(crate) fn grain_bytes(info: &DeviceInfo) -> u64 {
    let most = info.capacity_bytes / GRAINS_MIN;
    let fits = |bytes: &u64| bytes.is_multiple_of(4096) && (AREA_BYTES..=most).contains(bytes);
    let unit = info.placement.reclaim_unit_bytes.filter(fits);
    unit.or(Some(GRAIN_BYTES).filter(fits)).unwrap_or(AREA_BYTES)
}

/// The table of a device; `None` if the device is blank or, with `start_empty`, if its table cannot be used.
///
/// # Errors
/// [`ErrorKind::Foreign`] if it holds something else, [`ErrorKind::Device`] if it cannot be read.
pub(crate) async fn read(
    device: &dyn Device,
    start_empty: bool,
) -> Result<Option<PartitionTable>, Error> {
    let info = device.info();
    let bytes = usize::try_from(info.capacity_bytes.min(FRONT_BYTES)).unwrap_or(0);
    let read = device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(bytes) }).await;
    let front = read.map_err(|f| Error::device("cannot read the partition table", f.error))?;
    let front = front.as_slice();
    let refused = |what: &str, way_out: &str| {
        let message = format!(
            "{} holds {what}; to divide it anew, {way_out}erase its first {FRONT_BYTES} bytes",
            info.name
        );
        Err(Error::new(ErrorKind::Foreign, message))
    };
    let foreign = |what: &str| refused(what, "");
    let unusable = |what: &str| match start_empty {
        true => Ok(None),
        false => refused(what, "set start_empty, or "),
    };
    let another_version = |version: &str| {
        let known = format!("this program knows {FORMAT_VERSION}");
        unusable(&format!("a partition table in format version {version}, and {known}"))
    };
    let table = match label::find(front) {
        Found::Blank => return Ok(None),
        Found::Label(label) if label.kind == label::Kind::Parts => {
            match PartitionTable::parse(&label.content, label.uuid, label.generation) {
                Some(table) => table,
                // Its checksum is correct: another version has written it like this.
                None => {
                    return unusable("a partition table as another version of this program has it");
                }
            }
        }
        Found::Label(_) | Found::Old(OldFormat::Cache) => {
            return foreign("a cache that has it for itself");
        }
        Found::Later(version) => return another_version(&version.to_string()),
        Found::Old(OldFormat::Parts) => return another_version("2 or earlier"),
        Found::Damaged => return unusable("a label that fails its checks in both copies"),
        _ => return foreign("data of another program"),
    };
    let end = table.parts.iter().map(|part| part.range().end).max().unwrap_or(0);
    if end > info.capacity_bytes {
        let bytes = info.capacity_bytes;
        return unusable(&format!("parts up to byte {end}, more than its {bytes} bytes"));
    }
    Ok(Some(table))
}

/// Writes a table. Its generation must be higher than those written before.
pub(crate) async fn write(device: &Arc<dyn Device>, table: &PartitionTable) -> Result<(), Error> {
    assert!(table.is_possible(), "only a possible table can be read again");
    let before = table.generation.saturating_sub(1);
    let labeller = Labeller::new(Arc::clone(device), label::Kind::Parts, table.uuid, before);
    let written = labeller.write(table.encode()).await;
    written.map_err(|error| Error::device("cannot write the partition table", error))
}

/// Makes a part look blank to a cache that opens there.
async fn erase_front(device: &dyn Device, part: &Part) -> Result<(), Error> {
    let bytes = usize::try_from(part.bytes.min(FRONT_BYTES)).unwrap_or(0);
    write_bytes(device, part.start, &vec![0; bytes]).await?;
    flush(device).await
}

async fn write_bytes(device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    let write = Io::write(offset, buffer, PlacementHandle::DEFAULT);
    let written = device.submit(write).await;
    written.map_err(|f| Error::device("cannot write the partition table", f.error))?;
    Ok(())
}

async fn flush(device: &dyn Device) -> Result<(), Error> {
    let flushed = device.submit(Io::Flush).await;
    flushed.map_err(|f| Error::device("cannot flush the device", f.error))?;
    Ok(())
}

/// Entry point for the fuzzer: any bytes as a table, with a correct checksum.
pub(crate) fn fuzz_table(bytes: &[u8]) {
    let uuid = Uuid::from_bytes([0; 16]);
    let mut content = bytes.to_vec();
    // Set the number of parts to what fits into the bytes after the announced number of shards.
    if let Some(seats) = content.get(14).map(|&seats| usize::from(seats)) {
        let moved = content.get(20).map_or(0, |&moved| usize::from(moved));
        let parts = bytes.len().saturating_sub(32 + 28 * seats + 24 * moved) / 88;
        let parts = u32::try_from(parts).unwrap_or(0).to_le_bytes();
        for high in [15, 21] {
            content.get_mut(high).into_iter().for_each(|byte| *byte = 0);
        }
        content.get_mut(16..20).into_iter().for_each(|count| count.copy_from_slice(&parts));
    }
    for content in [bytes, &content] {
        if let Some(table) = PartitionTable::parse(content, uuid, 1) {
            assert_eq!(PartitionTable::parse(&table.encode(), uuid, 1), Some(table));
        }
    }
}
