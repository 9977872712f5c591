//! An optional record of the operations on the media: the timed drive charges them to dies and channels. While it is
//! off, it costs one branch per batch.

use super::ManagedSsd;

/// One operation of the firmware on the media.
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
    /// Starts or stops recording the operations on the media.
    pub fn record_media_ops(&mut self, record: bool) {
        self.journal = record.then(Vec::new);
    }

    /// Appends the operations recorded since the last call to `ops`, in order.
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
