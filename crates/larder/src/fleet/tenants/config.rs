//! Configuration of tenants.

use std::collections::HashSet;
use std::sync::Arc;

use larder_blocks::isolation::{DeviceShare, DeviceSharing};
use larder_device::{Clock, Device};

use crate::base::error::Error;
use crate::cache::lending::part_of;
use crate::config::OnChange;
use crate::config::{Config, DRAM_BYTES_MAX, DRAM_BYTES_MIN, check_dram, check_memory};
use crate::fleet::partition::{NAME_BYTES_MAX, PARTS_MAX};
use crate::observe::endurance::Endurance;

const WEIGHT_MAX: u32 = 1000;
const DEPTH_MAX: u32 = 1 << 16;
/// Maximum sum of percentages, with room for rounding.
const ALL: f64 = 100.0 + 1e-6;

/// One tenant: a cache of its own on a part of the device.
///
/// ```
/// use larder::{Config, SocConfig, Tenant};
///
/// let soc = SocConfig { percent: Some(1.0), ..SocConfig::default() };
/// let photos = Tenant {
///     dram_percent: 10.0,
///     config: Config { soc, ..Config::default() },
///     ..Tenant::new("photos", 60.0)
/// };
/// assert_eq!((photos.flash_percent, photos.dram_percent), (60.0, 10.0));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Its name: 1 to 64 bytes, unique. The device is divided by names.
    pub name: String,
    /// Its share of the device, in percent. A changed share empties the tenant, and is refused unless
    /// [`TenantsConfig::on_change`] accepts that.
    pub flash_percent: f64,
    /// Its share of [`TenantsConfig::dram_bytes`], in percent; with [`TenantsConfig::memory_bytes`], its share of
    /// what flash leaves. The share is always the tenant's own.
    pub dram_percent: f64,
    /// Maximum DRAM that it may borrow beyond its share, in bytes, from the unused shares of others: 0 to 1 TiB. It
    /// keeps the loan while the others do not need it. A tenant that needs its share has it at once; what others have
    /// borrowed of it leaves with the sets of either side, each of which evicts a few times as many bytes as it
    /// brings; without sets, nothing is needed. An eighth of a share is never lent.
    pub dram_borrow_max_bytes: u64,
    /// Its share of the time of a device that several tenants use, and its limits. Weights count where
    /// [`TenantsConfig::device_depth`] is set; limits always do.
    pub device_share: DeviceShare,
    /// Everything else about its cache. `dram_bytes` is not used, and `memory_bytes` and `endurance` must be `None`:
    /// a drive wears as a whole ([`TenantsConfig::endurance`]).
    pub config: Config,
}

impl Tenant {
    /// A tenant with the same share of flash and DRAM, in percent.
    ///
    /// ```
    /// use larder::Tenant;
    ///
    /// assert_eq!(Tenant::new("photos", 60.0).dram_percent, 60.0);
    /// ```
    pub fn new(name: impl Into<String>, percent: f64) -> Self {
        Self {
            name: name.into(),
            flash_percent: percent,
            dram_percent: percent,
            dram_borrow_max_bytes: 0,
            device_share: DeviceShare::default(),
            config: Config::default(),
        }
    }
}

/// Configuration of several tenants on one device.
///
/// ```
/// use larder::{Tenant, TenantsConfig};
///
/// let config = TenantsConfig {
///     dram_bytes: 1 << 30,
///     tenants: vec![Tenant::new("photos", 60.0), Tenant::new("pages", 40.0)],
///     ..TenantsConfig::default()
/// };
/// assert!(!config.start_empty);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TenantsConfig {
    /// DRAM budget of all tenants together, in bytes.
    pub dram_bytes: u64,
    /// Budget of all memory of all tenants together, in bytes, like [`Config::memory_bytes`] for one cache: the needs
    /// of flash are subtracted first, and the DRAM tiers divide the rest, at least an eighth of the budget.
    /// `dram_bytes` is not used then. `None`: `dram_bytes` is for the tiers, and flash takes its memory on top.
    pub memory_bytes: Option<u64>,
    /// The tenants. Their shares add up to at most 100 percent; the rest stays free for future tenants.
    pub tenants: Vec<Tenant>,
    /// Whether tenants that are on the device but not in this list lose their place and their content. Otherwise the
    /// opening is refused.
    pub drop_others: bool,
    /// What to do if a tenant's share of the device has changed. With [`OnChange::Discard`] it gets a part of the new
    /// size and starts empty; all others keep their parts and their content. The effect of changes in a tenant's own
    /// settings depends on its [`Config::on_change`].
    pub on_change: OnChange,
    /// Divide the device anew, whatever tenants it had. A device with data of other programs is still refused.
    pub start_empty: bool,
    /// Requests that a device has in flight at most, of all tenants together, 1 to 65,536; further ones wait, and
    /// tenants get turns by the weight of [`Tenant::device_share`] (weighted deficit round robin, each request charged
    /// its bytes and 16 KiB). 32 to 128 keep a fast drive busy; the fewer, the sooner a tenant has its turn. `None`:
    /// requests go to the device as they come. A flush waits for nothing.
    pub device_depth: Option<u32>,
    /// The drive's endurance rating. With it, [`Stats::drive_life`](crate::Stats::drive_life) of the sum forecasts
    /// the remaining life.
    pub endurance: Option<Endurance>,
}

