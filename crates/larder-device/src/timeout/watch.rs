//! Who waits for which request and until when, and what was given up.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use slab::Slab;

use super::given_up::GivenUp;
use crate::claim::Claim;
use crate::clock::{Clock, Sleep};
use crate::error::{Error, ErrorKind};
use crate::io::{Deadline, Io, Overseer, Request, UnderWay};

/// A device that ends nothing is tried again after so long: a completion may have been lost.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// An alarm that goes off later than this has slept with the process or the host: the device may have answered
/// meanwhile, and what hears it has slept too.
const SLEPT: Duration = Duration::from_millis(500);
/// Time that a request has then, once: to hear what was answered.
const GRACE: Duration = Duration::from_secs(1);

/// Shared by a device, its requests and the alarm that ends their patience.
pub(super) struct Watch {
    timeout: Duration,
    clock: Arc<dyn Clock>,
    /// Its owner's. Only what was given up keeps it.
    claim: Option<Weak<Claim>>,
    /// Whether anything may have to be refused.
    is_troubled: AtomicBool,
    given_up: AtomicU64,
    refused: AtomicU64,
    state: Mutex<State>,
    /// What will wake this; kept, for a dropped one wakes nobody. Never locked together with `state`.
    alarms: Mutex<Vec<Sleep>>,
}

#[derive(Default)]
struct State {
    /// Whoever waits for a request.
    waiting: Slab<Waiting>,
    /// When the alarm goes off, if it is set.
    alarm_at: Option<Duration>,
    /// Requests that were given up and have not ended.
    late: Slab<Request>,
    /// Since the device owes an answer, when to ask it again.
    stalled_until: Option<Duration>,
    /// Since when.
    stalled_since: Option<Duration>,
}

struct Waiting {
    due: Duration,
    waker: Option<Waker>,
    /// It has had its [`GRACE`].
    is_excused: bool,
}

/// Why a request is not sent.
pub(super) enum Refusal {
    Stalled(Duration),
    Overlap(Request),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled(timeout) => {
                write!(f, "not sent: the device has answered nothing for {timeout:?}")
            }
            Self::Overlap(Request { verb, range, .. }) => {
                write!(
                    f,
                    "not sent: a {verb} of bytes {range:?} that was given up may still happen"
                )
            }
        }
    }
}

impl Watch {
    pub(super) fn new(
        timeout: Duration,
        clock: Arc<dyn Clock>,
        claim: Option<Weak<Claim>>,
    ) -> Self {
        Self {
            timeout,
            clock,
            claim,
            is_troubled: AtomicBool::new(false),
            given_up: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            state: Mutex::default(),
            alarms: Mutex::default(),
        }
    }

