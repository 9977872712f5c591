//! The state of a hosted ring under its lock: the pieces in flight, and those that wait for a slot. `hosted.rs` has the
//! invariants.

use std::collections::VecDeque;

use super::kernel::Kernel;
use super::registration::Registration;
use super::wire::Range;
use crate::file_options::FileOptions;
use crate::transfer::{Piece, PieceStep, Pieces};

pub(super) struct RingCore<K: Kernel> {
    pub(super) tables: K::KernelTables,
    pub(super) slots: Vec<Option<SentPiece>>,
    free: Vec<usize>,
    /// Ranges that the commands in the slots point to, in addition to the pieces' memory.
    pub(super) ranges: Box<[Range]>,
    pub(super) registrations: Vec<Option<Registration<K::Target>>>,
    /// The registration whose waiting pieces come first in the next fill.
    first: usize,
    /// Settled pieces: dropping them completes their requests.
    pub(super) ended: VecDeque<Piece>,
    pub(super) wake_event_armed: bool,
    /// The ring is broken and takes no more requests.
    pub(super) broken: bool,
}

/// A piece in flight.
pub(super) struct SentPiece {
    pub(super) piece: Piece,
    registration: usize,
}

/// What became of the pieces of a request.
pub(super) enum SubmitOutcome {
    All,
    /// Dropping them fails the request.
    Refused(#[allow(dead_code)] Pieces),
    Broken,
}

impl<K: Kernel> RingCore<K> {
    pub(super) fn new(tables: K::KernelTables, slots: usize) -> Self {
        Self {
            tables,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots).rev().collect(),
            ranges: vec![Range::default(); slots].into(),
            registrations: Vec::new(),
            first: 0,
            ended: VecDeque::new(),
            wake_event_armed: false,
            broken: false,
        }
    }

    /// Index of the registration of `device`, which `register` makes if there is none.
    pub(super) fn registration(
        &mut self,
        device: u64,
        options: &FileOptions,
        kernel: &K,
        register: impl FnOnce(&K, &mut K::KernelTables) -> Option<K::Target>,
    ) -> Option<usize> {
        if self.broken {
            return None;
        }
        let taken = |registration: &Option<Registration<_>>| {
            registration.as_ref().is_some_and(|it| it.device == device)
        };
        if let Some(at) = self.registrations.iter().position(taken) {
            return Some(at);
        }
        let registration = Registration::new(device, register(kernel, &mut self.tables)?, options);
        let at =
            self.registrations.iter().position(Option::is_none).unwrap_or(self.registrations.len());
        if at == self.registrations.len() {
            self.registrations.push(None);
        }
        self.registrations[at] = Some(registration);
        Some(at)
    }

    /// Puts pieces into slots, or lets them wait.
    pub(super) fn take(&mut self, kernel: &K, at: usize, pieces: Pieces) -> SubmitOutcome {
        let Some(registration) = &mut self.registrations[at] else {
            return SubmitOutcome::Refused(pieces);
        };
        self.ended.extend(registration.waiting.take_aged());
        let pieces = match registration.waiting.admit(pieces) {
            Ok(pieces) => pieces,
            Err(refused) => return SubmitOutcome::Refused(refused),
        };
        let mut now = None;
        for piece in pieces {
            let Some(registration) = &mut self.registrations[at] else { break };
            if !registration.waiting.is_empty() || !registration.has_room() || self.free.is_empty()
            {
                registration.push(&mut now, piece);
            } else if !self.place(kernel, at, piece) {
                return SubmitOutcome::Broken;
            }
        }
        SubmitOutcome::All
    }

    /// Puts `piece` into a free slot (there must be one) and into the submission queue. Returns `false` if the ring is
    /// broken.
    fn place(&mut self, kernel: &K, registration: usize, piece: Piece) -> bool {
        let (Some(slot), Some(it)) = (self.free.pop(), &mut self.registrations[registration])
        else {
            return false;
        };
        it.under_way += 1;
        debug_assert!(self.slots[slot].is_none(), "a free slot is empty (invariant 3)");
        self.slots[slot] = Some(SentPiece { piece, registration });
        self.push(kernel, slot)
    }

    /// Puts what remains of the piece in `slot` into the submission queue.
    fn push(&mut self, kernel: &K, slot: usize) -> bool {
        let Some(sent) = &mut self.slots[slot] else { return false };
        let Some(registration) = &mut self.registrations[sent.registration] else { return false };
        let range = &mut self.ranges[slot];
        let what = (slot as u64, &mut sent.piece, range);
        kernel.push(&mut self.tables, &mut registration.target, what)
    }

    /// Settles one completion. Returns `false` if the ring is broken.
    pub(super) fn settle(&mut self, kernel: &K, what: u64, result: i32) -> bool {
        let Ok(slot) = usize::try_from(what) else { return false };
        let Some(sent) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            // After a break the kernel may still report pieces that were given up.
            return self.broken;
        };
        let Some(registration) = &mut self.registrations[sent.registration] else { return false };
        let step = match kernel.outcome(&mut registration.target, &mut sent.piece, result) {
            None => PieceStep::Again,
            Some(outcome) => sent.piece.settle(outcome),
        };
        if step == PieceStep::Again {
            return self.push(kernel, slot);
        }
        debug_assert!(registration.under_way > 0, "what ends was counted with its device");
        debug_assert!(!self.free.contains(&slot), "a slot is given up once");
        registration.under_way -= 1;
        self.free.push(slot);
        self.ended.extend(self.slots[slot].take().map(|sent| sent.piece));
        true
    }

    /// Gives free slots to waiting pieces, one piece per device in turn. Returns `false` if the ring is broken.
    pub(super) fn fill(&mut self, kernel: &K) -> bool {
        let registrations = self.registrations.len();
        for registration in self.registrations.iter_mut().flatten() {
            self.ended.extend(registration.waiting.take_aged());
        }
        let mut idle = 0;
        while idle < registrations && !self.free.is_empty() {
            let at = self.first % registrations;
            self.first = at + 1;
            let Some(piece) = self.registrations[at].as_mut().and_then(Registration::pop) else {
                idle += 1;
                continue;
            };
            idle = 0;
            if !self.place(kernel, at, piece) {
                return false;
            }
        }
        true
    }
}

impl<K: Kernel> Drop for RingCore<K> {
    fn drop(&mut self) {
        if self.slots.iter().any(Option::is_some) {
            Box::leak(std::mem::take(&mut self.ranges));
        }
        self.slots.drain(..).flatten().for_each(|sent| sent.piece.leak());
    }
}
