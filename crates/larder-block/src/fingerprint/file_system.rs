//! The UUID of the file system on a device, as `blkid` prints it.
//!
//! | what | where | UUID |
//! |---|---|---|
//! | ext2, ext3, ext4 | 0xEF53 at 1080 | 16 bytes at 1128 |
//! | XFS | `XFSB` at 0 | 16 bytes at 32 |
//! | F2FS | 0xF2F52010 at 1024 | 16 bytes at 1132 |
//! | LUKS | `LUKS\xba\xbe` at 0 | text at 168 |
//! | swap | `SWAPSPACE2` at 4086 | 16 bytes at 1036 |
//! | exFAT, FAT32, FAT | name at 3, 82, 54 | 4 bytes at 100, 67, 39: a serial number |
//! | NTFS | name at 3 | 8 bytes at 72: a serial number |
//! | Btrfs | `_BHRfS_M` at 65600 | 16 bytes at 65568 |
//!
//! All values are little-endian. The offsets of UUIDs and marks are those of libblkid's probes.

#![deny(clippy::indexing_slicing)]

use larder_device::label::Uuid;

/// The blocks that contain these superblocks, in the order of the search.
pub(super) const BLOCKS: [u64; 2] = [0, 16];

/// The UUID in a block of [`BLOCKS`]. `None` if the block is no known superblock.
pub(super) fn uuid(block: u64, bytes: &[u8]) -> Option<String> {
    let has = |at: usize, mark: &[u8]| bytes.get(at..).is_some_and(|it| it.starts_with(mark));
    if block != 0 {
        return if has(64, b"_BHRfS_M") { of_bytes(bytes, 32) } else { None };
    }
    if has(0, b"XFSB") {
        of_bytes(bytes, 32)
    } else if has(0, b"LUKS\xba\xbe") {
        of_text(bytes.get(168..208)?)
    } else if has(3, b"EXFAT   ") {
        of_serial(bytes, 100)
    } else if has(3, b"NTFS    ") {
        let serial = bytes.get(72..80)?.first_chunk()?;
        Some(format!("{:016X}", u64::from_le_bytes(*serial)))
    } else if has(82, b"FAT32   ") {
        of_serial(bytes, 67)
    } else if has(54, b"FAT") {
        of_serial(bytes, 39)
    } else if has(1080, &[0x53, 0xef]) {
        of_bytes(bytes, 1128)
    } else if has(1024, &[0x10, 0x20, 0xf5, 0xf2]) {
        of_bytes(bytes, 1132)
    } else if has(4086, b"SWAPSPACE2") {
        of_bytes(bytes, 1036)
    } else {
        None
    }
}

fn of_bytes(bytes: &[u8], at: usize) -> Option<String> {
    let uuid: &[u8; 16] = bytes.get(at..)?.first_chunk()?;
    // All zeros: no UUID was assigned.
    (*uuid != [0; 16]).then(|| Uuid::from_bytes(*uuid).to_string())
}

fn of_text(field: &[u8]) -> Option<String> {
    let text = field.split(|byte| *byte == 0).next()?;
    let text = std::str::from_utf8(text).ok()?;
    let is_uuid = text.len() == 36 && text.bytes().all(|it| it == b'-' || it.is_ascii_hexdigit());
    is_uuid.then(|| text.to_owned())
}

fn of_serial(bytes: &[u8], at: usize) -> Option<String> {
    let [a, b, c, d] = *bytes.get(at..)?.first_chunk()?;
    ([a, b, c, d] != [0; 4]).then(|| format!("{d:02X}{c:02X}-{b:02X}{a:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        for (at, part) in parts {
            bytes.splice(*at..at + part.len(), part.iter().copied());
        }
        bytes
    }

    /// Block, mark and its offset, offset of the UUID, its bytes and its text.
    type Case<'a> = (u64, &'a [u8], usize, usize, &'a [u8], &'a str);

    #[allow(clippy::indexing_slicing)]
    #[test]
    fn superblocks_are_known_by_their_marks() {
        let id: Vec<u8> = (1..=16).collect();
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
        let luks = format!("{text}\0");
        let cases: [Case<'_>; 10] = [
            (0, b"XFSB", 0, 32, &id, text),
            (0, &[0x53, 0xef], 1080, 1128, &id, text),
            (0, &[0x10, 0x20, 0xf5, 0xf2], 1024, 1132, &id, text),
            (0, b"SWAPSPACE2", 4086, 1036, &id, text),
            (0, b"LUKS\xba\xbe", 0, 168, luks.as_bytes(), text),
            (0, b"NTFS    ", 3, 72, &id, "0807060504030201"),
            (0, b"EXFAT   ", 3, 100, &id[..4], "0403-0201"),
            (0, b"FAT32   ", 82, 67, &id[..4], "0403-0201"),
            (0, b"FAT16   ", 54, 39, &id[..4], "0403-0201"),
            (16, b"_BHRfS_M", 64, 32, &id, text),
        ];
        for (block, mark, at, of_uuid, value, expected) in cases {
            let bytes = with(&[(at, mark), (of_uuid, value)]);
            assert_eq!(uuid(block, &bytes).as_deref(), Some(expected), "{mark:?}");
            let other = if block == 0 { 16 } else { 0 };
            assert_eq!(uuid(other, &bytes), None, "{mark:?} elsewhere");
            assert_eq!(uuid(block, &with(&[(of_uuid, value)])), None, "{mark:?} is not there");
            for cut in 0..bytes.len() {
                let _ = uuid(block, bytes.get(..cut).unwrap());
            }
        }
        assert_eq!(uuid(0, &with(&[(1080, &[0x53, 0xef])])), None, "without a UUID");
        assert_eq!(uuid(0, &with(&[(0, b"LUKS\xba\xbe"), (168, b"no UUID\n")])), None);
    }
}
