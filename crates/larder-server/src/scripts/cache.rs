//! The sources of a tenant's scripts, of which the least recently used give way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::ScriptName;
use crate::account::KeptBytes;

/// Most bytes of the scripts of a tenant.
const BYTES_MAX: usize = 16 << 20;
/// About how many bytes a script takes besides its source.
const ENTRY_BYTES: usize = 256;

#[derive(Default)]
pub(super) struct ScriptCache {
    scripts: HashMap<ScriptName, CachedScript>,
    /// Their names, by when they were last used.
    by_use: BTreeMap<u64, ScriptName>,
    uses: u64,
    kept: Option<KeptBytes>,
    bytes: usize,
}

struct CachedScript {
    source: Arc<[u8]>,
    used_at: u64,
}

impl ScriptCache {
    pub(super) fn len(&self) -> usize {
        self.scripts.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has(&self, name: &ScriptName) -> bool {
        self.scripts.contains_key(name)
    }

    pub(super) fn find(&mut self, name: &ScriptName) -> Option<Arc<[u8]>> {
        let script = self.scripts.get_mut(name)?;
        if script.used_at != self.uses {
            self.by_use.remove(&script.used_at);
            self.uses += 1;
            script.used_at = self.uses;
            self.by_use.insert(self.uses, *name);
        }
        Some(Arc::clone(&script.source))
    }

    /// Keeps a script; others give way. `false` if there is no room.
    pub(super) fn keep(
        &mut self,
        name: &ScriptName,
        source: &[u8],
        charge: impl FnOnce() -> KeptBytes,
    ) -> bool {
        if self.find(name).is_some() {
            return true;
        }
        let bytes = source.len() + ENTRY_BYTES;
        if bytes > BYTES_MAX {
            return false;
        }
        while self.bytes + bytes > BYTES_MAX && self.drop_oldest() {}
        let mut kept = self.kept.take().unwrap_or_else(charge);
        let mut is_counted = kept.grow(bytes);
        self.kept = Some(kept);
        while !is_counted && self.drop_oldest() {
            is_counted = self.kept.as_mut().is_some_and(|kept| kept.grow(bytes));
        }
        if !is_counted {
            return false;
        }
        self.bytes += bytes;
        self.uses += 1;
        self.by_use.insert(self.uses, *name);
        self.scripts.insert(*name, CachedScript { source: source.into(), used_at: self.uses });
        true
    }

    /// Forgets the script that was not used for longest. `false` if there is none.
    fn drop_oldest(&mut self) -> bool {
        let Some((_, name)) = self.by_use.pop_first() else { return false };
        let Some(script) = self.scripts.remove(&name) else { return false };
        let bytes = script.source.len() + ENTRY_BYTES;
        self.bytes -= bytes;
        if let Some(kept) = &mut self.kept {
            kept.shrink(bytes);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Account;

    fn name(number: u8) -> ScriptName {
        [number; 40]
    }

    #[test]
    fn the_least_recently_used_gives_way() {
        let account = Arc::new(Account::new(256 << 20, 1));
        let mut cache = ScriptCache::default();
        let source = vec![b' '; 5 << 20];
        for number in 0..3 {
            assert!(cache.keep(&name(number), &source, || account.keep(account.tenant(0))));
        }
        assert!(cache.find(&name(0)).is_some());
        assert!(cache.keep(&name(3), &source, || account.keep(account.tenant(0))));
        assert!(cache.has(&name(0)) && !cache.has(&name(1)), "1 was not used for longest");
        assert_eq!((cache.len(), account.used()), (3, cache.bytes()));
        assert!(!cache.keep(&name(4), &vec![0; BYTES_MAX], || account.keep(account.tenant(0))));
        drop(cache);
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn a_tenant_without_memory_keeps_what_fits() {
        let account = Arc::new(Account::new(1 << 20, 1));
        let mut cache = ScriptCache::default();
        let keep = |cache: &mut ScriptCache, number, bytes| {
            cache.keep(&name(number), &vec![0; bytes], || account.keep(account.tenant(0)))
        };
        assert!(keep(&mut cache, 0, 300 << 10));
        assert!(keep(&mut cache, 1, 300 << 10), "the first gives way");
        assert!(!cache.has(&name(0)));
        assert!(!keep(&mut cache, 2, 800 << 10));
        assert_eq!(account.used(), cache.bytes());
    }
}
