//! Parts of a device: reading and writing the table in front of them.
//!
//! ```text
//!   0        4096     8192        first part
//!   ├─ table ─┼─ table ─┼─ unused ─┼─ part … ─┼─ free or part … ─┤
//! ```
//!
//! The two copies are written one after the other, with a flush between them: of a table whose
//! writing was cut short the old copy or the new one is whole. Before a table names a new part, the
//! part's front is erased, so that nothing that lay there earlier is taken for its content.

mod table;

use larder_device::{Device, DeviceInfo, Io, IoBuffer, PlacementHandle};

use crate::error::{Error, ErrorKind};
use crate::flash::{SUPERBLOCK_BYTES, SUPERBLOCK_MAGIC, is_blank_or_ours};
use larder_device::label::FRONT_BYTES;
pub(crate) use table::{
    COPIES, Found, Kind, Membership, NAME_BYTES_MAX, PARTS_MAX, Part, TABLE_BYTES, Table,
};

/// Parts begin and end with a multiple of this, where the device is large enough.
const GRAIN_BYTES: u64 = 1 << 20;
/// A grain is at most this part of the device.
const GRAINS_MIN: u64 = 32;

/// Whether a block begins as a table does.
pub(crate) fn is_table(block: &[u8]) -> bool {
    !matches!(Table::parse(block, 0), Found::Other)
}

/// What parts of the device are multiples of: reclaim units where it says how large they are, else
/// mebibytes, and blocks where these would be too much of it.
pub(crate) fn grain_bytes(info: &DeviceInfo) -> u64 {
    let most = info.capacity_bytes / GRAINS_MIN;
    let fits = |bytes: &u64| bytes.is_multiple_of(4096) && (8192..=most).contains(bytes);
    let unit = info.placement.reclaim_unit_bytes.filter(fits);
    unit.or(Some(GRAIN_BYTES).filter(fits)).unwrap_or(8192)
}

/// The table of a device; `None` if the device is blank, or, with `start_empty`, if its table cannot be
/// used.
///
/// # Errors
/// [`ErrorKind::Foreign`] if it holds something else, [`ErrorKind::Device`] if it cannot be read.
pub(crate) async fn read(device: &dyn Device, start_empty: bool) -> Result<Option<Table>, Error> {
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
    let copies = COPIES.map(|offset| {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        Table::parse(front.get(at..at + TABLE_BYTES).unwrap_or_default(), offset)
    });
    let mut found_one = false;
    let mut newest: Option<Table> = None;
    for copy in copies {
        found_one |= copy != Found::Other;
        match copy {
            Found::Valid(table)
                if newest.as_ref().is_none_or(|n| n.generation < table.generation) =>
            {
                newest = Some(table);
            }
            Found::OtherVersion(version) => {
                return unusable(&format!("a partition table in format version {version}"));
            }
            _ => {}
        }
    }
    if let Some(table) = newest {
        let end = table.parts.iter().map(|part| part.range().end).max().unwrap_or(0);
        if end > info.capacity_bytes {
            let bytes = info.capacity_bytes;
            return unusable(&format!("parts up to byte {end}, more than its {bytes} bytes"));
        }
        return Ok(Some(table));
    }
    if found_one {
        return unusable("a partition table that fails its checksum in both copies");
    }
    if front.starts_with(&SUPERBLOCK_MAGIC) {
        return foreign("a cache that has it for itself");
    }
    let (block, rest) = front.split_at(SUPERBLOCK_BYTES.min(front.len()));
    if block.iter().any(|&byte| byte != 0) || !is_blank_or_ours(rest) {
        return foreign("data of another program");
    }
    Ok(None)
}

/// Writes both copies of a table.
pub(crate) async fn write(device: &dyn Device, table: &Table) -> Result<(), Error> {
    for offset in COPIES {
        let bytes = table.encode(offset);
        write_bytes(device, offset, &bytes).await?;
        flush(device).await?;
    }
    Ok(())
}

/// Makes a part look blank to a cache that opens there.
pub(crate) async fn erase_front(device: &dyn Device, part: &Part) -> Result<(), Error> {
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

/// Entry for the fuzzer: any bytes as a table. Their checksum is put right and they are tried again.
pub(crate) fn fuzz_table(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    block.resize(TABLE_BYTES, 0);
    let _ = Table::parse(&block, 0);
    let empty = Table { generation: 0, kind: Kind::Tenants, parts: Vec::new() };
    block.splice(..10, empty.encode(0).into_iter().take(10));
    let checksum = crc32c::crc32c(block.get(16..).unwrap_or_default());
    block.splice(12..16, checksum.to_le_bytes());
    if let Found::Valid(table) = Table::parse(&block, 0) {
        let again = Table::parse(&table.encode(0), 0);
        assert_eq!(again, Found::Valid(table));
    }
}
