//! What a region that is reclaimed holds: its list of records, and those of them that stay.

use super::footer::{self, Footer, FooterEntry, RegionIdentity};
use super::index::{Location, UNIT_BYTES};
use super::{Loc, record};
use crate::config::Reinsertion;
use crate::key::KeyHash;
use crate::value::Fetched;

/// At most this part of a region is filled with objects saved from the region, or from all regions
/// of the unit, that it replaces: a set must not start a chain of reclaims that ends only when
/// nothing is hot any more. For the same reason the object that asks for room comes before those
/// that are saved.
const SAVED_PART: usize = 2;

/// How long a tail to read at first when looking for a footer.
const FOOTER_GUESS_BYTES: usize = 4096;

/// An object that stays.
pub(super) struct Saved {
    /// Where it was.
    pub(super) at: Location,
    pub(super) fetched: Fetched,
    /// Where it goes.
    pub(super) shelf: usize,
}

impl Loc {
    /// Lists the records of a sealed region. `None` if its footer cannot be read or believed.
    pub(super) async fn read_footer(&self, identity: RegionIdentity) -> Option<Footer> {
        let found = self.read_any_footer(identity.region, FOOTER_GUESS_BYTES).await;
        let listed = found.filter(|footer| footer.sequence == identity.sequence);
        if listed.is_none() {
            self.counters.loc_bad_records.add(1);
        }
        listed
    }

    /// The footer of a region, whichever filling it is of. Its length is not known, or `wanted` is what
    /// it announces.
    pub(super) async fn read_any_footer(&self, region: u32, wanted: usize) -> Option<Footer> {
        let region_bytes = self.place.region_bytes as usize;
        let end = self.offset_of(region) + u64::from(self.place.region_bytes);
        let mut wanted = wanted.min(region_bytes);
        loop {
            let (buffer, skip) = self.read_span(end - wanted as u64, wanted).await?;
            let tail = &buffer.as_slice()[skip..skip + wanted];
            match footer::announced_bytes(tail, region_bytes) {
                // At most once: the same trailer announces the same length.
                Some(bytes) if bytes > wanted => wanted = bytes,
                _ => return footer::parse(tail, self.place.cache, region, region_bytes),
            }
        }
    }

    /// Bytes of records and footer that objects saved from a region may take in the next one, which
    /// is opened for an object of this size.
    pub(super) fn room_to_save(&self, object_bytes: usize) -> usize {
        let region_bytes = self.place.region_bytes as usize;
        let wanted = record::record_bytes_max(object_bytes) + footer::footer_bytes(1);
        (region_bytes / SAVED_PART).min(region_bytes.saturating_sub(wanted))
    }

    /// Reads those objects of a region that have earned to stay, as long as there is `room`. Adds
    /// them to `saved`, and returns how much room is left.
    pub(super) async fn read_hot(
        &self,
        (identity, listed): (RegionIdentity, &[FooterEntry]),
        mut room: usize,
        now_s: u32,
        saved: &mut Vec<Saved>,
    ) -> usize {
        let policy = self.place.reinsertion;
        if policy == Reinsertion::None {
            return room;
        }
        let entry_bytes = footer::footer_bytes(1) - footer::footer_bytes(0);
        for entry in listed {
            let hash = KeyHash(entry.hash);
            let location = self.lock().index.get(hash);
            let Some(at) = location.filter(|location| {
                location.region == identity.region
                    && location.offset == entry.offset
                    && policy.keeps(location.hits, hash, identity.sequence)
            }) else {
                continue;
            };
            let Some(left) = room.checked_sub(entry.length as usize + UNIT_BYTES + entry_bytes)
            else {
                break;
            };
            match self.read(hash, at, identity).await {
                Some(fetched) if !fetched.item().is_expired(now_s) => {
                    room = left;
                    let hits = policy.hits(at.hits);
                    let shelf = self.place.shelf_of_kept(fetched.item().expiry_s, now_s, hits);
                    saved.push(Saved { at, fetched, shelf });
                }
                _ => {}
            }
        }
        room
    }
}
