//! A request in flight: the future that its caller waits on, the completer with which the backend ends it, and the
//! deadline after which the caller stops waiting. The watchdog is behind the [`Overseer`] trait, so that requests know
//! nothing of the device that gives them up.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::observed::ObservedRequest;
use super::outcome::{IoFailure, IoResult};
use crate::driver::{Advance, Driver};
use crate::error::{Error, ErrorKind};
use crate::park::{block_on, is_inside_block_on, note};
use crate::spares::{Heap, Spares, sole};

/// A request in flight. Any executor can poll it; a plain thread can call [`IoFuture::wait`].
#[derive(Debug)]
pub struct IoFuture {
    state: RequestState,
    /// The device's name, put in front of an error's message where the error does not carry it itself.
    of: Option<Arc<str>>,
    /// When the caller stops waiting, if the device has a timeout.
    deadline: Option<Deadline>,
    /// The observer to tell of the end, if there is one. Boxed: few requests are observed, but every future is moved.
    observed: Option<Box<ObservedRequest>>,
}

/// What is left of a request that its caller no longer waits for.
#[derive(Debug)]
pub(crate) struct AbandonedFuture(RequestState);

#[derive(Debug)]
enum RequestState {
    Ready(Option<IoResult>),
    Pending(PendingRequest),
    Joined(Box<JoinedRequest>),
}

/// The caller's end of a pending request.
#[derive(Debug)]
struct PendingRequest(Option<Arc<Completion>>);

static HEAP: Heap<Completion> = Heap::new();

thread_local! {
    /// Spare completions of ended requests, so that a new request need not allocate one.
    static SPARE: Spares<Completion> = const { Spares::new(&HEAP) };
}

/// Drops one of the two ends of a request. The second end to go keeps the memory for another request.
fn let_go(mut completion: Arc<Completion>) {
    if completion.let_go.swap(true, Ordering::AcqRel) {
        *sole(&mut completion) = Completion::default();
        let _ = SPARE.try_with(|spare| spare.keep(completion));
    }
}

/// The backend's end of a pending request. Dropping it without completing fails the request, so that no caller waits
/// forever.
#[derive(Debug)]
pub struct Completer(Option<Arc<Completion>>);

#[derive(Default)]
struct Completion {
    slot: Mutex<Slot>,
    /// Called before a thread blocks on the request. See [`IoFuture::pending_until_waited`].
    before_wait: Option<Box<dyn Fn() + Send + Sync>>,
    /// Whether one of the two ends has been dropped.
    let_go: AtomicBool,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Slot {
    result: Option<IoResult>,
    waker: Option<Waker>,
    /// What fetches the completion, if something must be driven for it. `None` once the request has ended.
    driver: Option<Arc<dyn Driver>>,
    care: Care,
}

/// Which party runs the driver of a pending request.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Care {
    /// None yet: the future was not polled.
    #[default]
    NotYet,
    /// A thread inside [`block_on`].
    Noted,
    /// The driver runs by itself.
    Adopted,
}

impl Slot {
    /// Makes sure that the driver is run: by this thread if `may_note` is set and the thread is inside [`block_on`],
    /// else by the driver itself.
    fn settle_care(&mut self, may_note: bool) {
        let Some(driver) = &self.driver else { return };
        let care = if may_note && note(driver) { Care::Noted } else { Care::Adopted };
        if care == self.care {
            return;
        }
        count_care(&**driver, care, true);
        count_care(&**driver, self.care, false);
        self.care = care;
    }
}

fn count_care(driver: &dyn Driver, care: Care, more: bool) {
    match care {
        Care::NotYet => {}
        Care::Noted => driver.noted(more),
        Care::Adopted => driver.adopted(more),
    }
}

impl IoFuture {
    /// A request that has ended already.
    pub fn ready(result: IoResult) -> Self {
        Self::from_state(RequestState::Ready(Some(result)))
    }

