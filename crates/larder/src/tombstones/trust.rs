//! What a crash is told of the log: to believe it, or not. How the log is given up when it cannot be
//! written, and how it is believed again.
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
//! In Owed, an operation needs its tombstone on flash: the superblock may say either. In Nothing it
//! needs none. An outage is not for ever: in Nothing tombstones are kept in memory, as many as the
//! log has room for, and after a while, each time twice as long, they are written. With more, or
//! where a block of the log is lost for good, a crash empties flash.

use larder_device::label::Labeller;
use larder_log::Backoff;

use super::{LabelWrite, Said, State, Tombstones, Trust, Turn, Unfinished};

use crate::error::Error;
use crate::events;
use crate::superblock::Superblock;

/// When a log that was given up is tried again.
#[derive(Debug)]
pub(super) struct Retry {
    /// Tombstones that may be kept meanwhile.
    kept_max: u64,
    /// More than that came: the log would lack some for ever.
    overflown: bool,
    backoff: Backoff,
}

impl Retry {
    pub(super) fn new(kept_max: u64) -> Self {
        Self { kept_max, overflown: false, backoff: Backoff::default() }
    }

    /// Whether one more is kept beside so many.
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

impl State {
    /// Whether flash has all that was logged. Then, from here on, whoever adds a tombstone waits for it:
    /// the superblock is about to say that the log lacks nothing.
    fn owes_the_superblock_only(&mut self) -> bool {
        // Nothing waits either where too much came to be kept, be it in the middle of a write: that is lost for ever.
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
    /// Tells the superblock that nothing is to be believed after a crash.
    pub(super) async fn give_up(&self, turn: &mut Turn) -> Result<(), Error> {
        {
            let now_s = self.clock.now_s();
            let mut state = self.lock();
            state.retry.defer(now_s);
            if state.said == Said::Nothing {
                state.trust = Trust::Nothing;
                return Ok(());
            }
            // Until that is done, somebody who forgets something may not be the only one to know.
            state.trust = Trust::Owed;
        }
        self.write_superblock(turn, false).await
    }

    /// Has the log believed again, if it was given up, is worth a try, and all that it lacks can be
    /// written.
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
        if is_due && let Some(mut turn) = self.turns.try_lock() {
            // What fails here is tried again later; nobody waits for it.
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
            "one write at a time: who takes a turn ends the one before"
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
        turn.unfinished = Some(Unfinished::Superblock(self.begin_label(&superblock), believe));
        self.finish_superblock(turn).await
    }

    /// Begins to write a superblock. It goes on when somebody waits for it, who may be another caller.
    pub(super) fn begin_label(&self, superblock: &Superblock) -> LabelWrite {
        let content = superblock.encode();
        self.counters.tombstone_log_written_bytes.add(Labeller::written_bytes(content.len()));
        Box::pin(self.labeller.write(content))
    }

    pub(super) async fn finish_superblock(&self, turn: &mut Turn) -> Result<(), Error> {
        let Some(Unfinished::Superblock(write, believe)) = &mut turn.unfinished else {
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
}
