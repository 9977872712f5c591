//! A connection to a server: memcached's classic text protocol, one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(super) fn to(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Gets a value.
    pub(super) fn get(&mut self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.send(&[b"get ", key, b"\r\n"])?;
        let head = self.line()?;
        if head == "END" {
            return Ok(None);
        }
        let bytes = head.rsplit(' ').next().and_then(|bytes| bytes.parse::<usize>().ok());
        let Some(bytes) = bytes.filter(|_| head.starts_with("VALUE ")) else {
            return Err(nonsense(&head));
        };
        let mut value = vec![0; bytes];
        self.0.read_exact(&mut value)?;
        match (self.line()?.as_str(), self.line()?.as_str()) {
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
        self.line()
    }

    /// Sends any other request that is answered by a line.
    pub(super) fn ask(&mut self, verb: &str, key: &[u8], tail: &str) -> io::Result<String> {
        self.send(&[verb.as_bytes(), b" ", key, tail.as_bytes(), b"\r\n"])?;
        self.line()
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.0.get_mut().write_all(&parts.concat())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// The server lives, but its answer is invalid.
fn nonsense(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it answers {line:?}"))
}
