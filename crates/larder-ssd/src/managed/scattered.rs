//! Many single pages in one call.
//!
//! A random overwrite waits for two cache lines, one after the other: the forward entry of the page, then the live bits
//! around its old place. With one page at a time, the branches on these values keep the next page from starting. A
//! batch loads all forward entries first, then all live bits, and only then does the work: the waits overlap, and the
//! result is the same.

use super::ManagedSsd;
use super::frontier::Placement;
use super::map::TOUCHED_MAX;
use crate::error::Error;

impl ManagedSsd {
    /// Writes each of the pages `lpns`, in order, with placement handle `handle` of group 0.
    ///
    /// # Errors
    /// As [`Self::write_scattered_placed`].
    pub fn write_scattered(&mut self, lpns: &[u32], handle: u16) -> Result<(), Error> {
        self.write_scattered_placed(Placement { group: 0, handle }, lpns)
    }

    /// Writes each of the pages `lpns`, in order, with `placement`. The effect is that of one call of
    /// [`Self::write_placed`] per page, but several times as fast if the pages are far apart and the maps of the drive
    /// are larger than the CPU caches.
    ///
    /// # Errors
    /// As [`Self::write_placed`]; a page out of range is refused before any page is written.
    pub fn write_scattered_placed(
        &mut self,
        placement: Placement,
        lpns: &[u32],
    ) -> Result<(), Error> {
        for &lpn in lpns {
            self.check_range(u64::from(lpn), 1)?;
        }
        // Out-of-band data and stream detection need the pages one by one.
        let beside = self.out_of_band.is_some() || self.sequential.is_some();
        let index = match self.frontier_index(placement) {
            Some(index) if !beside => index,
            None if !beside && self.is_known(placement) => 0,
            _ => {
                return lpns
                    .iter()
                    .try_for_each(|&lpn| self.write_placed(placement, u64::from(lpn), 1));
            }
        };
        self.check_writable()?;
        lpns.chunks(TOUCHED_MAX).try_for_each(|batch| {
            self.map.touch(batch);
            self.write_batch(index, batch)
        })
    }

    fn write_batch(&mut self, index: usize, mut lpns: &[u32]) -> Result<(), Error> {
        while !lpns.is_empty() {
            if self.host_frontiers[index].room() == 0 {
                self.open_for_host(index)?;
            }
            let frontier = &mut self.host_frontiers[index];
            let (now, later) = lpns.split_at(lpns.len().min(frontier.room() as usize));
            let first = frontier.next;
            let count = narrow(now.len());
            frontier.next += count;
            self.fill_scattered(first, now, count);
            self.stats.host_pages += u64::from(count);
            self.stats.media_pages += u64::from(count);
            self.stats.host_pages_by_handle[index % self.streams] += u64::from(count);
            lpns = later;
        }
        Ok(())
    }

    /// Writes the pages `lpns`, `count` of them, to the places from `first` on, all in one open unit.
    ///
    /// The places count as live before the first page is written, so a page that is in `lpns` twice dies in this same
    /// unit. The unit is not full before the last page and so not yet a victim, exactly as with single-page writes.
    fn fill_scattered(&mut self, first: u32, lpns: &[u32], count: u32) {
        let unit = self.map.revive(first, count);
        self.units.get_mut(unit).live += count;
        for (&lpn, ppn) in lpns.iter().zip(first..) {
            if let Some(old) = self.map.replace(lpn, ppn) {
                let unit = self.map.kill_one(old);
                self.died_in(unit, 1);
            }
        }
        self.programmed_in(unit, count);
        self.journal_programs(first, count);
    }
}

#[allow(clippy::cast_possible_truncation)] // at most a batch
fn narrow(n: usize) -> u32 {
    n as u32
}
