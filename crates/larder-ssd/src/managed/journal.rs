//! An optional record of the operations on the media: the timed drive charges them to dies and channels. While it is
//! off, it costs one branch per batch.

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

/// The operations since they were last taken, while they are recorded.
#[derive(Debug, Default)]
pub(super) struct Journal(Option<Vec<MediaOp>>);

impl Journal {
    /// Starts or stops the record.
    pub(super) fn keep(&mut self, keep: bool) {
        self.0 = keep.then(Vec::new);
    }

    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Moves the operations to the end of `ops`.
    pub(super) fn take(&mut self, ops: &mut Vec<MediaOp>) {
        if let Some(journal) = &mut self.0 {
            ops.append(journal);
        }
    }

    /// The host wrote `count` pages from `first` on.
    #[inline]
    pub(super) fn programs(&mut self, first: u32, count: u32) {
        if let Some(journal) = &mut self.0 {
            let programs = first..first + count;
            journal.extend(programs.map(|ppn| MediaOp::Program { ppn, from_host: true }));
        }
    }

    /// Garbage collection moved page `from` to `to`.
    #[inline]
    pub(super) fn moved(&mut self, from: u32, to: u32) {
        if let Some(journal) = &mut self.0 {
            journal.push(MediaOp::Read { ppn: from });
            journal.push(MediaOp::Program { ppn: to, from_host: false });
        }
    }

    #[inline]
    pub(super) fn erased(&mut self, unit: u32) {
        if let Some(journal) = &mut self.0 {
            journal.push(MediaOp::Erase { unit });
        }
    }
}
