//! moka, weighed in bytes.

use std::sync::Arc;

use ::moka::sync::Cache;

use super::DramCache;
use crate::item::{Item, KEY_BYTES, Key};

/// moka.
pub(crate) struct Moka(Cache<Key, Arc<[u8]>>);

impl Moka {
    pub(crate) fn open(dram_bytes: u64) -> Self {
        let weigh =
            |_: &Key, value: &Arc<[u8]>| u32::try_from(KEY_BYTES + value.len()).unwrap_or(u32::MAX);
        Self(Cache::builder().max_capacity(dram_bytes).weigher(weigh).build())
    }
}

impl DramCache for Moka {
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
