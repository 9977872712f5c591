//! Listening sockets, and a thread's wait for connections on any of them until it is told to stop.

use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

/// Backlog, as in the standard library: the kernel uses its own limit.
const BACKLOG: i32 = -1;

/// Origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP client at this address.
    Tcp(SocketAddr),
    /// A client over a Unix socket.
    Unix,
}

impl Peer {
    /// Whether it is a client on this machine: over a Unix socket, or from a loopback address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix => true,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A TCP address; port 0 takes any free port.
    Tcp(SocketAddr),
    /// A Unix socket with the permission bits of its file.
    Unix {
        /// Path of the socket file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix { path, .. } => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket, until it is dropped. The drop also removes the file of a Unix socket.
#[derive(Debug)]
pub struct ListeningSocket(Bound);

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl ListeningSocket {
    /// Starts listening. A Unix socket file that an earlier run has left is removed, but a running server is not
    /// displaced.
    ///
    /// # Errors
    /// The error of the system; [`why_not`] says what to do about it.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => bind_tcp(*address),
            Endpoint::Unix { path, mode } => bind_unix(path, *mode),
        }
    }

    /// Accepts the next waiting connection, if there is one.
    ///
    /// # Errors
    /// The error of the system, most likely that no descriptor is left.
    pub fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        let accepted = match &self.0 {
            Bound::Tcp(listener) => listener.accept().map(|(stream, peer)| {
                // Answers are sent whole, so the kernel has nothing to collect.
                let _ = stream.set_nodelay(true);
                (OwnedFd::from(stream), Peer::Tcp(peer))
            }),
            Bound::Unix(listener, _) => {
                listener.accept().map(|(stream, _)| (OwnedFd::from(stream), Peer::Unix))
            }
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address if it is TCP, with the actual port if port 0 was asked for.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            Bound::Unix(..) => None,
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Bound::Tcp(listener) => listener.as_fd(),
            Bound::Unix(listener, _) => listener.as_fd(),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<ListeningSocket> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(ListeningSocket(Bound::Tcp(listener)))
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<ListeningSocket> {
    // Remove the file that an earlier run has left, but do not displace a running server.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the socket's permissions, so it never has any others. A umask removes bits of them.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listen(&socket, BACKLOG)?;
    let listener = UnixListener::from(socket);
    Ok(ListeningSocket(Bound::Unix(listener, path.to_owned())))
}

/// What an operator can do about an error of [`ListeningSocket::bind`].
pub fn why_not(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: end it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "not allowed: ports below 1024 need the capability CAP_NET_BIND_SERVICE, files a directory to write to"
        }
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address",
        _ => "choose another address",
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Ends the wait of [`wait_for`] from another thread.
#[derive(Debug)]
pub struct Stop {
    event: OwnedFd,
    is_set: AtomicBool,
}

impl Stop {
    /// A stop that is not set.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, is_set: AtomicBool::new(false) })
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Sets it; it cannot be reset.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
    }
}

/// Waits until a listener has a connection to accept, and returns the indexes of such listeners, or until `stop` is
/// set.
///
/// # Errors
/// The error of the wait.
pub fn wait_for(listeners: &[&impl AsFd], stop: &Stop) -> io::Result<Vec<usize>> {
    let fds = listeners.iter().map(|listener| listener.as_fd()).chain([stop.event.as_fd()]);
    let mut fds: Vec<PollFd<'_>> =
        fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ready = (0..listeners.len()).filter(|number| !fds[*number].revents().is_empty());
    Ok(ready.collect())
}
