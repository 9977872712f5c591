//! Lock-free readers, and the memory that they may still use.
//!
//! A reader is counted from [`Readers::enter`] until its [`ReaderEntry`] is dropped. A thread that removes something
//! that readers may use (a table, a segment for good) takes three steps: it makes the thing unreachable for later
//! readers, passes it to [`Readers::retire`], and frees it when [`Readers::collect`] returns it. No thread waits:
//! readers write only a count in a cache line of their own thread. A preempted reader delays the freeing of retired
//! memory, but blocks no other thread.
//!
//! Why no reader uses freed memory. Retired things were made unreachable before a round begins. A round begins with a
//! fence, and sees each count at zero once before it ends. Take any reader, and the count that it incremented:
//!
//! - Either the zero was seen after the increment. Then it was seen after the decrement too: the reader has left. It
//!   left with `Release`, and the zero was loaded with `Acquire`, so all its reads happened before the memory is
//!   freed.
//! - Or the zero was seen before the increment. Then the fence comes before the increment in the single order of all
//!   `SeqCst` operations. The increment comes before the loads with which the reader finds tables and entries, if
//!   these are `SeqCst`. So they see the change, which the lock of the waiting list puts before the fence.
//!
//! With one count per stripe a round might never see a zero, if threads that share the stripe relieve each other. So
//! there are two, and the phase says which one new readers use. A round first checks the count that they do not use,
//! flips the phase, and checks the other. For a reader that read the phase before the flip and increments its count
//! after it, both cases above hold as well: the phase matters only for progress.
//!
//! This corresponds to `synchronize_rcu` and `call_rcu`, with two counts per stripe as in McKenney's user-level RCU
//! (Desnoyers, McKenney, Stern, Dagenais, Walpole: "User-Level Implementations of Read-Copy Update", IEEE TPDS 23(2),
//! 2012).

use std::ops::Deref;
use std::sync::PoisonError;

use crate::base::sync::atomic::{AtomicUsize, Ordering, fence};
use crate::base::sync::{Mutex, MutexGuard, STRIPES, stripe, wait_a_little};

/// Proof that the index's shard is locked, or that a reader is inside. While this lives, tables stay in place, and
/// slots that entries name stay filled.
#[derive(Debug)]
pub(crate) struct ReadProof(());

/// Proof that the index's shard is locked: its records do not change either.
#[derive(Debug)]
pub(crate) struct LockProof(ReadProof);

/// Proof that the caller alone holds a lock of the index's shard.
#[derive(Debug)]
pub(crate) struct LockProofAlone(LockProof);

impl LockProof {
    /// The caller holds the lock of a shard, and accesses only this shard.
    pub(super) fn new() -> Self {
        Self(ReadProof(()))
    }
}

impl LockProofAlone {
    /// The caller holds the write lock of a shard, and accesses only this shard.
    pub(super) fn new() -> Self {
        Self(LockProof::new())
    }
}

impl Deref for LockProof {
    type Target = ReadProof;

    fn deref(&self) -> &ReadProof {
        &self.0
    }
}

impl Deref for LockProofAlone {
    type Target = LockProof;

    fn deref(&self) -> &LockProof {
        &self.0
    }
}

/// Counts readers, and keeps what was removed until they have left.
#[derive(Debug)]
pub(crate) struct Readers<R> {
    stripes: [ReaderStripe; STRIPES],
    /// Its lowest bit selects the count that new readers use.
    phase: AtomicUsize,
    waiting: Mutex<WaitingForReaders<R>>,
    /// Number of retired things, to be read without the lock.
    retired: AtomicUsize,
}

#[repr(align(64))]
#[derive(Debug, Default)]
struct ReaderStripe([AtomicUsize; 2]);

/// What waits for readers.
#[derive(Debug)]
struct WaitingForReaders<R> {
    /// Waits for the end of this round.
    now: Vec<R>,
    /// Came after this round had begun: waits for the end of the next one.
    next: Vec<R>,
    round: Option<Round>,
}

/// A bit for each stripe whose count was not seen at zero yet.
#[derive(Debug, Clone, Copy)]
enum Round {
    /// The counts that new readers do not use.
    First(u32),
    /// The counts that they used before the phase was flipped.
    Second(u32),
}

const ALL_STRIPES: u32 = (1 << STRIPES) - 1;

/// A reader, until it is dropped. It must not take locks, nor wait.
#[derive(Debug)]
pub(crate) struct ReaderEntry<'a> {
    count: &'a AtomicUsize,
    held: ReadProof,
}

impl<R> Default for Readers<R> {
    fn default() -> Self {
        let waiting = WaitingForReaders { now: Vec::new(), next: Vec::new(), round: None };
        Self {
            stripes: Default::default(),
            phase: AtomicUsize::new(0),
            waiting: Mutex::new(waiting),
            retired: AtomicUsize::new(0),
        }
    }
}

impl<R> Readers<R> {
    pub(crate) fn enter(&self) -> ReaderEntry<'_> {
        let phase = self.phase.load(Ordering::Relaxed);
        let count = &self.stripes[stripe()].0[phase & 1];
        count.fetch_add(1, Ordering::SeqCst);
        ReaderEntry { count, held: ReadProof(()) }
    }

    /// Keeps an unreachable thing until every reader that may have found it has left.
    pub(crate) fn retire(&self, what: R) {
        let mut waiting = self.lock();
        waiting.next.push(what);
        self.retired.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of things retired and not collected.
    pub(crate) fn retired(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// Returns retired things without readers. Does not wait: the next call continues the round.
    pub(crate) fn collect(&self) -> Vec<R> {
        let mut freed = Vec::new();
        if self.retired() == 0 {
            return freed;
        }
        let mut waiting = self.lock();
        while let Some(round) = waiting.round.take().or_else(|| waiting.begin()) {
            waiting.round = self.advance(round);
            if waiting.round.is_some() {
                break;
            }
            freed.append(&mut waiting.now);
        }
        let before = self.retired.fetch_sub(freed.len(), Ordering::Relaxed);
        debug_assert!(before >= freed.len(), "what is freed was retired, once");
        freed
    }

    /// The same; if a reader is in the way, lets other threads run for `looks` attempts.
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

    /// What remains of a round after another look at the counts. `None`: it has ended.
    fn advance(&self, mut round: Round) -> Option<Round> {
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

    fn lock(&self) -> MutexGuard<'_, WaitingForReaders<R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> WaitingForReaders<R> {
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

impl ReaderEntry<'_> {
    pub(crate) fn held(&self) -> &ReadProof {
        &self.held
    }
}

impl Drop for ReaderEntry<'_> {
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