impl Default for TenantsConfig {
    fn default() -> Self {
        Self {
            dram_bytes: 64 << 20,
            memory_bytes: None,
            tenants: Vec::new(),
            drop_others: false,
            on_change: OnChange::default(),
            start_empty: false,
            device_depth: None,
            endurance: None,
        }
    }
}

impl TenantsConfig {
    /// Refuses settings that cannot work on any device.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.tenants.is_empty() || self.tenants.len() > PARTS_MAX {
            return Err(Error::config(format!(
                "{} tenants: must be 1 to {PARTS_MAX}",
                self.tenants.len()
            )));
        }
        match self.memory_bytes {
            Some(bytes) => check_memory("memory_bytes", bytes, DRAM_BYTES_MIN)?,
            None => check_dram(self.dram_bytes)?,
        }
        let mut names = HashSet::new();
        for tenant in &self.tenants {
            tenant.check()?;
            if !names.insert(tenant.name.as_str()) {
                return Err(Error::config(format!(
                    "two tenants are called {:?}: give each a name of its own",
                    tenant.name
                )));
            }
        }
        let sums = [
            ("flash_percent", self.tenants.iter().map(|tenant| tenant.flash_percent).sum::<f64>()),
            ("dram_percent", self.tenants.iter().map(|tenant| tenant.dram_percent).sum()),
        ];
        for (field, sum) in sums {
            if sum > ALL {
                return Err(Error::config(format!(
                    "{field} of all tenants adds up to {sum}: must be at most 100"
                )));
            }
        }
        if let Some(depth) = self.device_depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
            return Err(Error::config(format!(
                "device_depth = {depth}: must be 1 to {DEPTH_MAX}, or None"
            )));
        }
        self.endurance.as_ref().map_or(Ok(()), Endurance::check)
    }

    /// How the tenants share the time of one device; `None`: requests go there as they come.
    pub(super) fn sharing(&self, clock: &Arc<dyn Clock>) -> Option<DeviceSharing> {
        let is_limited = self.tenants.iter().any(|tenant| tenant.is_limited());
        let depth = self.device_depth.or(is_limited.then_some(u32::MAX))?;
        let shares: Vec<_> = self.tenants.iter().map(|tenant| tenant.device_share).collect();
        Some(DeviceSharing::new(&shares, depth, Arc::clone(clock)))
    }

    /// `device`, or a part of it, as the tenant at position `at` has it. Without turns, a tenant that has no limits has
    /// the device itself.
    pub(super) fn shared(
        &self,
        sharing: Option<&DeviceSharing>,
        at: usize,
        device: Arc<dyn Device>,
    ) -> Arc<dyn Device> {
        match sharing {
            Some(sharing) if self.device_depth.is_some() || self.tenants[at].is_limited() => {
                Arc::new(sharing.device_of(at, device))
            }
            _ => device,
        }
    }
}

