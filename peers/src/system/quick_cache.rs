//! quick_cache, weighed in bytes.

use std::sync::Arc;

use ::quick_cache::Weighter;
use ::quick_cache::sync::Cache;

use super::DramCache;
use crate::item::{Item, KEY_BYTES, Key};

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Arc<[u8]>> for Bytes {
    fn weight(&self, _: &Key, value: &Arc<[u8]>) -> u64 {
        (KEY_BYTES + value.len()) as u64
    }
}

/// quick_cache.
pub(crate) struct QuickCache(Cache<Key, Arc<[u8]>, Bytes>);

impl QuickCache {
    /// Opens it; `items` is the approximate number of items that fit.
    pub(crate) fn open(dram_bytes: u64, items: u64) -> Self {
        Self(Cache::with_weighter(items as usize, dram_bytes, Bytes))
    }
}

impl DramCache for QuickCache {
    fn get(&self, item: &Item) -> Result<bool, String> {
        match self.0.get(&item.key) {
            Some(value) => item.check(&value).map(|()| true),
            None => Ok(false),
        }
    }

    fn set(&self, item: &Item, value: &[u8]) -> Result<(), String> {
        self.0.insert(item.key, value.into());
        Ok(())
    }
}
