//! Stream sockets of one thread, on an io_uring or with `epoll`, behind one trait; and listening sockets. Linux only.
//!
//! ```text
//!   attach ─► socket ── poll_receive ◄─ buffers that the kernel fills, of one pool for all sockets (multishot receive)
//!                    └─ poll_send ────► one send in flight; the ring owns its bytes until it has completed
//!   turn: submits everything that was begun with one system call, sleeps, and wakes the tasks with completions
//! ```
//!
//! A socket that waits owns no buffer. Received bytes lie in buffers of the pool until the task takes them. A socket
//! that holds several buffers stops receiving, and if the pool runs dry, the bytes are copied out of it, so that
//! sockets that are not read block only themselves. Another descriptor that the thread sleeps for, such as a ring of
//! devices, is [watched](SocketRing::watch). Where the kernel refuses a ring, [`Epoll`] does the same ([`Backend`]).
//!
//! # Examples
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use std::task::{Context, Poll, Waker};
//!
//! use larder_net::sockets::SocketRing;
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
