//! `larder.toml`: the settings of a server in a file. Each top-level key is an option of the command line too.

use std::fs;
use std::path::{Path, PathBuf};

use larder::OnChange;
use larder_device::Target;
use larder_server::{KeyspaceEvents, MaxmemoryPolicy, PasswordHash, SocketBackend, User};
use larder_workload::Error;
use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::block::{BlockEntry, Text};
use super::cache::{CacheSettings, Section, Sections, Value, named};
use super::cluster::ClusterEntry;
use super::log_level::LogLevel;
use super::one_or_many;
use super::places::{Place, Places};
use super::size::Size;
use super::source::Source;
use super::tenants::{TENANT, TenantEntry, TenantSettings};
use super::tls::TlsEntry;
use crate::args::{hash, nearest, sockets};

/// The content of the file. Missing keys get their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsFile {
    pub(crate) memcached: Option<Spanned<Places>>,
    pub(crate) resp: Option<Spanned<Places>>,
    pub(crate) memcached_tls: Option<Spanned<Places>>,
    pub(crate) resp_tls: Option<Spanned<Places>>,
    pub(crate) tls: Option<TlsEntry>,
    pub(crate) admin: Option<Spanned<Places>>,
    pub(crate) admin_hosts: Option<Vec<String>>,
    pub(crate) admin_token: Option<Hash>,
    pub(crate) otlp: Option<String>,
    pub(crate) otlp_interval: Option<u32>,
    pub(crate) slow_threshold: Option<u32>,
    pub(crate) log: Option<LogLevel>,
    pub(crate) endurance: Option<Size>,
    pub(crate) overprovisioning: Option<f64>,
    pub(crate) memory: Option<Size>,
    pub(crate) flash: Option<Size>,
    pub(crate) file: Option<Spanned<Targets>>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) workers: Option<u16>,
    pub(crate) sockets: Option<Sockets>,
    pub(crate) connections: Option<usize>,
    pub(crate) value_max: Option<Size>,
    pub(crate) pubsub_max: Option<Size>,
    pub(crate) tracking_table_max: Option<usize>,
    pub(crate) notify_keyspace_events: Option<Text<KeyspaceEvents>>,
    pub(crate) collection_max: Option<Size>,
    pub(crate) script_time_limit: Option<u32>,
    pub(crate) script_memory_max: Option<Size>,
    pub(crate) memcached_database: Option<u8>,
    pub(crate) maxmemory_policy: Option<Text<MaxmemoryPolicy>>,
    pub(crate) idle_timeout: Option<u32>,
    pub(crate) request_timeout: Option<u32>,
    pub(crate) request_deadline: Option<u32>,
    pub(crate) drain: Option<u32>,
    pub(crate) close: Option<u32>,
    pub(crate) allow_unprotected: Option<bool>,
    pub(crate) ready_without_flash: Option<bool>,
    pub(crate) ready_while_indexing: Option<bool>,
    pub(crate) cluster: Option<Spanned<ClusterEntry>>,
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
    seed: Option<Value>,
    hash_seed: Option<Value>,
    latencies: Option<Value>,
    access_times: Option<Value>,
    pub(crate) on_change: Option<ChangedLayout>,
    pub(crate) drop_other_tenants: Option<bool>,
    pub(crate) levelling: Option<bool>,
    pub(crate) levelling_pace: Option<Size>,
    pub(crate) flash_depth: Option<u32>,
    pub(crate) drive_levelling: Option<bool>,
    /// In years.
    pub(crate) planned_service: Option<f64>,
    #[serde(default)]
    tenant: Vec<Spanned<TenantEntry>>,
    #[serde(default)]
    user: Vec<Spanned<UserEntry>>,
    /// Caches of `larder block start`. A server reports them at its admin address.
    #[serde(default)]
    pub(crate) block: Vec<Spanned<BlockEntry>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserEntry {
    name: String,
    password: Option<String>,
    certificate: Option<String>,
    tenant: Option<String>,
    #[serde(default)]
    admin: bool,
}

/// "epoll" or "io_uring".
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Sockets(pub(crate) SocketBackend);

impl TryFrom<String> for Sockets {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        sockets(&text).map(Self)
    }
}

