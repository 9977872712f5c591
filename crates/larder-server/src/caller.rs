//! Who a connection is: where it comes from, whose tenant it is.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use larder::Larder;

use crate::peer::Peer;
use crate::tenant::Tenant;
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
    /// Where it waits for requests, among the idle ones of its worker.
    waits_at: Option<usize>,
}

impl Caller {
    pub(crate) fn new(worker: Rc<Worker>, peer: Peer) -> Self {
        let id = worker.shared.next_connection();
        let tenant = Arc::clone(worker.shared.default_tenant());
        let needs_login = !worker.shared.users().is_empty();
        Self { worker, id, peer, tenant, needs_login, waits_at: None }
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
        self.tenant = Arc::clone(self.worker.shared.default_tenant());
        self.needs_login = !self.worker.shared.users().is_empty();
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
