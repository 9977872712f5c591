//! The TLS handshake of a connection, behind `NBD_OPT_STARTTLS`.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;

use larder_device::sockets::{Buffers, Socket, yield_now};
use larder_tls::{Tls, TlsSocket};

/// Makes it. `None` if it came to nothing, of which the client was told.
pub(super) async fn encrypt<S: Socket>(
    socket: S,
    tls: &Tls,
    buffers: Rc<Buffers>,
) -> io::Result<Option<TlsSocket<S>>> {
    let mut socket = TlsSocket::new(socket, tls, buffers).map_err(io::Error::other)?;
    while socket.is_handshaking() {
        if poll_fn(|cx| socket.poll_incoming(cx)).await? == 0 {
            return Ok(None);
        }
        // It computes for up to a millisecond: the worker's other connections come before the next one's.
        yield_now().await;
        if let Err(error) = socket.process() {
            tracing::debug!(%error, "a TLS handshake failed");
            poll_fn(|cx| socket.poll_close(cx)).await;
            return Ok(None);
        }
        poll_fn(|cx| socket.poll_flush(cx)).await?;
    }
    Ok(Some(socket))
}
