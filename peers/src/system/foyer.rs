//! foyer, in memory and on a file, with S3-FIFO or LRU.

use ::foyer::{
    BlockEngineConfig, Cache, CacheBuilder, DeviceBuilder, EvictionConfig, FileDeviceBuilder,
    HybridCache as Hybrid, HybridCacheBuilder, HybridCachePolicy, LruConfig, PsyncIoEngineConfig,
    RecoverMode, S3FifoConfig,
};

use super::{DramCache, HybridCache, HybridPlan};
use crate::item::{Item, KEY_BYTES, Key};

const SHARDS: usize = 8;
/// Size of the submit queue as a multiple of the buffer pool.
const QUEUE_PER_POOL: u64 = 4;

/// foyer's memory cache.
pub(crate) struct FoyerDram(Cache<Key, Vec<u8>>);

impl FoyerDram {
    pub(crate) fn open(dram_bytes: u64, is_lru: bool) -> Self {
        let builder = CacheBuilder::new(dram_bytes as usize)
            .with_shards(SHARDS)
            .with_eviction_config(eviction(is_lru))
            .with_weighter(weight);
        Self(builder.build())
    }
}

impl DramCache for FoyerDram {
    fn get(&self, item: &Item) -> Result<bool, String> {
        match self.0.get(&item.key) {
            Some(entry) => item.check(entry.value()).map(|()| true),
            None => Ok(false),
        }
    }

    fn set(&self, item: &Item, value: &[u8]) -> Result<(), String> {
        self.0.insert(item.key, value.to_vec());
        Ok(())
    }
}

/// foyer's hybrid cache with its block engine.
pub(crate) struct FoyerHybrid(Hybrid<Key, Vec<u8>>);

impl FoyerHybrid {
    pub(crate) async fn open(plan: &HybridPlan<'_>, is_lru: bool) -> Result<Self, String> {
        let device = FileDeviceBuilder::new(plan.file)
            .with_capacity(plan.flash.bytes as usize)
            .with_direct(true)
            .build()
            .map_err(text)?;
        let engine = BlockEngineConfig::new(device)
            .with_block_size(plan.flash.region_bytes as usize)
            .with_flushers(1)
            .with_reclaimers(1)
            .with_buffer_pool_size((plan.flash.queue_bytes / QUEUE_PER_POOL) as usize)
            .with_submit_queue_size_threshold(plan.flash.queue_bytes as usize);
        let cache = HybridCacheBuilder::new()
            .with_policy(HybridCachePolicy::WriteOnEviction)
            .memory(plan.dram_bytes as usize)
            .with_shards(SHARDS)
            .with_eviction_config(eviction(is_lru))
            .with_weighter(weight)
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            .with_recover_mode(RecoverMode::None)
            .build()
            .await
            .map_err(text)?;
        Ok(Self(cache))
    }
}

impl HybridCache for FoyerHybrid {
    async fn get(&self, item: &Item) -> Result<bool, String> {
        match self.0.get(&item.key).await.map_err(text)? {
            Some(entry) => item.check(entry.value()).map(|()| true),
            None => Ok(false),
        }
    }

    async fn set(&self, item: &Item, value: &[u8]) -> Result<(), String> {
        self.0.insert(item.key, value.to_vec());
        Ok(())
    }

    fn counted_written_bytes(&self) -> u64 {
        self.0.statistics().disk_write_bytes() as u64
    }
}

/// Without a weigher, foyer counts entries instead of bytes. foyer requires this parameter type.
#[allow(clippy::ptr_arg)]
fn weight(_: &Key, value: &Vec<u8>) -> usize {
    KEY_BYTES + value.len()
}

fn eviction(is_lru: bool) -> EvictionConfig {
    if is_lru { LruConfig::default().into() } else { S3FifoConfig::default().into() }
}

fn text(error: impl std::fmt::Display) -> String {
    format!("foyer: {error}")
}
