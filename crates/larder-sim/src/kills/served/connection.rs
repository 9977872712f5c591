//! A connection to a server: memcached's classic text protocol, one request at a time.

use std::io;
use std::net::SocketAddr;

use crate::kills::line_stream::{LineStream, nonsense};

/// See the module.
pub(super) struct Connection(LineStream);

impl Connection {
    pub(super) fn to(address: SocketAddr) -> io::Result<Self> {
        LineStream::to(address).map(Self)
    }

    /// Gets a value.
    pub(super) fn get(&mut self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.send(&[b"get ", key, b"\r\n"])?;
        let head = self.0.line()?;
        if head == "END" {
            return Ok(None);
        }
        let bytes = head.rsplit(' ').next().and_then(|bytes| bytes.parse::<usize>().ok());
        let Some(bytes) = bytes.filter(|_| head.starts_with("VALUE ")) else {
            return Err(nonsense(&head));
        };
        let value = self.0.bytes(bytes)?;
        match (self.0.line()?.as_str(), self.0.line()?.as_str()) {
            ("", "END") => Ok(Some(value)),
            (other, _) => Err(nonsense(other)),
        }
    }

    /// Stores a value: `set`, `add` or `append`. Returns the answer.
    pub(super) fn store(
        &mut self,
        verb: &str,
        key: &[u8],
        ttl_s: u32,
        value: &[u8],
    ) -> io::Result<String> {
        let tail = format!(" 0 {ttl_s} {}\r\n", value.len());
        self.send(&[verb.as_bytes(), b" ", key, tail.as_bytes(), value, b"\r\n"])?;
        self.0.line()
    }

    /// Sends any other request that is answered by a line.
    pub(super) fn ask(&mut self, verb: &str, key: &[u8], tail: &str) -> io::Result<String> {
        self.send(&[verb.as_bytes(), b" ", key, tail.as_bytes(), b"\r\n"])?;
        self.0.line()
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.0.send(&parts.concat())
    }
}
