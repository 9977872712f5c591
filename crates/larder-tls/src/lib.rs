//! TLS between a socket and what is spoken on it, for servers on [`larder_device::sockets`]. Linux only.
//!
//! ```text
//!   client ──► a Socket   ──► TlsSocket ──► connection   (a Socket over a Socket)
//!              ciphertext      records        plaintext
//! ```
//!
//! Files become a certificate that is shown, and checks of those that clients show ([`Tls::load`]). A handshake is made
//! before anything is served: whoever serves takes it as far as what has come allows ([`TlsSocket::process`]), so it
//! says when the thread computes, and for how long a client may let it wait. From then on the connection has a socket
//! as any other. Buffers are those of the thread: an idle connection has the state of its TLS, and none of them.

#![cfg(target_os = "linux")]

mod certificate;
mod credentials;
mod socket;

pub use credentials::{Tls, TlsFault, TlsFile, TlsFiles};
pub use rustls::Error as TlsError;
pub use socket::TlsSocket;
