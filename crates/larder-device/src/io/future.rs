//! A request under way: the end that its owner waits at, and the end at which its backend completes it.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::deadline::Deadline;
use super::observed::Observed;
use super::outcome::{IoFailure, IoResult};
use crate::error::{Error, ErrorKind};
use crate::park::{Driver, block_on, is_inside_block_on, note};
use crate::spares::{Heap, Spares, sole};

/// A request under way. Any executor can poll it; a plain thread can [`IoFuture::wait`].
#[derive(Debug)]
pub struct IoFuture {
    state: State,
    /// The device that an error names in front of its message, if it would not do so by itself.
    of: Option<Arc<str>>,
    /// When nobody waits for it any longer, if that shall be.
    deadline: Option<Deadline>,
    /// Who is told how it ends, if somebody is.
    /// Behind a pointer: few requests are observed, and all are moved about.
    observed: Option<Box<Observed>>,
}

/// What is left of a request that nobody waits for any more.
#[derive(Debug)]
pub(crate) struct UnderWay(State);

#[derive(Debug)]
enum State {
    Ready(Option<IoResult>),
    Pending(Pending),
    Joined(Box<Joined>),
}

/// The caller's end of a pending request.
#[derive(Debug)]
struct Pending(Option<Arc<Completion>>);

static HEAP: Heap<Completion> = Heap::new();

thread_local! {
    /// Completions of requests that have ended, so that a request need not allocate one.
    static SPARE: Spares<Completion> = const { Spares::new(&HEAP) };
}

/// Lets go of an end of a request. The second to do so keeps its memory for another.
fn let_go(mut completion: Arc<Completion>) {
    if completion.let_go.swap(true, Ordering::AcqRel) {
        *sole(&mut completion) = Completion::default();
        let _ = SPARE.try_with(|spare| spare.keep(completion));
    }
}

/// The backend's end of a pending request. Dropped unused, it fails the request: nobody waits for
/// ever.
#[derive(Debug)]
pub struct Completer(Option<Arc<Completion>>);

#[derive(Default)]
struct Completion {
    slot: Mutex<Slot>,
    /// Called before a thread blocks on the request. See [`IoFuture::pending_until_waited`].
    before_wait: Option<Box<dyn Fn() + Send + Sync>>,
    /// Whether one of the two ends has been let go of.
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
    /// What fetches the completion, if somebody must; gone when the request has ended.
    driver: Option<Arc<dyn Driver>>,
    care: Care,
}

/// Who sees to it that the driver of a pending request runs.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Care {
    /// Nobody: nobody has asked for its end yet.
    #[default]
    Nobody,
    /// A thread inside [`block_on`].
    Noted,
    /// The driver itself.
    Adopted,
}

impl Slot {
    /// Sees to it that somebody runs the driver: this thread if `may_note` and it can.
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
        Care::Nobody => {}
        Care::Noted => driver.noted(more),
        Care::Adopted => driver.adopted(more),
    }
}

impl IoFuture {
    /// A request that has ended already.
    pub fn ready(result: IoResult) -> Self {
        Self::from_state(State::Ready(Some(result)))
    }

    /// A request under way, and the end with which the backend completes it.
    pub fn pending() -> (Self, Completer) {
        Self::from_completion(Completion::default())
    }

    /// As [`IoFuture::pending`]; `before_wait` runs before a thread blocks on the request. A
    /// backend that holds requests back until something else happens must let go of this one
    /// then: a blocked thread causes nothing else.
    pub(crate) fn pending_until_waited(
        before_wait: impl Fn() + Send + Sync + 'static,
    ) -> (Self, Completer) {
        let before_wait: Box<dyn Fn() + Send + Sync> = Box::new(before_wait);
        Self::from_completion(Completion { before_wait: Some(before_wait), ..Default::default() })
    }

    fn from_completion(completion: Completion) -> (Self, Completer) {
        let mut fresh = SPARE.try_with(Spares::take).unwrap_or_default();
        *Arc::get_mut(&mut fresh).expect("a spare one is nobody's") = completion;
        let state = State::Pending(Pending(Some(Arc::clone(&fresh))));
        (Self::from_state(state), Completer(Some(fresh)))
    }

