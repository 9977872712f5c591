//! Settings that concern clients of RESP alone.

use std::time::Duration;

use indicatif::BinaryBytes;
use larder_server::{KeyspaceEvents, MaxmemoryPolicy, ServerConfig};

use crate::args::ServeArgs;
use crate::settings_file::{From, Setting, SettingsFile, pick};

/// What only clients of RESP notice.
#[derive(Debug)]
pub(crate) struct RespSettings {
    /// Bytes of messages that a subscriber may leave unread.
    pubsub_max: Setting<u64>,
    /// Longest collection, in bytes.
    collection_max: Setting<u64>,
    /// Milliseconds that a script may run.
    script_time_limit: Setting<u32>,
    /// Bytes of memory that a script may use.
    script_memory_max: Setting<u64>,
    /// The database of memcached's clients.
    memcached_database: Setting<u8>,
    /// Keys that clients may track together.
    tracking_table_max: Setting<usize>,
    /// Events of keys that are published.
    notify_keyspace_events: Setting<KeyspaceEvents>,
    /// What clients are told that is evicted.
    maxmemory_policy: Setting<MaxmemoryPolicy>,
}

impl RespSettings {
    /// The settings from `arguments` and the file.
    pub(super) fn of(arguments: &ServeArgs, file: &SettingsFile) -> Self {
        let default = ServerConfig::default();
        let policy = file.maxmemory_policy.map(|policy| policy.0);
        let events = file.notify_keyspace_events.map(|events| events.0);
        Self {
            pubsub_max: pick(arguments.pubsub_max, file.pubsub_max.map(|size| size.0), || {
                default.pubsub_bytes_max as u64
            }),
            collection_max: pick(
                arguments.collection_max,
                file.collection_max.map(|size| size.0),
                || default.collection_bytes_max as u64,
            ),
            script_time_limit: pick(arguments.script_time_limit, file.script_time_limit, || {
                u32::try_from(default.script_time_limit.as_millis()).unwrap_or(u32::MAX)
            }),
            script_memory_max: pick(
                arguments.script_memory_max,
                file.script_memory_max.map(|size| size.0),
                || default.script_bytes_max as u64,
            ),
            memcached_database: pick(arguments.memcached_database, file.memcached_database, || {
                default.memcached_database
            }),
            tracking_table_max: pick(arguments.tracking_table_max, file.tracking_table_max, || {
                default.tracking_keys_max
            }),
            notify_keyspace_events: pick(arguments.notify_keyspace_events, events, || {
                default.notify_keyspace_events
            }),
            maxmemory_policy: pick(arguments.maxmemory_policy, policy, || default.maxmemory_policy),
        }
    }

    /// Puts them into the configuration of the server.
    pub(super) fn tell(&self, config: &mut ServerConfig) {
        config.pubsub_bytes_max = usize::try_from(self.pubsub_max.0).unwrap_or(usize::MAX);
        config.collection_bytes_max = usize::try_from(self.collection_max.0).unwrap_or(usize::MAX);
        config.script_time_limit = Duration::from_millis(self.script_time_limit.0.into());
        config.script_bytes_max = usize::try_from(self.script_memory_max.0).unwrap_or(usize::MAX);
        config.memcached_database = self.memcached_database.0;
        config.tracking_keys_max = self.tracking_table_max.0;
        config.notify_keyspace_events = self.notify_keyspace_events.0;
        config.maxmemory_policy = self.maxmemory_policy.0;
    }

    /// Each setting: its name, its value, where it comes from.
    pub(super) fn explained(&self) -> [(&'static str, String, From); 8] {
        let (most, policy) = (&self.pubsub_max, &self.maxmemory_policy);
        let (time, memory) = (&self.script_time_limit, &self.script_memory_max);
        let database = &self.memcached_database;
        [
            ("pubsub_max", BinaryBytes(most.0).to_string(), most.1),
            (
                "collection_max",
                BinaryBytes(self.collection_max.0).to_string(),
                self.collection_max.1,
            ),
            ("script_time_limit", format!("{} ms", time.0), time.1),
            ("script_memory_max", BinaryBytes(memory.0).to_string(), memory.1),
            ("memcached_database", database.0.to_string(), database.1),
            (
                "tracking_table_max",
                self.tracking_table_max.0.to_string(),
                self.tracking_table_max.1,
            ),
            (
                "notify_keyspace_events",
                self.notify_keyspace_events.0.to_string(),
                self.notify_keyspace_events.1,
            ),
            ("maxmemory_policy", policy.0.to_string(), policy.1),
        ]
    }
}
