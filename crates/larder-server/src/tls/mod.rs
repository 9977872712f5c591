//! TLS between a socket and what is spoken on it.
//!
//! ```text
//!   client ──► a Socket   ──► TlsSocket ──► connection   (a Socket over a Socket)
//!              ciphertext      records        plaintext
//! ```
//!
//! Files become a certificate that is shown, and checks of those that clients show (`credentials.rs`). A handshake is
//! made before anything is served (`handshake.rs`); from then on the connection has a socket as any other
//! (`socket.rs`). Buffers are those of the worker: an idle connection has the state of its TLS, and none of them.

mod certificate;
mod credentials;
mod handshake;
mod socket;

pub use credentials::{Tls, TlsFault, TlsFile, TlsFiles};
pub(crate) use handshake::accept;
