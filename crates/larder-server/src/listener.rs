//! Where clients come in: sockets that listen.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Endpoint, ListenerConfig, ProtocolKind};
use crate::error::{Error, ErrorKind};
use crate::peer::Peer;
use crate::tenant::Tenant;

/// A socket that listens, until it is dropped.
pub(crate) struct Listener {
    endpoint: Endpoint,
    socket: ListeningSocket,
    entrance: Arc<Entrance>,
}

/// What is known of a client by where it comes in.
pub(crate) struct Entrance {
    pub(crate) protocol: ProtocolKind,
    pub(crate) is_tls: bool,
    /// Whose keys it has, and needs no login for.
    pub(crate) tenant: Option<Arc<Tenant>>,
}

enum ListeningSocket {
    Tcp(TcpListener),
    /// Its file goes with it.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens.
    pub(crate) fn bind(config: &ListenerConfig, tenants: &[Arc<Tenant>]) -> Result<Self, Error> {
        let ListenerConfig { endpoint, protocol, is_tls, tenant } = config;
        let tenant = tenant.as_ref().map(|name| tenant_of(name, tenants)).transpose()?;
        let entrance = Arc::new(Entrance { protocol: *protocol, is_tls: *is_tls, tenant });
        let socket = match endpoint {
            Endpoint::Tcp(address) => {
                bind_tcp(*address).map_err(|error| refused(address, error))?
            }
            Endpoint::Unix { path, mode } => {
                bind_unix(path, *mode).map_err(|error| refused(path.display(), error))?
            }
        };
        Ok(Self { endpoint: endpoint.clone(), socket, entrance })
    }

    pub(crate) fn entrance(&self) -> &Arc<Entrance> {
        &self.entrance
    }

    /// Takes the next connection that has come, if there is one.
    pub(crate) fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        let accepted = match &self.socket {
            ListeningSocket::Tcp(listener) => listener.accept().map(|(stream, peer)| {
                // Answers go out when they are whole; the kernel has nothing to collect.
                let _ = stream.set_nodelay(true);
                (OwnedFd::from(stream), Peer::Tcp(peer))
            }),
            ListeningSocket::Unix(listener, _) => {
                listener.accept().map(|(stream, _)| (OwnedFd::from(stream), Peer::Unix))
            }
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Its address, if it is TCP: with the port that was free, if none was named.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListeningSocket::Tcp(listener) => listener.local_addr().ok(),
            ListeningSocket::Unix(..) => None,
        }
    }

    /// What it is, with the port that was free.
    pub(crate) fn config(&self) -> ListenerConfig {
        let endpoint = self.address().map_or_else(|| self.endpoint.clone(), Endpoint::Tcp);
        let Entrance { protocol, is_tls, tenant } = &*self.entrance;
        let tenant = tenant.as_ref().map(|tenant| tenant.name().to_owned());
        ListenerConfig { endpoint, protocol: *protocol, is_tls: *is_tls, tenant }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            ListeningSocket::Tcp(listener) => listener.as_fd(),
            ListeningSocket::Unix(listener, _) => listener.as_fd(),
        }
    }
}

fn tenant_of(name: &str, tenants: &[Arc<Tenant>]) -> Result<Arc<Tenant>, Error> {
    let found = tenants.iter().find(|tenant| tenant.name() == name);
    found.cloned().ok_or_else(|| {
        Error::new(
            ErrorKind::Config,
            format!("a listener is of tenant {name:?}, which there is not"),
        )
    })
}

fn bind_tcp(address: SocketAddr) -> io::Result<ListeningSocket> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(ListeningSocket::Tcp(listener))
}

fn bind_unix(path: &Path, mode: u32) -> io::Result<ListeningSocket> {
    // What an earlier run has left is in the way; a server that runs is not pushed aside.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(ListeningSocket::Unix(listener, path.to_owned()))
}

fn refused(at: impl std::fmt::Display, error: io::Error) -> Error {
    let what_to_do = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there: end it, or choose another address"
        }
        io::ErrorKind::PermissionDenied => {
            "not allowed: ports below 1024 need the capability CAP_NET_BIND_SERVICE, files a directory to write to"
        }
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address",
        _ => "choose another address",
    };
    Error::system(ErrorKind::Listen, format!("cannot listen on {at} ({what_to_do})"), error)
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}