    /// A request in flight, and the end with which the backend completes it.
    pub fn pending() -> (Self, Completer) {
        Self::from_completion(Completion::default())
    }

    /// Like [`IoFuture::pending`], but `before_wait` runs before a thread blocks on the request. A backend that holds
    /// requests back until another event happens must release this one then: a blocked thread causes no other event.
    pub(crate) fn pending_until_waited(
        before_wait: impl Fn() + Send + Sync + 'static,
    ) -> (Self, Completer) {
        let before_wait: Box<dyn Fn() + Send + Sync> = Box::new(before_wait);
        Self::from_completion(Completion { before_wait: Some(before_wait), ..Default::default() })
    }

    fn from_completion(completion: Completion) -> (Self, Completer) {
        let mut fresh = SPARE.try_with(Spares::take).unwrap_or_default();
        *Arc::get_mut(&mut fresh).expect("a spare one has no other owner") = completion;
        let state = RequestState::Pending(PendingRequest(Some(Arc::clone(&fresh))));
        (Self::from_state(state), Completer(Some(fresh)))
    }

    /// A request that ends when all `parts`, which are in flight, have ended. `join` makes its result from theirs.
    pub(crate) fn joined(parts: Vec<Self>, join: impl Join) -> Self {
        let ended = Vec::with_capacity(parts.len());
        let joined = JoinedRequest { parts: parts.into(), ended, join: Some(Box::new(join)) };
        Self::from_state(RequestState::Joined(Box::new(joined)))
    }

    fn from_state(state: RequestState) -> Self {
        Self { state, of: None, deadline: None, observed: None }
    }

    /// Whether the result is there without waiting.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, RequestState::Ready(_))
    }

    /// The same request with a deadline, after which it fails. If several are set, the first one counts.
    pub(crate) fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline.get_or_insert(deadline);
        self
    }

    /// The same request, whose end is reported to the observer.
    pub(crate) fn observed(mut self, mut observed: ObservedRequest) -> Self {
        debug_assert!(self.observed.is_none(), "no layer below observes it");
        if let RequestState::Ready(Some(result)) = &self.state {
            observed.ended(result);
        } else {
            self.observed = Some(Box::new(observed));
        }
        self
    }

    /// The same request; an error names `device` in front of its message.
    pub(crate) fn of(mut self, device: &Arc<str>) -> Self {
        self.of = Some(Arc::clone(device));
        self
    }

    /// Releases requests that are held back until a thread blocks on them.
    fn before_wait(&self) {
        match &self.state {
            RequestState::Ready(_) => {}
            RequestState::Pending(pending) => {
                let completion = pending.0.as_ref();
                if let Some(before_wait) = completion.and_then(|it| it.before_wait.as_ref()) {
                    before_wait();
                }
            }
            RequestState::Joined(joined) => joined.parts.iter().for_each(Self::before_wait),
        }
    }

    /// Blocks the thread until the request has ended. Where the device allows it, the thread fetches the completion
    /// itself ([`block_on`]).
    ///
    /// # Panics
    /// If the future was polled to its end before.
    pub fn wait(self) -> IoResult {
        self.before_wait();
        block_on(self)
    }
}

impl Future for IoFuture {
    type Output = IoResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult> {
        let mut polled = self.state.poll(context);
        if let Some(deadline) = &mut self.deadline {
            if polled.is_pending() && deadline.poll(context).is_ready() {
                polled = self.give_up(context);
            } else if polled.is_ready() {
                deadline.met();
            }
        }
        if let Poll::Ready(result) = &polled {
            self.deadline = None;
            if let Some(mut observed) = self.observed.take() {
                observed.ended(result);
            }
        }
        polled.map_err(|failure| match &self.of {
            Some(device) => IoFailure { error: failure.error.within(device), ..failure },
            None => failure,
        })
    }
}

