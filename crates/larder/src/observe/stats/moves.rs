//! Attributes the data that a drive has moved, as reported by its events, to the parts of the cache.

use std::sync::{Arc, PoisonError};

use larder_device::nvme::DriveReport;

use super::{Counter, Counters};
use crate::base::layout::Layout;

impl Counters {
    /// Attributes the moves of the drives since the last call.
    pub(crate) fn own_moves(&self, drives: &[Arc<DriveReport>], layout: &Layout) {
        let mut owned = self.owned_moves.lock().unwrap_or_else(PoisonError::into_inner);
        for drive in drives {
            let known = owned.iter().position(|(path, _)| *path == drive.path);
            let at = known.unwrap_or_else(|| {
                owned.push((drive.path.clone(), 0));
                owned.len() - 1
            });
            let new = drive.moves_seen.saturating_sub(owned[at].1);
            // A newer report may have been counted already by another caller.
            owned[at].1 = owned[at].1.max(drive.moves_seen);
            let listed = drive.moves.len().min(usize::try_from(new).unwrap_or(usize::MAX));
            self.drive_moves_of_others.add(new - listed as u64);
            for one in &drive.moves[drive.moves.len() - listed..] {
                let (moves, bytes) = self.owner(one.offset, layout);
                moves.add(1);
                bytes.add(one.bytes);
            }
        }
    }

    /// The counters for the owner of this place on the device: events, and bytes.
    fn owner(&self, offset: Option<u64>, layout: &Layout) -> (&Counter, &Counter) {
        match offset {
            Some(at) if at < layout.loc_offset => {
                (&self.drive_moves_of_metadata, &self.drive_moved_metadata_bytes)
            }
            Some(at) if layout.array_range().contains(&at) => {
                (&self.drive_moves_of_array, &self.drive_moved_array_bytes)
            }
            Some(at) if at < layout.soc_log_offset => {
                (&self.drive_moves_of_loc, &self.drive_moved_loc_bytes)
            }
            Some(at) if at < layout.usable_bytes => {
                (&self.drive_moves_of_soc, &self.drive_moved_soc_bytes)
            }
            _ => (&self.drive_moves_of_others, &self.drive_moved_other_bytes),
        }
    }
}
