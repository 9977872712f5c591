//! Settings that concern clients of RESP alone.

use indicatif::BinaryBytes;
use larder_server::{MaxmemoryPolicy, ServerConfig};

use crate::args::ServeArgs;
use crate::settings_file::{From, Setting, SettingsFile, pick};

/// What only clients of RESP notice.
#[derive(Debug)]
pub(crate) struct RespSettings {
    /// Bytes of messages that a subscriber may leave unread.
    pubsub_max: Setting<u64>,
    /// Longest collection, in bytes.
    collection_max: Setting<u64>,
    /// What clients are told that is evicted.
    maxmemory_policy: Setting<MaxmemoryPolicy>,
}

impl RespSettings {
    /// The settings from `arguments` and the file.
    pub(super) fn of(arguments: &ServeArgs, file: &SettingsFile) -> Self {
        let default = ServerConfig::default();
        let policy = file.maxmemory_policy.map(|policy| policy.0);
        Self {
            pubsub_max: pick(arguments.pubsub_max, file.pubsub_max.map(|size| size.0), || {
                default.pubsub_bytes_max as u64
            }),
            collection_max: pick(
                arguments.collection_max,
                file.collection_max.map(|size| size.0),
                || default.collection_bytes_max as u64,
            ),
            maxmemory_policy: pick(arguments.maxmemory_policy, policy, || default.maxmemory_policy),
        }
    }

    /// Puts them into the configuration of the server.
    pub(super) fn tell(&self, config: &mut ServerConfig) {
        config.pubsub_bytes_max = usize::try_from(self.pubsub_max.0).unwrap_or(usize::MAX);
        config.collection_bytes_max = usize::try_from(self.collection_max.0).unwrap_or(usize::MAX);
        config.maxmemory_policy = self.maxmemory_policy.0;
    }

    /// Each setting: its name, its value, where it comes from.
    pub(super) fn explained(&self) -> [(&'static str, String, From); 3] {
        let (most, policy) = (&self.pubsub_max, &self.maxmemory_policy);
        [
            ("pubsub_max", BinaryBytes(most.0).to_string(), most.1),
            (
                "collection_max",
                BinaryBytes(self.collection_max.0).to_string(),
                self.collection_max.1,
            ),
            ("maxmemory_policy", policy.0.to_string(), policy.1),
        ]
    }
}
