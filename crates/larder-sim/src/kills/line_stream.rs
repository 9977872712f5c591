//! A connection to a server whose answers begin with a line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct LineStream(BufReader<TcpStream>);

impl LineStream {
    pub(super) fn to(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next bytes.
    pub(super) fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// The server lives, but its answer is invalid.
pub(super) fn nonsense(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it answers {line:?}"))
}
