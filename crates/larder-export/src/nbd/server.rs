//! Starts and ends a server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use larder_device::{Error, ErrorKind};
use larder_net::sockets::{Endpoint, ListeningSocket, SocketBackend, SocketRing, Stop, why_not};
use larder_net::tls::Tls;
use larder_net::{Threads, accept_until, connections, send_to_least_loaded};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle};

use super::exports::{Export, Exports};
use super::worker_loop::{self, Letter, Mailbox};

/// A client that has been silent for this long is probed by TCP keep-alive.
const SILENCE: Duration = Duration::from_secs(60);

/// The endpoints of a server, its exports and its limits.
#[derive(Debug)]
pub struct NbdConfig {
    /// Where clients connect; at least one.
    pub endpoints: Vec<Endpoint>,
    /// Its exports; at least one. The first is the default, for clients that give no name.
    pub exports: Vec<Export>,
    /// If set, clients must use TLS from the beginning (NBD's `FORCEDTLS`), at every endpoint.
    pub tls: Option<Tls>,
    /// Threads, 1 to 256. A connection belongs to one of them.
    pub workers: usize,
    /// How the threads wait for sockets.
    pub sockets: SocketBackend,
    /// Most connections at a time; further ones are closed at once. Each may take about 64 MiB of memory.
    pub connections_max: usize,
    /// How long connections may take at the end to complete their requests.
    pub drain_time: Duration,
}

impl Default for NbdConfig {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            exports: Vec::new(),
            tls: None,
            workers: 1,
            sockets: SocketBackend::default(),
            connections_max: 64,
            drain_time: Duration::from_secs(30),
        }
    }
}

/// An NBD server. It serves until it is ended ([`NbdServer::end`]).
///
/// ```
/// use std::sync::Arc;
/// use larder_export::nbd::{Export, NbdConfig, NbdServer};
/// use larder_export::volume::DeviceVolume;
/// use larder_device::MemoryDevice;
/// use larder_net::sockets::Endpoint;
///
/// let device = MemoryDevice::holding(vec![0; 1 << 20]);
/// let volume = Arc::new(DeviceVolume::new(Arc::new(device)));
/// let server = NbdServer::start(NbdConfig {
///     endpoints: vec![Endpoint::Tcp("127.0.0.1:0".parse().unwrap())],
///     exports: vec![Export::new("pantry", volume)?],
///     ..NbdConfig::default()
/// })?;
/// println!("nbd://{}/pantry", server.addresses()[0]);
/// server.end()?;
/// # Ok::<(), larder_device::Error>(())
/// ```
pub struct NbdServer {
    addresses: Vec<SocketAddr>,
    sockets: SocketBackend,
    exports: Exports,
    drain_time: Duration,
    threads: Threads<Letter>,
}

impl NbdServer {
    /// Starts a server.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if it cannot listen on an endpoint, or if exports have the same name; the error of the
    /// system if it refuses threads or descriptors.
    pub fn start(config: NbdConfig) -> Result<Self, Error> {
        let NbdConfig { endpoints, exports, tls, workers, sockets, connections_max, drain_time } =
            config;
        let refused = |why: String| Err(Error::new(ErrorKind::Setup, why));
        if endpoints.is_empty() {
            return refused(
                "endpoints: there is none; name a Unix socket or an address".to_owned(),
            );
        }
        if !(1..=256).contains(&workers) {
            return refused(format!("workers of {workers}: must be 1 to 256"));
        }
        if connections_max == 0 {
            return refused("connections_max of 0: must be at least 1".to_owned());
        }
        let exports = Exports::new(exports)?;
        let listeners = endpoints.iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let system = |error| Error::from_os("the system has no event descriptor", error);
        let sockets = match sockets {
            SocketBackend::IoUring if SocketRing::new().is_err() => SocketBackend::Epoll,
            sockets => sockets,
        };
        let mut server = Self {
            addresses: listeners.iter().filter_map(ListeningSocket::address).collect(),
            sockets,
            exports,
            drain_time,
            threads: Threads::new(workers).map_err(system)?,
        };
        server.begin(listeners, tls.as_ref(), connections_max)?;
        Ok(server)
    }

