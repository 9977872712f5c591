//! A server to test, and a connection to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use larder::{Tenant, Tenants, TenantsConfig, block_on};
use larder_server::{
    DebugClock, Endpoint, Error, ListenerConfig, ProtocolKind, Server, ServerConfig, SocketBackend,
};

/// Timeout of every wait, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server in DRAM alone, with an endpoint for each protocol.
pub(crate) fn in_memory() -> Server {
    in_memory_with(ServerConfig { workers: 2, ..config() })
}

/// Endpoints on free ports, memcached's first.
pub(crate) fn config() -> ServerConfig {
    let listeners = vec![local(ProtocolKind::Memcached), local(ProtocolKind::Resp)];
    ServerConfig { listeners, sockets: sockets(), ..ServerConfig::default() }
}

/// A listener on a free port.
pub(crate) fn local(protocol: ProtocolKind) -> ListenerConfig {
    ListenerConfig::new(Endpoint::Tcp(([127, 0, 0, 1], 0).into()), protocol)
}

/// The socket backend from the environment, so that all tests can run with either.
fn sockets() -> SocketBackend {
    match std::env::var("LARDER_TEST_SOCKETS").as_deref() {
        Ok("io_uring") => SocketBackend::IoUring,
        Ok("epoll") => SocketBackend::Epoll,
        Err(_) => SocketBackend::default(),
        Ok(other) => panic!("LARDER_TEST_SOCKETS = {other}: must be epoll or io_uring"),
    }
}

pub(crate) fn in_memory_with(config: ServerConfig) -> Server {
    with_tenants(&["default"], config)
}

/// A server with tenants that share memory evenly.
pub(crate) fn with_tenants(names: &[&str], config: ServerConfig) -> Server {
    try_with_tenants(names, config).unwrap()
}

pub(crate) fn try_with_tenants(names: &[&str], config: ServerConfig) -> Result<Server, Error> {
    let percent = 100.0 / f64::from(u32::try_from(names.len()).unwrap());
    let tenants = TenantsConfig {
        dram_bytes: 16 << 20,
        tenants: names.iter().map(|name| Tenant::new(*name, percent)).collect(),
        ..TenantsConfig::default()
    };
    let clock = DebugClock::or_real(config.debug_clock.as_ref());
    let tenants = block_on(Tenants::open(tenants, None, clock)).unwrap();
    Server::start(config, tenants)
}

/// A connection to an address of the server.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn memcached(server: &Server) -> Self {
        Self::to(server.addresses()[0])
    }

    pub(crate) fn resp(server: &Server) -> Self {
        Self::to(server.addresses()[1])
    }

    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends `request`, and checks that the answer equals `answer`.
    #[track_caller]
    pub(crate) fn asks(&mut self, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
        self.send(request);
        self.hears(answer);
    }

    /// The next line, with its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.extend_from_slice(&byte);
        }
        String::from_utf8(line).unwrap()
    }

    #[track_caller]
    pub(crate) fn hears(&mut self, answer: impl AsRef<[u8]>) {
        let answer = answer.as_ref();
        let mut heard = vec![0; answer.len()];
        let mut at = 0;
        while at < heard.len() {
            match self.0.read(&mut heard[at..]) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) => panic!("{error} after {:?}", heard[..at].escape_ascii().to_string()),
            }
        }
        assert_eq!(heard[..at].escape_ascii().to_string(), answer.escape_ascii().to_string());
    }

    /// Checks that the server closes the connection without a further answer.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) {
        let mut rest = Vec::new();
        let ended = self.0.read_to_end(&mut rest);
        assert!(ended.is_ok() || rest.is_empty(), "{ended:?}");
        assert_eq!(rest.escape_ascii().to_string(), "");
    }
}
