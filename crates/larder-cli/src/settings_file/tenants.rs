//! `[[tenant]]` of `larder.toml`: a tenant's shares and limits.

use std::fmt;
use std::time::Duration;

use indicatif::BinaryBytes;
use larder::{AdmissionPolicy, Config, DeviceShare, Tenant};
use larder_device::Target;
use larder_server::{OverLimit, ProtocolKind, TenantPolicy};
use larder_vssd::Isolation;
use larder_workload::Error;
use serde::Deserialize;
use toml::Spanned;

use super::cache::{CacheSettings, Section, Sections, Value, named};
use super::places::Places;
use super::size::Size;
use super::source::Source;
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
    flash_requests_per_second: Option<u64>,
    flash_bytes_per_second: Option<Size>,
    isolation: Option<IsolationKind>,
    channels: Option<u32>,
    dies: Option<u32>,
    capacity: Option<Size>,
    lends: Option<bool>,
    borrows: Option<bool>,
    file: Option<String>,
    memory_share: Option<f64>,
    memory_borrow: Option<Size>,
    soc: Section,
    loc: Section,
    array: Section,
    admission: Section,
    placement: Section,
    dram: Section,
    demotion: Section,
    crash_safety: Option<Value>,
    utilization: Option<Value>,
    tombstone_log: Option<Value>,
    flash_wait: Option<Value>,
    pub(super) memcached: Option<Spanned<Places>>,
    pub(super) resp: Option<Spanned<Places>>,
}

/// What a tenant shares of the array: "channel", "die", "software" or "none".
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum IsolationKind {
    Channel,
    Die,
    Software,
    None,
}

/// The place of a tenant on an array of virtual SSDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IsolatedPlace {
    pub(crate) isolation: Isolation,
    /// Channels or dies; `None`: as many as the capacity takes.
    pub(crate) units: Option<u32>,
    /// `None`: that of its channels or dies.
    pub(crate) capacity_bytes: Option<u64>,
    /// Whether blocks of its idle dies are lent to tenants that borrow.
    pub(crate) lends: bool,
    /// Whether clean data of its cache may be on idle dies of tenants that lend.
    pub(crate) borrows: bool,
}

impl fmt::Display for IsolatedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "isolation {}", self.isolation.name())?;
        if let Some(units) = self.units {
            write!(f, ", {units} of them")?;
        }
        if let Some(bytes) = self.capacity_bytes {
            write!(f, ", {}", BinaryBytes(bytes))?;
        }
        for (is, word) in [(self.lends, "lends"), (self.borrows, "borrows")] {
            if is {
                write!(f, ", {word}")?;
            }
        }
        Ok(())
    }
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
    /// Its share of flash.
    pub(crate) percent: f64,
    /// Its share of memory.
    pub(crate) memory_percent: f64,
    /// Bytes of memory that it may borrow from others.
    pub(crate) memory_borrow: u64,
    /// Its place on an array of virtual SSDs, if it has one.
    pub(crate) isolated: Option<IsolatedPlace>,
    /// A file or drive of its own.
    pub(crate) file: Option<Target>,
    /// Its turns at a drive that it shares with other tenants, and its limits there.
    pub(crate) device_share: DeviceShare,
    /// Bytes that it may write to flash a day.
    pub(crate) flash_write_budget: Option<u64>,
    /// Settings of its cache that differ from the common ones.
    pub(crate) cache: CacheSettings,
    pub(crate) policy: TenantPolicy,
    /// Listeners whose clients use this tenant without a login.
    pub(crate) listens: Vec<(ListenArg, ProtocolKind)>,
}

