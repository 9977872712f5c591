//! Byte format of the state of a block and of a tail. Each is stored twice in an image.
//!
//! ```text
//!    block  bytes  field
//!        0      4  CRC-32C of the identity, the number of the block in the image and bytes 4 to 48
//!        4      4  erases
//!        8      4  pages that are programmed
//!       12      1  health: 0 good, 1 torn, 2 read-only, 3 bad
//!       13      1  1 if there is a tag
//!       14      2  reserved: 0, checked
//!       16     16  the tag; else 0
//!       32      8  pages that hosts have programmed on the die of the block
//!       40      8  pages that were moved to it
//!
//!     tail  bytes  field
//!        0      4  CRC-32C of the identity, the number of the entry and all that follows
//!        4      4  n: its words, fewer than pages of a stripe; 0: an empty entry
//!        8      8  logical block
//!       16      8  pages of the block in front of it
//!       24    8·m  words; m: pages of a stripe; 0 behind the first n
//! ```
//!
//! An entry that is all zeros is empty too.

use larder_ssd::nand::Health;
use larder_ssd::raw::BlockImage;

use crate::fields::Fields;

/// Bytes of the record of a block.
pub(super) const BLOCK_BYTES: usize = 48;
const TAIL_HEADER_BYTES: usize = 24;

/// Pages at the end of a block that are still in the protected buffer, because they do not fill a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailRecord {
    /// The number of the logical block.
    pub block: u64,
    /// Pages of the block before these.
    pub at: u64,
    /// Their words: at least one, and fewer than the pages of a stripe.
    pub words: Vec<u64>,
}

/// Bytes of an entry of the protected buffer, for drives with this number of pages per stripe.
pub(super) fn tail_bytes(stripe_pages: u32) -> u64 {
    TAIL_HEADER_BYTES as u64 + 8 * u64::from(stripe_pages)
}

fn checksum(identity: &[u8; 16], number: u64, covered: &[u8]) -> u32 {
    let of =
        larder_checksum::crc32c_append(larder_checksum::crc32c(identity), &number.to_le_bytes());
    larder_checksum::crc32c_append(of, covered)
}

pub(super) fn encode_block(
    identity: &[u8; 16],
    number: u64,
    image: &BlockImage,
) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[4..8].copy_from_slice(&image.erases.to_le_bytes());
    bytes[8..12].copy_from_slice(&image.written_pages.to_le_bytes());
    bytes[12] = match image.health {
        Health::Good => 0,
        Health::Torn => 1,
        Health::ReadOnly => 2,
        Health::Bad => 3,
    };
    bytes[13] = u8::from(image.tag.is_some());
    bytes[16..32].copy_from_slice(&image.tag.unwrap_or_default());
    bytes[32..40].copy_from_slice(&image.die_appended_pages.to_le_bytes());
    bytes[40..].copy_from_slice(&image.die_migrated_pages.to_le_bytes());
    let checksum = checksum(identity, number, &bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Decodes the record of a block; `None` if it is damaged.
pub(super) fn decode_block(identity: &[u8; 16], number: u64, bytes: &[u8]) -> Option<BlockImage> {
    let bytes = bytes.first_chunk::<BLOCK_BYTES>()?;
    let (sum, covered) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*sum) != checksum(identity, number, covered) {
        return None;
    }
    let mut rest = Fields(covered);
    let (erases, written_pages) = (rest.number()?, rest.number()?);
    let [health, tagged, 0, 0] = rest.take::<4>()? else { return None };
    let tag = rest.take()?;
    let image = BlockImage {
        erases,
        written_pages,
        health: match health {
            0 => Health::Good,
            1 => Health::Torn,
            2 => Health::ReadOnly,
            3 => Health::Bad,
            _ => return None,
        },
        tag: (tagged == 1).then_some(tag),
        die_appended_pages: rest.long()?,
        die_migrated_pages: rest.long()?,
    };
    (tagged <= 1 && (tagged == 1 || tag == [0; 16])).then_some(image)
}

/// Encodes an entry of the protected buffer in `bytes` bytes.
pub(super) fn encode_tail(
    identity: &[u8; 16],
    entry: u64,
    tail: Option<&TailRecord>,
    bytes: usize,
) -> Vec<u8> {
    let mut record = vec![0; bytes];
    if let Some(tail) = tail {
        let count = u32::try_from(tail.words.len()).unwrap_or(u32::MAX);
        record[4..8].copy_from_slice(&count.to_le_bytes());
        record[8..16].copy_from_slice(&tail.block.to_le_bytes());
        record[16..24].copy_from_slice(&tail.at.to_le_bytes());
        for (field, word) in record[TAIL_HEADER_BYTES..].chunks_exact_mut(8).zip(&tail.words) {
            field.copy_from_slice(&word.to_le_bytes());
        }
    }
    let checksum = checksum(identity, entry, &record[4..]);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
    record
}