/// Files and devices of shards: one, or a list.
#[derive(Debug, Clone)]
pub(crate) struct Targets(pub(crate) Vec<Target>);

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a file or device such as \"/mnt/a/larder\", or a list of them";
        let texts = one_or_many::texts(deserializer, expecting)?;
        let targets = texts.iter().map(|text| text.parse().map_err(de::Error::custom));
        targets.collect::<Result<_, _>>().map(Self)
    }
}

/// "refuse" or "discard".
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ChangedLayout(pub(crate) OnChange);

impl TryFrom<String> for ChangedLayout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// A password hash, as `larder password` prints it.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Hash(pub(crate) PasswordHash);

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        hash(&text).map(Self)
    }
}

impl Source {
    /// Reads and parses `path`.
    pub(crate) fn read(path: &Path) -> Result<(Self, SettingsFile), Error> {
        let text = fs::read_to_string(path).map_err(|error| {
            Error::usage(format!("{}: cannot be read ({error})", path.display()))
        })?;
        let source = Self::of(path, &text);
        let file = toml::from_str(&text).map_err(|error| {
            let message = hint(error.message());
            source.refuse(error.span(), &message)
        })?;
        Ok((source, file))
    }

    /// The tenants and the users of `file`. Names of tenants are unique, and so are names of users.
    pub(crate) fn tenants_and_users(
        &self,
        file: &SettingsFile,
    ) -> Result<(Vec<TenantSettings>, Vec<User>), Error> {
        let mut tenants: Vec<TenantSettings> = Vec::new();
        for entry in &file.tenant {
            let cache = entry.get_ref().cache(self)?;
            let settings = entry.get_ref().settings(&tenants, cache);
            tenants.push(settings.map_err(|message| self.refuse(Some(entry.span()), &message))?);
        }
        let users = self.users(file, &tenants)?;
        Ok((tenants, users))
    }

    fn users(&self, file: &SettingsFile, tenants: &[TenantSettings]) -> Result<Vec<User>, Error> {
        let mut users: Vec<User> = Vec::new();
        for entry in &file.user {
            let UserEntry { name, password, certificate, tenant, admin } = entry.get_ref();
            let refuse = |message: String| Err(self.refuse(Some(entry.span()), &message));
            let first = tenants.first().map_or(TENANT, |tenant| &tenant.name);
            let tenant = tenant.as_deref().unwrap_or(first);
            if users.iter().any(|other| other.name == *name) {
                return refuse(format!("there are two users {name:?}; a user has one tenant"));
            }
            let is_known = tenants.iter().any(|known| known.name == tenant);
            if !(is_known || tenants.is_empty() && tenant == TENANT) {
                let names: Vec<&str> = tenants.iter().map(|tenant| &*tenant.name).collect();
                let known = if names.is_empty() { TENANT.to_owned() } else { names.join(", ") };
                return refuse(format!("user {name:?} has tenant = {tenant:?}: there are {known}"));
            }
            if password.is_none() && certificate.is_none() {
                return refuse(format!("user {name:?} needs a password, or a certificate"));
            }
            let same = users.iter().find(|other| other.certificate == *certificate);
            if let (Some(other), Some(certificate)) = (same, certificate) {
                return refuse(format!(
                    "user {name:?} has certificate = {certificate:?}, which names {:?}",
                    other.name
                ));
            }
            let password = match password.as_deref().map(PasswordHash::parse).transpose() {
                Ok(password) => password,
                Err(error) => {
                    let message =
                        format!("user {name:?}: password: {error}; `larder password` makes one");
                    return refuse(message);
                }
            };
            let (name, certificate) = (name.clone(), certificate.clone());
            let tenant = tenant.to_owned();
            users.push(User { name, password, certificate, tenant, is_admin: *admin });
        }
        Ok(users)
    }
}

impl SettingsFile {
    /// What it says about the caches of all tenants.
    pub(crate) fn cache(&self, source: &Source) -> Result<CacheSettings, Error> {
        let sections = named!(self, soc loc array admission placement dram demotion);
        let keys = named!(
            self, crash_safety utilization tombstone_log flash_wait seed hash_seed latencies access_times
        );
        CacheSettings::read(&Sections { sections, keys }, "", source)
    }