impl TenantEntry {
    /// The settings of the tenant, which comes after the tenants `before`; or what is wrong with it.
    pub(super) fn settings(
        &self,
        before: &[TenantSettings],
        cache: CacheSettings,
    ) -> Result<TenantSettings, String> {
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
        if cache.text("placement.mode") == Some("required") {
            return Err(format!(
                "tenant {name:?}: placement.mode = required: the drive is opened for all tenants; set mode in \
                 [placement]"
            ));
        }
        if budget.is_some() && cache.text("admission.policy").is_some() {
            return Err(format!(
                "tenant {name:?}: flash_write_budget and admission.policy: the budget is a policy of admission; leave \
                 one of them out"
            ));
        }
        let memory_percent = self.memory_share.unwrap_or(*share);
        let policy = self.policy()?;
        let device_share = self.device_share(policy.weight)?;
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
            memory_percent,
            isolated: self.isolated()?,
            file: self.own_file()?,
            device_share,
            memory_borrow: self.memory_borrow.map_or(0, |size| size.0),
            flash_write_budget: budget,
            cache,
            policy,
            listens,
        })
    }

    /// What it says about its cache.
    pub(super) fn cache(&self, source: &Source) -> Result<CacheSettings, Error> {
        let sections = named!(self, soc loc array admission placement dram demotion);
        let keys = named!(self, crash_safety utilization tombstone_log flash_wait);
        let whose = format!("tenant {:?}: ", self.name);
        CacheSettings::read(&Sections { sections, keys }, &whose, source)
    }

    /// Its place on an array.
    fn isolated(&self) -> Result<Option<IsolatedPlace>, String> {
        let refuse = |why: String| Err(format!("tenant {:?}: {why}", self.name));
        let Self { channels, dies, capacity, lends, borrows, .. } = self;
        let (lends, borrows) = (lends.unwrap_or(false), borrows.unwrap_or(false));
        let Some(kind) = self.isolation else {
            if lends || borrows {
                return refuse(
                    "lends and borrows need isolation = \"channel\", \"die\", …".to_owned(),
                );
            }
            return match (channels, dies, capacity) {
                (None, None, None) => Ok(None),
                _ => refuse(
                    "channels, dies and capacity need isolation = \"channel\", \"die\", …"
                        .to_owned(),
                ),
            };
        };
        if lends && matches!(kind, IsolationKind::Software | IsolationKind::None) {
            return refuse(
                "lends: its dies are shared; only isolation = \"channel\" or \"die\" can lend"
                    .to_owned(),
            );
        }
        let (units, other) = match kind {
            IsolationKind::Channel => (*channels, dies.map(|_| "dies")),
            IsolationKind::Die => (*dies, channels.map(|_| "channels")),
            IsolationKind::Software | IsolationKind::None => {
                (None, channels.map(|_| "channels").or(dies.map(|_| "dies")))
            }
        };
        if let Some(other) = other {
            return refuse(format!(
                "{other}: this isolation has none of them; give capacity, or another isolation"
            ));
        }
        let capacity_bytes = capacity.map(|size| size.0);
        if units == Some(0) || capacity_bytes == Some(0) {
            return refuse("channels, dies and capacity must be at least 1".to_owned());
        }
        let isolation = match kind {
            IsolationKind::Channel => Isolation::Channel,
            IsolationKind::Die => Isolation::Die,
            IsolationKind::Software => {
                Isolation::Software { weight: self.weight.unwrap_or(1).into() }
            }
            IsolationKind::None => Isolation::None,
        };
        Ok(Some(IsolatedPlace { isolation, units, capacity_bytes, lends, borrows }))
    }

    /// Its share of a drive that others use too.
    fn device_share(&self, weight: u16) -> Result<DeviceShare, String> {
        let bytes_per_second = self.flash_bytes_per_second.map(|size| size.0);
        let limits = [
            ("flash_requests_per_second", self.flash_requests_per_second),
            ("flash_bytes_per_second", bytes_per_second),
        ];
        if let Some((key, _)) = limits.into_iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(format!(
                "tenant {:?}: {key} = 0: nothing would reach flash; leave it out for no limit",
                self.name
            ));
        }
        let requests_per_second = self.flash_requests_per_second;
        Ok(DeviceShare { weight: weight.into(), bytes_per_second, requests_per_second })
    }

    fn own_file(&self) -> Result<Option<Target>, String> {
        let target = self.file.as_deref().map(str::parse).transpose();
        let target =
            target.map_err(|why: String| format!("tenant {:?}: file: {why}", self.name))?;
        if target.is_some() && self.isolation.is_some() {
            return Err(format!(
                "tenant {:?}: file and isolation: a drive of its own shares nothing",
                self.name
            ));
        }
        Ok(target)
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
        Self {
            name: TENANT.to_owned(),
            percent: 100.0,
            memory_percent: 100.0,
            isolated: None,
            file: None,
            device_share: DeviceShare::default(),
            memory_borrow: 0,
            flash_write_budget: None,
            cache: CacheSettings::default(),
            policy: TenantPolicy::new(TENANT),
            listens: Vec::new(),
        }
    }

    /// Its configuration, based on the one that all tenants have in common.
    pub(crate) fn tenant(&self, common: &Config) -> Tenant {
        let mut config = common.clone();
        self.cache.put_into(&mut config);
        if let Some(bytes_per_day) = self.flash_write_budget {
            config.admission = AdmissionPolicy::Budget { bytes_per_day };
        }
        Tenant {
            dram_percent: self.memory_percent,
            dram_borrow_max_bytes: self.memory_borrow,
            device_share: self.device_share,
            config,
            ..Tenant::new(&self.name, self.percent)
        }
    }

    /// Whether it has a fair share of the time of what it is on.
    pub(crate) fn shares_time(&self) -> bool {
        let software =
            |place: &IsolatedPlace| matches!(place.isolation, Isolation::Software { .. });
        self.isolated.as_ref().is_some_and(software)
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
        if let Some(requests) = self.device_share.requests_per_second {
            all.push(format!("{requests} requests/s to flash"));
        }
        if let Some(bytes) = self.device_share.bytes_per_second {
            all.push(format!("{}/s to and from flash", BinaryBytes(bytes)));
        }
        if let Some(bytes) = self.flash_write_budget {
            all.push(format!("{} to flash a day", BinaryBytes(bytes)));
        }
        if self.memory_borrow > 0 {
            all.push(format!("borrows up to {} of memory", BinaryBytes(self.memory_borrow)));
        }
        if let Some(file) = &self.file {
            all.push(format!("on {file}"));
        }
        if let Some(place) = &self.isolated {
            all.push(place.to_string());
        }
        let cache = self.cache.listed();
        if !cache.is_empty() {
            all.push(cache);
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
    }

    #[test]
    fn a_place_on_an_array_has_a_size_and_no_unit_of_another_kind() {
        let place = |toml: &str| {
            let text = format!("name = \"a\"\nshare = 50\n{toml}");
            toml::from_str::<TenantEntry>(&text).map_err(|error| error.to_string())?.isolated()
        };
        let channels = place("isolation = \"channel\"\nchannels = 2").unwrap().unwrap();
        assert_eq!((channels.isolation, channels.units), (Isolation::Channel, Some(2)));
        assert_eq!(channels.to_string(), "isolation channel, 2 of them");
        assert!(!channels.lends && !channels.borrows, "neither, unless it is said");
        let both = place("isolation = \"die\"\ndies = 3\nlends = true\nborrows = true");
        assert_eq!(both.unwrap().unwrap().to_string(), "isolation die, 3 of them, lends, borrows");
        let soft =
            place("isolation = \"software\"\ncapacity = \"1M\"\nweight = 3").unwrap().unwrap();
        assert_eq!((soft.isolation, soft.units), (Isolation::Software { weight: 3 }, None));
        assert_eq!(place(""), Ok(None));
        for (toml, says) in [
            ("isolation = \"die\"\nchannels = 1", "channels: this isolation has none"),
            ("isolation = \"none\"\ndies = 1", "dies: this isolation has none"),
            ("isolation = \"channel\"\nchannels = 0", "at least 1"),
            ("channels = 2", "need isolation"),
            ("lends = true", "lends and borrows need isolation"),
            ("isolation = \"none\"\ncapacity = \"1M\"\nlends = true", "its dies are shared"),
            ("isolation = \"chanel\"", "channel"),
        ] {
            let refused = place(toml).unwrap_err();
            assert!(refused.contains(says), "{toml}: {refused}");
        }
    }

    #[test]
    fn a_share_of_a_drive_has_limits_that_let_something_through() {
        let share = |toml: &str| {
            let text = format!("name = \"a\"\nshare = 50\n{toml}");
            toml::from_str::<TenantEntry>(&text).unwrap().device_share(3)
        };
        let both = share("flash_bytes_per_second = \"1M\"\nflash_requests_per_second = 5");
        let wanted = DeviceShare {
            weight: 3,
            bytes_per_second: Some(1 << 20),
            requests_per_second: Some(5),
        };
        assert_eq!(both, Ok(wanted));
        let refused = share("flash_bytes_per_second = \"0\"").unwrap_err();
        assert!(refused.contains("flash_bytes_per_second = 0: nothing"), "{refused}");
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
