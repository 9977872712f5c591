//! The appends of one block, which go to its zone one after the other.

use std::collections::BTreeMap;

use larder_device::{Completer, IoBuffer, Zone};

/// A block, its zone, and its waiting requests.
#[derive(Debug)]
pub(super) struct ZonedBlock {
    pub(super) zone: Zone,
    /// Bytes of the block that are written.
    written: u64,
    /// Appends after `written`, by offset; they may arrive out of order.
    waiting: BTreeMap<u64, (IoBuffer, Completer)>,
    /// A task is working on its requests.
    busy: bool,
    /// Nothing more can be written.
    pub(super) failed: bool,
    /// The request to free the block, completed when its zone is empty.
    freeing: Option<Completer>,
}

/// The next step.
#[derive(Debug)]
pub(super) enum AppendStep {
    Write { at: u64, buffer: IoBuffer, completer: Completer },
    Reset(Completer),
    Rest,
}

impl ZonedBlock {
    pub(super) fn new(zone: Zone, written: u64) -> Self {
        Self { zone, written, waiting: BTreeMap::new(), busy: false, failed: false, freeing: None }
    }

    /// Adds an append. If it returns `true`, the caller must carry out the steps of [`ZonedBlock::step`].
    pub(super) fn append(&mut self, at: u64, buffer: IoBuffer, completer: Completer) -> bool {
        let before = self.waiting.insert(at, (buffer, completer));
        assert!(before.is_none(), "two appends at {at}");
        !std::mem::replace(&mut self.busy, true)
    }

    /// Adds the freeing of the block, which comes after all appends. The result is that of [`ZonedBlock::append`].
    pub(super) fn free(&mut self, completer: Completer) -> bool {
        self.freeing = Some(completer);
        !std::mem::replace(&mut self.busy, true)
    }

    pub(super) fn step(&mut self) -> AppendStep {
        if let Some((buffer, completer)) = self.waiting.remove(&self.written) {
            return AppendStep::Write { at: self.written, buffer, completer };
        }
        // If appends wait, one before them was admitted and is about to arrive.
        if self.waiting.is_empty()
            && let Some(completer) = self.freeing.take()
        {
            return AppendStep::Reset(completer);
        }
        self.busy = false;
        AppendStep::Rest
    }

    pub(super) fn wrote(&mut self, end: u64) {
        self.written = end;
    }

    /// Nothing more can be written: returns the waiting appends.
    pub(super) fn fail(&mut self) -> Vec<(u64, IoBuffer, Completer)> {
        self.failed = true;
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|(at, (buffer, completer))| (at, buffer, completer)).collect()
    }

    /// Its zone could not be emptied.
    pub(super) fn stays(&mut self) {
        self.failed = true;
        self.busy = false;
    }
}
