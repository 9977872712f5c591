//! TLS handshakes. A client that does not finish one in time, or fails it, is not served.
//!
//! The computation takes up to a millisecond. A thread computes one handshake at a time, and its other tasks run before
//! the next one: even if many clients connect at once, no task waits for more than one handshake.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use larder_device::Clock;

use crate::sockets::{Buffers, Socket, yield_now};
use crate::tls::{Tls, TlsError, TlsSocket};
use crate::within::within;

/// Longest handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long we try to send the close notification.
const FAREWELL: Duration = Duration::from_millis(200);

/// The turn of a thread's handshakes: the one that computes holds it.
#[derive(Debug, Default)]
pub struct HandshakeTurn(async_lock::Mutex<()>);

/// What a server knows of a client that makes a handshake. All calls may be left as they are.
pub trait Handshaking {
    /// Whether to give up on a client that sends nothing, and why. It is called again when the task is woken.
    fn poll_over(&mut self, _cx: &mut Context<'_>) -> Option<&'static str> {
        None
    }

    /// Whether the client may hold this number of bytes in its socket.
    fn may_hold(&mut self, _bytes: usize) -> bool {
        true
    }

    /// Whether the client may come in, with the name in its certificate if it has one; otherwise why not.
    ///
    /// # Errors
    /// The reason for which it is refused.
    fn admit(&mut self, _name: Option<&str>) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A server that knows nothing of its clients.
impl Handshaking for () {}

/// Why a handshake failed.
pub enum HandshakeFailure {
    /// The server gives up, or the client has gone or is refused, with the reason.
    Over(&'static str),
    /// The connection failed.
    Socket(io::Error),
    /// The client made a mistake.
    Tls(TlsError),
}

/// For the log. Text from the client is escaped as in Rust's debug format.
impl fmt::Debug for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(why) => f.write_str(why),
            Self::Socket(error) => write!(f, "{:?}", error.kind()),
            Self::Tls(error) => write!(f, "{error:?}"),
        }
    }
}

/// Makes a handshake within `time`, or 10 s if that is `None` or longer. A client that speaks TLS is told if it failed.
///
/// # Errors
/// The reason for which the client must not be served.
pub async fn accept_tls<S: Socket>(
    socket: S,
    (tls, buffers): (&Tls, Rc<Buffers>),
    turn: &HandshakeTurn,
    (clock, time): (&dyn Clock, Option<Duration>),
    client: &mut impl Handshaking,
) -> Result<TlsSocket<S>, HandshakeFailure> {
    let mut socket = TlsSocket::new(socket, tls, buffers).map_err(HandshakeFailure::Tls)?;
    let time = time.unwrap_or(PATIENCE).min(PATIENCE);
    let done = within(clock, time, pin!(shake(&mut socket, turn, client))).await;
    match done.unwrap_or(Err(HandshakeFailure::Over("it took too long"))) {
        Ok(()) => Ok(socket),
        Err(failure) => {
            // A client that does not speak TLS would not understand the notification.
            if !socket.is_no_tls() {
                within(clock, FAREWELL, pin!(poll_fn(|cx| socket.poll_close(cx)))).await;
            }
            Err(failure)
        }
    }
}

async fn shake<S: Socket>(
    socket: &mut TlsSocket<S>,
    turn: &HandshakeTurn,
    client: &mut impl Handshaking,
) -> Result<(), HandshakeFailure> {
    use HandshakeFailure::{Over, Socket, Tls};
    while socket.is_handshaking() {
        let received = poll_fn(|cx| match socket.poll_incoming(cx) {
            Poll::Ready(received) => Poll::Ready(received.map_err(Socket)),
            Poll::Pending => match client.poll_over(cx) {
                Some(why) => Poll::Ready(Err(Over(why))),
                None => Poll::Pending,
            },
        })
        .await?;
        if received == 0 {
            return Err(Over("the client has gone"));
        }
        let turn = turn.0.lock().await;
        let processed = socket.process();
        yield_now().await;
        drop(turn);
        processed.map_err(Tls)?;
        if !client.may_hold(socket.held_bytes()) {
            return Err(Over("there is no memory for it"));
        }
        poll_fn(|cx| socket.poll_flush(cx)).await.map_err(Socket)?;
    }
    client.admit(socket.client_name().as_deref()).map_err(Over)
}
