//! Who a connection is: where it comes from, whose tenant it is.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use larder_device::Clock;

use crate::account::{Holder, Kept, Passing};
use crate::answers::Answers;
use crate::config::ProtocolKind;
use crate::rates::{Admission, DELAY_MAX};
use crate::slow_log::Whose;
use crate::tenant::{Calls, Tenant};
use crate::users::{Asker, Denied, Login};
use crate::work::Work;
use crate::worker::Worker;
use larder_device::sockets::{BUFFER_BYTES, Peer};

/// What a protocol knows of its connection.
pub(crate) struct Caller {
    pub(crate) worker: Rc<Worker>,
    protocol: ProtocolKind,
    /// Unlike that of any other connection of the server.
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    /// Whose keys these are.
    pub(crate) tenant: Arc<Tenant>,
    /// The number of the tenant whose request was begun last.
    payer: usize,
    /// What it has logged in as, or holds without having logged in. `None`: it has to log in first, or came to a
    /// listener that has a tenant.
    login: Option<Arc<Login>>,
    /// It has shown a wrong password.
    was_wrong: bool,
    /// What it was before it logged in.
    came_as: Came,
    /// Where it waits for requests, among the idle ones of its worker.
    waits_at: Option<usize>,
    /// What it holds of a request that is not there whole.
    held: Passing,
    pub(crate) work: Work,
}

/// Bytes of an unfinished request that are not counted: they are among what each connection may take.
const UNCOUNTED_BYTES: usize = 1 << 10;

/// Bytes to hold for an unfinished request of which `there` bytes have come, and which needs `needed` at least.
pub(crate) fn bytes_to_hold(there: usize, needed: usize) -> usize {
    if there < BUFFER_BYTES { there } else { (2 * there).min(needed.max(there + BUFFER_BYTES)) }
}

/// What a connection is before it logs in.
enum Came {
    /// What the server lets in without a login, if it does.
    Unknown,
    /// A client of the tenant whose keys its listener serves.
    To(Arc<Tenant>),
    /// The user whom its certificate names.
    As(Arc<Login>),
}

