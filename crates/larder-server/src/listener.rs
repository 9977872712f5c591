//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use larder_net::sockets::{Endpoint, ListeningSocket, why_not};

use crate::config::{ListenerConfig, ProtocolKind};
use crate::error::{Error, ErrorKind};
use crate::tenant::Tenant;

/// A socket that listens until it is dropped.
pub(crate) struct Listener {
    endpoint: Endpoint,
    socket: ListeningSocket,
    entrance: Arc<Entrance>,
}

/// What the listener of a client determines.
pub(crate) struct Entrance {
    pub(crate) protocol: ProtocolKind,
    pub(crate) is_tls: bool,
    /// The tenant whose keys the client uses without a login.
    pub(crate) tenant: Option<Arc<Tenant>>,
}

impl Listener {
    /// Makes a listener of a socket that [was bound](bind) as `config` says; its tenant is one of `tenants`.
    pub(crate) fn new(
        config: &ListenerConfig,
        socket: ListeningSocket,
        tenants: &[Arc<Tenant>],
    ) -> Result<Self, Error> {
        let ListenerConfig { endpoint, protocol, is_tls, tenant } = config;
        let tenant = tenant.as_ref().map(|name| tenant_of(name, tenants)).transpose()?;
        let entrance = Arc::new(Entrance { protocol: *protocol, is_tls: *is_tls, tenant });
        Ok(Self { endpoint: endpoint.clone(), socket, entrance })
    }

    pub(crate) fn entrance(&self) -> &Arc<Entrance> {
        &self.entrance
    }

    pub(crate) fn socket(&self) -> &ListeningSocket {
        &self.socket
    }

    /// Its TCP address, with the port that the kernel chose if none was configured.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.socket.address()
    }

    /// Its configuration, with the port that the kernel chose.
    pub(crate) fn config(&self) -> ListenerConfig {
        let endpoint = self.address().map_or_else(|| self.endpoint.clone(), Endpoint::Tcp);
        let Entrance { protocol, is_tls, tenant } = &*self.entrance;
        let tenant = tenant.as_ref().map(|tenant| tenant.name().to_owned());
        ListenerConfig { endpoint, protocol: *protocol, is_tls: *is_tls, tenant }
    }
}

/// Listens where `config` says. Clients that connect wait until they are accepted.
pub(crate) fn bind(config: &ListenerConfig) -> Result<ListeningSocket, Error> {
    let endpoint = &config.endpoint;
    ListeningSocket::bind(endpoint).map_err(|error| refused(endpoint, error))
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

fn refused(endpoint: &Endpoint, error: io::Error) -> Error {
    let (place, what_to_do) = (place_of(endpoint), why_not(&error));
    Error::system(ErrorKind::Listen, format!("cannot listen on {place} ({what_to_do})"), error)
}

fn place_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => address.to_string(),
        Endpoint::Unix { path, .. } => path.display().to_string(),
    }
}