    /// Starts all threads. If one cannot be started, those already started end when the server is dropped.
    fn begin(
        &mut self,
        listeners: Vec<ListeningSocket>,
        tls: Option<&Tls>,
        connections_max: usize,
    ) -> Result<(), Error> {
        let refused = |error| Error::from_os("the system has no thread", error);
        let mailboxes = self.threads.mailboxes().to_vec();
        for (number, mailbox) in mailboxes.iter().cloned().enumerate() {
            let (exports, tls, sockets) = (self.exports.clone(), tls.cloned(), self.sockets);
            let run = move || worker_loop::run(&mailbox, exports, tls, sockets);
            self.threads.spawn(format!("larder-nbd-{number}"), run).map_err(refused)?;
        }
        let stop = Arc::clone(self.threads.stop());
        let accept = move || accept(&stop, &listeners, &mailboxes, connections_max);
        self.threads.spawn("larder-accept".to_owned(), accept).map_err(refused)
    }

    /// Its exports; they can be added and removed.
    pub fn exports(&self) -> Exports {
        self.exports.clone()
    }

    /// The TCP addresses on which it listens, in the order of the configuration, with the ports that were assigned.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How its threads wait for sockets: as configured, or `epoll` if the kernel refuses a ring.
    pub fn sockets(&self) -> SocketBackend {
        self.sockets
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.threads.connections()
    }

    /// Stops accepting and reading, and answers pending requests, for at most [`NbdConfig::drain_time`]. Does not
    /// flush the exports; [`end`](Self::end) does that, so the caller may first wait for exports that are being
    /// removed. `waits` gets the number of open connections once per second.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if a thread has failed.
    pub fn drain(&mut self, waits: impl FnMut(usize)) -> Result<(), Error> {
        self.halt(waits)
    }

    /// Stops accepting and reading, answers pending requests, for at most [`NbdConfig::drain_time`], and then flushes
    /// all writable exports.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if a thread has failed; the error of a volume's flush.
    pub fn end(mut self) -> Result<(), Error> {
        self.halt(drop)?;
        for export in self.exports.all().iter().filter(|export| !export.is_read_only()) {
            export.volume().flush().wait().map_err(|failure| failure.error)?;
        }
        Ok(())
    }

    /// Ends all threads. `waits` gets the number of open connections once per second.
    fn halt(&mut self, waits: impl FnMut(usize)) -> Result<(), Error> {
        let ended = self.threads.end((|| Letter::Drain, || Letter::End), self.drain_time, waits);
        ended.map_err(|error| match error {
            Some(error) => Error::from_os("a thread has failed", error),
            None => Error::new(ErrorKind::Io, "a thread has panicked"),
        })
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        // Errors are lost here; to see them, call `end`.
        let _ = self.halt(drop);
    }
}

impl std::fmt::Debug for NbdServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("NbdServer");
        shown.field("addresses", &self.addresses).field("exports", &self.exports);
        shown.finish_non_exhaustive()
    }
}

fn listen(endpoint: &Endpoint) -> Result<ListeningSocket, Error> {
    ListeningSocket::bind(endpoint).map_err(|error| {
        let what = format!("cannot listen on {endpoint} ({}): {error}", why_not(&error));
        Error::new(ErrorKind::Setup, what)
    })
}

/// Gives each connection to the worker with the fewest, until told to stop. Then the listeners close.
fn accept(
    stop: &Stop,
    listeners: &[ListeningSocket],
    mailboxes: &[Arc<Mailbox>],
    connections_max: usize,
) -> io::Result<()> {
    let all: Vec<&ListeningSocket> = listeners.iter().collect();
    accept_until(stop, &all, |_, fd, _| {
        if connections(mailboxes) >= connections_max {
            return; // This closes it.
        }
        // So that the loss of a client's machine is noticed eventually. Unix sockets do not need it.
        let _ = set_socket_keepalive(&fd, true).and_then(|()| set_tcp_keepidle(&fd, SILENCE));
        send_to_least_loaded(mailboxes, Letter::Arrived(fd));
    })
}
