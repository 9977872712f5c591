//! Who a connection is: where it comes from, whose tenant it is.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use larder::Larder;

use crate::peer::Peer;
use crate::tenant::Tenant;
use crate::users::CertifiedUser;
use crate::worker::{BUFFER_BYTES, Worker};

/// What a protocol knows of its connection.
pub(crate) struct Caller {
    pub(crate) worker: Rc<Worker>,
    /// Unlike that of any other connection of the server.
    pub(crate) id: u64,
    pub(crate) peer: Peer,
    /// Whose keys these are.
    pub(crate) tenant: Arc<Tenant>,
    needs_login: bool,
    /// Who it was when it came.
    came_as: Came,
    /// Where it waits for requests, among the idle ones of its worker.
    waits_at: Option<usize>,
}

/// What makes it somebody who has not logged in.
enum Came {
    /// Nothing.
    Nobody,
    /// Where it came in are a tenant's keys.
    To(Arc<Tenant>),
    /// Its certificate names a user.
    As(CertifiedUser),
}

impl Caller {
    /// Who comes in where the keys of `tenant` are, or nobody's.
    pub(crate) fn new(worker: Rc<Worker>, peer: Peer, tenant: Option<&Arc<Tenant>>) -> Self {
        let id = worker.shared.next_connection();
        let came_as = tenant.map_or(Came::Nobody, |tenant| Came::To(Arc::clone(tenant)));
        let tenant = Arc::clone(worker.shared.default_tenant());
        let mut caller =
            Self { worker, id, peer, tenant, needs_login: true, came_as, waits_at: None };
        caller.log_out();
        caller
    }

    /// It has shown a certificate with this common name, or none, or one without. `false`: it could never log in.
    pub(crate) fn comes_with_certificate(&mut self, name: Option<&str>) -> bool {
        let users = self.worker.shared.users();
        if let Some(user) = name.and_then(|name| users.certified(name)) {
            self.came_as = Came::As(user);
        }
        self.log_out();
        !self.needs_login || users.have_passwords()
    }

    /// The user that its certificate names.
    pub(crate) fn certified_user(&self) -> Option<&str> {
        match &self.came_as {
            Came::As(user) => Some(&user.name),
            Came::Nobody | Came::To(_) => None,
        }
    }

    /// The cache that has `key`.
    pub(crate) fn cache_for(&self, key: &[u8]) -> &Larder {
        self.tenant.cache_for(key)
    }

    /// Whether nothing else is answered before somebody has logged in ([`Caller::log_in`]).
    pub(crate) fn needs_login(&self) -> bool {
        self.needs_login
    }

    /// Whether `user` may come in with `password`. Then it speaks for that user's tenant from now on; otherwise it is
    /// who it was. Wrong passwords are answered late.
    pub(crate) async fn log_in(&mut self, user: &[u8], password: &[u8]) -> bool {
        let Worker { shared, clock, counters, .. } = &*self.worker;
        counters.auth_cmds.add(1);
        let Some(tenant) = shared.users().admit(&**clock, user, password).await else {
            counters.auth_errors.add(1);
            return false;
        };
        (self.tenant, self.needs_login) = (tenant, false);
        true
    }

    /// It is who it was when it came.
    pub(crate) fn log_out(&mut self) {
        let shared = &self.worker.shared;
        let (tenant, needs_login) = match &self.came_as {
            Came::Nobody => (shared.default_tenant(), !shared.users().is_empty()),
            Came::To(tenant) => (tenant, false),
            Came::As(user) => (&user.tenant, false),
        };
        (self.tenant, self.needs_login) = (Arc::clone(tenant), needs_login);
    }

    /// Whether a request of so many bytes may be taken in. If not, its protocol answers that the server is busy, and
    /// takes the bytes without keeping them: nobody else stalls for it.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        bytes <= BUFFER_BYTES || self.worker.has_room_for(bytes)
    }

    /// Whether it is to end rather than wait for more. If not, it is called when that changes.
    pub(crate) fn is_over(&mut self, cx: &Context<'_>) -> bool {
        self.waits_at = self.worker.idle.waits(self.waits_at, cx);
        self.waits_at.is_none()
    }

    /// It waits no more.
    pub(crate) fn is_busy(&mut self) {
        self.worker.idle.waits_no_more(self.waits_at.take());
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_busy();
    }
}
