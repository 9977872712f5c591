//! What the firmware does to the media, for those who ask: the timed drive books it on dies and
//! channels. Nobody asking, it costs a test a batch.

use super::ManagedSsd;

/// One thing that the firmware did to the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaOp {
    /// A page was written.
    Program {
        /// Physical page.
        ppn: u32,
        /// Whether the host wrote it; if not, garbage collection did.
        from_host: bool,
    },
    /// Garbage collection read a page to move it.
    Read {
        /// Physical page.
        ppn: u32,
    },
    /// A unit was erased.
    Erase {
        /// Reclaim unit.
        unit: u32,
    },
}

impl ManagedSsd {
    /// Starts or stops recording what is done to the media.
    pub fn record_media_ops(&mut self, record: bool) {
        self.journal = record.then(Vec::new);
    }

    /// Moves what was recorded since the last call to `ops`, in order.
    pub fn take_media_ops(&mut self, ops: &mut Vec<MediaOp>) {
        if let Some(journal) = &mut self.journal {
            ops.append(journal);
        }
    }

    /// The physical page that holds `lpn`, if it is mapped.
    pub fn physical_page(&self, lpn: u64) -> Option<u32> {
        let lpn =
            u32::try_from(lpn).ok().filter(|&lpn| (lpn as usize) < self.map.logical_pages())?;
        self.map.physical(lpn)
    }

    #[inline]
    pub(super) fn journal_programs(&mut self, first: u32, count: u32) {
        if let Some(journal) = &mut self.journal {
            let programs = first..first + count;
            journal.extend(programs.map(|ppn| MediaOp::Program { ppn, from_host: true }));
        }
    }

    #[inline]
    pub(super) fn journal_move(&mut self, from: u32, to: u32) {
        if let Some(journal) = &mut self.journal {
            journal.push(MediaOp::Read { ppn: from });
            journal.push(MediaOp::Program { ppn: to, from_host: false });
        }
    }

    #[inline]
    pub(super) fn journal_erase(&mut self, unit: u32) {
        if let Some(journal) = &mut self.journal {
            journal.push(MediaOp::Erase { unit });
        }
    }
}
