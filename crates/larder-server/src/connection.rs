//! A connection: bytes come, requests are answered in their order, and between them it owns next to nothing.

use std::future::poll_fn;
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::Poll;

use crate::answers::Answers;
use crate::net::Socket;
use crate::protocol::{Protocol, Step};
use crate::session::Session;
use crate::worker::{BUFFER_BYTES, Worker};

/// Serves a connection until one side ends it.
pub(crate) async fn serve<S: Socket, P: Protocol>(socket: S, protocol: P, session: Session) {
    let mut connection = Connection { socket, protocol, session };
    loop {
        if !connection.waits().await {
            return;
        }
        // What a request needs, buffers and futures, is behind a pointer that an idle connection does not have.
        match Box::pin(connection.exchange()).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) | Err(_) => return,
        }
    }
}

struct Connection<S, P> {
    socket: S,
    protocol: P,
    session: Session,
}

impl<S: Socket, P: Protocol> Connection<S, P> {
    /// Waits for requests. `false`: there will be none.
    async fn waits(&mut self) -> bool {
        let Self { socket, session, .. } = self;
        poll_fn(|cx| match socket.poll_readable(cx) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if session.is_over(cx) => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Answers what has come, until nothing is left of it.
    async fn exchange(&mut self) -> io::Result<ControlFlow<()>> {
        let worker = Rc::clone(&self.session.worker);
        let mut input = Input { bytes: worker.buffers.take(), worker: &worker, counted: 0 };
        let mut answers = Answers::new(Rc::clone(&worker));
        loop {
            let socket = &mut self.socket;
            if poll_fn(|cx| socket.poll_receive(cx, &mut input.bytes)).await? == 0 {
                return Ok(ControlFlow::Break(()));
            }
            let mut at = 0;
            let needed = loop {
                if answers.is_full() {
                    answers.send(&mut self.socket).await?;
                }
                let step =
                    self.protocol.step(&mut self.session, &input.bytes[at..], &mut answers).await;
                match step {
                    Step::Done(bytes) => {
                        at += bytes;
                        debug_assert!(bytes > 0 && at <= input.bytes.len(), "it goes on");
                    }
                    Step::Again => answers.send(&mut self.socket).await?,
                    Step::Needs(bytes) => break bytes,
                    Step::Close => {
                        answers.send(&mut self.socket).await?;
                        return Ok(ControlFlow::Break(()));
                    }
                }
                if at == input.bytes.len() {
                    break 0;
                }
            };
            answers.send(&mut self.socket).await?;
            if at == input.bytes.len() {
                return Ok(ControlFlow::Continue(()));
            }
            input.keep_from(at, needed);
        }
    }
}

/// What has come and is not answered.
struct Input<'a> {
    bytes: Vec<u8>,
    worker: &'a Worker,
    /// What of its capacity counts among the bytes under way: all but the buffer that each has.
    counted: usize,
}

impl Input<'_> {
    /// Forgets what is before `at`, and makes room for the request behind it, of which so many bytes are known to be
    /// needed.
    fn keep_from(&mut self, at: usize, needed: usize) {
        self.bytes.drain(..at);
        let more = needed.saturating_sub(self.bytes.len()).max(1);
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes.reserve(more.max(BUFFER_BYTES));
            self.count(self.bytes.capacity().saturating_sub(BUFFER_BYTES));
        }
    }

    fn count(&mut self, bytes: usize) {
        let under_way = &self.worker.under_way_bytes;
        under_way.set(under_way.get() - self.counted + bytes);
        self.counted = bytes;
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        self.count(0);
        self.worker.buffers.give(std::mem::take(&mut self.bytes));
    }
}
