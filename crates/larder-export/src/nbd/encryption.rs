//! The TLS handshake of a connection, after `NBD_OPT_STARTTLS`.
//!
//! Its computation takes up to a millisecond. A worker computes one handshake at a time, and runs its other
//! connections before the next one. Many simultaneous handshakes delay the other connections by no more than one
//! computation.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use larder_device::sockets::{Buffers, Socket, yield_now};
use larder_tls::{Tls, TlsSocket};

/// Performs the handshake. `None` if it has failed; the client was told.
pub(super) async fn encrypt<S: Socket>(
    socket: S,
    tls: &Tls,
    buffers: Rc<Buffers>,
    turn: &async_lock::Mutex<()>,
) -> io::Result<Option<TlsSocket<S>>> {
    let mut socket = TlsSocket::new(socket, tls, buffers).map_err(io::Error::other)?;
    while socket.is_handshaking() {
        if poll_fn(|cx| socket.poll_incoming(cx)).await? == 0 {
            return Ok(None);
        }
        let turn = turn.lock().await;
        let processed = socket.process();
        yield_now().await;
        drop(turn);
        if let Err(error) = processed {
            tracing::debug!(%error, "a TLS handshake failed");
            poll_fn(|cx| socket.poll_close(cx)).await;
            return Ok(None);
        }
        poll_fn(|cx| socket.poll_flush(cx)).await?;
    }
    Ok(Some(socket))
}