impl IoFuture {
    /// The deadline has passed: ends the request for its caller, unless it has ended after all.
    fn give_up(&mut self, context: &mut Context<'_>) -> Poll<IoResult> {
        // The completion may be there without having been fetched, for example after the process was stopped.
        self.state.reap();
        let last = self.state.poll(context);
        let Some(deadline) = self.deadline.as_ref().filter(|_| last.is_pending()) else {
            return last;
        };
        let under_way = std::mem::replace(&mut self.state, RequestState::Ready(None));
        let error = deadline.give_up(AbandonedFuture(under_way));
        Poll::Ready(Err(IoFailure::without_buffer(error)))
    }
}

impl AbandonedFuture {
    /// Ready if the request has ended. If not, `waker` is woken when it has.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        self.0.poll(&mut Context::from_waker(waker)).map(drop)
    }
}

impl RequestState {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<IoResult> {
        match self {
            Self::Ready(result) => Poll::Ready(result.take().expect("an IoFuture is awaited once")),
            Self::Pending(pending) => pending.poll(context),
            Self::Joined(joined) => joined.poll(context),
        }
    }

    /// Fetches completions from the driver.
    fn reap(&self) {
        match self {
            Self::Ready(_) => {}
            Self::Pending(pending) => pending.reap(),
            Self::Joined(joined) => joined.parts.iter().for_each(|part| part.state.reap()),
        }
    }
}

/// Makes one result of the parts' results, in the order of the parts.
pub(crate) trait Join: FnOnce(Vec<IoResult>) -> IoResult + Send + Sync + 'static {}

impl<F: FnOnce(Vec<IoResult>) -> IoResult + Send + Sync + 'static> Join for F {}

/// One request made of several.
struct JoinedRequest {
    parts: VecDeque<IoFuture>,
    ended: Vec<IoResult>,
    join: Option<Box<dyn FnOnce(Vec<IoResult>) -> IoResult + Send + Sync>>,
}

impl JoinedRequest {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<IoResult> {
        // Poll only the first pending part, so that only it wakes the task: all parts are needed anyway, and one
        // wake-up is cheaper than many.
        while let Some(part) = self.parts.front_mut() {
            match Pin::new(part).poll(context) {
                Poll::Ready(result) => self.ended.push(result),
                Poll::Pending => return Poll::Pending,
            }
            self.parts.pop_front();
        }
        let join = self.join.take().expect("an IoFuture is awaited once");
        Poll::Ready(join(std::mem::take(&mut self.ended)))
    }
}

