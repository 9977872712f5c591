//! What the drive writes beside each page, and what survives a power loss.
//!
//! Every programmed page carries its logical page (the reverse map) and a *version*: the ordinal of
//! the host page write that it came from. A copy keeps the version. Order within a unit is not
//! enough, because several units are filled at a time; hence 8 bytes a page, and hence optional.
//!
//! A deallocation leaves no trace on the pages. It is in memory until the next checkpoint, which is
//! taken on request and before any erase that follows a deallocation. Without the second rule an
//! older copy of a deallocated page could outlive the newest one, and come back.

use super::geometry::Geometry;
use super::map::PageMap;

/// Version of padding and of pages never written.
const NO_VERSION: u64 = 0;

/// The persistent state beside the pages, and the power supply.
#[derive(Debug)]
pub(crate) struct OutOfBand {
    versions: Vec<u64>,
    newest: u64,
    /// One bit a logical page: deallocated before the last checkpoint and not written since.
    gone: Vec<u64>,
    /// Deallocated since the last checkpoint.
    pending: Vec<u32>,
    /// When a page of each unit was programmed last, in programs of the drive.
    last_program: Vec<u64>,
    programs: u64,
    /// Programs until the power fails.
    programs_left: Option<u64>,
}

impl OutOfBand {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let size = |pages: u64| usize::try_from(pages).expect("page counts fit 32 bits");
        Self {
            versions: vec![NO_VERSION; size(geometry.physical_pages())],
            newest: NO_VERSION,
            gone: vec![0; size(geometry.logical_pages.div_ceil(64))],
            pending: Vec::new(),
            last_program: vec![0; geometry.units as usize],
            programs: 0,
            programs_left: None,
        }
    }

    /// Lets the power fail after `programs` more page programs, or never.
    pub(crate) fn cut_after(&mut self, programs: Option<u64>) {
        self.programs_left = programs;
    }

    /// How many of `count` page programs will still happen.
    pub(crate) fn admit(&mut self, count: u32) -> u32 {
        let Some(left) = &mut self.programs_left else { return count };
        let admitted = u32::try_from(*left).map_or(count, |left| left.min(count));
        *left -= u64::from(admitted);
        admitted
    }

    /// The host wrote `count` pages from `lpn` on to `first` and the places after it.
    pub(crate) fn host_wrote(&mut self, lpn: u32, first: u32, count: u32) {
        for i in 0..count {
            self.newest += 1;
            self.versions[(first + i) as usize] = self.newest;
            self.gone[(lpn + i) as usize / 64] &= !(1 << ((lpn + i) % 64));
        }
    }

    /// Copies what is beside a page; false if the power failed before.
    pub(crate) fn copy(&mut self, source: u32, destination: u32) -> bool {
        if self.admit(1) == 0 {
            return false;
        }
        self.versions[destination as usize] = self.versions[source as usize];
        true
    }

    /// `count` places from `first` on hold nothing.
    pub(crate) fn padded(&mut self, first: u32, count: u32) {
        self.versions[first as usize..][..count as usize].fill(NO_VERSION);
    }

    /// `count` pages of `unit` were programmed.
    pub(crate) fn programmed(&mut self, unit: u32, count: u32) {
        self.programs += u64::from(count);
        self.last_program[unit as usize] = self.programs;
    }

    pub(crate) fn deallocated(&mut self, lpn: u32, count: u32) {
        self.pending.extend(lpn..lpn + count);
    }

    pub(crate) fn before_erase(&mut self, map: &PageMap) {
        if !self.pending.is_empty() {
            self.checkpoint(map);
        }
    }

    /// Makes the deallocations so far last.
    pub(crate) fn checkpoint(&mut self, map: &PageMap) {
        for lpn in self.pending.drain(..) {
            if map.physical(lpn).is_none() {
                self.gone[lpn as usize / 64] |= 1 << (lpn % 64);
            }
        }
    }

    /// What was only in memory is lost.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
        self.programs_left = None;
    }

    pub(crate) fn is_gone(&self, lpn: u32) -> bool {
        self.gone[lpn as usize / 64] >> (lpn % 64) & 1 == 1
    }

    /// The version at `ppn`, if that page was programmed with data.
    pub(crate) fn version(&self, ppn: u32) -> Option<u64> {
        let version = self.versions[ppn as usize];
        (version != NO_VERSION).then_some(version)
    }

    pub(crate) fn last_program(&self, unit: u32) -> u64 {
        self.last_program[unit as usize]
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.versions.len() + self.gone.len() + self.last_program.len()) * 8) as u64
    }
}
