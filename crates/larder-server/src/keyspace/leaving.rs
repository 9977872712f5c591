//! Keys that leave the caches by themselves: by expiry, by eviction, and by losses of flash.

use std::sync::{Arc, Weak};

use larder::{Removal, RemovalListener, RemovalReason};

use super::{Event, Keyspace};
use crate::config::KeyspaceEvents;
use crate::tenant::Tenant;

const EXPIRED: Event = Event { class: KeyspaceEvents::EXPIRED, name: "expired" };
const EVICTED: Event = Event { class: KeyspaceEvents::EVICTED, name: "evicted" };

/// Tells `keyspace` what leaves the caches of a tenant.
pub(crate) fn listener(keyspace: &Arc<Keyspace>, tenant: &Arc<Tenant>) -> RemovalListener {
    // The caches are a part of the tenant.
    let (keyspace, tenant) = (Arc::clone(keyspace), Arc::downgrade(tenant));
    RemovalListener::new(move |removal| leaves(&keyspace, &tenant, &removal))
}

fn leaves(keyspace: &Arc<Keyspace>, tenant: &Weak<Tenant>, removal: &Removal<'_>) {
    let event = match removal.reason {
        // The request tells it.
        RemovalReason::Replaced | RemovalReason::Deleted => return,
        RemovalReason::Expired => EXPIRED,
        _ => EVICTED,
    };
    // Of what goes with a region of flash, the key is not known.
    if let (Some(name), Some(tenant)) = (removal.key, tenant.upgrade()) {
        keyspace.left(&tenant, name, event);
    }
}
