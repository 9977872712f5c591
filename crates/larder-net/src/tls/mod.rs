//! TLS between a socket and the protocol on it, for servers on [`sockets`](crate::sockets).
//!
//! ```text
//!   client ──► a Socket   ──► TlsSocket ──► connection   (a Socket over a Socket)
//!              ciphertext      records        plaintext
//! ```
//!
//! [`Tls::load`] reads the certificate of the server, and the issuers of client certificates. The server makes the
//! handshake before it serves anything ([`accept_tls`](crate::accept_tls)): it calls [`TlsSocket::process`] when bytes
//! have come, so it controls when the thread computes, and how long a client may take. After the handshake the
//! connection has a socket like any other. Buffers belong to the thread: an idle connection keeps only its TLS state.
//!
//! | file | content |
//! |---|---|
//! | `credentials` | PEM files of a server: its certificate and key, the issuers of client certificates |
//! | `certificate` | validity and name of a certificate |
//! | `socket` | a socket over a socket |

mod certificate;
mod credentials;
mod socket;

pub use credentials::{Tls, TlsFault, TlsFile, TlsFiles};
pub use rustls::Error as TlsError;
pub use socket::TlsSocket;
