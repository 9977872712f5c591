//! Stream sockets of one thread: on a ring of io_uring, or by `epoll`, behind one trait; and sockets that listen. Linux
//! only.
//!
//! ```text
//!   attach ─► socket ── poll_receive ◄─ buffers that the kernel fills, of one pool for all sockets (multishot receive)
//!                    └─ poll_send ────► one send under way; its bytes are the ring's until it has ended
//!   turn: tells the kernel of all that was begun with one call, sleeps, and wakes who waits for what has ended
//! ```
//!
//! A socket that waits owns no buffer. What has come lies in buffers of the pool until it is received; a socket that
//! holds several is told to wait, and where the pool runs dry they are copied out, so that sockets which nobody reads
//! stop only themselves. A descriptor that the thread sleeps for besides, a ring of devices say, is
//! [watched](SocketRing::watch). Where the kernel refuses a ring, [`Epoll`] does the same ([`Backend`]).
//!
//! # Examples
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use std::task::{Context, Poll, Waker};
//!
//! use larder_device::sockets::SocketRing;
//!
//! # fn main() -> std::io::Result<()> {
//! let Ok(ring) = SocketRing::new() else { return Ok(println!("the kernel refuses it")) };
//! let (mut client, server) = UnixStream::pair()?;
//! let mut socket = ring.attach(server.into());
//! let mut cx = Context::from_waker(Waker::noop());
//! client.write_all(b"bread")?;
//! let mut input = Vec::with_capacity(100);
//! while socket.poll_receive(&mut cx, &mut input)?.is_pending() {
//!     ring.turn(None)?;
//! }
//! assert!(socket.poll_send(&mut cx, &mut input)?.is_ready() && input.is_empty());
//! ring.turn(Some(std::time::Duration::ZERO))?;
//! let mut answer = [0; 5];
//! client.read_exact(&mut answer)?;
//! assert_eq!(answer, *b"bread");
//! # Ok(())
//! # }
//! ```

mod buffers;
mod epoll;
mod inbox;
mod kernel;
mod listening;
mod provided;
mod ring;
mod slot;
mod stream;
#[cfg(test)]
mod tests;
mod turns;

pub use buffers::{BUFFER_BYTES, Buffers};
pub use epoll::{Epoll, EpollSocket};
pub use inbox::Inbox;
pub use listening::{Endpoint, ListeningSocket, Peer, Stop, wait_for, why_not};
pub use ring::{RingSocket, SocketRing};
pub use stream::{Backend, Output, Socket, SocketBackend};
pub use turns::yield_now;
