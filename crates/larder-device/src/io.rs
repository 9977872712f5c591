//! Requests to a device: what they are, how they are checked, how they end.
//!
//! This is the one place where bounds, alignment and handles are checked. A backend sees only a
//! [`CheckedIo`].

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::buffer::IoBuffer;
use crate::device::DeviceInfo;
use crate::error::{Error, ErrorKind};
use crate::park::{Driver, block_on, is_inside_block_on, note};
use crate::placement::PlacementHandle;
use crate::spares::{Heap, Spares, sole};

/// A request. It owns its buffer; the completion gives it back.
#[derive(Debug)]
pub enum Io {
    /// Fill `buffer` from `offset` on.
    Read {
        /// Byte address on the device.
        offset: u64,
        /// Filled whole, or the request fails.
        buffer: IoBuffer,
    },
    /// Write all of `buffer` at `offset`.
    Write {
        /// Byte address on the device.
        offset: u64,
        /// The bytes.
        buffer: IoBuffer,
        /// Where they belong.
        handle: PlacementHandle,
    },
    /// Tell the device that a range is dead. What it reads as afterwards is unspecified.
    Deallocate {
        /// Byte address on the device.
        offset: u64,
        /// Length of the range.
        bytes: u64,
    },
    /// Make everything written so far durable.
    Flush,
}

/// A request whose bounds, alignment and handle fit its device. Only [`Io::check`] makes one.
#[derive(Debug)]
pub struct CheckedIo(Io);

/// How a request ended. Requests without bytes give back an empty buffer.
pub type IoResult = Result<IoBuffer, IoFailure>;

/// A request that failed, with the buffer that it owned.
#[derive(Debug)]
pub struct IoFailure {
    /// Why.
    pub error: Error,
    /// The request's buffer; for a failed read its content is unspecified.
    pub buffer: IoBuffer,
}

impl fmt::Display for IoFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for IoFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl Io {
    /// Verb, byte offset and length, for messages and checks.
    pub fn extent(&self) -> (&'static str, u64, u64) {
        match self {
            Self::Read { offset, buffer } => ("read", *offset, buffer.len() as u64),
            Self::Write { offset, buffer, .. } => ("write", *offset, buffer.len() as u64),
            Self::Deallocate { offset, bytes } => ("deallocate", *offset, *bytes),
            Self::Flush => ("flush", 0, 0),
        }
    }

    /// Takes the buffer out of the request.
    pub fn into_buffer(self) -> IoBuffer {
        match self {
            Self::Read { buffer, .. } | Self::Write { buffer, .. } => buffer,
            Self::Deallocate { .. } | Self::Flush => IoBuffer::empty(),
        }
    }

    /// Checks the request against what the device says of itself.
    pub fn check(self, info: &DeviceInfo) -> Result<CheckedIo, IoFailure> {
        match self.complaint(info) {
            None => Ok(CheckedIo(self)),
            Some(complaint) => {
                let (verb, offset, bytes) = self.extent();
                let context =
                    format!("{verb} of {bytes} bytes at {offset} on {}: {complaint}", info.name);
                let error = Error::new(ErrorKind::InvalidRequest, context);
                Err(IoFailure { error, buffer: self.into_buffer() })
            }
        }
    }

    fn complaint(&self, info: &DeviceInfo) -> Option<String> {
        if matches!(self, Self::Flush) {
            return None;
        }
        let (_, offset, bytes) = self.extent();
        let block = u64::from(info.block_bytes);
        if bytes == 0 {
            return Some("the length is zero".to_owned());
        }
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            return Some(format!("offset and length must be multiples of the {block}-byte block"));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > info.capacity_bytes) {
            return Some(format!(
                "the range ends beyond the capacity of {} bytes",
                info.capacity_bytes
            ));
        }
        match self {
            Self::Write { handle, .. } if handle.index() >= info.placement.handles => Some(
                format!("handle {handle} is not among the device's {}", info.placement.handles),
            ),
            _ => None,
        }
    }
}

impl CheckedIo {
    /// The request, to look at.
    pub fn get(&self) -> &Io {
        &self.0
    }

    /// The request, to carry out.
    pub fn into_inner(self) -> Io {
        self.0
    }

    /// Ends the request with `error`, giving its buffer back.
    pub fn fail(self, error: Error) -> IoFuture {
        IoFuture::ready(Err(IoFailure { error, buffer: self.0.into_buffer() }))
    }
}

/// A request under way. Any executor can poll it; a plain thread can [`IoFuture::wait`].
#[derive(Debug)]
pub struct IoFuture {
    state: State,
    /// The device that an error names in front of its message, if it would not do so by itself.
    of: Option<Arc<str>>,
}

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
        Self { state: State::Ready(Some(result)), of: None }
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
        (Self { state, of: None }, Completer(Some(fresh)))
    }

    /// A request that has ended when all `parts`, which are under way, have ended; `join` makes its
    /// result from theirs.
    pub(crate) fn joined(parts: Vec<Self>, join: impl Join) -> Self {
        let ended = Vec::with_capacity(parts.len());
        let joined = Joined { parts: parts.into(), ended, join: Some(Box::new(join)) };
        Self { state: State::Joined(Box::new(joined)), of: None }
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
        let polled = match &mut self.state {
            State::Ready(result) => {
                Poll::Ready(result.take().expect("an IoFuture is awaited once"))
            }
            State::Pending(pending) => pending.poll(context),
            State::Joined(joined) => joined.poll(context),
        };
        polled.map_err(|failure| match &self.of {
            Some(device) => IoFailure { error: failure.error.within(device), ..failure },
            None => failure,
        })
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
            self.finish(Err(IoFailure { error, buffer: IoBuffer::empty() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::PlacementInfo;

    fn info() -> DeviceInfo {
        DeviceInfo {
            name: "test".to_owned(),
            capacity_bytes: 1 << 20,
            block_bytes: 4096,
            max_transfer_bytes: 1 << 18,
            placement: PlacementInfo { handles: 2, ..PlacementInfo::none() },
        }
    }

    fn complaint(io: Io) -> String {
        io.check(&info()).expect_err("must be refused").error.to_string()
    }

    #[test]
    fn bad_requests_are_refused_with_the_reason() {
        let read = |offset, bytes| Io::Read { offset, buffer: IoBuffer::zeroed(bytes) };
        assert!(complaint(read(0, 0)).contains("length is zero"));
        assert!(complaint(read(512, 4096)).contains("4096-byte block"));
        assert!(complaint(read(0, 100)).contains("4096-byte block"));
        assert!(complaint(read(1 << 20, 4096)).contains("beyond the capacity"));
        assert!(complaint(read(u64::MAX - 4095, 4096)).contains("beyond the capacity"));
        let handle = PlacementHandle::new(2);
        let write = Io::Write { offset: 0, buffer: IoBuffer::zeroed(4096), handle };
        assert!(complaint(write).contains("handle 2 is not among"));
        assert!(read((1 << 20) - 4096, 4096).check(&info()).is_ok());
        assert!(Io::Flush.check(&info()).is_ok());
    }

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
