//! Network servers of a few threads: sockets on io_uring or `epoll`, TLS, and the loop that serves them. Linux only.
//!
//! A thread serves its connections, its timers and its ring to the drives, and sleeps once for all of them. The servers
//! of memcached and RESP, of NBD and of ublk run the same loop; each adds its messages and its protocol.
//!
//! ```text
//!   clients ──► Acceptor ──► Mailbox ──► Reactor ─── Tasks, one a connection ──► Socket, TlsSocket
//!               (a thread)   (one a      (one a      │                           (SocketRing or Epoll)
//!                             thread)     thread)    └──────────────────────────► ring to the drives
//! ```
//!
//! | file | content |
//! |---|---|
//! | `sockets` | stream sockets of a thread on io_uring or `epoll`, listening sockets, messages to a sleeping thread |
//! | `tls` | TLS of a server: certificates from files, and a socket over a socket |
//! | `mailbox`, `tasks` | messages and wakes of other threads; the futures of a thread |
//! | `reactor` | the loop of a thread |
//! | `threads` | the threads of a server: loads, the acceptor, and the drain at the end |
//! | `handshake`, `within` | TLS handshakes, one at a time; a future with a time limit |
//!
//! It uses [`larder_device`] for the ring to the drives and for clocks. It knows no protocol.
//!
//! # Examples
//! A thread that echoes what its only client sends, until it is told to end:
//! ```
//! use std::future::poll_fn;
//! use std::io::{Read, Write};
//! use std::os::fd::{BorrowedFd, OwnedFd};
//! use std::os::unix::net::UnixStream;
//! use std::rc::Rc;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use larder_net::sockets::{Backend, Epoll, Output, Socket};
//! use larder_net::{Mailbox, Reactor, Service, Tasks};
//!
//! /// A connection; `None` ends the thread.
//! type Letter = Option<OwnedFd>;
//!
//! struct Echo {
//!     tasks: Tasks<Letter>,
//!     backend: Rc<Epoll>,
//!     is_over: bool,
//! }
//!
//! impl Service for Echo {
//!     type Letter = Letter;
//!
//!     fn receive(&mut self, letter: Letter) {
//!         let Some(fd) = letter else { return self.is_over = true };
//!         let mut socket = self.backend.attach(fd).unwrap();
//!         self.tasks.spawn(async move {
//!             let (mut input, mut output) = (Vec::with_capacity(100), Output::default());
//!             while poll_fn(|cx| socket.poll_receive(cx, &mut input)).await.unwrap_or(0) > 0 {
//!                 output.buffer().append(&mut input);
//!                 let _ = poll_fn(|cx| socket.poll_send(cx, &mut output)).await;
//!             }
//!         });
//!     }
//!
//!     fn work(&mut self) -> std::io::Result<Option<Duration>> {
//!         self.tasks.run_all();
//!         Ok(None)
//!     }
//!
//!     fn is_over(&self) -> bool {
//!         self.is_over
//!     }
//!
//!     fn watch(&mut self, fd: BorrowedFd<'_>) -> std::io::Result<()> {
//!         self.backend.watch(fd)
//!     }
//!
//!     fn sleep(&mut self, at_most: Option<Duration>) -> std::io::Result<()> {
//!         self.backend.sleep(at_most)
//!     }
//! }
//!
//! # fn main() -> std::io::Result<()> {
//! let mailbox = Arc::new(Mailbox::<Letter>::new()?);
//! let its = Arc::clone(&mailbox);
//! let thread = std::thread::spawn(move || {
//!     let reactor = Reactor::new(Arc::clone(&its));
//!     let backend = Rc::new(Epoll::new()?);
//!     reactor.run(&mut Echo { tasks: Tasks::new(its), backend, is_over: false })
//! });
//! let (mut client, server) = UnixStream::pair()?;
//! mailbox.send(Some(server.into()));
//! client.write_all(b"bread")?;
//! let mut echo = [0; 5];
//! client.read_exact(&mut echo)?;
//! assert_eq!(echo, *b"bread");
//! mailbox.send(None);
//! thread.join().expect("it does not panic")
//! # }
//! ```

#![cfg(target_os = "linux")]

mod handshake;
mod mailbox;
mod reactor;
pub mod sockets;
mod tasks;
mod threads;
pub mod tls;
mod within;

pub use handshake::{HandshakeFailure, HandshakeTurn, Handshaking, accept_tls};
pub use mailbox::Mailbox;
pub use reactor::{Reactor, Service};
pub use tasks::Tasks;
pub use threads::{Joined, LoadGuard, Threads, accept_until, connections, send_to_least_loaded};
pub use within::within;
