//! Puts magic, version, identity and checksum of arbitrary bytes right, at the places that
//! `docs/formats.md` gives for them. Lengths and counts stay as they are: they are the fuzzer's.
//!
//! Bytes too short for a header, or with a length that leads out of them, come back unsealed.

/// Bytes in front of what a snapshot says.
pub const SNAPSHOT_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 32;
const TRAILER_BYTES: usize = 32;
const FOOTER_ENTRY_BYTES: usize = 16;
const SUPERBLOCK_USED_BYTES: usize = 96;

/// A record with sequence number 0 at offset 0.
pub fn record(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= RECORD_HEADER_BYTES {
        put(&mut bytes, 0, b"LREC\x01\0");
        put(&mut bytes, 16, &[0; 12]);
        let checksum = crc32c::crc32c(&bytes[12..]);
        put(&mut bytes, 8, &checksum.to_le_bytes());
    }
    bytes
}

/// The footer of region 0 with sequence number 0.
pub fn footer(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let Some(trailer) = bytes.len().checked_sub(TRAILER_BYTES) else { return bytes };
    put(&mut bytes, trailer, b"LFTR\x01\0\0\0");
    put(&mut bytes, trailer + 16, &[0; 12]);
    let count = word(&bytes, trailer + 12) as usize;
    if let Some(start) = trailer.checked_sub(count.saturating_mul(FOOTER_ENTRY_BYTES)) {
        let listed = crc32c::crc32c(&bytes[start..trailer]);
        let checksum = crc32c::crc32c_append(listed, &bytes[trailer + 12..]);
        put(&mut bytes, trailer + 8, &checksum.to_le_bytes());
    }
    bytes
}

/// A superblock.
pub fn superblock(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= SUPERBLOCK_USED_BYTES {
        put(&mut bytes, 0, b"LARDERSB\x01\0\0\0");
        let checksum = crc32c::crc32c(&bytes[16..SUPERBLOCK_USED_BYTES]);
        put(&mut bytes, 12, &checksum.to_le_bytes());
    }
    bytes
}

/// The snapshot of this epoch.
pub fn snapshot(bytes: &[u8], epoch: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= SNAPSHOT_HEADER_BYTES {
        put(&mut bytes, 0, b"LSNP\x01\0\0\0");
        put(&mut bytes, 24, &epoch.to_le_bytes());
        let length = u64::from(word(&bytes, 16)) | u64::from(word(&bytes, 20)) << 32;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if let Some(checked) = bytes.get(16..SNAPSHOT_HEADER_BYTES.saturating_add(length)) {
            let checksum = crc32c::crc32c(checked);
            put(&mut bytes, 8, &checksum.to_le_bytes());
        }
    }
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
