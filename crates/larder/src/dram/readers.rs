//! Readers without a lock, and what they may still look at.
//!
//! A reader is counted from [`Readers::enter`] on until its [`Inside`] is dropped. Who takes away
//! what readers may look at (a table, a segment for good) goes three steps: let nobody find it who
//! comes later; [`Readers::retire`] it; free it when [`Readers::collect`] gives it back. Nobody waits:
//! readers write nothing but a count in a cache line of their own thread, and a reader who is
//! interrupted keeps what was retired from being freed, and nobody from going on.
//!
//! This is why nobody looks at what was freed. What waits was taken away before a round begins. A round
//! begins with a fence, and sees each count at zero once before it ends. Take any reader, and the
//! count that it added to:
//!
//! - Either the zero that was seen comes after the addition. Then it comes after the subtraction too:
//!   the reader has left. It left with `Release` and was seen with `Acquire`, so that what it looked at
//!   was looked at before it is freed.
//! - Or it comes before the addition. Then the fence comes before the addition in the one order of
//!   all `SeqCst` operations. The addition comes before the loads by which the reader finds
//!   anything, table and entries, if these are `SeqCst`: so they see the change, which the lock of what
//!   waits puts before the fence.
//!
//! With one count a stripe a round might never see a zero: threads that share it could relieve each
//! other. So there are two, and the phase says which one newcomers use. A round first looks at
//! the one that they do not use, turns the phase, and looks at the other. For a reader that read
//! the phase before and adds to its count after, both cases above hold as well: the phase matters
//! to progress alone.
//!
//! This is what `synchronize_rcu` and `call_rcu` are to each other, with two counts a stripe as in
//! McKenney's user-level RCU (Desnoyers, McKenney, Stern, Dagenais, Walpole: "User-Level Implementations
//! of Read-Copy Update", IEEE TPDS 23(2), 2012).

use std::ops::Deref;
use std::sync::PoisonError;

use crate::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, STRIPES, stripe, wait_a_little};

/// Proof that the index's shard is locked, or that a reader is inside: tables stay where they are and
/// slots that entries name stay filled as long as this lives.
#[derive(Debug)]
pub(crate) struct Held(());

/// Proof that the index's shard is locked: its records stay what they are, too.
#[derive(Debug)]
pub(crate) struct Locked(Held);

/// Proof that nobody else has a lock of the index's shard.
#[derive(Debug)]
pub(crate) struct LockedAlone(Locked);

impl Locked {
    /// The caller holds the lock of a shard, and looks at this shard only.
    pub(super) fn new() -> Self {
        Self(Held(()))
    }
}

impl LockedAlone {
    /// The caller holds the lock of a shard for writing, and looks at this shard only.
    pub(super) fn new() -> Self {
        Self(Locked::new())
    }
}

impl Deref for Locked {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl Deref for LockedAlone {
    type Target = Locked;

    fn deref(&self) -> &Locked {
        &self.0
    }
}

/// Counts readers, and keeps what was taken away from them until they have left.
#[derive(Debug)]
pub(crate) struct Readers<R> {
    stripes: [Stripe; STRIPES],
    /// Its lowest bit is the count of a stripe that newcomers use.
    phase: AtomicUsize,
    waiting: Mutex<Waiting<R>>,
    /// How much of it there is, to ask without the lock.
    retired: AtomicUsize,
}

#[repr(align(64))]
#[derive(Debug, Default)]
struct Stripe([AtomicUsize; 2]);

/// What waits for readers.
#[derive(Debug)]
struct Waiting<R> {
    /// For the end of this round.
    now: Vec<R>,
    /// Came after it had begun: for the end of the next one.
    next: Vec<R>,
    round: Option<Round>,
}

/// A bit for each stripe whose count was not seen at zero yet.
#[derive(Debug, Clone, Copy)]
enum Round {
    /// The counts that newcomers do not use.
    First(u32),
    /// Those that they used before the phase was turned.
    Second(u32),
}

const ALL_STRIPES: u32 = (1 << STRIPES) - 1;

/// A reader, until it is dropped. It must not take locks, nor wait.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    count: &'a AtomicUsize,
    held: Held,
}

impl<R> Default for Readers<R> {
    fn default() -> Self {
        let waiting = Waiting { now: Vec::new(), next: Vec::new(), round: None };
        Self {
            stripes: Default::default(),
            phase: AtomicUsize::new(0),
            waiting: Mutex::new(waiting),
            retired: AtomicUsize::new(0),
        }
    }
}

