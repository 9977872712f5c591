//! The large-object engine's part of a snapshot if there is no tombstone log: which regions are sealed and which of
//! their records are current. The records themselves are listed in the regions' footers.
//!
//! ```text
//!  per sealed region   4  region number
//!                      4  n, number of records in its footer
//!                      8  sequence number
//!              (n + 7)/8  one bit a record, lowest first: 1 is current
//! ```

#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use larder_log::{FooterEntry, RegionId, RegionIdentity, RegionState, footer, record};

use super::death_source::ListedRecords;
use super::{Loc, LocPlace};
use crate::base::error::Error;
use crate::base::key::KeyHash;

/// Upper bound of the snapshot bytes for one region of this size.
pub(crate) fn snapshot_bytes_max(region_bytes: u32) -> u64 {
    let record_bytes_min = record::RECORD_HEADER_BYTES + 1 + footer::ENTRY_BYTES;
    16 + u64::from(region_bytes) / record_bytes_min as u64 / 8 + 1
}

impl Loc {
    /// Seals what is in memory and returns the snapshot part. Leaves out a region whose footer cannot be read.
    pub(super) async fn export_listed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = self.log.writer().await;
        self.log.seal_all(&mut writer).await;
        let sealed: Vec<RegionIdentity> = self.lock().regions.sealed().collect();
        for identity in sealed {
            let Some(footer) = self.log.read_footer(identity).await else { continue };
            let listed = footer.entries;
            let count = u32::try_from(listed.len()).expect("read from 32 bits");
            out.extend_from_slice(&identity.region.number().to_le_bytes());
            out.extend_from_slice(&count.to_le_bytes());
            out.extend_from_slice(&identity.sequence.to_le_bytes());
            let state = self.lock();
            debug_assert_eq!(
                state.filling(identity.region),
                identity,
                "no region is filled anew while the writer is held"
            );
            out.extend(listed.chunks(8).map(|group| {
                let current = |e: &FooterEntry| {
                    state.entries.points_to(KeyHash(e.hash), identity.region, e.offset)
                };
                (0..)
                    .zip(group)
                    .fold(0, |byte, (bit, entry)| byte | u8::from(current(entry)) << bit)
            }));
        }
        out
    }

    /// Seals what is in memory. Little is appended afterwards.
    pub(super) async fn seal(&self) {
        let mut writer = self.log.writer().await;
        self.log.seal_all(&mut writer).await;
    }

    /// Records that regions which were not taken over stay empty after a crash.
    pub(super) async fn empty_unsealed(&self) -> Result<(), Error> {
        let regions = self.lock().regions.in_state(RegionState::Free);
        self.log.empty_regions(&regions).await
    }

    /// Takes over the regions that the snapshot of a clean shutdown lists; they are indexed while the engine serves.
    /// Only used without tombstones. Returns the number of objects.
    pub(super) fn inherit_listed(&mut self, bytes: &[u8]) -> u64 {
        let mut regions = HashMap::new();
        let (mut rest, mut objects) = (bytes, 0);
        while let Some((identity, count, bitmap, behind)) = split_region(&self.place, rest) {
            rest = behind;
            let listed =
                ListedRecords { sequence: identity.sequence, count, bitmap: bitmap.into() };
            objects += listed.current();
            regions.insert(identity.region, listed);
        }
        self.left.begin_rebuild_of(&self.log, regions);
        objects
    }

    /// Takes over the snapshot of a clean shutdown and indexes all of it at once.
    pub(super) async fn import_listed(&self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((identity, _, bitmap, behind)) = split_region(&self.place, rest) {
            rest = behind;
            // The same program wrote this list for the same layout, and it has a checksum. Nevertheless the footer
            // decides.
            let Some(footer) = self.log.read_footer(identity).await else { continue };
            let listed = footer.entries;
            let mut state = self.lock();
            state.regions.restore(identity, footer.latest_expiry_s);
            let RegionIdentity { region, sequence } = identity;
            if let Some(tombstones) = self.tombstones() {
                tombstones.filling_sealed(region.number(), sequence);
            }
            let groups = listed.chunks(8).zip(bitmap);
            for (group, byte) in groups {
                for (bit, FooterEntry { hash, offset, length, .. }) in (0..).zip(group) {
                    if byte >> bit & 1 == 1 {
                        state.entries.set(KeyHash(*hash), region, *offset, *length);
                    } else if let Some(tombstones) = self.tombstones() {
                        // The next opening may have no snapshot that says so.
                        let _later =
                            tombstones.invalidate_record(region.number(), *offset, sequence);
                    }
                }
            }
        }
        self.left.note_found(self.len() as u64);
    }
}

/// Takes the first region off the list; `None` if it is not one of an earlier opening in this place.
fn split_region<'a>(
    place: &LocPlace,
    bytes: &'a [u8],
) -> Option<(RegionIdentity, usize, &'a [u8], &'a [u8])> {
    let (region, rest) = bytes.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let region = RegionId::new(u32::from_le_bytes(*region));
    let sequence = u64::from_le_bytes(*sequence);
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let (bitmap, rest) = rest.split_at_checked(count.div_ceil(8))?;
    let known = region.number() < place.log.regions && sequence < place.log.first_sequence;
    known.then_some((RegionIdentity { region, sequence }, count, bitmap, rest))
}
