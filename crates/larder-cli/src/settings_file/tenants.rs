//! `[[tenant]]` of `larder.toml`: a tenant's shares and limits.

use std::time::Duration;

use indicatif::BinaryBytes;
use larder::{AdmissionPolicy, ArrayConfig, Config, Tenant};
use larder_server::{OverLimit, ProtocolKind, TenantPolicy};
use serde::Deserialize;
use toml::Spanned;

use super::array::{self, ArrayEntry};
use super::places::Places;
use super::size::Size;
use crate::args::ListenArg;

/// The only tenant, if none are configured.
pub(crate) const TENANT: &str = "default";
/// The least daily write budget that a cache can keep to.
const FLASH_WRITE_BUDGET_MIN: u64 = 1 << 20;

/// A tenant in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantEntry {
    pub(super) name: String,
    share: f64,
    requests_per_second: Option<u64>,
    bytes_per_second: Option<Size>,
    burst: Option<f64>,
    over_limit: Option<BeyondLimit>,
    weight: Option<u16>,
    prefix: Option<String>,
    flash_write_budget: Option<Size>,
    array: Option<ArrayEntry>,
    pub(super) memcached: Option<Spanned<Places>>,
    pub(super) resp: Option<Spanned<Places>>,
}

/// "delay" or "error".
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct BeyondLimit(OverLimit);

impl TryFrom<String> for BeyondLimit {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        match &*text {
            "delay" => Ok(Self(OverLimit::Delay)),
            "error" => Ok(Self(OverLimit::Error)),
            _ => Err("must be delay or error"),
        }
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TenantSettings {
    pub(crate) name: String,
    /// Its share of memory and flash.
    pub(crate) percent: f64,
    /// Bytes that it may write to flash a day.
    pub(crate) flash_write_budget: Option<u64>,
    /// Its own array engine, if it differs from the common one.
    pub(crate) array: Option<ArrayConfig>,
    pub(crate) policy: TenantPolicy,
    /// Listeners whose clients use this tenant without a login.
    pub(crate) listens: Vec<(ListenArg, ProtocolKind)>,
}

impl TenantEntry {
    /// The settings of the tenant, which comes after the tenants `before`; or what is wrong with it.
    pub(super) fn settings(&self, before: &[TenantSettings]) -> Result<TenantSettings, String> {
        let Self { name, share, .. } = self;
        if before.iter().any(|other| other.name == *name) {
            return Err(format!("there are two tenants {name:?}"));
        }
        let taken: f64 = before.iter().map(|tenant| tenant.percent).sum();
        if !(*share > 0.0 && taken + share <= 100.0 + 1e-9) {
            return Err(format!(
                "tenant {name:?} has share = {share}: must be more than 0, and with the {taken} before it at most \
                 100 percent"
            ));
        }
        let budget = self.flash_write_budget.map(|size| size.0);
        if let Some(bytes) = budget.filter(|bytes| *bytes < FLASH_WRITE_BUDGET_MIN) {
            return Err(format!(
                "tenant {name:?}: flash_write_budget = {bytes}: must be at least 1M, the bytes a day"
            ));
        }
        let array = self.array.as_ref().map(ArrayEntry::config).transpose();
        let array = array.map_err(|message| format!("tenant {name:?}: {message}"))?;
        let policy = self.policy()?;
        if before.is_empty() && !policy.prefix.is_empty() {
            return Err(format!(
                "tenant {name:?}: prefix: the first tenant has all keys that begin as no other's; give it none"
            ));
        }
        let others: Vec<TenantPolicy> = before.iter().map(|tenant| tenant.policy.clone()).collect();
        policy.check(&others).map_err(|error| error.to_string())?;
        let memcached = listens(self.memcached.as_ref(), ProtocolKind::Memcached);
        let listens = memcached.chain(listens(self.resp.as_ref(), ProtocolKind::Resp)).collect();
        Ok(TenantSettings {
            name: name.clone(),
            percent: *share,
            flash_write_budget: budget,
            array,
            policy,
            listens,
        })
    }