/// Decodes an entry: a tail or none. The error: the entry is damaged.
pub(super) fn decode_tail(
    identity: &[u8; 16],
    entry: u64,
    bytes: &[u8],
) -> Result<Option<TailRecord>, ()> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let (sum, covered) = bytes.split_first_chunk::<4>().ok_or(())?;
    if u32::from_le_bytes(*sum) != checksum(identity, entry, covered) {
        return Err(());
    }
    let mut rest = Fields(covered);
    let (Some(count), Some(block), Some(at)) = (rest.number(), rest.long(), rest.long()) else {
        return Err(());
    };
    let words = rest
        .0
        .chunks_exact(8)
        .map(|word| word.first_chunk().map_or(0, |it| u64::from_le_bytes(*it)));
    let words: Vec<u64> = words.collect();
    // The entry has room for a stripe, and a tail is shorter than a stripe.
    match count as usize {
        0 => Ok(None),
        count if count < words.len() && words[count..].iter().all(|&word| word == 0) => {
            Ok(Some(TailRecord { block, at, words: words[..count].to_vec() }))
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: [u8; 16] = *b"0123456789abcdef";

    fn images() -> Vec<BlockImage> {
        let tagged = BlockImage {
            erases: 7,
            written_pages: 12,
            tag: Some([9; 16]),
            die_appended_pages: 100,
            die_migrated_pages: 1 << 40,
            ..BlockImage::FRESH
        };
        let torn = BlockImage { health: Health::Torn, ..BlockImage::FRESH };
        let [read_only, bad] =
            [Health::ReadOnly, Health::Bad].map(|health| BlockImage { health, ..tagged });
        vec![BlockImage::FRESH, tagged, torn, read_only, bad]
    }

    #[test]
    fn a_record_of_a_block_is_of_its_place_and_whole_or_none() {
        for image in images() {
            let bytes = encode_block(&IDENTITY, 5, &image);
            assert_eq!(decode_block(&IDENTITY, 5, &bytes), Some(image));
            assert_eq!(decode_block(&IDENTITY, 6, &bytes), None, "another block's");
            assert_eq!(decode_block(&[8; 16], 5, &bytes), None, "another array's");
            for bit in 0..BLOCK_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode_block(&IDENTITY, 5, &flipped), None, "bit {bit}");
            }
            assert!((0..BLOCK_BYTES).all(|n| decode_block(&IDENTITY, 5, &bytes[..n]).is_none()));
        }
    }

    #[test]
    fn states_that_are_none_are_refused_though_their_checksum_fits() {
        for (at, value) in [(12, 4), (13, 2), (14, 1), (15, 1), (20, 1)] {
            let mut bytes = encode_block(&IDENTITY, 5, &BlockImage::FRESH);
            bytes[at] = value;
            let checksum = checksum(&IDENTITY, 5, &bytes[4..]);
            bytes[..4].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(decode_block(&IDENTITY, 5, &bytes), None, "byte {at}");
        }
    }

    #[test]
    fn a_tail_is_of_its_entry_and_whole_or_none() {
        let tail = TailRecord { block: 1 << 40 | 3, at: 8, words: vec![5, 6] };
        let bytes = usize::try_from(tail_bytes(3)).unwrap();
        let record = encode_tail(&IDENTITY, 2, Some(&tail), bytes);
        assert_eq!(decode_tail(&IDENTITY, 2, &record), Ok(Some(tail.clone())));
        assert_eq!(decode_tail(&IDENTITY, 3, &record), Err(()));
        for bit in 0..bytes * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_tail(&IDENTITY, 2, &flipped), Err(()), "bit {bit}");
        }
        assert_eq!(decode_tail(&IDENTITY, 2, &vec![0; bytes]), Ok(None));
        assert_eq!(decode_tail(&IDENTITY, 2, &encode_tail(&IDENTITY, 2, None, bytes)), Ok(None));
        let whole = TailRecord { words: vec![1, 2, 3], ..tail };
        let record = encode_tail(&IDENTITY, 2, Some(&whole), bytes);
        assert_eq!(decode_tail(&IDENTITY, 2, &record), Err(()), "a stripe is on flash");
    }
}
