//! A server from start to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use larder::{AdmissionPolicy, Larder, Shards, Tenants, block_on};
use larder_net::Threads;
use larder_net::sockets::{ListeningSocket, SocketBackend, Stop};
use larder_net::tls::Tls;

use crate::acceptor;
use crate::admin::Admin;
use crate::config::{ListenerConfig, OpenedDevice, ServerConfig};
use crate::error::{Error, ErrorKind};
use crate::event_loop;
use crate::finder::Finder;
use crate::housekeeper::Housekeeper;
use crate::leveller::Leveller;
use crate::listener::{self, Listener};
use crate::mailbox::Letter;
use crate::protocol::resp;
use crate::resp_board::Board;
use crate::shared::{ServerState, check_policies};
use crate::tenant::Caches;
use crate::users::Users;
use crate::vssds::VssdOrders;
use crate::wear::WearReports;

/// A running server; [`Server::end`] ends it.
pub struct Server {
    shared: Arc<ServerState>,
    addresses: Vec<SocketAddr>,
    listeners: Vec<ListenerConfig>,
    admin: Option<AdminThread>,
    housekeeper: Option<Housekeeper>,
    finder: Option<Finder>,
    leveller: Option<Leveller>,
    #[cfg(feature = "otlp")]
    exporter: Option<crate::otlp::Exporter>,
    threads: Threads<Letter>,
}

/// A server that listens but does not serve yet; clients that connect wait. So errors of listening are known before a
/// cache is opened or created.
pub struct BoundServer {
    config: ServerConfig,
    tls: Option<Tls>,
    /// In the order of the configuration.
    sockets: Vec<ListeningSocket>,
    admin: Option<Admin>,
}

impl BoundServer {
    /// Reports how the devices were opened, which the caller has done since: [`ServerConfig::devices`].
    #[must_use]
    pub fn with_devices(mut self, devices: Vec<OpenedDevice>) -> Self {
        self.config.devices = devices;
        self
    }

    /// Reports the wear of the drives, which the caller has opened since. `None`: there is none to report.
    #[must_use]
    pub fn with_wear(mut self, wear: Option<Arc<dyn WearReports>>) -> Self {
        self.config.wear = wear;
        self
    }

    /// Lets operators list and change the virtual SSDs, which the caller has opened since. `None`: there are none.
    #[must_use]
    pub fn with_vssds(mut self, vssds: Option<Arc<dyn VssdOrders>>) -> Self {
        self.config.vssds = vssds;
        self
    }

    /// Starts to serve the tenants of one device, or of DRAM alone.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for settings that do not fit the tenants; [`ErrorKind::System`] if the system refuses
    /// threads or descriptors.
    pub fn serve(self, tenants: Tenants<Larder>) -> Result<Server, Error> {
        self.serve_with(Caches::One(tenants))
    }

    /// Starts to serve the tenants of several devices.
    ///
    /// # Errors
    /// As [`BoundServer::serve`].
    pub fn serve_sharded(self, tenants: Tenants<Shards>) -> Result<Server, Error> {
        self.serve_with(Caches::Sharded(tenants))
    }
}

impl Server {
    /// Listens where `config` says, without serving yet.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for invalid settings; [`ErrorKind::Listen`] if an endpoint cannot be listened on.
    pub fn bind(config: ServerConfig) -> Result<BoundServer, Error> {
        config.check()?;
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        let sockets = config.listeners.iter().map(listener::bind).collect::<Result<_, _>>()?;
        let admin = config.admin.map(Admin::bind).transpose()?;
        Ok(BoundServer { config, tls, sockets, admin })
    }

    /// Binds and serves the tenants of one device, or of DRAM alone.
    ///
    /// # Errors
    /// Those of [`Server::bind`] and [`BoundServer::serve`].
    pub fn start(config: ServerConfig, tenants: Tenants<Larder>) -> Result<Self, Error> {
        Self::bind(config)?.serve(tenants)
    }

    /// Binds and serves the tenants of several devices.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_sharded(config: ServerConfig, tenants: Tenants<Shards>) -> Result<Self, Error> {
        Self::bind(config)?.serve_sharded(tenants)
    }
}

impl BoundServer {
    fn serve_with(self, caches: Caches) -> Result<Server, Error> {
        let Self { config, tls, sockets, admin } = self;
        let tenants = caches.tenants(config.memcached_database)?;
        let users = Users::new(&config.users, &tenants)?;
        let bound = config.listeners.iter().zip(sockets);
        let listener = |(config, socket)| Listener::new(config, socket, &tenants);
        let listeners: Vec<Listener> = bound.map(listener).collect::<Result<_, _>>()?;
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        let told = listeners.iter().map(Listener::config).collect();
        let refused =
            |error| Error::system(ErrorKind::System, "the system has no event descriptor", error);
        let threads = Threads::new(config.workers).map_err(refused)?;
        check_policies(&config.tenants, &tenants)?;
        let mailboxes = threads.mailboxes().to_vec();
        let board = Board::new(config.workers, tenants.len(), resp::commands());
        let shared = ServerState::new(config, caches, tenants, users, tls, mailboxes, board);
        let shared = Arc::new(shared);
        shared.listens();
        let mut server = Server {
            shared,
            addresses,
            listeners: told,
            admin: None,
            housekeeper: None,
            finder: None,
            leveller: None,
            #[cfg(feature = "otlp")]
            exporter: None,
            threads,
        };
        server.begin(listeners)?;
        let no_thread = |error| Error::system(ErrorKind::System, "the system has no thread", error);
        server.housekeeper = Some(Housekeeper::begin(&server.shared).map_err(no_thread)?);
        server.finder = Some(Finder::begin(&server.shared).map_err(no_thread)?);
        server.leveller = Leveller::begin(&server.shared).map_err(no_thread)?;
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &server.shared.config.otlp {
            server.exporter = Some(crate::otlp::Exporter::begin(otlp, &server.shared)?);
        }
        server.admin = admin.map(|admin| AdminThread::begin(admin, &server.shared)).transpose()?;
        Ok(server)
    }
}

