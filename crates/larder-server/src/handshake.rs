//! TLS handshakes. A client that does not finish one in time, or fails it, is closed before any request.
//!
//! The computation takes up to a millisecond. Each worker computes one handshake at a time, and its other tasks run
//! before the next one: even if many clients connect at once, no task waits for more than one handshake.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use larder_device::sockets::{Socket, yield_now};
use larder_tls::{Tls, TlsError, TlsSocket};

use crate::caller::Caller;
use crate::within::within;

/// Longest handshake, even if connections may be idle for ever.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long we try to send the close notification.
const FAREWELL: Duration = Duration::from_millis(200);

/// Why the handshake failed.
enum Failure {
    /// The server ends, the client has taken too long, or the client has gone.
    Over(&'static str),
    Socket(io::Error),
    Tls(TlsError),
    /// The certificate names no user, and no user has a password.
    UnknownUser,
}

/// Makes a handshake, and logs in the user that the client's certificate names. Returns `None` if it failed; the
/// failure is counted.
pub(crate) async fn accept<S: Socket>(
    socket: S,
    tls: &Tls,
    caller: &mut Caller,
) -> Option<TlsSocket<S>> {
    let worker = Rc::clone(&caller.worker);
    let time = worker.shared.config.idle_timeout.unwrap_or(PATIENCE).min(PATIENCE);
    let failure = match TlsSocket::new(socket, tls, Rc::clone(&worker.buffers)) {
        Err(error) => Failure::Tls(error),
        Ok(mut socket) => {
            let done = within(&*worker.clock, time, pin!(shake(&mut socket, caller))).await;
            caller.is_busy();
            match done.unwrap_or(Err(Failure::Over("it took too long"))) {
                Ok(()) => {
                    worker.counters.tls_handshakes.add(1);
                    return Some(socket);
                }
                Err(failure) => {
                    // A client that does not speak TLS would not understand the notification.
                    if !socket.is_no_tls() {
                        let farewell = pin!(poll_fn(|cx| socket.poll_close(cx)));
                        within(&*worker.clock, FAREWELL, farewell).await;
                    }
                    failure
                }
            }
        }
    };
    worker.counters.tls_failures.add(1);
    tracing::debug!(peer = %caller.peer, ?failure, "a TLS handshake failed");
    None
}

async fn shake<S: Socket>(socket: &mut TlsSocket<S>, caller: &mut Caller) -> Result<(), Failure> {
    let worker = Rc::clone(&caller.worker);
    while socket.is_handshaking() {
        let received = poll_fn(|cx| match socket.poll_incoming(cx) {
            Poll::Ready(received) => Poll::Ready(received.map_err(Failure::Socket)),
            Poll::Pending if caller.is_evicted(cx) => {
                Poll::Ready(Err(Failure::Over("others need the memory")))
            }
            Poll::Pending if caller.is_over(None, false, cx) => {
                Poll::Ready(Err(Failure::Over("the server ends, or waits no longer")))
            }
            Poll::Pending => Poll::Pending,
        })
        .await?;
        if received == 0 {
            return Err(Failure::Over("the client has gone"));
        }
        let turn = worker.handshake_turn.lock().await;
        let processed = socket.process();
        yield_now().await;
        drop(turn);
        processed.map_err(Failure::Tls)?;
        caller.holds_nothing();
        if !caller.may_hold(0, 0, socket.held_bytes()) {
            return Err(Failure::Over("there is no memory for it"));
        }
        poll_fn(|cx| socket.poll_flush(cx)).await.map_err(Failure::Socket)?;
    }
    caller.holds_nothing();
    let name = socket.client_name();
    if caller.comes_with_certificate(name.as_deref()) { Ok(()) } else { Err(Failure::UnknownUser) }
}

/// For the log. Text from the client is escaped as in Rust's debug format.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(why) => f.write_str(why),
            Self::Socket(error) => write!(f, "{:?}", error.kind()),
            Self::Tls(error) => write!(f, "{error:?}"),
            Self::UnknownUser => f.write_str("the client's certificate names no user"),
        }
    }
}
