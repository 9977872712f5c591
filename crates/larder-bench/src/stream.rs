//! A non-blocking socket to the server, with or without TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::ClientConnection;

use crate::target::Address;
use crate::tls::ServerTls;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// A non-blocking socket to the server, with or without TLS.
pub(crate) struct Stream {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Connects. The handshake is done by the first reads and writes.
    pub(crate) fn connect(address: &Address, tls: Option<&ServerTls>) -> io::Result<Self> {
        let socket = match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Socket::Tcp(stream)
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Socket::Unix(stream)
            }
        };
        let tls = tls.map(ServerTls::connection).transpose().map_err(io::Error::other)?;
        Ok(Self { socket, tls: tls.map(Box::new) })
    }

    /// Sends what an earlier write has left. Returns whether that is all.
    pub(crate) fn send_rest(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.socket.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            // The server may wait for these bytes, in a handshake.
            if tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(io::Error::other)?;
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    sent => sent?,
                };
            }
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.send_rest()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        match &mut self.tls {
            None => self.socket.write(bytes),
            // Until the handshake is done, the writer takes no more than its buffer holds, and then takes nothing.
            Some(tls) => match tls.writer().write(bytes)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                taken => Ok(taken),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