impl<R> Readers<R> {
    pub(crate) fn enter(&self) -> Inside<'_> {
        let phase = self.phase.load(Ordering::Relaxed);
        let count = &self.stripes[stripe()].0[phase & 1];
        count.fetch_add(1, Ordering::SeqCst);
        Inside { count, held: Held(()) }
    }

    /// Keeps what nobody finds any more until every reader has left who may have found it before.
    pub(crate) fn retire(&self, what: R) {
        let mut waiting = self.lock();
        waiting.next.push(what);
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    /// How much was retired and not collected.
    pub(crate) fn retired(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// What was retired and no reader looks at. Waits for nobody: the next call goes on.
    pub(crate) fn collect(&self) -> Vec<R> {
        let mut freed = Vec::new();
        if self.retired() == 0 {
            return freed;
        }
        let mut waiting = self.lock();
        while let Some(round) = waiting.round.take().or_else(|| waiting.begin()) {
            waiting.round = self.go_on(round);
            if waiting.round.is_some() {
                break;
            }
            freed.append(&mut waiting.now);
        }
        let before = self.retired.fetch_sub(freed.len(), Ordering::Relaxed);
        debug_assert!(before >= freed.len(), "what is freed was retired, once");
        freed
    }

    /// The same, and lets others go on for so many looks, if a reader is in the way.
    pub(crate) fn collect_soon(&self, looks: u32) -> Vec<R> {
        for look in 0..looks {
            let freed = self.collect();
            if !freed.is_empty() || self.retired() == 0 {
                return freed;
            }
            wait_a_little(look);
        }
        Vec::new()
    }

    /// What is left of a round after a look at the counts. `None`: it has ended.
    fn go_on(&self, mut round: Round) -> Option<Round> {
        let phase = self.phase.load(Ordering::Relaxed);
        if let Round::First(unseen) = round {
            let unseen = self.look(unseen, !phase & 1);
            if unseen != 0 {
                return Some(Round::First(unseen));
            }
            self.phase.store(phase.wrapping_add(1), Ordering::Relaxed);
            round = Round::Second(ALL_STRIPES);
        }
        let Round::Second(unseen) = round else { return Some(round) };
        debug_assert!(unseen != 0, "a round whose counts were all seen at zero has ended");
        let before = self.phase.load(Ordering::Relaxed).wrapping_sub(1);
        let unseen = self.look(unseen, before & 1);
        (unseen != 0).then_some(Round::Second(unseen))
    }

    fn look(&self, unseen: u32, phase: usize) -> u32 {
        let is_busy = |at: &usize| self.stripes[*at].0[phase].load(Ordering::Acquire) != 0;
        let busy = (0..STRIPES).filter(|at| unseen & 1 << at != 0).filter(is_busy);
        busy.fold(0, |busy, at| busy | 1 << at)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Waiting<R> {
    /// Begins a round, if something waits for one.
    fn begin(&mut self) -> Option<Round> {
        if self.next.is_empty() {
            return None;
        }
        debug_assert!(
            self.now.is_empty(),
            "one round at a time, and it has freed what waited for it"
        );
        std::mem::swap(&mut self.now, &mut self.next);
        fence(Ordering::SeqCst);
        Some(Round::First(ALL_STRIPES))
    }
}

impl Inside<'_> {
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let before = self.count.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a reader leaves the count that it came to");
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn what_is_retired_comes_back_when_those_inside_have_left_and_not_before() {
        let readers = Readers::default();
        let inside = readers.enter();
        readers.retire("a table");
        assert_eq!(readers.collect(), [""; 0]);
        let newcomer = readers.enter(); // does not keep what was retired before
        readers.retire("a segment");
        assert_eq!((readers.collect(), readers.retired()), (Vec::new(), 2));
        drop(inside);
        assert_eq!(readers.collect(), ["a table"]);
        drop(newcomer);
        assert_eq!((readers.collect(), readers.retired()), (vec!["a segment"], 0));
        assert_eq!(readers.collect(), [""; 0]);
    }

    #[test]
    fn rounds_end_while_readers_relieve_each_other() {
        let readers = Readers::default();
        let mut inside = readers.enter();
        for round in 0..100 {
            readers.retire(round);
            let mut freed = Vec::new();
            for _ in 0..4 {
                freed.extend(readers.collect());
                inside = readers.enter(); // before the other leaves
            }
            assert_eq!(freed, [round]);
        }
        drop(inside);
    }
}
