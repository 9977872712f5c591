//! Corrects magic, version, identity and checksum of arbitrary bytes, at the offsets that `docs/formats.md` gives for
//! them. Lengths and counts are not changed, because the fuzzer chooses them.
//!
//! The version is that of the code, so that a new version does not stop the fuzzer at the header.
//!
//! Bytes that are too short for a header, or with a length beyond their end, are returned unsealed.

use larder_device::label::FORMAT_VERSION;

/// Bytes of a snapshot's header.
pub const SNAPSHOT_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 32;
const TRAILER_BYTES: usize = 36;
const FOOTER_ENTRY_BYTES: usize = 16;
const CATALOGUE_HEADER_BYTES: usize = 48;
const JOURNAL_RECORD_BYTES: usize = 32;
/// Bytes of a header in a block cache's log before its records, and of the end of a footer.
const BLOCK_LOG_HEADER_BYTES: usize = 64;
/// Bytes of a fingerprint slot before its identity.
const FINGERPRINT_HEADER_BYTES: usize = 64;
/// The identity of the fuzzer's cache, where one is needed.
pub const IDENTITY: [u8; 6] = [0; 6];

/// A record with sequence number 0 at offset 0.
pub fn record(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= RECORD_HEADER_BYTES {
        mark(&mut bytes, 0, b"LREC");
        put(&mut bytes, 16, &[0; 12]);
        let checksum = checksum(&bytes[12..]);
        put(&mut bytes, 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The footer of region 0 with sequence number 0.
pub fn footer(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES) else { return bytes };
    mark(&mut bytes, trailer, b"LFTR");
    put(&mut bytes, trailer + 6, &[0; 2]);
    put(&mut bytes, trailer + 16, &[0; 12]);
    let count = word(&bytes, trailer + 12) as usize;
    if let Some(start) = trailer.checked_sub(count.saturating_mul(FOOTER_ENTRY_BYTES)) {
        let listed = checksum(&bytes[start..trailer]);
        let checksum = larder_checksum::crc32c_append(listed, &bytes[trailer + 12..]);
        put(&mut bytes, trailer + 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The snapshot of this epoch, of the cache with this identity.
pub fn snapshot(bytes: &[u8], epoch: u64, identity: [u8; 6]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= SNAPSHOT_HEADER_BYTES {
        mark(&mut bytes, 0, b"LSNP");
        // Which of two sources identifies dead records: allow only valid values.
        bytes[6] &= 1;
        bytes[7] = 0;
        put(&mut bytes, 12, &[0; 4]);
        put(&mut bytes, 24, &epoch.to_le_bytes());
        let length = u64::from(word(&bytes, 16)) | u64::from(word(&bytes, 20)) << 32;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if let Some(checked) = bytes.get(16..SNAPSHOT_HEADER_BYTES.saturating_add(length)) {
            let checksum = larder_checksum::crc32c_append(
                larder_checksum::crc32c_append(larder_checksum::crc32c(&identity), &bytes[4..8]),
                checked,
            );
            put(&mut bytes, 8, &checksum.to_le_bytes());
        }
    }
    bytes
}

/// The catalogue of an array with this identity, and the records of its journal.
pub fn catalogue(bytes: &[u8], identity: [u8; 16]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < CATALOGUE_HEADER_BYTES {
        return bytes;
    }
    put(&mut bytes, 0, b"LARDERVS\x01\0\0\0");
    put(&mut bytes, 16, &identity);
    let own = larder_checksum::crc32c(&bytes[16..40]);
    let length = u64::from(word(&bytes, 40)) | u64::from(word(&bytes, 44)) << 32;
    let end = CATALOGUE_HEADER_BYTES.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    let Some(checked) = bytes.get(16..end) else { return bytes };
    let checksum = larder_checksum::crc32c(checked);
    put(&mut bytes, 12, &checksum.to_le_bytes());
    for (sequence, record) in (0u64..).zip(bytes[end..].chunks_exact_mut(JOURNAL_RECORD_BYTES)) {
        put(record, 8, &sequence.to_le_bytes());
        let checksum = larder_checksum::crc32c_append(own, &record[4..]);
        put(record, 0, &checksum.to_le_bytes());
    }
    bytes
}

/// The header of a batch at the start of the first segment of a block cache's log, with a UUID of zeros.
pub fn block_log_header(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < BLOCK_LOG_HEADER_BYTES {
        return bytes;
    }
    mark(&mut bytes, 0, b"LBCB");
    put(&mut bytes, 12, &[0; 8]);
    put(&mut bytes, 60, &[0; 4]);
    let records = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    if let Some(checked) = bytes.get(12..BLOCK_LOG_HEADER_BYTES + 16 * records) {
        let checksum = larder_checksum::crc32c_append(larder_checksum::crc32c(&[0; 16]), checked);
        put(&mut bytes, 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The short header of a log in memory, at the same place.
pub fn block_log_short_header(bytes: &[u8]) -> Vec<u8> {
    short_header(b"LBSH", bytes)
}

/// The header in the metadata of blocks, from the first block of a segment on.
pub fn block_log_metadata_header(bytes: &[u8]) -> Vec<u8> {
    short_header(b"LBMH", bytes)
}

fn short_header(magic: &[u8; 4], bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() < BLOCK_LOG_HEADER_BYTES {
        return bytes;
    }
    mark(&mut bytes, 0, magic);
    let records = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    if let Some(checked) = bytes.get(12..48 + 16 * records) {
        // The checksum covers the UUID, the segment and the offset in it.
        let checksum = larder_checksum::crc32c_append(larder_checksum::crc32c(&[0; 24]), checked);
        put(&mut bytes, 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The footer of that segment.
pub fn block_log_footer(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(trailer) = bytes.len().checked_sub(BLOCK_LOG_HEADER_BYTES) else { return bytes };
    mark(&mut bytes, trailer, b"LBSF");
    put(&mut bytes, trailer + 6, &[0; 2]);
    put(&mut bytes, trailer + 12, &[0; 4]);
    put(&mut bytes, trailer + 60, &[0; 4]);
    let entries = word(&bytes, trailer + 16) as usize;
    if let Some(start) = trailer.checked_sub(entries.saturating_mul(16)) {
        let listed = larder_checksum::crc32c_append(
            larder_checksum::crc32c(&[0; 16]),
            &bytes[start..trailer],
        );
        let checksum = larder_checksum::crc32c_append(listed, &bytes[trailer + 12..]);
        put(&mut bytes, trailer + 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The header of a model image, in either copy.
pub fn image_header(bytes: &mut [u8]) {
    put(bytes, 0, b"LARDERVI\x01\0\0\0");
    let checksum = larder_checksum::crc32c(&bytes[16..]);
    put(bytes, 12, &checksum.to_le_bytes());
}

/// Record number `number` of a kind of which a model image with this identity has many.
pub fn image_record(bytes: &mut [u8], identity: [u8; 16], number: u64) {
    let own =
        larder_checksum::crc32c_append(larder_checksum::crc32c(&identity), &number.to_le_bytes());
    let checksum = larder_checksum::crc32c_append(own, &bytes[4..]);
    put(bytes, 0, &checksum.to_le_bytes());
}

/// A slot of the fingerprint of core 0 of the cache whose UUID is zeros, at this offset.
pub fn block_fingerprint(bytes: &[u8], offset: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= FINGERPRINT_HEADER_BYTES {
        put(&mut bytes, 0, b"LARDERFP\x01\0\0\0");
        put(&mut bytes, 16, &[0; 16]);
        put(&mut bytes, 40, &offset.to_le_bytes());
        put(&mut bytes, 60, &[0; 4]);
        let checksum = larder_checksum::crc32c(&bytes[16..]);
        put(&mut bytes, 12, &checksum.to_le_bytes());
    }
    bytes
}

fn checksum(bytes: &[u8]) -> u32 {
    larder_checksum::crc32c_append(larder_checksum::crc32c(&IDENTITY), bytes)
}

fn mark(bytes: &mut [u8], at: usize, magic: &[u8]) {
    put(bytes, at, magic);
    put(bytes, at + magic.len(), &FORMAT_VERSION.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, drive};

    /// The data that a cache wrote does not change when it is sealed: magics, versions and checksums are at the right
    /// offsets.
    #[test]
    fn what_a_cache_wrote_is_sealed_already() {
        let image = drive::after_clean_shutdown();
        let snapshot_bytes = SNAPSHOT_HEADER_BYTES + drive::number(&image, drive::SNAPSHOT_AT + 16);
        let there = &image[drive::SNAPSHOT_AT..drive::SNAPSHOT_AT + snapshot_bytes];
        assert_eq!(snapshot(there, drive::EPOCH, drive::identity(&image)), there);
        let regions = image[drive::regions_at(&image)..].chunks_exact(8192);
        let written: Vec<_> = regions.filter(|region| region.starts_with(b"LREC")).collect();
        assert!(written.len() > 1, "{} regions were written", written.len());
        for region in written {
            let first = &region[..32 + usize::from(region[6]) + word(region, 12) as usize];
            let sealed = record(first);
            assert_eq!((&sealed[..8], &sealed[12..16]), (&first[..8], &first[12..16]));
            let sealed = footer(region);
            let trailer = region.len() - TRAILER_BYTES;
            assert_eq!(sealed[trailer..trailer + 8], region[trailer..trailer + 8]);
        }
    }
    #[test]
    fn what_an_array_wrote_is_sealed_already() {
        let (array, images) = array::used();
        assert!(images[0].len() > 200 + 2 * JOURNAL_RECORD_BYTES, "a catalogue and a journal");
        assert_eq!(catalogue(&images[0], array.identity()), images[0]);
        let image = array::used_image();
        let sections = array::sections(&image);
        for [one, other] in sections.copies {
            assert_eq!(image[one.clone()], image[other], "both copies are alike");
        }
        assert_eq!(array::sealed(image.clone(), &sections), image);
    }
}
