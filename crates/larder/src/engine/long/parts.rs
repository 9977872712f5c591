//! Reads and writes a value one part at a time.

use super::{Lack, ReadPurpose, Records, head::Head};
use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHash;

/// Result of looking a key up.
pub(crate) enum LongLookup {
    Whole(FlashItem),
    InParts(Parts),
}

impl LongLookup {
    /// Interprets a record of the key; `None` if it is a head with impossible numbers.
    pub(crate) fn of(fetched: FlashItem) -> Option<Self> {
        match fetched.kind {
            Kind::Head => Parts::of(&fetched).map(Self::InParts),
            Kind::Whole | Kind::Part => Some(Self::Whole(fetched)),
        }
    }
}

/// Progress of reading the parts of a value.
#[derive(Debug)]
pub(crate) struct Parts {
    hash: KeyHash,
    head: Head,
    next: u32,
    /// Bytes that are still to come.
    left: usize,
    pub(crate) expiry_s: u32,
    pub(crate) flags: u32,
}

impl Parts {
    /// The parts that a head names; `None` if the record is not a head.
    fn of(fetched: &FlashItem) -> Option<Self> {
        let head = Head::parse(fetched.item().value)?;
        let FlashItem { hash, expiry_s, flags, .. } = *fetched;
        Some(Self { hash, head, next: 0, left: head.value_bytes, expiry_s, flags })
    }

    /// Length of the value.
    pub(crate) fn value_bytes(&self) -> usize {
        self.head.value_bytes
    }
}

/// The next part; `None` after the last one.
///
/// # Errors
/// If it is not there, or does not match the head.
pub(crate) async fn next_part(
    records: &impl Records,
    parts: &mut Parts,
) -> Result<Option<FlashItem>, Lack> {
    if parts.next == parts.head.parts {
        return if parts.left == 0 { Ok(None) } else { Err(Lack::Gone) };
    }
    let key = parts.head.part_key(parts.hash, parts.next);
    let part = records.part(&key, ReadPurpose::Counts).await?;
    parts.left = parts.left.checked_sub(part.value_bytes).ok_or(Lack::Gone)?;
    parts.next += 1;
    Ok(Some(part))
}

/// A value that is written part by part. It cannot be found before its head is stored.
#[derive(Debug)]
pub(crate) struct NewParts {
    hash: KeyHash,
    head: Head,
    next: u32,
    expiry_s: u32,
    /// Size of all parts except the last one.
    part_bytes: usize,
}

impl NewParts {
    /// Starts writing a value of this length.
    pub(crate) fn begin(records: &impl Records, item: &ItemRef<'_>, value_bytes: usize) -> Self {
        let part_bytes = records.part_bytes();
        let parts = value_bytes.div_ceil(part_bytes);
        let head = Head {
            value_bytes,
            parts: u32::try_from(parts).expect("values are shorter than 4 GiB"),
            stamp: records.stamps().next(),
        };
        Self { hash: item.hash, head, next: 0, expiry_s: item.expiry_s, part_bytes }
    }

    /// Bytes of the next part; 0 after the last one.
    pub(crate) fn next_bytes(&self) -> usize {
        let before = self.next as usize * self.part_bytes;
        self.head.value_bytes.saturating_sub(before).min(self.part_bytes)
    }
}

/// Stores the next part. Returns whether it is stored.
pub(crate) async fn add_part(
    records: &impl Records,
    parts: &mut NewParts,
    bytes: &[u8],
    now_s: u32,
) -> bool {
    debug_assert_eq!(bytes.len(), parts.next_bytes());
    let key = parts.head.part_key(parts.hash, parts.next);
    let part = ItemRef::new(records.hasher().hash(&key), &key, bytes, parts.expiry_s);
    let stored = records.set_record(&ItemRef { kind: Kind::Part, ..part }, now_s).await;
    parts.next += u32::from(stored);
    stored
}

/// Stores the head, after all parts: from now on the value is found. `item` is the user's item; its value is ignored.
/// Returns whether the head is stored; if not, no version of the key is stored.
pub(crate) async fn add_head(
    records: &impl Records,
    parts: &NewParts,
    item: &ItemRef<'_>,
    now_s: u32,
) -> bool {
    debug_assert_eq!((parts.next, parts.hash), (parts.head.parts, item.hash));
    let value = parts.head.encode();
    records.set_record(&ItemRef { kind: Kind::Head, value: &value, ..*item }, now_s).await
}