impl Tenant {
    fn check(&self) -> Result<(), Error> {
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::config(format!(
                "tenant {name:?}: a name of {} bytes, must be 1 to {NAME_BYTES_MAX}",
                name.len()
            )));
        }
        let percents = [("flash_percent", self.flash_percent), ("dram_percent", self.dram_percent)];
        for (field, percent) in percents {
            if !(percent > 0.0 && percent <= 100.0) {
                return Err(Error::config(format!(
                    "tenant {name:?}: {field} = {percent}, must be more than 0 and at most 100"
                )));
            }
        }
        if self.dram_borrow_max_bytes > DRAM_BYTES_MAX {
            return Err(Error::config(format!(
                "tenant {name:?}: dram_borrow_max_bytes = {}, must be at most {DRAM_BYTES_MAX}",
                self.dram_borrow_max_bytes
            )));
        }
        if let Some(bytes) = self.config.memory_bytes {
            return Err(Error::config(format!(
                "tenant {name:?}: config.memory_bytes = {bytes}, but a tenant's memory is its \
                 dram_percent; leave it None, and set TenantsConfig::memory_bytes"
            )));
        }
        if self.config.endurance.is_some() {
            return Err(Error::config(format!(
                "tenant {name:?}: config.endurance is set, but a drive wears as a whole; set \
                 TenantsConfig::endurance"
            )));
        }
        let DeviceShare { weight, bytes_per_second, requests_per_second } = self.device_share;
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(Error::config(format!(
                "tenant {name:?}: device_share.weight = {weight}, must be 1 to {WEIGHT_MAX}"
            )));
        }
        if bytes_per_second == Some(0) || requests_per_second == Some(0) {
            return Err(Error::config(format!(
                "tenant {name:?}: device_share: a limit of 0 a second lets nothing through; use at least 1, or None"
            )));
        }
        self.config.check().map_err(|error| error.of(&format!("tenant {name:?}")))
    }

    /// Whether its requests to the device have a limit.
    pub(super) fn is_limited(&self) -> bool {
        let DeviceShare { bytes_per_second, requests_per_second, .. } = self.device_share;
        bytes_per_second.is_some() || requests_per_second.is_some()
    }

    /// Its share of the device in parts per million.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked: 0 to 100
    pub(super) fn share_ppm(&self) -> u32 {
        (self.flash_percent * 10_000.0).round() as u32
    }

    pub(super) fn dram_bytes(&self, all: u64) -> u64 {
        part_of(all, self.dram_percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SocConfig;

    fn refusal(tenants: Vec<Tenant>) -> String {
        let config = TenantsConfig { tenants, ..TenantsConfig::default() };
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_work_is_refused_by_name_and_value() {
        assert!(refusal(Vec::new()).contains("0 tenants: must be 1 to 173"));
        let both = |a: Tenant, b: Tenant| refusal(vec![a, b]);
        let twice = both(Tenant::new("a", 1.0), Tenant::new("a", 1.0));
        assert!(twice.contains("two tenants are called \"a\""), "{twice}");
        let much = both(Tenant::new("a", 60.0), Tenant::new("b", 50.0));
        assert!(much.contains("flash_percent of all tenants adds up to 110"), "{much}");
        let dram = Tenant { dram_percent: 60.0, ..Tenant::new("a", 30.0) };
        let much = both(dram, Tenant::new("b", 50.0));
        assert!(much.contains("dram_percent of all tenants adds up to 110"), "{much}");
        for percent in [0.0, -1.0, 101.0, f64::NAN] {
            let refused = refusal(vec![Tenant::new("a", percent)]);
            assert!(refused.contains("tenant \"a\": flash_percent ="), "{refused}");
        }
        assert!(refusal(vec![Tenant::new("", 1.0)]).contains("0 bytes, must be 1 to 64"));
        let config = Config {
            soc: SocConfig { percent: Some(101.0), ..SocConfig::default() },
            ..Config::default()
        };
        let inner = refusal(vec![Tenant { config, ..Tenant::new("a", 1.0) }]);
        assert!(inner.starts_with("tenant \"a\": soc.percent = 101"), "{inner}");
        let config = Config { memory_bytes: Some(7), ..Config::default() };
        let budget = refusal(vec![Tenant { config, ..Tenant::new("a", 1.0) }]);
        assert!(budget.contains("config.memory_bytes = 7"), "{budget}");
        let borrower = Tenant { dram_borrow_max_bytes: 2 << 40, ..Tenant::new("a", 1.0) };
        let much = refusal(vec![borrower]);
        assert!(
            much.contains("tenant \"a\": dram_borrow_max_bytes = 2199023255552, must be"),
            "{much}"
        );
        let config = TenantsConfig {
            memory_bytes: Some(5),
            tenants: vec![Tenant::new("a", 1.0)],
            ..TenantsConfig::default()
        };
        let little = config.check().unwrap_err().to_string();
        assert!(little.contains("memory_bytes = 5: must be 8192 to"), "{little}");
        let share = |weight, bytes_per_second| Tenant {
            device_share: DeviceShare { weight, bytes_per_second, requests_per_second: None },
            ..Tenant::new("a", 1.0)
        };
        let weightless = refusal(vec![share(0, None)]);
        assert!(weightless.contains("device_share.weight = 0, must be 1 to 1000"), "{weightless}");
        assert!(refusal(vec![share(1, Some(0))]).contains("a limit of 0 a second"));
        let config = TenantsConfig {
            device_depth: Some(0),
            tenants: vec![Tenant::new("a", 1.0)],
            ..TenantsConfig::default()
        };
        assert!(config.check().unwrap_err().to_string().contains("device_depth = 0: must be 1"));
        let config = Config { endurance: Some(Endurance::of_tbw(1)), ..Config::default() };
        let worn = refusal(vec![Tenant { config, ..Tenant::new("a", 1.0) }]);
        assert!(worn.contains("set TenantsConfig::endurance"), "{worn}");
    }

    #[test]
    fn thirds_add_up() {
        let thirds = ["a", "b", "c"].map(|name| Tenant::new(name, 100.0 / 3.0)).to_vec();
        let config = TenantsConfig { tenants: thirds, ..TenantsConfig::default() };
        assert!(config.check().is_ok());
    }
}
