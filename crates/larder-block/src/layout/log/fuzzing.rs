//! Entry points for the fuzzer: arbitrary content of a cache device. Not part of the API.
//!
//! The log has eight segments of 64 KiB, blocks of 512 bytes, lines of 4 KiB, and a UUID of zeros.

use larder_device::DeviceInfo;

use super::batch::BatchHeader;
use super::blocks::Blocks;
use super::footer::Footer;
use super::geometry::{Geometry, LogOptions};
use super::record::Record;
use super::recovery::LogRecovery;
use super::superblock::LogSuperblock;

const GEOMETRY: Geometry = Geometry {
    offset: 0,
    segments: 8,
    segment_bytes: 64 << 10,
    block_bytes: 512,
    line_bytes: 4096,
    metadata_bytes: 0,
};
const BESIDE: Geometry = Geometry { block_bytes: 4096, metadata_bytes: 64, ..GEOMETRY };
const MEMORY: Geometry = Geometry { block_bytes: 64, ..GEOMETRY };
const UUID: [u8; 16] = [0; 16];

/// Parses arbitrary bytes as the beginning of a segment. What is accepted must encode to the same bytes.
pub fn header(bytes: &[u8]) {
    let room = (GEOMETRY.segment_bytes, GEOMETRY.block_bytes);
    let Some((header, records)) = BatchHeader::parse(bytes, &UUID, (0, 0), room) else { return };
    let mut again = vec![0; super::batch::header_bytes(records.len())];
    header.encode(&UUID, &records, &mut again);
    assert_eq!(bytes.get(..again.len()), Some(again.as_slice()));
    assert!(header.bytes <= GEOMETRY.segment_bytes);
}

/// The same for memory, where headers are short and segments begin with a note in one of two places.
pub fn short_header(bytes: &[u8]) {
    for position in [0, 64, 128] {
        let Some((header, records)) = MEMORY.parse(of(bytes), &UUID, (0, position)) else {
            continue;
        };
        let mut again = vec![0; super::short_header::header_bytes(records.len())];
        MEMORY.encode(&header, &UUID, &records, &mut again);
        assert_eq!(bytes.get(..again.len()), Some(again.as_slice()));
        assert!(position + header.bytes <= MEMORY.segment_bytes);
    }
    play(MEMORY, bytes, &[]);
}

/// The same for a device that keeps 64 bytes of metadata per block of 4 KiB. `metadata`: that of the first blocks of a
/// segment; `bytes`: the content of these blocks.
pub fn metadata_header(metadata: &[u8], bytes: &[u8]) {
    let blocks = Blocks { bytes, metadata };
    for position in [0, 8192] {
        let Some((header, records)) = BESIDE.parse(blocks, &UUID, (0, position)) else { continue };
        let data = records.iter().map(Record::data_bytes).sum();
        let is_beside = BESIDE.is_in_metadata(records.len(), data);
        let (there, whole) = match is_beside {
            true => (metadata, super::metadata_header::header_bytes(records.len())),
            false => (bytes, super::batch::header_bytes(records.len())),
        };
        let mut again = vec![0; whole];
        BESIDE.encode(&header, &UUID, &records, &mut again);
        assert_eq!(there.get(..whole), Some(again.as_slice()));
        assert!(position + header.bytes <= BESIDE.segment_bytes);
    }
    let mut metadata = metadata[..metadata.len().min(1024)].to_vec();
    metadata.resize(BESIDE.metadata_of(BESIDE.segment_bytes as usize), 0);
    play_with(BESIDE, &metadata, bytes, &[]);
}

fn of(bytes: &[u8]) -> Blocks<'_> {
    Blocks { bytes, metadata: &[] }
}

/// Parses arbitrary bytes as the end of a segment. The batches of an accepted footer follow each other in front of it.
pub fn footer(bytes: &[u8]) {
    match Footer::parse(bytes, &UUID, 0, &GEOMETRY) {
        Footer::Of(filling) => {
            let mut end = 0;
            for (batch, records) in filling.whole() {
                assert!(batch.position >= end && records.len() <= super::batch::RECORDS_MAX);
                end = batch.position + batch.bytes;
            }
            assert!(end < GEOMETRY.segment_bytes && end == filling.end());
        }
        Footer::Longer(whole) => {
            assert!(whole > bytes.len() && whole <= GEOMETRY.segment_bytes as usize);
        }
        Footer::None => {}
    }
}

/// Parses arbitrary bytes as the content of a label, on a device of 16 MiB. What is accepted encodes to the same
/// bytes, and fits the device.
pub fn superblock(bytes: &[u8]) {
    if let Ok(superblock) = LogSuperblock::parse(bytes, 16 << 20) {
        assert_eq!(superblock.encode(), bytes);
        let Geometry { offset, .. } = superblock.geometry;
        assert!(offset + superblock.geometry.capacity_bytes() <= 16 << 20);
    }
}

/// Starts with the first bytes at the beginning of a segment, the second at its end, and zeros elsewhere.
pub fn start(first: &[u8], last: &[u8]) {
    play(GEOMETRY, first, last);
    play(MEMORY, first, last);
}

fn play(geometry: Geometry, first: &[u8], last: &[u8]) {
    play_with(geometry, &[], first, last);
}

/// `metadata`: that of the first segment; that of the others is zeros.
fn play_with(geometry: Geometry, metadata: &[u8], first: &[u8], last: &[u8]) {
    let mut device = vec![0; geometry.segment_bytes as usize];
    let first = &first[..first.len().min(device.len())];
    let last = &last[..last.len().min(device.len())];
    device[..first.len()].copy_from_slice(first);
    let at = device.len() - last.len();
    device[at..].copy_from_slice(last);
    device.resize(usize::try_from(geometry.capacity_bytes()).expect("512 KiB"), 0);
    let mut recovery = LogRecovery::new(geometry, UUID);
    let mut reads = 0;
    while let Some(read) = recovery.next_read() {
        let from = usize::try_from(read.offset).expect("within the device");
        let mut beside = vec![0; read.metadata_bytes];
        let at = geometry.metadata_of(from);
        let kept = metadata.get(at..at + beside.len()).unwrap_or_default();
        beside[..kept.len()].copy_from_slice(kept);
        recovery.completed_with(read, Some((&device[from..from + read.bytes], &beside)));
        reads += 1;
        assert!(reads < 1024, "a recovery ends");
    }
    // Everything that was accepted can be put into an index.
    let info = DeviceInfo::new("fuzzed", geometry.capacity_bytes(), geometry.block_bytes, 1 << 20);
    if recovery.last_epoch() < u32::MAX {
        drop(recovery.finish(u32::MAX, &info, &LogOptions::default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_take_what_is_whole_and_what_is_not() {
        for length in 0..200 {
            let bytes = vec![0x4c; length];
            header(&bytes);
            short_header(&bytes);
            metadata_header(&bytes, &bytes);
            footer(&bytes);
            superblock(&bytes);
            start(&bytes, &bytes);
        }
        let superblock_of = LogSuperblock { epoch: 1, ..LogSuperblock::blank(GEOMETRY) }.encode();
        superblock(&superblock_of);
    }
}