    /// A request that has ended when all `parts`, which are under way, have ended; `join` makes its
    /// result from theirs.
    pub(crate) fn joined(parts: Vec<Self>, join: impl Join) -> Self {
        let ended = Vec::with_capacity(parts.len());
        let joined = Joined { parts: parts.into(), ended, join: Some(Box::new(join)) };
        Self::from_state(State::Joined(Box::new(joined)))
    }

    fn from_state(state: State) -> Self {
        Self { state, of: None, deadline: None, observed: None }
    }

    /// Whether nobody has to wait for it.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// The same request, which fails when `deadline` has passed. The first one that is set counts.
    pub(crate) fn within(mut self, deadline: Deadline) -> Self {
        self.deadline.get_or_insert(deadline);
        self
    }

    /// The same request, whose end is told.
    pub(crate) fn observed(mut self, mut observed: Observed) -> Self {
        debug_assert!(self.observed.is_none(), "nobody below observes it");
        if let State::Ready(Some(result)) = &self.state {
            observed.ended(result);
        } else {
            self.observed = Some(Box::new(observed));
        }
        self
    }

    /// The same request; an error will name `device` in front of its message.
    pub(crate) fn of(mut self, device: &Arc<str>) -> Self {
        self.of = Some(Arc::clone(device));
        self
    }

    /// Lets go of what is held back until a thread blocks on it.
    fn before_wait(&self) {
        match &self.state {
            State::Ready(_) => {}
            State::Pending(pending) => {
                let completion = pending.0.as_ref();
                if let Some(before_wait) = completion.and_then(|it| it.before_wait.as_ref()) {
                    before_wait();
                }
            }
            State::Joined(joined) => joined.parts.iter().for_each(Self::before_wait),
        }
    }

    /// Blocks the thread until the request has ended. Where the device lets it, the thread fetches
    /// the completion itself ([`block_on`]).
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
        // It may have, without anyone's having looked: the process may have stood still.
        self.state.reap();
        let last = self.state.poll(context);
        let Some(deadline) = self.deadline.as_ref().filter(|_| last.is_pending()) else {
            return last;
        };
        let under_way = std::mem::replace(&mut self.state, State::Ready(None));
        let error = deadline.give_up(UnderWay(under_way));
        Poll::Ready(Err(IoFailure::without_buffer(error)))
    }
}

impl UnderWay {
    /// Says whether the request has ended; if not, `waker` is told when it has.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        self.0.poll(&mut Context::from_waker(waker)).map(drop)
    }
}

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<IoResult> {
        match self {
            Self::Ready(result) => Poll::Ready(result.take().expect("an IoFuture is awaited once")),
            Self::Pending(pending) => pending.poll(context),
            Self::Joined(joined) => joined.poll(context),
        }
    }

    /// Fetches what has ended below.
    fn reap(&self) {
        match self {
            Self::Ready(_) => {}
            Self::Pending(pending) => pending.reap(),
            Self::Joined(joined) => joined.parts.iter().for_each(|part| part.state.reap()),
        }
    }
}

/// Makes one result of those of the parts, in their order.
pub(crate) trait Join: FnOnce(Vec<IoResult>) -> IoResult + Send + Sync + 'static {}

impl<F: FnOnce(Vec<IoResult>) -> IoResult + Send + Sync + 'static> Join for F {}

/// Parts of one request.
struct Joined {
    parts: VecDeque<IoFuture>,
    ended: Vec<IoResult>,
    join: Option<Box<dyn FnOnce(Vec<IoResult>) -> IoResult + Send + Sync>>,
}

impl Joined {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<IoResult> {
        // Only the first one is asked to wake the task: it takes all of them anyway, and one
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

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Pending {
    fn reap(&self) {
        let slot = self.0.as_ref().map(|it| it.slot.lock().unwrap_or_else(PoisonError::into_inner));
        // The lock is not held meanwhile.
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
            // It may have ended without anyone's having looked. Others leave that to who leads.
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

impl Drop for Pending {
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
    /// Names what fetches the completion. Called before anyone can poll the request.
    pub(crate) fn driven_by(&self, driver: Arc<dyn Driver>) {
        if let Some(completion) = &self.0 {
            let mut slot = completion.slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.driver = Some(driver);
        }
    }

    /// Ends the request and wakes whoever waits for it.
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