    fn policy(&self) -> Result<TenantPolicy, String> {
        let default = TenantPolicy::new(&self.name);
        let burst = match self.burst {
            None => default.burst,
            Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
                format!("tenant {:?}: burst = {seconds}: must be seconds, 0 to 3600", self.name)
            })?,
        };
        if self.prefix.as_deref() == Some("") {
            return Err(format!("tenant {:?}: prefix is empty: leave it out", self.name));
        }
        Ok(TenantPolicy {
            requests_per_second: self.requests_per_second.unwrap_or(default.requests_per_second),
            bytes_per_second: self.bytes_per_second.map_or(default.bytes_per_second, |it| it.0),
            burst,
            over_limit: self.over_limit.map_or(default.over_limit, |it| it.0),
            weight: self.weight.unwrap_or(default.weight),
            prefix: self.prefix.clone().unwrap_or_default().into_bytes(),
            ..default
        })
    }
}

/// Listeners of a tenant, each with its protocol.
fn listens(
    places: Option<&Spanned<Places>>,
    protocol: ProtocolKind,
) -> impl Iterator<Item = (ListenArg, ProtocolKind)> {
    let places = places.into_iter().flat_map(|places| places.get_ref().0.clone());
    places.map(move |at| (at, protocol))
}

impl TenantSettings {
    /// The only tenant, if none are configured.
    pub(crate) fn alone() -> Self {
        let (name, policy) = (TENANT.to_owned(), TenantPolicy::new(TENANT));
        let (flash_write_budget, array, listens) = (None, None, Vec::new());
        Self { name, percent: 100.0, flash_write_budget, array, policy, listens }
    }

    /// The configuration of its cache, based on the common `config`.
    pub(crate) fn tenant(&self, config: &Config) -> Tenant {
        let admission = match self.flash_write_budget {
            None => config.admission,
            Some(bytes_per_day) => AdmissionPolicy::Budget { bytes_per_day },
        };
        Tenant {
            config: Config {
                admission,
                array: self.array.as_ref().unwrap_or(&config.array).clone(),
                ..config.clone()
            },
            ..Tenant::new(&self.name, self.percent)
        }
    }

    /// Its limits, for people; empty if it has none.
    pub(crate) fn limits(&self) -> String {
        let TenantPolicy { requests_per_second, bytes_per_second, burst, over_limit, .. } =
            &self.policy;
        let mut all = Vec::new();
        if *requests_per_second > 0 {
            all.push(format!("{requests_per_second} requests/s"));
        }
        if *bytes_per_second > 0 {
            all.push(format!("{}/s", BinaryBytes(*bytes_per_second)));
        }
        if !all.is_empty() {
            let then = match over_limit {
                OverLimit::Delay => "delay",
                OverLimit::Error => "error",
            };
            all.push(format!("{} s at once, then {then}", burst.as_secs_f64()));
        }
        if self.policy.weight != 1 {
            all.push(format!("weight {}", self.policy.weight));
        }
        if let Some(bytes) = self.flash_write_budget {
            all.push(format!("{} to flash a day", BinaryBytes(bytes)));
        }
        if let Some(array) = &self.array {
            all.push(format!("array: {}", array::explained(array)));
        }
        if !self.policy.prefix.is_empty() {
            all.push(format!("keys {}*", self.policy.prefix.escape_ascii()));
        }
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_writes_is_the_admission_of_its_cache() {
        let config = Config { access_times: true, ..Config::default() };
        let settings =
            TenantSettings { flash_write_budget: Some(5 << 30), ..TenantSettings::alone() };
        let budget = AdmissionPolicy::Budget { bytes_per_day: 5 << 30 };
        assert_eq!(settings.tenant(&config).config, Config { admission: budget, ..config.clone() });
        assert_eq!(TenantSettings::alone().tenant(&config).config, config);
        // Its own array engine replaces the common one.
        let array = |percent| ArrayConfig { percent, ..ArrayConfig::default() };
        let config = Config { array: array(96.0), ..config };
        let own =
            |array| TenantSettings { array, ..TenantSettings::alone() }.tenant(&config).config;
        assert_eq!((own(None).array, own(Some(array(0.0))).array), (array(96.0), array(0.0)));
    }

    #[test]
    fn limits_are_told_as_they_are() {
        assert_eq!(TenantSettings::alone().limits(), "");
        let policy = TenantPolicy {
            requests_per_second: 1000,
            bytes_per_second: 50 << 20,
            weight: 5,
            prefix: b"app1:".to_vec(),
            ..TenantPolicy::new(TENANT)
        };
        let settings =
            TenantSettings { policy, flash_write_budget: Some(1 << 30), ..TenantSettings::alone() };
        assert_eq!(
            settings.limits(),
            "1000 requests/s, 50.00 MiB/s, 1 s at once, then delay, weight 5, 1.00 GiB to flash a day, keys app1:*"
        );
    }
}