impl Server {
    /// Starts all threads. If one fails to start, dropping the server ends the others.
    fn begin(&mut self, listeners: Vec<Listener>) -> Result<(), Error> {
        for number in 0..self.shared.config.workers {
            let shared = Arc::clone(&self.shared);
            self.spawn(format!("larder-{number}"), move || event_loop::run(number, shared))?;
        }
        let (shared, stop) = (Arc::clone(&self.shared), Arc::clone(self.threads.stop()));
        self.spawn("larder-accept".to_owned(), move || acceptor::run(&listeners, &shared, &stop))
    }

    fn spawn(
        &mut self,
        name: String,
        run: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let refused = |error| Error::system(ErrorKind::System, "the system has no thread", error);
        self.threads.spawn(name, run).map_err(refused)
    }

    /// The TCP addresses that it listens on, in the order of the configuration, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The listeners, with the ports that the kernel chose.
    pub fn listeners(&self) -> &[ListenerConfig] {
        &self.listeners
    }

    /// How its threads wait for sockets: as the configuration says, or `epoll` if the kernel refuses a ring.
    pub fn sockets(&self) -> SocketBackend {
        self.shared.sockets
    }

    /// The admin address, with the port that the kernel chose.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|admin| admin.address)
    }

    /// Takes over the parts of `config` that can change while the server runs: users, TLS files, `connections_max`, the
    /// slow-log threshold, the levelling of drives, and the limits and weights of tenants. Clients that have logged in
    /// stay logged in, unless their user was removed or changed. Returns the names of the other settings that differ;
    /// those need a restart.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for invalid settings; nothing is changed then.
    pub fn reload(&self, config: &ServerConfig) -> Result<Vec<&'static str>, Error> {
        config.check()?;
        config.check_openness(&self.shared.config)?;
        self.shared.reload(config)?;
        Ok(self.shared.config.needs_restart(config))
    }

    /// Replaces the admission policy of a tenant's caches ([`Larder::set_admission`]).
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no such tenant; [`ErrorKind::Cache`] for a policy that cannot work.
    pub fn set_admission(&self, tenant: &str, policy: AdmissionPolicy) -> Result<(), Error> {
        let known = self.shared.tenants.iter().find(|known| known.name() == tenant);
        let unknown = || Error::new(ErrorKind::Config, format!("tenant {tenant:?}: there is none"));
        Ok(known.ok_or_else(unknown)?.calls().set_admission(policy)?)
    }

    /// Changes the memory of all caches together, in bytes. The memory of clients stays as it is.
    pub fn set_cache_memory(&self, bytes: u64) {
        self.shared.caches.set_memory_bytes(bytes);
    }

    /// Stops accepting, lets connections finish what they have begun, for [`ServerConfig::drain_time`] at most, and
    /// closes the caches within `close_time`, so that the next start finds their contents.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if a thread has failed, [`ErrorKind::Cache`] if a cache could not be closed.
    pub fn end(mut self, close_time: Duration) -> Result<(), Error> {
        self.halt()?;
        self.finder = None;
        self.leveller = None;
        block_on(self.shared.caches.close(close_time))?;
        Ok(())
    }

    /// Ends all threads.
    fn halt(&mut self) -> Result<(), Error> {
        self.shared.drain();
        let orders = (|| Letter::Drain, || Letter::End);
        let ended = self.threads.end(orders, self.shared.config.drain_time, drop);
        ended.map_err(|error| match error {
            Some(error) => Error::system(ErrorKind::System, "a thread has failed", error),
            None => Error::new(ErrorKind::System, "a thread has panicked"),
        })
    }
}

/// The admin thread. It runs until it is dropped, which is after the connections have ended: operators watch the drain
/// there.
struct AdminThread {
    address: Option<SocketAddr>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl AdminThread {
    fn begin(admin: Admin, shared: &Arc<ServerState>) -> Result<Self, Error> {
        let refused = |error| Error::system(ErrorKind::System, "the system has no thread", error);
        let stop = Arc::new(Stop::new().map_err(refused)?);
        let (address, shared, told) = (admin.address(), Arc::clone(shared), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("larder-admin".to_owned());
        let thread = thread.spawn(move || admin.run(&shared, &told)).map_err(refused)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing useful: its work is over.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // `drop` cannot report errors; a caller that wants them uses `end`.
        let _ = self.halt();
    }
}