impl fmt::Debug for JoinedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl PendingRequest {
    fn reap(&self) {
        let slot = self.0.as_ref().map(|it| it.slot.lock().unwrap_or_else(PoisonError::into_inner));
        // Do not hold the lock during the reap.
        let driver = slot.and_then(|slot| slot.driver.clone());
        if let Some(driver) = driver {
            driver.reap();
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<IoResult> {
        let completion = self.0.as_ref().expect("only its drop takes it");
        let lock = || completion.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = lock();
        if slot.result.is_none()
            && is_inside_block_on()
            && let Some(driver) = slot.driver.clone()
        {
            // The request may have ended without its completion having been fetched. Threads outside `block_on` leave
            // that to the leader.
            drop(slot);
            driver.reap();
            slot = lock();
        }
        if let Some(result) = slot.result.take() {
            return Poll::Ready(result);
        }
        match &mut slot.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        slot.settle_care(true);
        Poll::Pending
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(completion) = self.0.take() else { return };
        let mut slot = completion.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = slot.waker.take();
        slot.settle_care(false);
        drop(slot);
        drop(waker);
        let_go(completion);
    }
}

impl Completer {
    /// Sets the driver that fetches the completion. Must be called before the request can be polled.
    pub(crate) fn driven_by(&self, driver: Arc<dyn Driver>) {
        if let Some(completion) = &self.0 {
            let mut slot = completion.slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.driver = Some(driver);
        }
    }

    /// Sets what moves time on until the request ends. Must be called before the request can be polled.
    pub fn advanced_by<A: Advance + 'static>(&self, advance: &Arc<A>) {
        self.driven_by(Arc::clone(advance) as Arc<dyn Driver>);
    }

    /// Ends the request and wakes the task that waits for it.
    pub fn complete(mut self, result: IoResult) {
        self.finish(result);
    }

    fn finish(&mut self, result: IoResult) {
        let Some(completion) = self.0.take() else { return };
        let mut slot = completion.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.result = Some(result);
        let waker = slot.waker.take();
        let (driver, care) = (slot.driver.take(), std::mem::take(&mut slot.care));
        drop(slot);
        let_go(completion);
        if let Some(driver) = driver {
            count_care(&*driver, care, false);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if self.0.is_some() {
            let error = Error::new(ErrorKind::Gone, "the device gave the request up");
            self.finish(Err(IoFailure::without_buffer(error)));
        }
    }
}

/// What the overseer has to know of a request that was sent to the device.
#[derive(Debug, Clone)]
pub(crate) struct WatchedRequest {
    pub(crate) verb: &'static str,
    pub(crate) range: Range<u64>,
    /// Whether the request changes the data in the range.
    pub(crate) changes: bool,
    /// How long the request may take.
    pub(crate) allowance: Duration,
}

/// Wakes waiting tasks whose deadline has passed, and keeps track of requests that were given up.
pub(crate) trait Overseer: Send + Sync {
    /// Registers a task that waits until `due`, by the overseer's clock, and wakes it then. Returns its number.
    fn wait(self: Arc<Self>, due: Duration, waker: &Waker) -> usize;

    /// Whether the waiting task's deadline has passed. If not, `waker` is woken when it passes.
    fn is_over(&self, number: usize, waker: &Waker) -> bool;

    /// Removes the waiting task.
    fn forget(&self, number: usize);

    /// The device has ended a request, so it is alive.
    fn answered(&self);

    /// The caller no longer waits for the request. Returns the error that the caller gets.
    fn give_up(self: Arc<Self>, request: &WatchedRequest, under_way: AbandonedFuture) -> Error;
}

/// The time by which a request must have ended.
pub(crate) struct Deadline {
    overseer: Arc<dyn Overseer>,
    request: WatchedRequest,
    due: Duration,
    /// Its number at the overseer, from the first poll that found the request pending.
    number: Option<usize>,
}

impl Deadline {
    /// A deadline for `request` at `due`, by the overseer's clock.
    pub(crate) fn new(overseer: Arc<dyn Overseer>, request: WatchedRequest, due: Duration) -> Self {
        Self { overseer, request, due, number: None }
    }

    /// Called while the request has not ended: ready once the deadline has passed. Before that, registers `context` to
    /// be woken then.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(number) = self.number else {
            let overseer = Arc::clone(&self.overseer);
            self.number = Some(overseer.wait(self.due, context.waker()));
            return Poll::Pending;
        };
        if self.overseer.is_over(number, context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The request has ended in time.
    pub(super) fn met(&self) {
        self.overseer.answered();
    }

    /// The caller no longer waits for the request. Returns the error that the caller gets.
    pub(super) fn give_up(&self, under_way: AbandonedFuture) -> Error {
        Arc::clone(&self.overseer).give_up(&self.request, under_way)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.overseer.forget(number);
        }
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("due", &self.due).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;

    #[test]
    fn a_completed_request_is_seen_by_wait_from_another_thread() {
        let (future, completer) = IoFuture::pending();
        let waiter = std::thread::spawn(move || future.wait().map(|b| b.len()));
        completer.complete(Ok(IoBuffer::zeroed(4096)));
        assert_eq!(waiter.join().unwrap().unwrap(), 4096);
    }

    #[test]
    fn a_request_given_up_fails_instead_of_hanging() {
        let (future, completer) = IoFuture::pending();
        drop(completer);
        assert_eq!(future.wait().unwrap_err().error.kind(), ErrorKind::Gone);
    }
}