impl Caller {
    /// Who comes in where the keys of `tenant` are, or nobody's.
    pub(crate) fn new(
        worker: Rc<Worker>,
        (peer, protocol): (Peer, ProtocolKind),
        tenant: Option<&Arc<Tenant>>,
    ) -> Self {
        let id = worker.shared.next_connection();
        let came_as = tenant.map_or(Came::Unknown, |tenant| Came::To(Arc::clone(tenant)));
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
        };
        caller.log_out();
        caller
    }

    /// It has shown a certificate with this common name, or none, or one without. `false`: it could never log in.
    pub(crate) fn comes_with_certificate(&mut self, name: Option<&str>) -> bool {
        let users = self.worker.shared.users();
        if let Some(user) = name.and_then(|name| users.certified(name)) {
            self.came_as = Came::As(Arc::clone(user));
        }
        self.log_out();
        !self.needs_login() || users.have_passwords()
    }

    /// The name of the user that it has logged in as; `default` where no client has one.
    pub(crate) fn user(&self) -> &str {
        let name = self.login.as_ref().map_or("", |login| login.name());
        if name.is_empty() { "default" } else { name }
    }

    /// Whether it may see and change what belongs to the process and to all tenants.
    pub(crate) fn is_admin(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_admin())
    }

    /// The calls of the cache that has `key`.
    pub(crate) fn cache_for(&self, key: &[u8]) -> Calls<'_> {
        self.tenant_of(key).calls()
    }

    /// Whose key this is: the connection's tenant's, but for keys of others that the first tenant's connections may
    /// use by their prefix.
    pub(crate) fn tenant_of(&self, key: &[u8]) -> &Arc<Tenant> {
        let by_prefix = match self.tenant.number {
            0 => self.worker.shared.prefixes.tenant_of(key),
            _ => None,
        };
        by_prefix.unwrap_or(&self.tenant)
    }

    /// Whether a request may begin that is about `key`, if it is about one, by the rates of the tenant whose key it is.
    /// It may have to wait for that; then what was answered before is on its way. If not, its protocol answers that
    /// the server is busy.
    pub(crate) async fn may_begin(&mut self, key: &[u8], answers: &mut Answers<'_>) -> bool {
        let tenant = self.tenant_of(key);
        let (number, are_limited) = (tenant.number, tenant.rates.are_limited());
        self.payer = number;
        // What waiting takes is behind a pointer, for those that need it.
        !are_limited || Box::pin(self.waits_to_begin(answers)).await
    }

    async fn waits_to_begin(&self, answers: &mut Answers<'_>) -> bool {
        let Worker { shared, clock, purses, .. } = &*self.worker;
        let rates = &shared.tenants[self.payer].rates;
        let now = clock.monotonic();
        let (begins_at, may_begin) = match purses[self.payer].admit(rates, now) {
            Admission::Now => return true,
            Admission::At(at) => (at, true),
            Admission::Never if rates.refuses_at_once() => (now, false),
            // It is refused late, so that it does not ask again at once.
            Admission::Never => (now + DELAY_MAX, false),
        };
        if begins_at > now {
            // A failure is told when all is sent.
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

    /// So many bytes have come for the request that was begun last, or gone.
    pub(crate) fn pays(&self, bytes: usize) {
        let rates = &self.worker.shared.tenants[self.payer].rates;
        if rates.are_limited() {
            let now = || self.worker.clock.monotonic();
            self.worker.purses[self.payer].spend_bytes(rates, bytes as u64, now);
        }
    }

    /// Whether nothing else is answered before it has logged in ([`Caller::log_in`]).
    pub(crate) fn needs_login(&self) -> bool {
        self.login.is_none() && !matches!(self.came_as, Came::To(_))
    }

    /// Whether the configuration no longer has the user that it has logged in as, or says something else of it. The
    /// connection has to end then.
    pub(crate) fn is_revoked(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.is_revoked())
    }

    /// Has `user` come in with `password`. Then it speaks for that user's tenant from now on; otherwise it is what it
    /// was, and hears why. Wrong passwords are answered late.
    pub(crate) async fn log_in(&mut self, user: &[u8], password: &[u8]) -> Result<(), Denied> {
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
                    Denied::Wrong => counters.auth_errors.add(1),
                    Denied::Busy => counters.auth_busy.add(1),
                }
                self.was_wrong |= denied == Denied::Wrong;
                Err(denied)
            }
        }
    }

    /// It is what it was when it came.
    pub(crate) fn log_out(&mut self) {
        let shared = &self.worker.shared;
        let users = shared.users();
        let login = match &self.came_as {
            Came::As(login) => Some(login),
            Came::To(_) if shared.tenants.len() > 1 => None,
            // Where there are no others, the tenant of its listener is the server's.
            Came::Unknown | Came::To(_) => users.without_login(self.peer.is_local()),
        };
        let login = login.cloned();
        let tenant = match (&self.came_as, &login) {
            (Came::To(tenant), _) => tenant,
            (_, Some(login)) => login.tenant(),
            (_, None) => shared.default_tenant(),
        };
        self.tenant = Arc::clone(tenant);
        self.login = login;
        self.held.belongs_to(self.holder());
    }

    /// To whose account goes what it causes.
    pub(crate) fn holder(&self) -> Holder {
        let account = &self.worker.shared.account;
        if self.needs_login() { account.strangers() } else { account.tenant(self.tenant.number) }
    }

    /// Whether more may come of a request that is not there whole: `there` bytes of it have come, it needs `needed` at
    /// least, and what is known of it takes `beside`. If not, its protocol answers that the server is busy, and takes
    /// the rest without keeping it. Only what is there is counted, whatever was announced.
    pub(crate) fn may_hold(&self, there: usize, needed: usize, beside: usize) -> bool {
        let bytes = bytes_to_hold(there, needed) + beside;
        if bytes <= UNCOUNTED_BYTES && self.held.bytes() == 0 {
            return !self.held.was_evicted();
        }
        // What was counted before it for the same request stands.
        self.held.set(bytes.max(self.held.bytes()))
    }

    /// No request is there in part.
    pub(crate) fn holds_nothing(&self) {
        self.held.clear();
    }

    /// Whether memory is counted for a request that is there in part, or was until it was evicted.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_counted()
    }

    /// Whether what it holds of a request is to be given up. If not, the task is woken when it is.
    pub(crate) fn is_evicted(&self, cx: &Context<'_>) -> bool {
        self.held.is_evicted(cx)
    }

    /// Whether what it holds of a request is to be given up.
    pub(crate) fn was_evicted(&self) -> bool {
        self.held.was_evicted()
    }

    /// Nothing that it keeps beyond its requests, until that grows.
    pub(crate) fn keep(&self) -> Kept {
        self.worker.shared.account.keep(self.holder())
    }

    /// The others of its worker have their turns, if it has done enough.
    pub(crate) async fn rests(&self) {
        if self.work.rests().await {
            self.worker.note_longest_turn(self.work.take_longest());
        }
    }

    /// A request of this name has taken so long that it is wanted in the slow log.
    pub(crate) fn note_slow(&self, took: Duration, command: &'static str, key: &[u8]) {
        let (peer, tenant) = (self.peer.to_string(), self.tenant_of(key));
        let whose = Whose { protocol: self.protocol, tenant: tenant.name(), peer };
        self.worker.shared.slow_log.add(took, whose, command, key);
    }

    /// A request of this name, about this key, begins that waits for something.
    pub(crate) fn asks(&self, command: &'static str, key: &[u8]) -> Asked {
        Asked {
            worker: Rc::clone(&self.worker),
            tenant: Arc::clone(self.tenant_of(key)),
            peer: self.peer,
            protocol: self.protocol,
            command,
            begun: Instant::now(),
        }
    }

    /// Waits for `doing`, which a request of this name does to `key`. If that takes long, it is noted; what does not
    /// wait looks at no clock.
    pub(crate) async fn watch<T>(
        &self,
        command: &'static str,
        key: &[u8],
        doing: impl Future<Output = T>,
    ) -> T {
        let mut doing = pin!(doing);
        let first = poll_fn(|cx| Poll::Ready(doing.as_mut().poll(cx))).await;
        if let Poll::Ready(done) = first {
            return done;
        }
        let asked = self.asks(command, key);
        let done = doing.await;
        asked.ends(key);
        done
    }

    /// Whether it is to end rather than wait for more, for `limit` at most; amid a request the end of the server
    /// alone is no reason. If not, it is called when that changes.
    pub(crate) fn is_over(
        &mut self,
        limit: Option<Duration>,
        is_amid: bool,
        cx: &Context<'_>,
    ) -> bool {
        if self.is_revoked() {
            return true;
        }
        self.waits_at = self.worker.idle.waits(self.waits_at, (limit, is_amid), cx);
        self.waits_at.is_none()
    }

    /// It waits no more.
    pub(crate) fn is_busy(&mut self) {
        self.worker.idle.waits_no_more(self.waits_at.take());
    }
}

/// A request that waits for something, with all that is to be told of it if that takes long.
pub(crate) struct Asked {
    worker: Rc<Worker>,
    tenant: Arc<Tenant>,
    peer: Peer,
    protocol: ProtocolKind,
    command: &'static str,
    begun: Instant,
}

impl Asked {
    /// It has ended, and was about `key`.
    pub(crate) fn ends(self, key: &[u8]) {
        let (took, log) = (self.begun.elapsed(), &self.worker.shared.slow_log);
        if log.wants(took) {
            let (protocol, peer) = (self.protocol, self.peer.to_string());
            log.add(took, Whose { protocol, tenant: self.tenant.name(), peer }, self.command, key);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_busy();
    }
}
