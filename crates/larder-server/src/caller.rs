//! The identity of a connection: where it comes from, which user it is, and which tenant it uses.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use larder_device::Clock;

use crate::account::{Holder, KeptBytes, Passing};
use crate::answers::Answers;
use crate::config::ProtocolKind;
use crate::held::Held;
use crate::key_calls::{KeyCalls, Waits};
use crate::keyspace::{Changed, Event, Touch};
use crate::rates::{Admission, DELAY_MAX};
use crate::slow_log::RequestOrigin;
use crate::tenant::Tenant;
use crate::users::{Asker, Login, LoginRefusal};
use crate::watchers::{CloseReason, ConnectionEvent, Streams};
use crate::work::Work;
use crate::worker::Worker;
use larder_net::sockets::{BUFFER_BYTES, Peer};

/// What a protocol knows about its connection.
pub(crate) struct Caller {
    pub(crate) worker: Rc<Worker>,
    protocol: ProtocolKind,
    /// Unique among all connections of the server.
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    /// The tenant whose keys this connection uses.
    pub(crate) tenant: Arc<Tenant>,
    /// Number of the tenant that pays for the last request that was begun.
    payer: usize,
    /// The user that it has logged in as, or the login that it gets without logging in. `None`: it has to log in first,
    /// or it came to a listener that has a tenant.
    login: Option<Arc<Login>>,
    /// The client has sent a wrong password.
    was_wrong: bool,
    /// What the connection was before any login.
    came_as: InitialLogin,
    /// Its place among the idle connections of the worker, while it waits for requests.
    waits_at: Option<usize>,
    /// Memory that it holds for an incomplete request.
    held: Passing,
    pub(crate) work: Work,
    /// The step that it runs, if there is one.
    step: RefCell<Weak<Held>>,
    /// It tries a request that may end in one call.
    never_waits: Cell<bool>,
    closes: Cell<CloseReason>,
}

/// An incomplete request of up to this number of bytes is not counted: the fixed cost of a connection covers it.
const UNCOUNTED_BYTES: usize = 1 << 10;

/// Bytes to hold for an incomplete request of which `there` bytes have come and which needs at least `needed` bytes.
pub(crate) fn bytes_to_hold(there: usize, needed: usize) -> usize {
    if there < BUFFER_BYTES { there } else { (2 * there).min(needed.max(there + BUFFER_BYTES)) }
}

/// What a connection is before any login.
enum InitialLogin {
    /// Gets the login that the server grants without a password, if there is one.
    Unknown,
    /// A client of the tenant that its listener serves.
    To(Arc<Tenant>),
    /// The user that its certificate names.
    As(Arc<Login>),
}

impl Caller {
    /// A connection that came to a listener of `tenant`, or to one without a tenant.
    pub(crate) fn new(
        worker: Rc<Worker>,
        (peer, protocol): (Peer, ProtocolKind),
        tenant: Option<&Arc<Tenant>>,
    ) -> Self {
        let id = worker.shared.next_connection();
        let came_as =
            tenant.map_or(InitialLogin::Unknown, |tenant| InitialLogin::To(Arc::clone(tenant)));
        let tenant = Arc::clone(worker.shared.default_tenant());
        let held = Passing::new(&worker.shared.account, worker.shared.account.strangers());
        let mut caller = Self {
            payer: tenant.number,
            worker,
            protocol,
            id,
            peer,
            tenant,
            login: None,
            was_wrong: false,
            came_as,
            waits_at: None,
            held,
            work: Work::default(),
            step: RefCell::default(),
            never_waits: Cell::default(),
            closes: Cell::default(),
        };
        caller.log_out();
        caller.tell_watchers(None);
        caller
    }

    /// Takes the common name of the client's certificate; `None` if there was no certificate, or one without a name.
    /// Returns `false` if the client could never log in.
    pub(crate) fn comes_with_certificate(&mut self, name: Option<&str>) -> bool {
        let users = self.worker.shared.users();
        if let Some(user) = name.and_then(|name| users.certified(name)) {
            self.came_as = InitialLogin::As(Arc::clone(user));
        }
        self.log_out();
        !self.needs_login() || users.have_passwords()
    }

