//! Keys that leave the caches by themselves: by expiry, by eviction, and by losses of flash.

use std::sync::{Arc, Weak};

use larder::{Removal, RemovalListener, RemovalReason};

use super::{Event, Keyspace};
use crate::config::KeyspaceEvents;
use crate::databases::key_in;
use crate::tenant::Tenant;
use crate::watchers::{Eviction, Streams, Watchers};

const EXPIRED: Event = Event { class: KeyspaceEvents::EXPIRED, name: "expired" };
const EVICTED: Event = Event { class: KeyspaceEvents::EVICTED, name: "evicted" };

/// Tells `keyspace` and `watchers` what leaves the caches of a tenant.
pub(crate) fn listener(
    keyspace: &Arc<Keyspace>,
    watchers: &Arc<Watchers>,
    tenant: &Arc<Tenant>,
) -> RemovalListener {
    // The caches are a part of the tenant.
    let (keyspace, watchers) = (Arc::clone(keyspace), Arc::clone(watchers));
    let tenant = Arc::downgrade(tenant);
    RemovalListener::new(move |removal| {
        watched(&watchers, &removal);
        leaves(&keyspace, &tenant, &removal);
    })
}

/// Tells the clients that watch. What goes with a region of flash has no key to tell.
fn watched(watchers: &Watchers, removal: &Removal<'_>) {
    let Some(name) = removal.key else { return };
    match removal.reason {
        RemovalReason::Replaced | RemovalReason::Deleted => {}
        RemovalReason::Expired => watchers.note_expired(name),
        _ if watchers.want(Streams::EVICTIONS) => {
            let size = removal.bytes.map(|bytes| bytes.saturating_sub(name.len() as u64));
            watchers.tell(Streams::EVICTIONS, &Eviction { key: key_in(name), size });
        }
        _ => {}
    }
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
