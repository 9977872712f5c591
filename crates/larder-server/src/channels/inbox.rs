//! The inbox of a client: messages that its worker has not sent yet.
//!
//! Its bytes are in the memory account of the tenant. A client that does not read is closed when its inbox is above a
//! limit: at once above the hard one, after a time above the soft one, and when the account has no room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::Kind;
use crate::account::KeptBytes;

/// About how many bytes a message takes in an inbox beside its texts.
const MESSAGE_BYTES: usize = 64;

/// A message, whose texts all inboxes share. Each inbox counts them, as if it had a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    /// The pattern that it was heard by, of a [`Kind::Pattern`].
    pub(crate) pattern: Option<Arc<[u8]>>,
    pub(crate) channel: Arc<[u8]>,
    pub(crate) payload: Arc<[u8]>,
}

impl Message {
    /// The name by which its subscriber asked for it.
    pub(crate) fn name(&self) -> &[u8] {
        self.pattern.as_deref().unwrap_or(&self.channel)
    }

    fn bytes(&self) -> usize {
        let pattern = self.pattern.as_ref().map_or(0, |it| it.len());
        pattern + self.channel.len() + self.payload.len() + MESSAGE_BYTES
    }
}

/// Keys whose values a client must not use any more, if it has copies of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalidated {
    /// `None`: all keys.
    pub(crate) keys: Option<Arc<[Box<[u8]>]>>,
    /// Another client has remembered them.
    pub(crate) is_redirected: bool,
}

/// What comes to a client without a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mail {
    /// Published on a channel.
    Message(Message),
    /// Keys that it tracks have changed.
    Invalidated(Invalidated),
    /// The client with this number of a connection, which was to get its invalidations, is gone.
    RedirectionBroken(u64),
}

impl Mail {
    fn bytes(&self) -> usize {
        let of_keys = |keys: &Arc<[Box<[u8]>]>| keys.iter().map(|key| key.len() + 16).sum();
        match self {
            Self::Message(message) => message.bytes(),
            Self::Invalidated(told) => told.keys.as_ref().map_or(0, of_keys) + MESSAGE_BYTES,
            Self::RedirectionBroken(_) => MESSAGE_BYTES,
        }
    }
}

/// Where a client gets its messages, once there can be any. It lives as long as its connection.
#[derive(Default)]
pub(crate) struct Post(OnceLock<Arc<Inbox>>);

impl Post {
    /// The inbox, if the client can get messages.
    pub(crate) fn inbox(&self) -> Option<&Arc<Inbox>> {
        self.0.get()
    }

    /// The inbox, which `make` makes for the first message.
    pub(crate) fn opens(&self, make: impl FnOnce() -> Inbox) -> &Arc<Inbox> {
        self.0.get_or_init(|| Arc::new(make()))
    }

    /// Puts mail into the inbox. Without one the client cannot get it: nothing is kept.
    pub(crate) fn put(&self, mail: Mail, limit: OutputLimit) {
        if let Some(inbox) = self.inbox() {
            inbox.put(mail, limit);
        }
    }
}

/// When a client that does not read its messages is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    /// More bytes close it at once; 0: no such limit.
    pub(crate) hard_bytes: usize,
    /// More bytes for longer than [`OutputLimit::soft_time`] close it; 0: no such limit.
    pub(crate) soft_bytes: usize,
    pub(crate) soft_time: Duration,
}

impl OutputLimit {
    /// A hard limit of `bytes`, and a quarter of it for a minute, as in Redis.
    pub(crate) fn of(bytes: usize) -> Self {
        let soft_time = Duration::from_secs(60);
        Self { hard_bytes: bytes, soft_bytes: bytes / 4, soft_time }
    }
}

/// The messages of one connection.
pub(crate) struct Inbox {
    /// The number of the connection.
    id: u64,
    state: Mutex<State>,
}

struct State {
    messages: VecDeque<Mail>,
    /// The bytes of `messages`.
    bytes: usize,
    kept: KeptBytes,
    /// Since when it is above the soft limit.
    soft_since: Option<Instant>,
    /// It was above a limit: its messages are gone, and the connection has to end.
    is_over: bool,
    waker: Option<Waker>,
}

impl Inbox {
    /// The inbox of a connection; its messages are counted in `kept`.
    pub(crate) fn new(id: u64, kept: KeptBytes) -> Self {
        let state = State {
            messages: VecDeque::new(),
            bytes: 0,
            kept,
            soft_since: None,
            is_over: false,
            waker: None,
        };
        Self { id, state: Mutex::new(state) }
    }

    /// The number of its connection.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message behind the others, and wakes the connection. `false`: the inbox is over its limit.
    pub(crate) fn put(&self, message: Mail, limit: OutputLimit) -> bool {
        let mut state = self.lock();
        if state.is_over {
            return false;
        }
        let wakes = state.messages.is_empty();
        let more = message.bytes();
        state.bytes += more;
        state.messages.push_back(message);
        if !state.kept.grow(more) {
            // What is not counted must not be given back.
            state.bytes -= more;
            state.ends();
        } else if state.is_above(limit, Instant::now()) {
            state.ends();
        }
        if (wakes || state.is_over)
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
        !state.is_over
    }

    /// The oldest message.
    pub(crate) fn take(&self) -> Option<Mail> {
        let mut state = self.lock();
        let message = state.messages.pop_front()?;
        let less = message.bytes();
        state.bytes -= less;
        state.kept.shrink(less);
        Some(message)
    }

    /// Its messages are counted in `kept` from now on: the client has another tenant. Those that are there are dropped.
    pub(crate) fn belongs_to(&self, kept: KeptBytes) {
        let mut state = self.lock();
        state.messages = VecDeque::new();
        (state.bytes, state.kept) = (0, kept);
    }

    /// Whether there is a message.
    pub(crate) fn has_messages(&self) -> bool {
        !self.lock().messages.is_empty()
    }

    /// Whether it was above its limit, so that the connection has to end.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Ready when there are messages, or when the connection has to end.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let is_ready = state.is_over || !state.messages.is_empty();
        state.waits(cx, is_ready)
    }

    /// Ready when the connection has to end, however busy it is.
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        let is_over = state.is_over;
        state.waits(cx, is_over)
    }
}

impl State {
    fn waits(&mut self, cx: &Context<'_>, is_ready: bool) -> Poll<()> {
        if is_ready {
            return Poll::Ready(());
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn is_above(&mut self, limit: OutputLimit, now: Instant) -> bool {
        let OutputLimit { hard_bytes, soft_bytes, soft_time } = limit;
        if hard_bytes > 0 && self.bytes > hard_bytes {
            return true;
        }
        if soft_bytes == 0 || self.bytes <= soft_bytes {
            self.soft_since = None;
            return false;
        }
        now.duration_since(*self.soft_since.get_or_insert(now)) > soft_time
    }

    /// Drops all messages.
    fn ends(&mut self) {
        self.is_over = true;
        self.messages = VecDeque::new();
        self.kept.shrink(std::mem::take(&mut self.bytes));
    }
}
