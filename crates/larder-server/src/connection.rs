//! A connection: bytes come, requests are answered in their order, and between them it owns next to nothing.

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use crate::answers::Answers;
use crate::caller::Caller;
use crate::protocol::{Protocol, Step};
use crate::within::within;
use crate::worker::{UnderWay, Worker};
use larder_device::sockets::{BUFFER_BYTES, Socket, yield_now};

/// Who does not take that the connection ends within so long is not told.
const FAREWELL: Duration = Duration::from_millis(200);

/// Serves a connection until one side ends it. It comes behind a pointer: a future has room twice for what it was
/// given, and most connections are idle.
pub(crate) async fn serve<S: Socket, P: Protocol>(mut connection: Box<Connection<S, P>>) {
    while connection.waits().await {
        // What a request needs, buffers and futures, is behind a pointer that an idle connection does not have.
        match Box::pin(connection.exchange()).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) | Err(_) => break,
        }
    }
    Box::pin(connection.closes()).await;
}

/// Who is served, by which protocol, over which socket.
pub(crate) struct Connection<S, P> {
    pub(crate) socket: S,
    pub(crate) protocol: P,
    pub(crate) caller: Caller,
}

impl<S: Socket, P: Protocol> Connection<S, P> {
    /// Waits for requests. `false`: there will be none.
    async fn waits(&mut self) -> bool {
        let Self { socket, caller, .. } = self;
        let goes_on = poll_fn(|cx| match socket.poll_readable(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if caller.is_over(cx) => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        })
        .await;
        caller.is_busy();
        goes_on
    }

    /// Says that it ends, where that is said.
    async fn closes(&mut self) {
        let Self { socket, caller, .. } = self;
        let closing = pin!(poll_fn(|cx| socket.poll_close(cx)));
        within(&*caller.worker.clock, FAREWELL, closing).await;
    }

    /// Answers what has come, until nothing is left of it.
    async fn exchange(&mut self) -> io::Result<ControlFlow<()>> {
        let worker = Rc::clone(&self.caller.worker);
        let mut input = Input { bytes: worker.buffers.take(), worker: &worker, counted: None };
        let mut answers = Answers::new(Rc::clone(&worker), &mut self.socket);
        loop {
            let received = input.receive(answers.socket()).await?;
            if received == 0 {
                return Ok(ControlFlow::Break(()));
            }
            worker.counters.bytes_read.add(received as u64);
            let mut at = 0;
            let needed = loop {
                answers.room().await;
                if self.caller.is_revoked() {
                    answers.send().await?;
                    return Ok(ControlFlow::Break(()));
                }
                let step =
                    self.protocol.step(&mut self.caller, &input.bytes[at..], &mut answers).await;
                match step {
                    Step::Done(bytes) => {
                        at += bytes;
                        assert!(bytes > 0 && at <= input.bytes.len(), "it goes on");
                        self.caller.pays(bytes + answers.take_sent());
                    }
                    Step::Again => answers.send().await?,
                    Step::Needs(bytes) => break bytes,
                    Step::Close => {
                        answers.send().await?;
                        return Ok(ControlFlow::Break(()));
                    }
                }
                if at == input.bytes.len() {
                    break 0;
                }
            };
            answers.send().await?;
            self.caller.pays(answers.take_sent());
            if at == input.bytes.len() {
                return Ok(ControlFlow::Continue(()));
            }
            input.keep_from(at, needed);
            // Who sends without end leaves the others their turns.
            yield_now().await;
        }
    }
}

/// What has come and is not answered.
struct Input<'a> {
    bytes: Vec<u8>,
    worker: &'a Worker,
    /// What of its capacity is under way: all but the buffer that each has.
    counted: Option<UnderWay>,
}

impl Input<'_> {
    /// Appends what has come. Whoever has sent a part of a request does not take for ever over the rest.
    async fn receive(&mut self, socket: &mut dyn Socket) -> io::Result<usize> {
        let bytes = &mut self.bytes;
        let receiving = poll_fn(|cx| socket.poll_receive(cx, bytes));
        match self.worker.shared.config.idle_timeout {
            None => receiving.await,
            Some(timeout) => {
                let received = within(&*self.worker.clock, timeout, pin!(receiving)).await;
                received.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Forgets what is before `at`, and makes room for the request behind it, of which so many bytes are known to be
    /// needed.
    fn keep_from(&mut self, at: usize, needed: usize) {
        self.bytes.drain(..at);
        let more = needed.saturating_sub(self.bytes.len()).max(1);
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve(more.max(BUFFER_BYTES));
            // The protocol has asked whether there is room (`Caller::has_room_for`); this is what it takes.
            self.counted = None;
            self.counted = Some(self.worker.under_way(self.bytes.capacity() - BUFFER_BYTES));
        }
        assert!(self.bytes.capacity() > self.bytes.len(), "what comes has somewhere to go");
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.worker.buffers.give(std::mem::take(&mut self.bytes));
    }
}
