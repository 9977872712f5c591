//! The engine's part of a snapshot if there is no tombstone log: the regions, and which slots of their pages are gone.
//! With a tombstone log it is empty. Little-endian.
//!
//! ```text
//!  per region       4  region number
//!                   4  n, number of pages
//!                   8  sequence number of the filling
//!        per page   1  s, number of slots
//!         (s+7)/8      one bit a slot, lowest first: 1 is gone
//! ```

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use larder_log::{RegionId, RegionIdentity};

use super::page::{PAGE_BYTES, SLOTS_MAX};
use super::{Pages, PagesPlace};

/// Upper bound of the snapshot bytes for one region of this size.
pub(crate) fn snapshot_bytes_max(region_bytes: u32) -> u64 {
    let pages = u64::from(region_bytes) / PAGE_BYTES as u64;
    16 + pages * (1 + SLOTS_MAX.div_ceil(8) as u64)
}

/// The slots that are gone, by filling: their offsets, as tombstones name them.
pub(super) type GoneSlots = HashMap<RegionId, (u64, Vec<u32>)>;

impl Pages {
    /// The snapshot part, after everything was sealed. Leaves out a region whose footer cannot be read.
    pub(super) async fn export_listed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let sealed: Vec<RegionIdentity> = self.log.lock().regions.sealed().collect();
        for identity in sealed {
            let Some(footer) = self.log.read_footer(identity).await else { continue };
            let pages: Vec<_> =
                footer.entries.iter().filter_map(|it| self.page_entry(it)).collect();
            let count = u32::try_from(pages.len()).expect("read from 32 bits");
            out.extend_from_slice(&identity.region.number().to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&identity.sequence.to_le_bytes());
            for (set, offset) in pages {
                let place = self.geometry.place(identity.region, offset);
                let slots = self.sets.look(set, |set| set.slots_of(place).map(<[u16]>::to_vec));
                // A page that was given up may be readable again: all of it is gone.
                let slots = slots.unwrap_or_else(|| vec![0; SLOTS_MAX]);
                out.push(u8::try_from(slots.len()).expect("a page has few slots"));
                out.extend(slots.chunks(8).map(|group| {
                    let bits = (0..).zip(group).filter(|(_, it)| **it == 0);
                    bits.fold(0_u8, |byte, (bit, _)| byte | 1 << bit)
                }));
            }
        }
        out
    }
}

/// The fillings in a snapshot part, as far as they can be of an earlier opening in this place.
pub(super) fn listed(place: &PagesPlace, mut bytes: &[u8]) -> GoneSlots {
    let mut all = GoneSlots::new();
    while let Some((filling, gone, rest)) = split_region(place, bytes) {
        all.insert(filling.region, (filling.sequence, gone));
        bytes = rest;
    }
    all
}

fn split_region<'a>(
    place: &PagesPlace,
    bytes: &'a [u8],
) -> Option<(RegionIdentity, Vec<u32>, &'a [u8])> {
    let (region, rest) = bytes.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (sequence, mut rest) = rest.split_first_chunk::<8>()?;
    let region = RegionId::new(u32::from_le_bytes(*region));
    let sequence = u64::from_le_bytes(*sequence);
    let pages = u32::from_le_bytes(*count);
    let known = region.number() < place.log.regions
        && sequence < place.log.first_sequence
        && u64::from(pages) * PAGE_BYTES as u64 <= u64::from(place.log.region_bytes);
    if !known {
        return None;
    }
    let page_bytes = u32::try_from(PAGE_BYTES).ok()?;
    let mut gone = Vec::new();
    for page in 0..pages {
        let (&slots, behind) = rest.split_first()?;
        let (bits, behind) = behind.split_at_checked(usize::from(slots).div_ceil(8))?;
        rest = behind;
        for (slot, byte) in
            (0..slots).flat_map(|slot| Some((slot, *bits.get(usize::from(slot / 8))?)))
        {
            if byte >> (slot % 8) & 1 == 1 {
                gone.push(page * page_bytes + u32::from(slot));
            }
        }
    }
    Some((RegionIdentity { region, sequence }, gone, rest))
}
