//! A record of the journal after a catalogue: 32 bytes.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  CRC-32C of the identity, the epoch of the catalogue and bytes 4 to 32
//!       4      4  kind: 1 a block was allocated, 2 it was freed, 3 stamps were reserved
//!       8      8  sequence: how many records are in front of it
//!      16      8  number of the logical block; of kind 3, the stamp up to which all may be used
//!      24      8  of kind 1, what its owner gave it; else 0
//! ```

use super::kind::LogicalBlock;

pub(super) const RECORD_BYTES: usize = 32;

/// A change between two catalogues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Allocated { block: LogicalBlock, tag: u64 },
    Freed { block: LogicalBlock },
    StampsReserved { end: u64 },
}

/// The journal that a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalId {
    pub(super) identity: [u8; 16],
    pub(super) epoch: u64,
}

impl JournalId {
    fn checksum(&self, covered: &[u8]) -> u32 {
        let own = larder_checksum::crc32c_append(
            larder_checksum::crc32c(&self.identity),
            &self.epoch.to_le_bytes(),
        );
        larder_checksum::crc32c_append(own, covered)
    }
}

pub(super) fn encode(journal: &JournalId, sequence: u64, change: &Change) -> [u8; RECORD_BYTES] {
    let (kind, block, tag): (u32, u64, u64) = match *change {
        Change::Allocated { block, tag } => (1, block.number(), tag),
        Change::Freed { block } => (2, block.number(), 0),
        Change::StampsReserved { end } => (3, end, 0),
    };
    let mut bytes = [0; RECORD_BYTES];
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16..24].copy_from_slice(&block.to_le_bytes());
    bytes[24..].copy_from_slice(&tag.to_le_bytes());
    let checksum = journal.checksum(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(decode(journal, sequence, &bytes), Some(*change));
    bytes
}

/// Decodes the record with this sequence; `None` if there is none, or it is incomplete.
pub(super) fn decode(journal: &JournalId, sequence: u64, bytes: &[u8]) -> Option<Change> {
    let (bytes, _) = bytes.split_first_chunk::<RECORD_BYTES>()?;
    let (checksum, covered) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*checksum) != journal.checksum(covered) {
        return None;
    }
    let (kind, rest) = covered.split_first_chunk::<4>()?;
    let (found, rest) = rest.split_first_chunk::<8>()?;
    let (block, rest) = rest.split_first_chunk::<8>()?;
    let tag = u64::from_le_bytes(*rest.first_chunk::<8>()?);
    let number = u64::from_le_bytes(*block);
    let block = LogicalBlock::from_number(number);
    if u64::from_le_bytes(*found) != sequence {
        return None;
    }
    match u32::from_le_bytes(*kind) {
        1 => Some(Change::Allocated { block, tag }),
        2 => Some(Change::Freed { block }),
        3 => Some(Change::StampsReserved { end: number }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: JournalId = JournalId { identity: [7; 16], epoch: 3 };

    #[test]
    fn a_record_is_of_its_journal_and_place_and_whole_or_none() {
        let block = LogicalBlock::from_number(0x0102_0304_0506_0708);
        for change in [
            Change::Allocated { block, tag: u64::MAX },
            Change::Freed { block },
            Change::StampsReserved { end: 1 << 40 },
        ] {
            let bytes = encode(&JOURNAL, 9, &change);
            assert_eq!(decode(&JOURNAL, 9, &bytes), Some(change));
            assert_eq!(decode(&JOURNAL, 8, &bytes), None);
            assert_eq!(decode(&JournalId { epoch: 4, ..JOURNAL }, 9, &bytes), None);
            assert_eq!(decode(&JournalId { identity: [8; 16], ..JOURNAL }, 9, &bytes), None);
            for bit in 0..RECORD_BYTES * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&JOURNAL, 9, &flipped), None, "bit {bit}");
            }
            assert!((0..RECORD_BYTES).all(|n| decode(&JOURNAL, 9, &bytes[..n]).is_none()));
        }
    }
}
