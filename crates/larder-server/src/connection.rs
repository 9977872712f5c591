//! A connection: receives bytes and answers requests in order. Between requests it owns next to no memory.
//!
//! An incomplete request below [`BUFFER_BYTES`] waits in memory of its own length; a longer one in a buffer that grows
//! as bytes come, whatever length was announced. Both are counted ([`Caller::may_hold`]).

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::answers::{Answers, SENT_AT};
use crate::caller::{Caller, bytes_to_hold};
use crate::protocol::{Protocol, Step};
use crate::watchers::CloseReason;
use larder_net::sockets::{BUFFER_BYTES, Buffers, Output, Socket, yield_now};
use larder_net::within;

/// How long we try to send the close notification.
const FAREWELL: Duration = Duration::from_millis(200);
/// First pause before a connection is read again when the account is full.
const FULL_PAUSE: Duration = Duration::from_millis(5);
/// The pause doubles up to this, so that many waiting connections do not keep the worker busy with polling.
const FULL_PAUSE_MAX: Duration = Duration::from_millis(160);
/// An incomplete request gets one more second for each 64 KiB that have come.
const BYTES_A_SECOND: usize = 64 << 10;

/// Serves a connection until one side ends it. The connection is boxed: a future reserves room twice for its arguments,
/// and most connections are idle.
pub(crate) async fn serve<S: Socket, P: Protocol>(mut connection: Box<Connection<S, P>>) {
    loop {
        let begun = match connection.waits().await {
            Awaited::End => break,
            Awaited::Readable => None,
            Awaited::Begun(begun) => Some(begun),
        };
        // The buffers and futures that a request needs are boxed, so that an idle connection does not have them.
        match Box::pin(connection.exchange_counted(begun)).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(_) => {
                connection.caller.closes_for(CloseReason::Error);
                break;
            }
        }
    }
    Box::pin(connection.closes()).await;
}

/// A socket, its protocol, and its client.
pub(crate) struct Connection<S, P> {
    socket: S,
    protocol: P,
    caller: Caller,
    rest: Rest,
}

/// What ends the wait of a connection.
enum Awaited {
    /// The connection must end.
    End,
    /// There are requests, or there is more of one.
    Readable,
    /// Requests have come, and the first of them may be answered.
    Begun(Begun),
}

/// Requests of which the first were answered without a future.
struct Begun {
    input: Vec<u8>,
    /// Bytes of the input that are answered.
    at: usize,
    /// Answers that are not sent yet.
    output: Output,
}

impl Begun {
    fn into_input(self, buffers: &Buffers) -> (Input<'_>, usize, Output) {
        (Input { bytes: self.input, buffers }, self.at, self.output)
    }
}

/// What came of an attempt to answer without a future.
enum AtOnce {
    /// All that has come is answered.
    All,
    /// The rest needs a future.
    Rest(Begun),
    /// It was not tried, and nothing was received.
    Untried,
    /// Nothing has come.
    Waits,
    /// The connection has ended.
    End,
}

/// What has come of an incomplete request.
#[derive(Default)]
struct Rest {
    bytes: Vec<u8>,
    /// When its first byte came.
    since: Option<Instant>,
}

impl Rest {
    /// How long the rest may still take; `None`: no limit.
    fn time_left(&self, timeout: Option<Duration>) -> Option<Duration> {
        let (timeout, since) = (timeout?, self.since?);
        let more = Duration::from_secs((self.bytes.len() / BYTES_A_SECOND) as u64);
        Some((timeout + more).saturating_sub(since.elapsed()))
    }
}

impl<S: Socket, P: Protocol> Connection<S, P> {
    pub(crate) fn new(socket: S, protocol: P, caller: Caller) -> Self {
        Self { socket, protocol, caller, rest: Rest::default() }
    }

