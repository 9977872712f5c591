//! Who may come in, and for which tenant it speaks then.

use std::sync::Arc;

use crate::tenant::Tenant;

/// See the module.
#[derive(Default)]
pub(crate) struct Users(Vec<User>);

struct User {
    name: Vec<u8>,
    password: Vec<u8>,
    tenant: Arc<Tenant>,
}

impl Users {
    /// Whether everybody is let in, as no one is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tenant of a user, if that is its password.
    pub(crate) fn admit(&self, name: &[u8], password: &[u8]) -> Option<Arc<Tenant>> {
        let user = self.0.iter().find(|user| user.name == name && user.password == password);
        user.map(|user| Arc::clone(&user.tenant))
    }
}