    /// The name of the user that it has logged in as; `default` if it has no name.
    pub(crate) fn user(&self) -> &str {
        let name = self.login.as_ref().map_or("", |login| login.name());
        if name.is_empty() { "default" } else { name }
    }

    /// Whether it may see and change what belongs to the process and to all tenants.
    pub(crate) fn is_admin(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_admin())
    }

    /// The calls of the cache that holds `key`.
    pub(crate) fn cache_for(&self, key: &[u8]) -> KeyCalls<'_> {
        let waits = match self.step.borrow().strong_count() {
            0 if self.never_waits.get() => Waits::Never,
            0 => Waits::ForAll,
            _ => Waits::ForCache,
        };
        KeyCalls::new(self.worker.place(), self.tenant_of(key), waits)
    }

    /// It begins a step, which lasts as long as what is returned.
    pub(crate) fn begins_step(&self) -> Rc<Held> {
        let held = Held::new(&self.worker);
        self.step.replace(Rc::downgrade(&held));
        held
    }

    /// The step that it runs.
    pub(crate) fn step(&self) -> Option<Rc<Held>> {
        self.step.borrow().upgrade()
    }

    /// The tenant that owns `key`: the connection's tenant. On connections of the first tenant, keys with another
    /// tenant's prefix belong to that tenant.
    pub(crate) fn tenant_of(&self, key: &[u8]) -> &Arc<Tenant> {
        let by_prefix = match self.tenant.number {
            0 => self.worker.shared.prefixes.tenant_of(key),
            _ => None,
        };
        by_prefix.unwrap_or(&self.tenant)
    }

    /// A change of the key that has this name in the cache begins.
    pub(crate) fn touches<'a>(&'a self, name: &'a [u8]) -> Touch<'a> {
        self.worker.shared.keyspace.touches(self.tenant_of(name), name)
    }

    /// This connection has changed the key that has this name in the cache.
    pub(crate) fn has_changed(&self, name: &[u8], events: &[Event]) {
        let keyspace = &self.worker.shared.keyspace;
        if !keyspace.is_idle() {
            let tenant = self.tenant_of(name);
            keyspace.changed(Changed { tenant, name, writer: self.id, events }, None);
        }
    }

    /// Whether a request may begin under the rates of the tenant that owns `key` (empty if the request names no key).
    /// May wait for the rate limit; earlier answers are sent first. On `false` the protocol answers that the server is
    /// busy.
    pub(crate) async fn may_begin(&mut self, key: &[u8], answers: &mut Answers<'_>) -> bool {
        // The future that waits is boxed, so that requests that do not wait stay small.
        self.may_begin_at_once(key) || Box::pin(self.waits_to_begin(answers)).await
    }

    /// As [`Caller::may_begin`] of a tenant without rate limits; `false` if there are limits to look at.
    pub(crate) fn may_begin_at_once(&mut self, key: &[u8]) -> bool {
        let tenant = self.tenant_of(key);
        let (number, are_limited) = (tenant.number, tenant.rates.are_limited());
        self.payer = number;
        !are_limited
    }

    async fn waits_to_begin(&self, answers: &mut Answers<'_>) -> bool {
        let Worker { shared, clock, purses, .. } = &*self.worker;
        let rates = &shared.tenants[self.payer].rates;
        let now = clock.monotonic();
        let (begins_at, may_begin) = match purses[self.payer].admit(rates, now) {
            Admission::Now => return true,
            Admission::At(at) => (at, true),
            Admission::Never if rates.refuses_at_once() => (now, false),
            // Refuse late, so that the client does not retry at once.
            Admission::Never => (now + DELAY_MAX, false),
        };
        if begins_at > now {
            // The error is reported when everything is sent.
            let _ = answers.send().await;
            clock.sleep_until(begins_at).await;
        }
        if may_begin {
            rates.count_delayed()
        } else {
            rates.count_refused()
        }
        may_begin
    }

    /// Charges `bytes`, received or sent, to the tenant of the last request that was begun.
    pub(crate) fn pays(&self, bytes: usize) {
        let rates = &self.worker.shared.tenants[self.payer].rates;
        if rates.are_limited() {
            let now = || self.worker.clock.monotonic();
            self.worker.purses[self.payer].spend_bytes(rates, bytes as u64, now);
        }
    }

    /// Whether the client has to log in ([`Caller::log_in`]) before anything else is answered.
    pub(crate) fn needs_login(&self) -> bool {
        self.login.is_none() && !matches!(self.came_as, InitialLogin::To(_))
    }

    /// Whether a reload has removed or changed the user that it has logged in as. The connection then has to end.
    pub(crate) fn is_revoked(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_revoked())
    }

    /// Logs in as `user` with `password`. On success the connection uses that user's tenant from now on; otherwise it
    /// stays as it was, and the error says why. Wrong passwords are answered late.
    pub(crate) async fn log_in(
        &mut self,
        user: &[u8],
        password: &[u8],
    ) -> Result<(), LoginRefusal> {
        let Worker { shared, clock, counters, .. } = &*self.worker;
        counters.auth_cmds.add(1);
        let address = match self.peer {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Unix => None,
        };
        let asker = Asker { address, was_wrong: self.was_wrong };
        match shared.users().admit(&**clock, asker, (user, password)).await {
            Ok(login) => {
                self.tenant = Arc::clone(login.tenant());
                self.login = Some(login);
                self.held.belongs_to(self.holder());
                Ok(())
            }
            Err(denied) => {
                match denied {
                    LoginRefusal::Wrong => counters.auth_errors.add(1),
                    LoginRefusal::Busy => counters.auth_busy.add(1),
                }
                self.was_wrong |= denied == LoginRefusal::Wrong;
                Err(denied)
            }
        }
    }

    /// Resets the connection to what it was when it came.
    pub(crate) fn log_out(&mut self) {
        let shared = &self.worker.shared;
        let users = shared.users();
        let login = match &self.came_as {
            InitialLogin::As(login) => Some(login),
            InitialLogin::To(_) if shared.tenants.len() > 1 => None,
            // With a single tenant, the listener's tenant is the server's only one.
            InitialLogin::Unknown | InitialLogin::To(_) => {
                users.without_login(self.peer.is_local())
            }
        };
        let login = login.cloned();
        let tenant = match (&self.came_as, &login) {
            (InitialLogin::To(tenant), _) => tenant,
            (_, Some(login)) => login.tenant(),
            (_, None) => shared.default_tenant(),
        };
        self.tenant = Arc::clone(tenant);
        self.login = login;
        self.held.belongs_to(self.holder());
    }

    /// The account that its memory is charged to.
    pub(crate) fn holder(&self) -> Holder {
        let account = &self.worker.shared.account;
        if self.needs_login() { account.strangers() } else { account.tenant(self.tenant.number) }
    }

    /// Whether it may hold more of an incomplete request: `there` bytes have come, it needs at least `needed` bytes,
    /// and its other state takes `beside` bytes. On `false` the protocol answers that the server is busy and discards
    /// the rest. Only bytes that have come are counted, whatever length was announced.
    pub(crate) fn may_hold(&self, there: usize, needed: usize, beside: usize) -> bool {
        let bytes = bytes_to_hold(there, needed) + beside;
        if bytes <= UNCOUNTED_BYTES && self.held.bytes() == 0 {
            return !self.held.was_evicted();
        }
        // What was counted earlier for the same request stays counted.
        self.held.set(bytes.max(self.held.bytes()))
    }

    /// Releases the memory of the incomplete request: there is none any more.
    pub(crate) fn holds_nothing(&self) {
        self.held.clear();
    }

    /// Whether memory is counted for an incomplete request, or was until it was evicted.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_counted()
    }

    /// Whether the memory of its incomplete request must be given up. If not, the task is woken when that changes.
    pub(crate) fn is_evicted(&self, cx: &Context<'_>) -> bool {
        self.held.is_evicted(cx)
    }

    /// Whether the memory of its incomplete request must be given up.
    pub(crate) fn was_evicted(&self) -> bool {
        self.held.was_evicted()
    }

    /// A new, empty charge for memory that it keeps from one request to the next.
    pub(crate) fn keep(&self) -> KeptBytes {
        self.worker.shared.account.keep(self.holder())
    }

    /// While `tries` runs, calls of the cache do not wait ([`Waits::Never`]), and nothing rests.
    pub(crate) fn without_waits<T>(&mut self, tries: impl FnOnce(&mut Self) -> T) -> T {
        self.never_waits.set(true);
        let done = tries(self);
        self.never_waits.set(false);
        done
    }

    /// Yields to the other connections of the worker if it has done enough in this turn.
    pub(crate) async fn rests(&self) {
        if self.never_waits.get() {
            return;
        }
        if self.work.rests().await {
            self.worker.note_longest_turn(self.work.take_longest());
        }
    }

    /// Adds a request that took at least the threshold to the slow log.
    pub(crate) fn note_slow(&self, took: Duration, command: &'static str, key: &[u8]) {
        let (peer, tenant) = (self.peer.to_string(), self.tenant_of(key));
        let whose = RequestOrigin { protocol: self.protocol, tenant: tenant.name(), peer };
        self.worker.shared.slow_log.add(took, whose, command, key);
    }

    /// A request for `key` that begins to wait.
    pub(crate) fn asks(&self, command: &'static str, key: &[u8]) -> TimedRequest {
        TimedRequest {
            worker: Rc::clone(&self.worker),
            tenant: Arc::clone(self.tenant_of(key)),
            peer: self.peer,
            protocol: self.protocol,
            command,
            begun: Instant::now(),
        }
    }

    /// Waits for `doing`, which the request `command` does to `key`, and logs it if it is slow. A future that is ready
    /// at once costs no look at the clock. The caller pins it: the futures of the cache are long, and an argument is
    /// copied.
    pub(crate) async fn watch<T>(
        &self,
        command: &'static str,
        key: &[u8],
        mut doing: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let first = poll_fn(|cx| Poll::Ready(doing.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = first {
            return done;
        }
        let asked = self.asks(command, key);
        let done = doing.await;
        asked.ends(key);
        done
    }

    /// Whether the connection must end instead of waiting longer; `limit` is the longest wait. In the middle of a
    /// request (`is_amid`) a drain of the server alone is no reason to end. If `false`, the task is woken when this may
    /// change.
    pub(crate) fn is_over(
        &mut self,
        limit: Option<Duration>,
        is_amid: bool,
        cx: &Context<'_>,
    ) -> bool {
        if self.is_revoked() {
            self.closes_for(CloseReason::Error);
            return true;
        }
        self.waits_at = self.worker.idle.waits(self.waits_at, (limit, is_amid), cx);
        if self.waits_at.is_none() {
            self.closes_for(CloseReason::IdleTimeout);
        }
        self.waits_at.is_none()
    }

    /// Why the connection ends, for clients that watch.
    pub(crate) fn closes_for(&self, reason: CloseReason) {
        self.closes.set(reason);
    }

    /// Tells the clients that watch that the connection is new, or closed.
    fn tell_watchers(&self, closed: Option<CloseReason>) {
        let watchers = &self.worker.shared.watchers;
        if watchers.want(Streams::CONNECTIONS) {
            let event = ConnectionEvent { peer: self.peer, closed, cfd: self.id };
            watchers.tell(Streams::CONNECTIONS, &event);
        }
    }

    /// It has answered requests while it waits for more: its time begins anew.
    pub(crate) fn waits_anew(&self, limit: Option<Duration>) {
        if let Some(place) = self.waits_at {
            self.worker.idle.waits_anew(place, limit);
        }
    }

    /// It no longer waits for requests.
    pub(crate) fn is_busy(&mut self) {
        self.worker.idle.waits_no_more(self.waits_at.take());
    }
}

/// A request that waits, with what the slow log needs if it takes long.
pub(crate) struct TimedRequest {
    worker: Rc<Worker>,
    tenant: Arc<Tenant>,
    peer: Peer,
    protocol: ProtocolKind,
    command: &'static str,
    begun: Instant,
}

impl TimedRequest {
    /// The request for `key` has ended: logs it if it was slow.
    pub(crate) fn ends(self, key: &[u8]) {
        let (took, log) = (self.begun.elapsed(), &self.worker.shared.slow_log);
        if log.wants(took) {
            let (protocol, peer) = (self.protocol, self.peer.to_string());
            log.add(
                took,
                RequestOrigin { protocol, tenant: self.tenant.name(), peer },
                self.command,
                key,
            );
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_busy();
        let reason = match self.worker.idle.is_draining() {
            true => CloseReason::Shutdown,
            false => self.closes.get(),
        };
        self.tell_watchers(Some(reason));
    }
}
