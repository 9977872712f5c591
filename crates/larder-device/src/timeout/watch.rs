//! The deadlines of waiting tasks, and the requests that were given up.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use slab::Slab;

use crate::claim::Claim;
use crate::clock::{Clock, Sleep};
use crate::error::{Error, ErrorKind};
use crate::io::{AbandonedFuture, Deadline, Io, Overseer, WatchedRequest};

/// A device that ends no request is probed after this time: a completion may have been lost.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// An alarm that is later than this means that the process or the host has slept. The device may have answered in the
/// meantime, and the code that receives answers has slept too.
const SLEPT: Duration = Duration::from_millis(500);
/// Extra time that a request then gets, once, so that an answer can be received.
const GRACE: Duration = Duration::from_secs(1);

/// Shared by a device, its requests and the alarm that ends their waiting.
pub(super) struct TimeoutWatch {
    timeout: Duration,
    clock: Arc<dyn Clock>,
    /// The claim of the device's owner. Only requests that were given up keep it alive.
    claim: Option<Weak<Claim>>,
    /// Whether any request may have to be refused.
    is_troubled: AtomicBool,
    given_up: AtomicU64,
    refused: AtomicU64,
    state: Mutex<WatchState>,
    /// The sleeps that wake this watch; kept because a dropped sleep wakes nothing. Never locked together with `state`.
    alarms: Mutex<Vec<Sleep>>,
}

#[derive(Default)]
struct WatchState {
    /// Tasks that wait for a request.
    waiting: Slab<WaitingRequest>,
    /// When the alarm goes off, if it is set.
    alarm_at: Option<Duration>,
    /// Requests that were given up and have not ended.
    late: Slab<WatchedRequest>,
    /// Set while the device is stalled: when to send the next probe.
    stalled_until: Option<Duration>,
    /// When the stall began.
    stalled_since: Option<Duration>,
}

struct WaitingRequest {
    due: Duration,
    waker: Option<Waker>,
    /// It has had its [`GRACE`].
    is_excused: bool,
}

/// Why a request is not sent.
pub(super) enum Refusal {
    Stalled(Duration),
    Overlap(WatchedRequest),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled(timeout) => {
                write!(f, "not sent: the device has answered nothing for {timeout:?}")
            }
            Self::Overlap(WatchedRequest { verb, range, .. }) => {
                write!(
                    f,
                    "not sent: a {verb} of bytes {range:?} that was given up may still happen"
                )
            }
        }
    }
}

impl TimeoutWatch {
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

    /// The deadline for `request`, which is sent now.
    pub(super) fn deadline_of(self: &Arc<Self>, request: WatchedRequest) -> Deadline {
        let due = self.clock.monotonic().saturating_add(request.allowance);
        Deadline::new(Arc::clone(self) as Arc<dyn Overseer>, request, due)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Numbers of requests given up and refused.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.given_up.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }

    /// How long the device has been stalled: since a request was given up, without any request ending.
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
        let overlaps = |late: &&WatchedRequest| {
            late.changes && offset < late.range.end && late.range.start < offset + bytes
        };
        let now = self.clock.monotonic();
        let state = &mut *self.lock();
        let overlap = state.late.iter().map(|(_, late)| late).find(overlaps);
        let refusal = match (overlap, state.stalled_until) {
            (Some(late), _) => Refusal::Overlap(late.clone()),
            (None, Some(until)) if now < until => Refusal::Stalled(self.timeout),
            (None, until) => {
                // Send one request as a probe.
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

    /// Records a request that was given up. Returns its number among the late ones.
    fn note_late(&self, request: WatchedRequest) -> usize {
        self.given_up.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.monotonic();
        let mut state = self.lock();
        state.stalled_until = Some(now.saturating_add(RETRY_AFTER));
        state.stalled_since.get_or_insert(now);
        self.is_troubled.store(true, Ordering::Release);
        state.late.insert(request)
    }

    /// Pretends that another request was given up.
    #[cfg(test)]
    pub(super) fn pretend_late(&self) -> usize {
        let request =
            WatchedRequest { verb: "read", range: 0..0, changes: false, allowance: Duration::ZERO };
        self.lock().late.insert(request)
    }

    /// Sets the alarm, until the next deadline is in the future.
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

    /// Wakes tasks whose deadline has passed, unless it passed during a sleep of the host. Returns the next deadline.
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

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Overseer for TimeoutWatch {
    fn wait(self: Arc<Self>, due: Duration, waker: &Waker) -> usize {
        let (number, is_first) = {
            let mut state = self.lock();
            let waiting = WaitingRequest { due, waker: Some(waker.clone()), is_excused: false };
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

    fn give_up(self: Arc<Self>, request: &WatchedRequest, under_way: AbandonedFuture) -> Error {
        let WatchedRequest { verb, range, allowance, .. } = request;
        let number = self.note_late(request.clone());
        let claim = self.claim.as_ref().and_then(Weak::upgrade);
        AbandonedRequest::follow(under_way, &self, number, claim);
        let bytes = range.end - range.start;
        let context = format!(
            "{verb} of {bytes} bytes at {}: given up after {allowance:?}; it may still happen",
            range.start
        );
        Error::new(ErrorKind::TimedOut, context)
    }
}

/// Goes off at the earliest deadline. Holds a weak reference, because a clock may keep it long after the device is
/// gone.
struct Alarm(Weak<TimeoutWatch>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        let Some(watch) = self.0.upgrade() else { return };
        // All sleeps have gone off or are set anew below.
        let gone =
            std::mem::take(&mut *watch.alarms.lock().unwrap_or_else(PoisonError::into_inner));
        drop(gone);
        let next = watch.wake_overdue();
        watch.set_alarms(next);
    }
}

/// A request that its caller no longer waits for, until it has ended below. Keeps the
/// request, its memory and the claim on its bytes; polls the request whenever it is woken.
struct AbandonedRequest {
    under_way: Mutex<Option<AbandonedFuture>>,
    /// A poll was asked for.
    is_woken: AtomicBool,
    watch: Arc<TimeoutWatch>,
    number: usize,
    /// Released when the request has ended.
    _claim: Option<Arc<Claim>>,
}

impl AbandonedRequest {
    /// Follows the request, so that the watch is told when it has ended.
    fn follow(
        under_way: AbandonedFuture,
        watch: &Arc<TimeoutWatch>,
        number: usize,
        claim: Option<Arc<Claim>>,
    ) {
        let given_up = Self {
            under_way: Mutex::new(Some(under_way)),
            is_woken: AtomicBool::new(false),
            watch: Arc::clone(watch),
            number,
            _claim: claim,
        };
        Arc::new(given_up).wake();
    }
}

impl Wake for AbandonedRequest {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        // A thread that is polling already polls once more: a poll may wake the request that it polls.
        while let Ok(mut under_way) = self.under_way.try_lock() {
            while self.is_woken.swap(false, Ordering::SeqCst) {
                let waker = Waker::from(Arc::clone(&self));
                let has_ended = under_way.as_mut().is_some_and(|it| it.poll(&waker).is_ready());
                if has_ended {
                    *under_way = None;
                    self.watch.ended_late(self.number);
                }
            }
            drop(under_way);
            if !self.is_woken.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}
