//! Requests that wait for EXEC, and keys that are watched.

use std::collections::HashMap;
use std::time::Duration;

use larder::ValueMeta;

use super::command::Command;
use super::parse::OwnedArguments;
use crate::account::KeptBytes;

/// Requests between MULTI and EXEC.
pub(super) struct Transaction {
    pub(super) requests: Vec<(usize, &'static Command, OwnedArguments)>,
    /// A request was refused, so EXEC will do nothing.
    pub(super) is_spoilt: bool,
    pub(super) kept: KeptBytes,
}

/// About how many bytes a table entry takes besides its key: the key's header, its state, and the table's spare room.
const ENTRY_BYTES: usize = 128;

/// The state of a key: `None` if it had no value, else the version and the expiry of the value.
type KeyState = Option<(u64, Option<Duration>)>;

/// Keys, and the state of each when it began to be watched.
#[derive(Default)]
pub(super) struct WatchedKeys {
    seen: HashMap<Box<[u8]>, KeyState>,
    kept: Option<KeptBytes>,
}

impl Transaction {
    pub(super) fn new(kept: KeptBytes) -> Self {
        Self { requests: Vec::new(), is_spoilt: false, kept }
    }
}

impl WatchedKeys {
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.seen.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.seen.keys().map(|key| &**key)
    }

    /// Whether one more key of `key_bytes` may be watched. Counts it; `kept` makes the charge for the first key.
    pub(super) fn has_room_for(
        &mut self,
        key_bytes: usize,
        kept: impl FnOnce() -> KeptBytes,
    ) -> bool {
        self.kept.get_or_insert_with(kept).grow(key_bytes + ENTRY_BYTES)
    }

    /// Watches a key in its current state.
    pub(super) fn add(&mut self, key: &[u8], current: Option<ValueMeta>) {
        let seen = current.map(|meta| (meta.version, meta.expires_at));
        self.seen.insert(key.into(), seen);
    }

    /// Whether the value of a key is unchanged; always true for a key that is not watched.
    pub(super) fn is_still(&self, key: &[u8], current: Option<ValueMeta>) -> bool {
        let Some(seen) = self.seen.get(key) else { return true };
        match (seen, current) {
            (None, None) => true,
            // Version 0 means unknown.
            (Some((version, end)), Some(meta)) => {
                *version != 0 && *version == meta.version && *end == meta.expires_at
            }
            _ => false,
        }
    }
}