    /// The addresses of tenants' own listeners.
    pub(crate) fn places_of_tenants(&self) -> impl Iterator<Item = Place> {
        self.tenant.iter().flat_map(|entry| {
            let TenantEntry { name, memcached, resp, .. } = entry.get_ref();
            let named = [(memcached, "memcached"), (resp, "resp")];
            named.into_iter().flat_map(move |(places, key)| {
                let name = format!("{key} of tenant {name:?}");
                Place::all(&name, places.as_ref())
            })
        })
    }
}

/// The error message; for an unknown key it suggests a similar one.
fn hint(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else { return message.to_owned() };
    let mut quoted = rest.split('`');
    let wrong = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    match nearest(wrong, &known) {
        Some(key) => format!("unknown key {wrong:?}: did you mean {key:?}?"),
        None => format!("unknown key {wrong:?}: the keys here are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use larder::Config;
    use larder_server::{OverLimit, TenantPolicy};

    use super::*;
    use crate::args::ListenArg;

    fn read(text: &str) -> Result<(Vec<TenantSettings>, Vec<User>, SettingsFile), String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("larder.toml");
        fs::write(&path, text).unwrap();
        let read = Source::read(&path).and_then(|(source, file)| {
            source.tenants_and_users(&file).map(|(tenants, users)| (tenants, users, file))
        });
        let strip = |error: Error| {
            error.to_string().replace(&format!("{}/", directory.path().display()), "")
        };
        read.map_err(strip)
    }

    #[test]
    fn what_is_written_is_what_is_meant() {
        let hash = PasswordHash::of(b"rye").unwrap();
        let text = format!(
            "memory = \"1G\"\nflash = 0\nmemcached = [\"127.0.0.1:1\", \"unix:/x\"]\nresp = \"none\"\n\
             [[tenant]]\nname = \"photos\"\nshare = 60\n[[tenant]]\nname = \"pages\"\nshare = 40\n\
             [[user]]\nname = \"ann\"\npassword = \"{hash}\"\n\
             [[user]]\nname = \"bob\"\npassword = \"{hash}\"\ntenant = \"pages\"\n"
        );
        let (tenants, users, file) = read(&text).unwrap();
        assert_eq!((file.memory, file.flash), (Some(Size(1 << 30)), Some(Size(0))));
        assert_eq!(file.memcached.unwrap().get_ref().0.len(), 2);
        assert_eq!(file.resp.unwrap().get_ref().0, [ListenArg::Nowhere]);
        assert_eq!((&*tenants[1].name, tenants[1].percent), ("pages", 40.0));
        assert_eq!(tenants[1].policy, TenantPolicy::new("pages"));
        let of: Vec<_> = users.iter().map(|user| (&*user.name, &*user.tenant)).collect();
        assert_eq!(of, [("ann", "photos"), ("bob", "pages")]);
        assert!(read("").is_ok(), "everything may be left out");
    }

    #[test]
    fn tenants_have_what_is_written_of_them() {
        let text = "[[tenant]]\nname = \"a\"\nshare = 50\n[[tenant]]\nname = \"b\"\nshare = 50\n\
                    requests_per_second = 1000\nbytes_per_second = \"50M\"\nburst = 0.5\nover_limit = \"error\"\n\
                    weight = 7\nprefix = \"b:\"\nflash_write_budget = \"10G\"\narray = { percent = 96 }\n";
        let (tenants, ..) = read(text).unwrap();
        let policy = TenantPolicy {
            requests_per_second: 1000,
            bytes_per_second: 50 << 20,
            burst: std::time::Duration::from_millis(500),
            over_limit: OverLimit::Error,
            weight: 7,
            prefix: b"b:".to_vec(),
            ..TenantPolicy::new("b")
        };
        assert_eq!((&tenants[1].policy, tenants[1].flash_write_budget), (&policy, Some(10 << 30)));
        let array =
            |tenant: &TenantSettings| tenant.tenant(&Config::default()).config.array.percent;
        assert_eq!((array(&tenants[0]), array(&tenants[1])), (0.0, 96.0));
    }

    #[test]
    fn the_example_is_one() {
        let (tenants, users, _) = read(include_str!("../../../../contrib/larder.toml")).unwrap();
        assert_eq!((tenants.len(), users.len()), (2, 0));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        let hash = PasswordHash::of(b"rye").unwrap();
        let user = format!("[[user]]\nname = \"a\"\npassword = \"{hash}\"\n");
        let two = "[[tenant]]\nname = \"a\"\nshare = 1\n[[tenant]]\nname = \"b\"\nshare = 1\n";
        let cases = [
            ("memry = 1", "larder.toml:1:1: unknown key \"memry\": did you mean \"memory\"?"),
            ("\n  zzzzzzzz = 1", "larder.toml:2:3: unknown key \"zzzzzzzz\": the keys here are"),
            ("memory = \"1X\"", "larder.toml:1:10: "),
            ("memory = -1", "larder.toml:1:10: must not be negative"),
            ("workers = 1\nresp = [\"127.0.0.1\"]", "larder.toml:2:8: \"127.0.0.1\": must be"),
            ("sockets = \"kqueue\"", "larder.toml:1:11: must be epoll or io_uring"),
            ("workers = \"two\"", "larder.toml:1:11: invalid type"),
            ("admin_token = \"rye\"", "larder.toml:1:15: no hash of a password"),
            ("memory = ", "larder.toml:1:"),
            (
                "[[tenant]]\nname = \"a\"\nshare = 60\n[[tenant]]\nname = \"a\"\nshare = 1",
                "larder.toml:4:1: there are two tenants \"a\"",
            ),
            (
                "[[tenant]]\nname = \"a\"\nshare = 60\n[[tenant]]\nname = \"b\"\nshare = 41",
                "larder.toml:4:1: tenant \"b\" has share = 41",
            ),
            ("[[tenant]]\nname = \"a\"\nshare = 0", "larder.toml:1:1: tenant \"a\" has share"),
            (
                "[[tenant]]\nname = \"a\"\nshre = 10",
                "larder.toml:3:1: unknown key \"shre\": did you",
            ),
            (
                &format!(
                    "{two}prefix = \"x:\"\n[[tenant]]\nname = \"c\"\nshare = 1\nprefix = \"x:\""
                ),
                "larder.toml:8:1: tenant \"c\": has the prefix of tenant \"b\"",
            ),
            (
                "[[tenant]]\nname = \"a\"\nshare = 1\nprefix = \"x:\"",
                "larder.toml:1:1: tenant \"a\": prefix: the first tenant has all keys",
            ),
            (&format!("{two}prefix = \"\""), "larder.toml:4:1: tenant \"b\": prefix is empty"),
            (
                &format!("{two}weight = 0"),
                "larder.toml:4:1: tenant \"b\": weight = 0: must be 1 to",
            ),
            (&format!("{two}burst = -1.0"), "larder.toml:4:1: tenant \"b\": burst = -1: must be"),
            (&format!("{two}over_limit = \"x\""), "larder.toml:7:14: must be delay or error"),
            (
                &format!("{two}flash_write_budget = 5"),
                "larder.toml:4:1: tenant \"b\": flash_write_budget = 5: must be at least 1M",
            ),
            (&format!("{user}{user}"), "larder.toml:4:1: there are two users \"a\""),
            (&format!("{user}tenant = \"x\""), "larder.toml:1:1: user \"a\" has tenant = \"x\""),
            (
                "[[user]]\nname = \"a\"",
                "larder.toml:1:1: user \"a\" needs a password, or a certificate",
            ),
            (
                "[[user]]\nname = \"a\"\ncertificate = \"x\"\n[[user]]\nname = \"b\"\ncertificate = \"x\"",
                "larder.toml:4:1: user \"b\" has certificate = \"x\", which names \"a\"",
            ),
            (
                "[[user]]\nname = \"a\"\npassword = \"rye\"",
                "larder.toml:1:1: user \"a\": password: no hash",
            ),
        ];
        for (text, message) in cases {
            let refused = read(text).unwrap_err();
            assert!(refused.starts_with(message), "{text}\n{refused}\n{message}");
        }
    }
}
