//! The login of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tenant::Tenant;

/// A logged-in user. All connections of the user share it. When a reload changes or removes the user, the login is
/// revoked, and the connections that hold it are closed.
pub(crate) struct Login {
    /// Empty for clients of a server without users.
    name: String,
    tenant: Arc<Tenant>,
    is_admin: bool,
    is_revoked: AtomicBool,
}

impl Login {
    pub(super) fn new(name: String, tenant: Arc<Tenant>, is_admin: bool) -> Self {
        Self { name, tenant, is_admin, is_revoked: AtomicBool::new(false) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Whether its connections see and change what belongs to the process and to all tenants.
    pub(crate) fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// Whether the connections that hold it have to end.
    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Relaxed)
    }

    pub(super) fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Relaxed);
    }
}
