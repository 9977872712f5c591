//! Larder, in memory and on a file.

use std::sync::Arc;

use larder::{Config, CrashSafety, Larder, LocConfig, RealClock, SocConfig, SocLayout, block_on};
use larder_device::{Device, DirectIo, FileDevice, FileOptions};

use super::{DramCache, HybridCache, HybridPlan, System};
use crate::item::Item;

/// Every workload's small values go to the small-object engine.
const SOC_OBJECT_BYTES_MAX: u32 = 2048;
/// Share of the small-object engine that the log in front of it gets.
const SOC_LOG_PERCENT: f64 = 5.0;

/// Larder without flash.
pub(crate) struct LarderDram(Larder);

impl LarderDram {
    pub(crate) fn open(dram_bytes: u64) -> Result<Self, String> {
        let config = Config { dram_bytes, ..Config::default() };
        block_on(Larder::open(config, None, Arc::new(RealClock))).map(Self).map_err(text)
    }
}

impl DramCache for LarderDram {
    fn get(&self, item: &Item) -> Result<bool, String> {
        // Check the value in place, without a copy: this is the purpose of `get_with`.
        let checked = self.0.blocking().get_with(&item.key.0, |value, _| item.check(value));
        checked.map_err(text)?.map_or(Ok(false), |checked| checked.map(|()| true))
    }

    fn set(&self, item: &Item, value: &[u8]) -> Result<(), String> {
        self.0.blocking().set(&item.key.0, value, None).map_err(text)
    }
}

/// Larder on a file.
pub(crate) struct LarderHybrid(Larder);

impl LarderHybrid {
    /// Opens the cache with the engines of `system`.
    pub(crate) async fn open(plan: &HybridPlan<'_>, system: System) -> Result<Self, String> {
        let (percent, log_percent, layout) = match system {
            System::LarderSoc => (plan.flash.soc_percent, 0.0, SocLayout::Buckets),
            System::LarderPages => (plan.flash.soc_percent, 0.0, SocLayout::Pages),
            System::LarderSocLog => (plan.flash.soc_percent, SOC_LOG_PERCENT, SocLayout::Buckets),
            System::LarderLoc => (0.0, 0.0, SocLayout::Buckets),
            _ => return Self::open_with(plan, Config::default()).await,
        };
        let config = Config {
            soc: SocConfig {
                percent: Some(percent),
                layout: Some(layout),
                log_percent: Some(log_percent),
                max_object_bytes: SOC_OBJECT_BYTES_MAX,
                ..SocConfig::default()
            },
            // Off, because the peers guarantee nothing about values that were replaced before a crash.
            crash_safety: CrashSafety::Off,
            loc: LocConfig { region_bytes: Some(plan.flash.region_bytes), ..LocConfig::default() },
            ..Config::default()
        };
        Self::open_with(plan, config).await
    }

    async fn open_with(plan: &HybridPlan<'_>, config: Config) -> Result<Self, String> {
        let options = FileOptions {
            capacity_bytes: Some(plan.flash.bytes),
            direct: DirectIo::Required,
            ..FileOptions::default()
        };
        let device: Arc<dyn Device> =
            Arc::new(FileDevice::open(plan.file, &options).map_err(text)?);
        let config = Config { dram_bytes: plan.dram_bytes, start_empty: true, ..config };
        Larder::open(config, Some(device), Arc::new(RealClock)).await.map(Self).map_err(text)
    }
}

impl HybridCache for LarderHybrid {
    async fn get(&self, item: &Item) -> Result<bool, String> {
        match self.0.get(&item.key.0).await.map_err(text)? {
            Some(value) => item.check(&value).map(|()| true),
            None => Ok(false),
        }
    }

    async fn set(&self, item: &Item, value: &[u8]) -> Result<(), String> {
        self.0.set(&item.key.0, value, None).await.map_err(text)
    }

    fn counted_written_bytes(&self) -> u64 {
        self.0.stats().flash_written_bytes()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    format!("larder: {error}")
}
