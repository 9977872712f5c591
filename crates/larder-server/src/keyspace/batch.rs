//! Keys that one request has changed. Clients that follow their prefixes get them in one message.

use std::sync::Arc;

use super::Keyspace;

/// More keys are told in several messages.
const KEYS_MAX: usize = 1024;

/// Keys that one request has changed, told when this is dropped.
pub(crate) struct Batch {
    keyspace: Arc<Keyspace>,
    writer: Option<u64>,
    /// Each with the number of its tenant.
    keys: Vec<(usize, Box<[u8]>)>,
}

impl Batch {
    pub(super) fn new(keyspace: &Arc<Keyspace>, writer: Option<u64>) -> Self {
        Self { keyspace: Arc::clone(keyspace), writer, keys: Vec::new() }
    }

    /// Adds a key.
    pub(super) fn add(&mut self, tenant: usize, key: &[u8]) {
        self.keys.push((tenant, key.into()));
        if self.keys.len() >= KEYS_MAX {
            self.tell();
        }
    }

    fn tell(&mut self) {
        let keys = std::mem::take(&mut self.keys);
        self.keyspace.tell_prefixes(&keys, self.writer);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.tell();
    }
}