    /// Waits for requests, or for more of one. Requests that read what DRAM has are answered within the wait: they need
    /// no future of their own.
    async fn waits(&mut self) -> Awaited {
        let Self { socket, protocol, caller, rest } = self;
        let config = &caller.worker.shared.config;
        let idle_timeout = config.idle_timeout.filter(|_| !protocol.waits_for_messages());
        // What has come behind a request that waits is not begun.
        let request_timeout = config.request_timeout.filter(|_| !protocol.is_waiting());
        let limits = [idle_timeout, rest.time_left(request_timeout)];
        let limit = limits.into_iter().flatten().min();
        let is_amid = rest.since.is_some();
        let awaited = poll_fn(|cx| {
            if socket.poll_readable(cx).is_ready() {
                let at_once = match is_amid || !rest.bytes.is_empty() {
                    true => AtOnce::Untried,
                    false => answer_at_once(socket, protocol, caller, cx),
                };
                match at_once {
                    AtOnce::End => return Poll::Ready(Awaited::End),
                    AtOnce::Untried => return Poll::Ready(Awaited::Readable),
                    AtOnce::Rest(begun) => return Poll::Ready(Awaited::Begun(begun)),
                    AtOnce::Waits => {}
                    AtOnce::All => {
                        caller.waits_anew(limit);
                        if socket.poll_readable(cx).is_ready() {
                            // A client that sends without pause must let the other connections have their turns.
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
            }
            let has_messages = protocol.inbox().is_some_and(|it| it.poll(cx).is_ready());
            let is_due = protocol.poll_waiting(cx).is_ready();
            if has_messages || is_due || caller.is_evicted(cx) {
                return Poll::Ready(Awaited::Readable);
            }
            match caller.is_over(limit, is_amid, cx) {
                true => Poll::Ready(Awaited::End),
                false => Poll::Pending,
            }
        })
        .await;
        caller.is_busy();
        awaited
    }

    /// Sends the close notification, if the socket has one.
    async fn closes(&mut self) {
        let Self { socket, protocol, caller, .. } = self;
        protocol.ends().await;
        let closing = pin!(poll_fn(|cx| socket.poll_close(cx)));
        within(&*caller.worker.clock, FAREWELL, closing).await;
    }

    /// Answers what has come, once the account has memory for it. A request that waits is counted.
    async fn exchange_counted(&mut self, begun: Option<Begun>) -> io::Result<ControlFlow<()>> {
        let (worker, holder) = (Rc::clone(&self.caller.worker), self.caller.holder());
        let account = &worker.shared.account;
        let mut pause = FULL_PAUSE;
        // A request that has come in part may go on, since that frees its memory: even if all that comes is the end of
        // the connection.
        while !self.caller.holds() && !account.may_begin(holder) {
            if self.socket.is_broken() {
                return Ok(ControlFlow::Break(()));
            }
            worker.counters.waited_for_memory.add(1);
            worker.pause(pause).await;
            pause = (2 * pause).min(FULL_PAUSE_MAX);
        }
        let inbox = self.protocol.inbox().map(Arc::clone);
        let mut exchange = pin!(self.exchange(begun));
        let first = poll_fn(|cx| Poll::Ready(exchange.as_mut().poll(cx))).await;
        match first {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                let _busy = account.is_busy(holder);
                // A client that does not read its messages is closed amid an answer that it does not read either.
                let is_over = |cx: &Context<'_>| {
                    inbox.as_ref().is_some_and(|inbox| inbox.poll_over(cx).is_ready())
                };
                poll_fn(|cx| match exchange.as_mut().poll(cx) {
                    Poll::Pending if is_over(cx) => {
                        worker.counters.closed_slow.add(1);
                        Poll::Ready(Ok(ControlFlow::Break(())))
                    }
                    ended => ended,
                })
                .await
            }
        }
    }

    /// Answers all complete requests; `begun` are those that have come already.
    async fn exchange(&mut self, begun: Option<Begun>) -> io::Result<ControlFlow<()>> {
        let Self { socket, protocol, caller, rest } = self;
        let worker = Rc::clone(&caller.worker);
        let mut has_come = begun.is_some();
        let (mut input, mut at, output) = match begun {
            Some(begun) => begun.into_input(&worker.buffers),
            None => {
                caller.work.begins_anew();
                let output = Output::with_buffer(worker.buffers.take());
                (Input::begin(&worker.buffers, std::mem::take(&mut rest.bytes)), 0, output)
            }
        };
        let mut answers = Answers::new(Rc::clone(&worker), caller.holder(), (socket, output));
        if has_come {
            caller.rests().await;
        }
        loop {
            let was_waiting = protocol.is_waiting();
            if hear(protocol, caller, &mut answers).await? {
                answers.send().await?;
            }
            if was_waiting && !protocol.is_waiting() && !input.bytes.is_empty() {
                // The requests behind the one that waited may begin, and the last of them has its whole time.
                (has_come, rest.since) = (true, None);
            }
            // The next request of what has come was not answered at once. A request that was evicted is refused with
            // the bytes that are there.
            let tries_at_once = !std::mem::take(&mut has_come);
            if tries_at_once
                && !caller.was_evicted()
                && let ControlFlow::Break(ended) = receive(&mut input, &mut answers, caller).await?
            {
                if ended.is_continue() {
                    rest.bytes = input.into_rest();
                }
                return Ok(ended);
            }
            let came = (&input.bytes[..], &mut at);
            let step = answer_all(protocol, caller, came, &mut answers, tries_at_once).await?;
            let ControlFlow::Continue(needed) = step else { return Ok(ControlFlow::Break(())) };
            answers.send().await?;
            answers.belongs_to(caller.holder());
            caller.pays(answers.take_sent());
            if at == input.bytes.len() {
                rest.since = None;
                return Ok(ControlFlow::Continue(()));
            }
            if at > 0 || rest.since.is_none() {
                rest.since = Some(Instant::now());
            }
            // Most protocols have asked already, and refuse with an error of their own what does not fit.
            if !caller.may_hold(input.bytes.len() - at, needed, 0) {
                worker.counters.refused_busy.add(1);
                return Ok(ControlFlow::Break(()));
            }
            input.keep_from(at, needed);
            at = 0;
            caller.work.begins_anew();
            // A client that sends without pause must let the other connections have their turns.
            yield_now().await;
        }
    }
}

/// Answers with the messages that have come. Returns whether there were any. An error: the client did not read them in
/// time.
async fn hear<P: Protocol>(
    protocol: &mut P,
    caller: &mut Caller,
    answers: &mut Answers<'_>,
) -> io::Result<bool> {
    let inbox = protocol.inbox();
    if inbox.is_some_and(|inbox| inbox.is_over()) {
        caller.worker.counters.closed_slow.add(1);
        return Err(io::Error::other("the client does not read its messages"));
    }
    if !protocol.is_waiting() && !inbox.is_some_and(|inbox| inbox.has_messages()) {
        return Ok(false);
    }
    Box::pin(protocol.messages(caller, answers)).await;
    Ok(true)
}

/// Appends to `input` what has come. `Break`: nothing has, or the connection must end.
async fn receive(
    input: &mut Input<'_>,
    answers: &mut Answers<'_>,
    caller: &Caller,
) -> io::Result<ControlFlow<ControlFlow<()>>> {
    let counters = &caller.worker.counters;
    match input.receive(answers.socket()).await? {
        None => {
            let beside = answers.socket().held_bytes();
            if beside > 0 && !caller.may_hold(input.bytes.len(), 0, beside) {
                counters.refused_busy.add(1);
                return Ok(ControlFlow::Break(ControlFlow::Break(())));
            }
            Ok(ControlFlow::Break(ControlFlow::Continue(())))
        }
        Some(0) => Ok(ControlFlow::Break(ControlFlow::Break(()))),
        Some(received) => {
            counters.bytes_read.add(received as u64);
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// Answers the complete requests of `input` from `at` on, and moves `at` behind them. Returns the bytes that the rest
/// needs. `Break`: the connection must end.
async fn answer_all<P: Protocol>(
    protocol: &mut P,
    caller: &mut Caller,
    (input, at): (&[u8], &mut usize),
    answers: &mut Answers<'_>,
    mut tries_at_once: bool,
) -> io::Result<ControlFlow<(), usize>> {
    while *at < input.len() {
        answers.room().await;
        answers.check_open()?;
        let tries = std::mem::replace(&mut tries_at_once, true);
        match step(protocol, caller, &input[*at..], answers, tries).await {
            Step::Done(bytes) => {
                *at += bytes;
                assert!(bytes > 0 && *at <= input.len(), "it goes on");
                caller.holds_nothing();
                caller.pays(bytes + answers.take_sent());
                caller.work.does(1);
                caller.work.does_bytes(bytes);
                caller.rests().await;
                hear(protocol, caller, answers).await?;
            }
            Step::Again => answers.send().await?,
            Step::Needs(bytes) => return Ok(ControlFlow::Continue(bytes)),
            Step::Close => {
                answers.send().await?;
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(0))
}

/// Lets the protocol answer `input`; first without a future, if `tries_at_once`. A connection whose user was revoked
/// ends.
async fn step<P: Protocol>(
    protocol: &mut P,
    caller: &mut Caller,
    input: &[u8],
    answers: &mut Answers<'_>,
    tries_at_once: bool,
) -> Step {
    if caller.is_revoked() {
        return Step::Close;
    }
    if tries_at_once && let Some(out) = answers.bytes_behind_all() {
        let bytes = protocol.at_once(caller, input, out);
        if bytes > 0 {
            return Step::Done(bytes);
        }
    }
    protocol.step(caller, input, answers).await
}

/// Receives what has come, and answers the requests that read what DRAM has.
fn answer_at_once<S: Socket, P: Protocol>(
    socket: &mut S,
    protocol: &mut P,
    caller: &mut Caller,
    cx: &mut Context<'_>,
) -> AtOnce {
    let worker = Rc::clone(&caller.worker);
    if caller.holds() || !worker.shared.account.has_plenty() || socket.is_broken() {
        return AtOnce::Untried;
    }
    let mut input = worker.buffers.take();
    let ended = match socket.poll_receive(cx, &mut input) {
        Poll::Ready(Ok(received)) if received > 0 => {
            worker.counters.bytes_read.add(received as u64);
            None
        }
        Poll::Ready(received) => {
            if received.is_err() {
                caller.closes_for(CloseReason::Error);
            }
            Some(AtOnce::End)
        }
        Poll::Pending if socket.held_bytes() > 0 => Some(AtOnce::Untried),
        Poll::Pending => Some(AtOnce::Waits),
    };
    if let Some(ended) = ended {
        worker.buffers.give(input);
        return ended;
    }
    let mut output = Output::with_buffer(worker.buffers.take());
    let at = answer_input(protocol, caller, &input, output.buffer());
    if at < input.len() {
        return AtOnce::Rest(Begun { input, at, output });
    }
    let before = output.len();
    let sent = socket.poll_send(cx, &mut output);
    let bytes = before - output.len();
    worker.counters.bytes_written.add(bytes as u64);
    caller.pays(bytes);
    if sent.is_pending() {
        return AtOnce::Rest(Begun { input, at, output });
    }
    worker.buffers.give(input);
    worker.buffers.give(output.into_buffer());
    if matches!(sent, Poll::Ready(Ok(()))) { AtOnce::All } else { AtOnce::End }
}

/// Answers the first requests of `input` until one needs a future, or until other connections must have their turns.
/// Returns the number of bytes that are answered.
fn answer_input<P: Protocol>(
    protocol: &mut P,
    caller: &mut Caller,
    input: &[u8],
    out: &mut Vec<u8>,
) -> usize {
    caller.work.begins_anew();
    let mut at = 0;
    while at < input.len() && out.len() < SENT_AT && !caller.is_revoked() {
        let bytes = protocol.at_once(caller, &input[at..], out);
        if bytes == 0 {
            break;
        }
        at += bytes;
        assert!(at <= input.len(), "it answers what there is");
        caller.pays(bytes);
        caller.work.does(1);
        caller.work.does_bytes(bytes);
        if caller.work.is_time() {
            break;
        }
    }
    at
}

/// Bytes that have come and are not answered yet.
struct Input<'a> {
    bytes: Vec<u8>,
    buffers: &'a Buffers,
}

impl<'a> Input<'a> {
    /// Continues with the bytes that came earlier.
    fn begin(buffers: &'a Buffers, rest: Vec<u8>) -> Self {
        if rest.capacity() > rest.len().max(BUFFER_BYTES) {
            return Self { bytes: rest, buffers };
        }
        let mut bytes = buffers.take();
        bytes.extend_from_slice(&rest);
        Self { bytes, buffers }
    }

    /// Appends what has come; `None` if nothing has.
    async fn receive(&mut self, socket: &mut dyn Socket) -> io::Result<Option<usize>> {
        let bytes = &mut self.bytes;
        match poll_fn(|cx| Poll::Ready(socket.poll_receive(cx, bytes))).await {
            Poll::Ready(received) => received.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Drops the bytes before `at`, and makes room for more of the request behind it.
    fn keep_from(&mut self, at: usize, needed: usize) {
        self.bytes.drain(..at);
        let there = self.bytes.len();
        let holds = bytes_to_hold(there, needed);
        if there >= BUFFER_BYTES && self.bytes.capacity() - there < BUFFER_BYTES / 4 {
            self.bytes.reserve_exact(holds - there);
        } else if self.bytes.capacity() > holds.max(2 * BUFFER_BYTES) {
            // The previous request was longer.
            self.bytes.shrink_to(holds.max(BUFFER_BYTES));
        }
        assert!(self.bytes.capacity() > self.bytes.len(), "what comes has somewhere to go");
    }

    /// The bytes that wait for more; if they are short, in an allocation of their length.
    fn into_rest(mut self) -> Vec<u8> {
        if self.bytes.len() < BUFFER_BYTES {
            self.bytes.clone()
        } else {
            std::mem::take(&mut self.bytes)
        }
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.buffers.give(std::mem::take(&mut self.bytes));
    }
}
