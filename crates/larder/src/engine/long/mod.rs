//! Values longer than a region, for all engines that keep records in regions: the value is stored in parts, with a head
//! that names them.
//!
//! Each part is a record, and so is the head, which is appended last:
//!
//! ```text
//!          key                                            value
//!   part   hash of the key (8), number (4), stamp (8)     bytes of the value
//!   head   the key                                        length (8), parts (4), 0 (4), stamp (8)
//! ```
//!
//! A stamp is never used twice, so parts of two versions are never combined. If a part that the head names is not
//! found, the whole value is a miss. A part is found only through its head: when the head is dead, its parts are dead
//! without a tombstone, and stay until their regions are reclaimed. So nothing has to be done about them when a set
//! fails half way, or when its caller is dropped and tries again with another stamp.
//!
//! Parts and head are reclaimed, reinserted and found after a crash like all other records, independently of one
//! another. A hit on the value is a hit on each part.

mod head;
mod parts;

use std::sync::atomic::{AtomicU64, Ordering};

use larder_device::BufferPool;
use larder_log::RecordForm;

use crate::base::item::{FlashItem, ItemRef, Kind};
use crate::base::key::KeyHasher;
use crate::base::side_by_side::together;
use head::{HEAD_BYTES, Head, PART_KEY_BYTES};
pub(crate) use parts::{LongLookup, NewParts, Parts, add_head, add_part, next_part};

/// Number of parts that fill a region. The space at the end of a region where no part fits stays unused: with an
/// eighth, that is a sixteenth of a region on average. Smaller parts would need more memory for the index and more
/// reads.
const PARTS_IN_REGION: u32 = 8;
/// The longest object takes `1 / SHARE` of the engine: its first parts must not be the next to be reclaimed when its
/// last parts are written, and other objects need space too.
const SHARE: u64 = 4;
/// Parts that are read concurrently.
const READS_AT_ONCE: u32 = 16;

/// Longest object (key and value) in parts that this number of regions of this size can hold.
pub(crate) fn object_bytes_max(regions: u32, region_bytes: u32) -> usize {
    let share = u64::from(regions) * u64::from(region_bytes) / SHARE;
    usize::try_from(share).unwrap_or(usize::MAX)
}

/// Whether an object with a key of this length can be stored in parts where a record holds at most `record_bytes_max`
/// bytes of key and value: its head must fit.
pub(crate) fn has_room_for_head(key_bytes: usize, record_bytes_max: usize) -> bool {
    key_bytes + HEAD_BYTES <= record_bytes_max
}

/// Longest value of a part, for records of this form and regions of this size.
pub(crate) fn part_bytes(form: RecordForm, region_bytes: u32) -> usize {
    let object_bytes = form.object_bytes_max((region_bytes / PARTS_IN_REGION) as usize);
    object_bytes.saturating_sub(PART_KEY_BYTES).max(1)
}

/// Generates the numbers of values in parts. They restart with each epoch, above all that were used before.
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    /// Starts with the first filling number of this epoch.
    pub(crate) fn from(first_sequence: u64) -> Self {
        Self(AtomicU64::new(first_sequence))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Restarts for another epoch.
    pub(crate) fn restart(&self, first_sequence: u64) {
        self.0.store(first_sequence, Ordering::Relaxed);
    }
}

/// Why parts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    /// For a request: it counts as a hit.
    Counts,
    /// For a scan: nothing is counted and nothing forgotten.
    Walk,
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It is gone for good.
    Gone,
    /// A later attempt may succeed: the device failed, or a part keeps moving.
    Unreadable,
}

/// An engine that keeps records, in which long values may be stored.
pub(crate) trait Records {
    fn hasher(&self) -> KeyHasher;

    fn pool(&self) -> &BufferPool;

    /// Longest value of a part.
    fn part_bytes(&self) -> usize;

    fn stamps(&self) -> &Stamps;

    /// Stores one record. Returns whether it is stored; if not, nothing under its key is stored.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool;

    /// Finds the part with this key.
    async fn part(&self, key: &[u8], asked: ReadPurpose) -> Result<FlashItem, Lack>;
}

/// Stores an item in parts. Returns whether it is stored; if not, its head is not stored.
pub(crate) async fn set_in_parts(records: &impl Records, item: &ItemRef<'_>, now_s: u32) -> bool {
    let mut parts = NewParts::begin(records, item, item.value.len());
    for chunk in item.value.chunks(records.part_bytes()) {
        if !add_part(records, &mut parts, chunk, now_s).await {
            return false;
        }
    }
    add_head(records, &parts, item, now_s).await
}

/// Assembles the whole item of a head, if all parts are there.
///
/// # Errors
/// If a part is missing; the error says whether a later attempt may succeed.
pub(crate) async fn assemble(
    records: &impl Records,
    fetched: &FlashItem,
    asked: ReadPurpose,
) -> Result<FlashItem, Lack> {
    let item = fetched.item();
    let head = Head::parse(item.value).ok_or(Lack::Gone)?;
    let key_bytes = item.key.len();
    let mut buffer = records.pool().take(key_bytes + head.value_bytes);
    let (key, mut rest) = buffer.as_mut_slice().split_at_mut(key_bytes);
    key.copy_from_slice(item.key);
    let mut next = 0;
    while next < head.parts {
        let end = head.parts.min(next + READS_AT_ONCE);
        let keys: Vec<_> = (next..end).map(|part| head.part_key(item.hash, part)).collect();
        for part in together(keys.iter().map(|key| records.part(key, asked))).await {
            let part = part?;
            let bytes = part.item().value;
            let (room, left) = rest.split_at_mut_checked(bytes.len()).ok_or(Lack::Gone)?;
            room.copy_from_slice(bytes);
            rest = left;
        }
        next = end;
    }
    if !rest.is_empty() {
        return Err(Lack::Gone);
    }
    let FlashItem { hash, expiry_s, flags, tiers, .. } = *fetched;
    let (value_bytes, kind) = (head.value_bytes, Kind::Whole);
    Ok(FlashItem { buffer, hash, at: 0, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
}

/// Whether a record that was found is the part with this key, and not another key's record that has taken its entry in
/// the index.
pub(crate) fn is_part(fetched: &FlashItem, key: &[u8]) -> bool {
    fetched.kind == Kind::Part && fetched.item().key == key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_parts_as_promised_fill_a_region() {
        for form in [RecordForm::PLAIN, RecordForm::STAMPED] {
            for region_bytes in [4096, 16 << 10, 64 << 10, 1 << 20, 32 << 20] {
                if region_bytes < 64 << 10 && form == RecordForm::STAMPED {
                    continue; // no region of such records is that short
                }
                let part = PART_KEY_BYTES + part_bytes(form, region_bytes);
                let taken = form.bytes_in_region(part);
                let whole = form.footer_bytes(0) + PARTS_IN_REGION as usize * taken;
                assert!(whole <= region_bytes as usize, "{whole} of {region_bytes}");
                let lost = 60 + form.align_bytes() as usize;
                let most = whole + PARTS_IN_REGION as usize * lost;
                assert!(most > region_bytes as usize, "{whole} of {region_bytes}");
            }
        }
    }
}
