//! Values longer than a region: in parts, and a head that says which. For all engines that keep records in regions.
//!
//! Each part is a record of its own, and so is the head, which is appended last:
//!
//! ```text
//!          key                                            value
//!   part   hash of the key (8), number (4), stamp (8)     bytes of the value
//!   head   the key                                        length (8), parts (4), 0 (4), stamp (8)
//! ```
//!
//! A stamp is never used twice, so that parts of two versions are never put together. What a head asks
//! for and does not find makes the whole value a miss. A part is found through its head only: when the
//! head is dead, its parts are dead without a tombstone, and lie there until their regions are
//! reclaimed. So nothing is to be done about them when a set fails half way, nor when its caller
//! gives up and comes again with another stamp.
//!
//! Part and head are reclaimed, kept and found after a crash like everybody else, each for itself. A
//! hit on the value is one on each part.

mod head;
mod parts;

use std::sync::atomic::{AtomicU64, Ordering};

use larder_device::BufferPool;
use larder_log::RecordForm;

use crate::item::{Fetched, ItemRef, Kind};
use crate::key::KeyHasher;
use crate::side_by_side::together;
use head::{HEAD_BYTES, Head, PART_KEY_BYTES};
pub(crate) use parts::{Found, NewParts, Parts, add_head, add_part, next_part};

/// So many parts fill a region. What does not fit its end stays unused: with an eighth, that is a
/// sixteenth of a region on average. Smaller parts would cost more memory of the index and reads.
const PARTS_IN_REGION: u32 = 8;
/// The longest object takes this part of the engine: its first parts must not be the next to be
/// reclaimed when its last ones come, and others have to live too.
const SHARE: u64 = 4;
/// Parts that are read side by side.
const READS_AT_ONCE: u32 = 16;

/// Longest object (key and value) in parts that so many regions of this size hold.
pub(crate) fn object_bytes_max(regions: u32, region_bytes: u32) -> usize {
    let share = u64::from(regions) * u64::from(region_bytes) / SHARE;
    usize::try_from(share).unwrap_or(usize::MAX)
}

/// Whether an object with a key of this length fits in parts where a record holds so many bytes of key and value: its
/// head does.
pub(crate) fn has_room_for_head(key_bytes: usize, record_bytes_max: usize) -> bool {
    key_bytes + HEAD_BYTES <= record_bytes_max
}

/// Longest value of a part, where records have this form and regions this size.
pub(crate) fn part_bytes(form: RecordForm, region_bytes: u32) -> usize {
    let object_bytes = form.object_bytes_max((region_bytes / PARTS_IN_REGION) as usize);
    object_bytes.saturating_sub(PART_KEY_BYTES).max(1)
}

/// Numbers of values in parts. They begin anew with each epoch, above all that were used.
pub(crate) struct Stamps(AtomicU64);

impl Stamps {
    /// From the first number of a filling in this epoch on.
    pub(crate) fn from(first_sequence: u64) -> Self {
        Self(AtomicU64::new(first_sequence))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Another epoch has begun.
    pub(crate) fn restart(&self, first_sequence: u64) {
        self.0.store(first_sequence, Ordering::Relaxed);
    }
}

/// Who asks for parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A hit.
    Counts,
    /// Nobody's use: nothing is counted and nothing forgotten.
    Walk,
}

/// Why there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// There never will be.
    Gone,
    /// There may be another time: the device failed, or a part moves again and again.
    Unreadable,
}

/// An engine that keeps records, in which a long value may lie.
pub(crate) trait Records {
    fn hasher(&self) -> KeyHasher;

    fn pool(&self) -> &BufferPool;

    /// Longest value of a part.
    fn part_bytes(&self) -> usize;

    fn stamps(&self) -> &Stamps;

    /// Stores one record. Says whether it is stored; if not, nothing under its key is.
    async fn set_record(&self, item: &ItemRef<'_>, now_s: u32) -> bool;

    /// Finds the part with this key.
    async fn part(&self, key: &[u8], asked: Asked) -> Result<Fetched, Lack>;
}

/// Stores an item in parts. Says whether it is stored; if not, its head is not.
pub(crate) async fn set_in_parts(records: &impl Records, item: &ItemRef<'_>, now_s: u32) -> bool {
    let mut parts = NewParts::begin(records, item, item.value.len());
    for chunk in item.value.chunks(records.part_bytes()) {
        if !add_part(records, &mut parts, chunk, now_s).await {
            return false;
        }
    }
    add_head(records, &parts, item, now_s).await
}

/// The whole item of a head, if all of it is there.
///
/// # Errors
/// If it is not, and whether it may be another time.
pub(crate) async fn assemble(
    records: &impl Records,
    fetched: &Fetched,
    asked: Asked,
) -> Result<Fetched, Lack> {
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
    let Fetched { hash, expiry_s, flags, tiers, .. } = *fetched;
    let (value_bytes, kind) = (head.value_bytes, Kind::Whole);
    Ok(Fetched { buffer, hash, at: 0, key_bytes, value_bytes, expiry_s, flags, kind, tiers })
}

/// Whether a record that was found is the part with this key, or else another key's that has taken its entry in the
/// index.
pub(crate) fn is_part(fetched: &Fetched, key: &[u8]) -> bool {
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
                    continue; // no region of such records is so short
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
