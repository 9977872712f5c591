//! An item as a record in a log of regions: the mark bits that its engine sets.
//!
//! ```text
//!   bit 0   for flash only
//!       1   the head of a long value
//!       2   a part of one
//!    1, 2   both: no item, but a table of the array's index
//! ```

use larder_device::IoBuffer;
use larder_log::{AsRecord, NewRecord, Record, RecordIdentity, record};

use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHasher;
use crate::base::tier::Tiers;

const FLASH_ONLY: u8 = 1;
const IS_HEAD: u8 = 2;
const IS_PART: u8 = 4;
/// The marks of a table's record.
pub(crate) const IS_TABLE: u8 = IS_HEAD | IS_PART;
/// Each mark has a bit of its own.
const _: () = assert!(FLASH_ONLY + IS_HEAD + IS_PART == FLASH_ONLY | IS_HEAD | IS_PART);

fn bit_of(kind: Kind) -> u8 {
    match kind {
        Kind::Whole => 0,
        Kind::Head => IS_HEAD,
        Kind::Part => IS_PART,
    }
}

/// Builds the record of an item.
pub(crate) fn record_of<'a>(item: &ItemRef<'a>, stamp: Option<u64>) -> NewRecord<'a> {
    let only = if item.tiers == Tiers::FlashOnly { FLASH_ONLY } else { 0 };
    let ItemRef { key, value, expiry_s, flags, .. } = *item;
    let marks = only | bit_of(item.kind);
    NewRecord { hash: item.hash.0, key, value, expiry_s, flags, marks, stamp }
}

/// Decodes the marks of a record. `None` if it is not an item.
fn kind_of(record: &Record<'_>) -> Option<(Kind, Tiers)> {
    let kinds = [Kind::Whole, Kind::Head, Kind::Part];
    let marked = record.marks & (IS_HEAD | IS_PART);
    let kind = kinds.into_iter().find(|&kind| bit_of(kind) == marked)?;
    Some((kind, Tiers::on_flash(record.marks & FLASH_ONLY != 0)))
}

impl FlashItem {
    /// Parses the record of this identity that begins `skip` bytes into the buffer. Takes the key from the record,
    /// because an index cannot tell all keys apart.
    pub(crate) fn parse(
        buffer: IoBuffer,
        skip: usize,
        identity: RecordIdentity,
        hasher: KeyHasher,
    ) -> Option<Self> {
        let record = record::parse_first(buffer.as_slice().get(skip..)?, identity)?;
        let (kind, tiers) = kind_of(&record)?;
        let hash = hasher.hash(record.key());
        let Record { key_bytes, expiry_s, flags, .. } = record;
        let value_bytes = record.body.len() - key_bytes;
        let at = skip + record.body_at();
        Some(Self { buffer, hash, at, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
    }
}

impl AsRecord for FlashItem {
    fn as_record(&self) -> NewRecord<'_> {
        record_of(&self.item(), None)
    }
}

#[cfg(test)]
mod tests {
    use larder_log::CacheId;

    use super::*;
    use crate::base::key::KeyHash;

    const IDENTITY: RecordIdentity = RecordIdentity {
        cache: CacheId::from_number(0x1122_3344_5566),
        sequence: 0x0102_0304_0506_0708,
        offset: 4000,
    };

    fn item(flags: u32, kind: Kind, tiers: Tiers) -> ItemRef<'static> {
        ItemRef { flags, kind, tiers, ..ItemRef::new(KeyHash::of(b"key"), b"key", b"value", 9) }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Checks every byte, as docs/formats.md draws it.
    #[test]
    fn a_record_is_what_it_was_in_version_9() {
        let cases = [
            (
                item(6, Kind::Whole, Tiers::FlashOnly),
                "4c52454309000300f3b11472050000900807060504030201a00f000009000000060000006b6579\
                 76616c7565",
            ),
            (
                item(0, Kind::Head, Tiers::default()),
                "4c52454309000300f94cdc8f050000200807060504030201a00f0000090000006b657976616c7565",
            ),
            (
                item(0, Kind::Part, Tiers::default()),
                "4c52454309000300b7597df7050000400807060504030201a00f0000090000006b657976616c7565",
            ),
        ];
        for (item, golden) in cases {
            assert_eq!(hex(&record_of(&item, None).to_vec(IDENTITY)), golden);
        }
    }

    #[test]
    fn a_record_says_what_it_is_of() {
        for kind in [Kind::Whole, Kind::Head, Kind::Part] {
            let new = item(0, kind, Tiers::default());
            let bytes = record_of(&new, None).to_vec(IDENTITY);
            let record = record::parse_first(&bytes, IDENTITY).unwrap();
            assert!(record.is(&record_of(&new, None)));
            assert_eq!(kind_of(&record), Some((kind, Tiers::on_flash(false))));
        }
        let both = NewRecord {
            marks: IS_HEAD | IS_PART,
            ..record_of(&item(0, Kind::Head, Tiers::default()), None)
        };
        let bytes = both.to_vec(IDENTITY);
        assert_eq!(kind_of(&record::parse_first(&bytes, IDENTITY).unwrap()), None);
    }
}
