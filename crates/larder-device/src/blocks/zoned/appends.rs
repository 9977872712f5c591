//! Appends of one block, which go to its zone one after the other.

use std::collections::BTreeMap;

use crate::buffer::IoBuffer;
use crate::io::Completer;
use crate::zones::Zone;

/// A block, its zone, and what is to be done with it.
#[derive(Debug)]
pub(super) struct Zoned {
    pub(super) zone: Zone,
    /// Bytes of the block that are written.
    written: u64,
    /// What comes behind that, by place; it may come in another order.
    waiting: BTreeMap<u64, (IoBuffer, Completer)>,
    /// Somebody is at work on it.
    busy: bool,
    /// Nothing more can be written.
    pub(super) failed: bool,
    /// To be told when its zone is empty.
    freeing: Option<Completer>,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum Step {
    Write { at: u64, buffer: IoBuffer, completer: Completer },
    Reset(Completer),
    Rest,
}

impl Zoned {
    pub(super) fn new(zone: Zone, written: u64) -> Self {
        Self { zone, written, waiting: BTreeMap::new(), busy: false, failed: false, freeing: None }
    }

    /// Takes an append in. Whoever gets `true` is to do what [`Zoned::step`] says.
    pub(super) fn append(&mut self, at: u64, buffer: IoBuffer, completer: Completer) -> bool {
        let before = self.waiting.insert(at, (buffer, completer));
        assert!(before.is_none(), "two appends at {at}");
        !std::mem::replace(&mut self.busy, true)
    }

    /// The same for its end, which comes behind all appends.
    pub(super) fn free(&mut self, completer: Completer) -> bool {
        self.freeing = Some(completer);
        !std::mem::replace(&mut self.busy, true)
    }

    pub(super) fn step(&mut self) -> Step {
        if let Some((buffer, completer)) = self.waiting.remove(&self.written) {
            return Step::Write { at: self.written, buffer, completer };
        }
        // An append in front of those that wait was admitted, and is on its way here.
        if self.waiting.is_empty()
            && let Some(completer) = self.freeing.take()
        {
            return Step::Reset(completer);
        }
        self.busy = false;
        Step::Rest
    }

    pub(super) fn wrote(&mut self, end: u64) {
        self.written = end;
    }

    /// Nothing more can be written: returns what waited for that.
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
