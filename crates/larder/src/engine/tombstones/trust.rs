//! What the superblock tells a recovery about the log: to trust it or not, and from which epoch on. How the log is
//! given up when it cannot be written, and how it becomes trusted again.
//!
//! ```text
//!           a block cannot be written                the superblock says: nothing
//!   Log ──────────────────────────────────► Owed ──────────────────────────────────► Nothing
//!    ▲                                      ▲  │                                        │
//!    └──────────────────────────────────────│──┘ all is written, and the                │
//!                                           │    superblock says: believe it            │
//!                                           └───────────────────────────────────────────┘
//!                                                all that was kept is written
//! ```
//!
//! In Owed, an operation needs its tombstone on flash, because the superblock may say either. In Nothing it needs none.
//! An outage is not permanent: in Nothing, tombstones are kept in memory, as many as the log has room for, and are
//! written after a back-off that doubles each time. If there are more, or if a block of the log is lost for good, a
//! crash empties flash.

use larder_device::label::Labeller;
use larder_log::Backoff;

use super::dead::DeadByPlace;
use super::{LabelWrite, Said, Tombstones, TombstonesState, Trust, Turn, UnfinishedStep};
use crate::base::error::Error;
use crate::engine::superblock::Superblock;
use crate::observe::events;

/// When to retry a log that was given up.
#[derive(Debug)]
pub(super) struct Retry {
    /// Maximum number of tombstones to keep until then.
    kept_max: u64,
    /// More than that have arrived: the log could never be complete again.
    overflown: bool,
    backoff: Backoff,
}

impl Retry {
    pub(super) fn new(kept_max: u64) -> Self {
        Self { kept_max, overflown: false, backoff: Backoff::default() }
    }

    /// Whether one more may be kept, in addition to `kept`.
    pub(super) fn keeps(&self, kept: usize) -> bool {
        !self.overflown && (kept as u64) < self.kept_max
    }

    pub(super) fn forget(&mut self) {
        self.overflown = true;
    }

    pub(super) fn is_possible(&self) -> bool {
        !self.overflown
    }

    fn is_due(&self, now_s: u32) -> bool {
        self.is_possible() && self.backoff.is_due(now_s)
    }

    fn defer(&mut self, now_s: u32) {
        self.backoff.failed(now_s);
    }

    fn succeeded(&mut self) {
        *self = Self::new(self.kept_max);
    }
}

impl TombstonesState {
    /// Whether flash has everything that was logged. If so, from here on each caller that adds a tombstone waits for
    /// it, because the superblock is about to say that the log is complete.
    fn owes_the_superblock_only(&mut self) -> bool {
        // The queue is also empty if too many tombstones arrived, possibly in the middle of a write: then they are lost
        // for good.
        let is_whole = self.retry.is_possible()
            && self.waiting.is_empty()
            && self.open_durable == self.open.len();
        if is_whole {
            self.trust = Trust::Owed;
        }
        is_whole
    }
}

impl Tombstones {
    /// Writes to the superblock that nothing is valid after a crash.
    pub(super) async fn give_up(&self, turn: &mut Turn) -> Result<(), Error> {
        {
            let now_s = self.clock.now_s();
            let mut state = self.lock();
            state.retry.defer(now_s);
            if state.said == Said::Nothing {
                state.trust = Trust::Nothing;
                return Ok(());
            }
            // Until that is done, nothing may be forgotten that is known only in memory.
            state.trust = Trust::Owed;
        }
        self.write_superblock(turn, false).await
    }

    /// Makes the log trusted again, if it was given up, a retry is due, and everything that it lacks can be written.
    pub(super) async fn regain(&self) {
        let trust = self.lock().trust;
        let is_due = match trust {
            Trust::Log => false,
            Trust::Owed => true,
            Trust::Nothing => {
                let now_s = self.clock.now_s();
                self.lock().retry.is_due(now_s)
            }
        };
        if is_due && let Some(mut turn) = self.combining.try_lock() {
            // If this fails it is retried later; no caller waits for it.
            let _ = self.try_regain(&mut turn).await;
        }
    }

    async fn try_regain(&self, turn: &mut Turn) -> Result<(), Error> {
        while self.finish(turn).await? {
            if self.is_trusted() || !self.lock().retry.is_possible() {
                return Ok(());
            }
            if self.lock().owes_the_superblock_only() {
                return self.write_superblock(turn, true).await;
            }
            if !self.make_room(turn).await? {
                break;
            }
            self.write_block(turn);
        }
        Ok(())
    }