    /// By when `request`, which is sent now, must have ended.
    pub(super) fn deadline_of(self: &Arc<Self>, request: Request) -> Deadline {
        let due = self.clock.monotonic().saturating_add(request.allowance);
        Deadline::new(Arc::clone(self) as Arc<dyn Overseer>, request, due)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Given up, and refused.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.given_up.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// How long the device has owed an answer that nobody waits for any more, without answering anything else.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        if !self.is_troubled.load(Ordering::Acquire) {
            return None;
        }
        let since = self.lock().stalled_since?;
        Some(self.clock.monotonic().saturating_sub(since))
    }

    /// Why `io` must not be sent now, if so.
    pub(super) fn refuses(&self, io: &Io) -> Option<Refusal> {
        if !self.is_troubled.load(Ordering::Acquire) {
            return None;
        }
        let (_, offset, bytes) = io.extent();
        let overlaps = |late: &&Request| {
            late.changes && offset < late.range.end && late.range.start < offset + bytes
        };
        let now = self.clock.monotonic();
        let state = &mut *self.lock();
        let overlap = state.late.iter().map(|(_, late)| late).find(overlaps);
        let refusal = match (overlap, state.stalled_until) {
            (Some(late), _) => Refusal::Overlap(late.clone()),
            (None, Some(until)) if now < until => Refusal::Stalled(self.timeout),
            (None, until) => {
                // One is sent to see.
                state.stalled_until = until.map(|_| now.saturating_add(RETRY_AFTER));
                return None;
            }
        };
        self.refused.fetch_add(1, Ordering::Relaxed);
        Some(refusal)
    }

    /// A request that was given up has ended.
    pub(super) fn ended_late(&self, number: usize) {
        self.lock().late.remove(number);
        self.answered();
    }

    /// Returns its number among those that are late.
    fn note_late(&self, request: Request) -> usize {
        self.given_up.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.monotonic();
        let mut state = self.lock();
        state.stalled_until = Some(now.saturating_add(RETRY_AFTER));
        state.stalled_since.get_or_insert(now);
        self.is_troubled.store(true, Ordering::Release);
        state.late.insert(request)
    }

    /// As if another request had been given up.
    #[cfg(test)]
    pub(super) fn pretend_late(&self) -> usize {
        let request =
            Request { verb: "read", range: 0..0, changes: false, allowance: Duration::ZERO };
        self.lock().late.insert(request)
    }

    /// Sets the alarm until it is for later than now.
    fn set_alarms(self: &Arc<Self>, mut next: Option<Duration>) {
        while let Some(at) = next {
            let mut sleep = self.clock.sleep_until(at);
            let waker = Waker::from(Arc::new(Alarm(Arc::downgrade(self))));
            if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.alarms.lock().unwrap_or_else(PoisonError::into_inner).push(sleep);
                return;
            }
            next = self.wake_overdue();
        }
    }

    /// Wakes those whose time is over, unless it was slept through. Returns when the next one's is.
    fn wake_overdue(&self) -> Option<Duration> {
        let now = self.clock.monotonic();
        let mut overdue = Vec::new();
        let next = {
            let mut state = self.lock();
            let has_slept = state.alarm_at.is_some_and(|at| now.saturating_sub(at) > SLEPT);
            let mut next: Option<Duration> = None;
            for (_, waiting) in &mut state.waiting {
                if waiting.due <= now && has_slept && !waiting.is_excused {
                    waiting.is_excused = true;
                    waiting.due = now.saturating_add(self.timeout.min(GRACE));
                }
                if waiting.due <= now {
                    overdue.extend(waiting.waker.take());
                } else {
                    next = Some(next.map_or(waiting.due, |next| next.min(waiting.due)));
                }
            }
            state.alarm_at = next;
            next
        };
        overdue.into_iter().for_each(Waker::wake);
        next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overseer for Watch {
    fn wait(self: Arc<Self>, due: Duration, waker: &Waker) -> usize {
        let (number, is_first) = {
            let mut state = self.lock();
            let waiting = Waiting { due, waker: Some(waker.clone()), is_excused: false };
            let is_first = state.alarm_at.is_none_or(|at| due < at);
            if is_first {
                state.alarm_at = Some(due);
            }
            (state.waiting.insert(waiting), is_first)
        };
        if is_first {
            self.set_alarms(Some(due));
        }
        number
    }

    fn is_over(&self, number: usize, waker: &Waker) -> bool {
        let mut state = self.lock();
        match state.waiting.get_mut(number).map(|waiting| &mut waiting.waker) {
            Some(Some(kept)) => {
                kept.clone_from(waker);
                false
            }
            Some(None) | None => true,
        }
    }

    fn answered(&self) {
        if self.is_troubled.load(Ordering::Acquire) {
            let mut state = self.lock();
            (state.stalled_until, state.stalled_since) = (None, None);
            self.is_troubled.store(!state.late.is_empty(), Ordering::Release);
        }
    }

    fn forget(&self, number: usize) {
        self.lock().waiting.remove(number);
    }

    fn give_up(self: Arc<Self>, request: &Request, under_way: UnderWay) -> Error {
        let Request { verb, range, allowance, .. } = request;
        let number = self.note_late(request.clone());
        let claim = self.claim.as_ref().and_then(Weak::upgrade);
        GivenUp::follow(under_way, &self, number, claim);
        let bytes = range.end - range.start;
        let context = format!(
            "{verb} of {bytes} bytes at {}: given up after {allowance:?}; it may still happen",
            range.start
        );
        Error::new(ErrorKind::TimedOut, context)
    }
}

/// Goes off when the time of whoever waits longest is over. Keeps nothing: a clock may hold on to it for
/// long after the device is gone.
struct Alarm(Weak<Watch>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let Some(watch) = self.0.upgrade() else { return };
        // All have gone off or are set anew.
        let gone =
            std::mem::take(&mut *watch.alarms.lock().unwrap_or_else(PoisonError::into_inner));
        drop(gone);
        let next = watch.wake_overdue();
        watch.set_alarms(next);
    }
}
