//! The tenants' budget of DRAM, or of all memory.

use std::sync::Arc;

use super::config::TenantsConfig;
use crate::base::error::Error;
use crate::cache::Larder;
use crate::cache::lending::{Lending, Member, part_of};
use crate::config::{DRAM_BYTES_MAX, DRAM_BYTES_MIN};
use crate::fleet::front::Route;

/// One budget for all tenants.
pub(super) struct Budget {
    /// Set if the budget covers all memory, or if a tenant may borrow.
    lending: Option<Arc<Lending<Larder>>>,
    /// The tenants' shares of DRAM, in their order.
    percents: Vec<f64>,
}

impl Budget {
    /// Divides the budget among the caches of the tenants: `caches` has those of each tenant, in their order. Each
    /// cache of a tenant gets an equal part of the tenant's share, and may borrow an equal part of the tenant's
    /// limit.
    ///
    /// # Errors
    /// If the budget is too small for them.
    pub(super) fn divide(
        config: &TenantsConfig,
        caches: impl Iterator<Item = Vec<Arc<Larder>>>,
    ) -> Result<Self, Error> {
        let percents = config.tenants.iter().map(|tenant| tenant.dram_percent).collect();
        let may_borrow = config.tenants.iter().any(|tenant| tenant.dram_borrow_max_bytes > 0);
        if config.memory_bytes.is_none() && !may_borrow {
            return Ok(Self { lending: None, percents });
        }
        let bytes = config.memory_bytes.unwrap_or(config.dram_bytes);
        let lending = Lending::new(bytes, config.memory_bytes.is_some());
        let mut members = Vec::new();
        for (tenant, caches) in config.tenants.iter().zip(caches) {
            let count = caches.len().max(1);
            #[allow(clippy::cast_precision_loss)] // at most 128
            let percent = tenant.dram_percent / count as f64;
            let borrow_max = tenant.dram_borrow_max_bytes / count as u64;
            members.extend(caches.into_iter().map(|cache| Member {
                cache: Arc::downgrade(&cache),
                percent,
                borrow_max,
            }));
        }
        lending.begin(members)?;
        Ok(Self { lending: Some(lending), percents })
    }

    /// Changes the budget of DRAM, unless it is one of all memory.
    pub(super) fn set_dram_bytes<'a, R: Route + 'a>(
        &self,
        bytes: u64,
        tenants: impl Iterator<Item = &'a R>,
    ) {
        let bytes = bytes.min(DRAM_BYTES_MAX);
        if let Some(lending) = &self.lending {
            if !lending.is_of_all() {
                lending.set_bytes(bytes);
            }
            return;
        }
        for (tenant, percent) in tenants.zip(&self.percents) {
            let own = part_of(bytes, *percent) / tenant.caches().count().max(1) as u64;
            tenant.caches().for_each(|cache| cache.set_dram_bytes(own.max(DRAM_BYTES_MIN)));
        }
    }

    /// Changes the budget of all memory, if there is one. Returns whether there is.
    pub(super) fn set_memory_bytes(&self, bytes: u64) -> bool {
        let of_all = self.lending.as_ref().filter(|lending| lending.is_of_all());
        let Some(lending) = of_all else { return false };
        lending.set_bytes(bytes.clamp(DRAM_BYTES_MIN, DRAM_BYTES_MAX));
        true
    }
}
