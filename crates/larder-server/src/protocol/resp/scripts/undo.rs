//! What a script has written, so that it can be undone when the script is stopped.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;

use larder::{SetOptions, Value, ValueMeta};
use larder_script::Running;

use super::super::expiry;
use super::super::turns::Turns;
use crate::caller::Caller;
use crate::keyspace::Keyspace;
use crate::tenant::Tenant;
use crate::worker::{Turn, Worker};

/// About how many bytes an entry takes besides its key and value.
const ENTRY_BYTES: usize = 192;

/// The values that keys had before a script wrote to them.
struct UndoList {
    worker: Rc<Worker>,
    before: Vec<KeyBefore>,
    seen: HashSet<Box<[u8]>>,
    /// Held until the script has ended, or everything is undone.
    _turns: Option<Turns>,
    _place: Turn,
}

struct KeyBefore {
    tenant: Arc<Tenant>,
    key: Box<[u8]>,
    value: Before,
}

/// What a key had.
enum Before {
    Nothing,
    /// A copy of what was in DRAM.
    Copy(Box<[u8]>, ValueMeta),
    Value(Value),
}

/// Longer values are kept as they are, which pins them.
const COPIED_MAX: usize = 4 << 10;

/// Undoes what is on its list when it is dropped, which is what happens when the connection ends in the middle of a
/// script.
pub(super) struct UndoGuard(Option<UndoList>);

impl UndoList {
    /// Puts all values back, the last that was written first. What is left stays on the list.
    async fn undo(&mut self) {
        while let Some(last) = self.before.last() {
            if let Err(error) = last.put_back(&self.worker.shared.keyspace).await {
                tracing::warn!(%error, "a key that a stopped script has written could not be put back");
            }
            self.before.pop();
        }
    }
}

impl Before {
    fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Copy(bytes, _) => bytes.len(),
            Self::Value(value) => value.len(),
        }
    }
}

impl KeyBefore {
    async fn put_back(&self, keyspace: &Arc<Keyspace>) -> Result<(), larder::Error> {
        let Self { tenant, key, value } = self;
        let cache = tenant.calls();
        // When it is dropped, the clients that track are told of the key, whatever came of this.
        let _touch = keyspace.touches(tenant, key);
        let (bytes, meta) = match value {
            Before::Nothing => return cache.delete(key).await.map(drop),
            Before::Copy(bytes, meta) => (&**bytes, *meta),
            Before::Value(value) => (&**value, value.meta()),
        };
        let now = cache.moment(key).now();
        let left = meta.expires_at.map(|end| expiry::until(expiry::millis_of(end), now));
        let options = SetOptions {
            ttl: left.map(Option::unwrap_or_default),
            flags: meta.flags,
            version: NonZeroU64::new(meta.version),
            stale: meta.stale,
            won: meta.won,
            ..SetOptions::default()
        };
        cache.set_with(key, bytes, options).await.map(drop)
    }
}

impl UndoGuard {
    /// An empty list, which keeps the turns and the place of the script.
    pub(super) fn new(worker: Rc<Worker>, turns: Option<Turns>, place: Turn) -> Self {
        let (before, seen) = (Vec::new(), HashSet::new());
        Self(Some(UndoList { worker, before, seen, _turns: turns, _place: place }))
    }

    /// Notes the value that `key` has, if the script writes to it for the first time. `false` without memory for that.
    pub(super) async fn note(
        &mut self,
        caller: &Caller,
        running: &Running,
        key: &[u8],
    ) -> Result<bool, larder::Error> {
        let Some(list) = &mut self.0 else { return Ok(true) };
        if list.seen.contains(key) {
            return Ok(true);
        }
        let tenant = Arc::clone(caller.tenant_of(key));
        let copied = tenant.calls().get_at_once_with(key, |value, meta| {
            (value.len() <= COPIED_MAX).then(|| Before::Copy(value.into(), meta))
        });
        let value = match copied? {
            Some(Some(copy)) => copy,
            // The future is long, and is boxed where it is needed.
            _ => Box::pin(tenant.calls().get(key)).await?.map_or(Before::Nothing, Before::Value),
        };
        let bytes = 2 * key.len() + value.len() + ENTRY_BYTES;
        if !running.take_bytes(bytes) {
            return Ok(false);
        }
        list.seen.insert(key.into());
        list.before.push(KeyBefore { tenant, key: key.into(), value });
        Ok(true)
    }

    /// The script has ended by itself: what it has written stays.
    pub(super) fn keeps(mut self) {
        self.0 = None;
    }

    /// Puts everything back.
    pub(super) async fn undoes(mut self) {
        if let Some(list) = &mut self.0 {
            // If this future is dropped, the rest of the list is undone by a task.
            list.undo().await;
        }
        self.0 = None;
    }
}

impl Drop for UndoGuard {
    fn drop(&mut self) {
        let Some(mut list) = self.0.take().filter(|list| !list.before.is_empty()) else { return };
        let worker = Rc::clone(&list.worker);
        worker.spawn(async move { list.undo().await });
    }
}