    async fn write_superblock(&self, turn: &mut Turn, believe: bool) -> Result<(), Error> {
        assert!(
            turn.unfinished.is_none(),
            "one write at a time: the holder of a turn ends the one before"
        );
        let (epoch, oldest_epoch) = {
            let mut state = self.lock();
            debug_assert_eq!(state.trust, Trust::Owed, "until the superblock says it, all is owed");
            state.said = Said::Unknown;
            state.epochs
        };
        let (clean, recoverable, second) = (false, believe, self.clock.now_s());
        let superblock =
            Superblock { clean, recoverable, second, epoch, oldest_epoch, ..self.superblock };
        turn.unfinished = Some(UnfinishedStep::Superblock(self.begin_label(&superblock), believe));
        self.finish_superblock(turn).await
    }

    /// Starts writing a superblock. It advances when a caller waits for it, possibly another one.
    fn begin_label(&self, superblock: &Superblock) -> LabelWrite {
        let content = superblock.encode();
        self.counters.tombstone_log_written_bytes.add(Labeller::written_bytes(content.len()));
        Box::pin(self.labeller.write(content))
    }

    pub(super) async fn finish_superblock(&self, turn: &mut Turn) -> Result<(), Error> {
        let Some(UnfinishedStep::Superblock(write, believe)) = &mut turn.unfinished else {
            return Ok(());
        };
        let (ended, believe) = (write.await, *believe);
        turn.unfinished = None;
        match ended {
            Ok(()) => {
                let mut state = self.lock();
                debug_assert_eq!(state.trust, Trust::Owed, "only a superblock ends what is owed");
                (state.trust, state.said) = if believe {
                    state.retry.succeeded();
                    (Trust::Log, Said::Believe)
                } else {
                    (Trust::Nothing, Said::Nothing)
                };
                drop(state);
                if believe {
                    self.counters.tombstone_logs_regained.add(1);
                    events::tombstone_log_regained();
                } else {
                    self.counters.tombstone_logs_given_up.add(1);
                    events::tombstone_log_given_up();
                }
                Ok(())
            }
            Err(error) => {
                self.counters.device_failed(&error);
                let message = "cannot write down that an older value on flash is void, and after a \
                               crash it would come back";
                Err(Error::device(message, error))
            }
        }
    }

    /// Writes a superblock that voids everything before its epoch, and forgets all dead keys. The caller makes sure
    /// that no other request uses the engines. The log continues: its entries affect nothing of the new epoch, because
    /// they name older fillings, or keys with indices below the stamps of new buckets.
    ///
    /// # Errors
    /// If the superblock cannot be written. Then nothing is forgotten; the write may have reached the device
    /// nevertheless.
    pub(crate) async fn begin_epoch(&self, superblock: Superblock) -> Result<(), Error> {
        let mut turn = self.combining.lock().await;
        self.finish(&mut turn).await?;
        // If the log lacks something, the superblock continues to say so: the log may be damaged, not only incomplete.
        let recoverable = self.is_trusted();
        let (epoch, _) = self.lock().epochs;
        assert!(superblock.epoch > epoch, "epoch {} after {epoch}", superblock.epoch);
        assert_eq!(superblock.oldest_epoch, superblock.epoch, "everything before it is void");
        let superblock = Superblock { recoverable, ..superblock };
        turn.unfinished = Some(UnfinishedStep::Epoch(self.begin_label(&superblock)));
        self.finish_epoch(&mut turn).await?;
        let first_sequence = superblock.epoch << 32;
        for region in 0..superblock.layout.regions() {
            self.fillings.begin(region, first_sequence);
        }
        self.lost.end();
        let mut state = self.lock();
        state.epochs = (superblock.epoch, superblock.oldest_epoch);
        state.dead = DeadByPlace::default();
        state.oldest = state.number;
        if !recoverable {
            (state.trust, state.said) = (Trust::Nothing, Said::Nothing);
            state.waiting.clear();
            state.on_their_way.clear();
            state.retry = Retry::new(self.place.entries());
        }
        Ok(())
    }

    pub(super) async fn finish_epoch(&self, turn: &mut Turn) -> Result<(), Error> {
        let Some(UnfinishedStep::Epoch(write)) = &mut turn.unfinished else { return Ok(()) };
        let ended = write.await;
        turn.unfinished = None;
        ended.map_err(|error| {
            self.counters.device_failed(&error);
            Error::device("cannot write down that everything is void", error)
        })
    }
}
