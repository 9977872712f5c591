//! Translates errors of the library and the server for users of `larder serve`: they name fields that this command does
//! not have.

use std::fmt::Display;

/// Text in an error, and the name of the option, with `--` or in `larder.toml`. Longer ones come first.
const WORDS: [(&str, &str); 30] = [
    // Remedies.
    (
        "set start_empty, or erase its first",
        "remove the file if its data may go, or erase its first",
    ),
    ("set start_empty to divide the device anew", "remove the file to divide it anew"),
    (
        "open the set with Tenants::open_sharded, or set start_empty",
        "give the file to a server with the same tenants, or remove it",
    ),
    (
        "set on_change = Discard to begin with an empty one",
        "set on_change = \"discard\" to begin with an empty one",
    ),
    (
        "set on_change = Discard, which costs",
        "set on_change = \"discard\", which empties this tenant and costs",
    ),
    ("set TenantsConfig::memory_bytes", "set memory"),
    (" (lock_wait)", ""),
    ("set region_bytes higher", "use larger files"),
    // Names.
    ("tombstone_log_bytes", "tombstone_log"),
    ("admission_memory_bytes", "admission.memory"),
    ("demoting_bytes_max", "demotion.memory"),
    ("utilization_percent", "utilization"),
    ("loc.region_bytes", "loc.region"),
    ("loc.write_bytes", "loc.write"),
    ("loc.ru_aware_eviction", "loc.reclaim_units"),
    ("soc.max_object_bytes", "soc.max_object"),
    ("soc.log_percent", "soc.log"),
    ("array.min_object_bytes", "array.min_object"),
    ("array.mean_object_bytes", "array.mean_object"),
    ("array.region_bytes", "array.region"),
    ("array.index_bytes", "array.index"),
    ("array.memory_bytes", "array.memory"),
    ("memory_bytes", "memory"),
    ("dram_bytes", "memory"),
    ("connections_max", "connections"),
    ("value_bytes_max", "value_max"),
    ("pubsub_bytes_max", "pubsub_max"),
    ("tracking_keys_max", "tracking_table_max"),
    ("collection_bytes_max", "collection_max"),
    ("script_bytes_max", "script_memory_max"),
];

/// The same message, with names that a user of the command knows.
pub(crate) fn of_serve(error: &dyn Display) -> String {
    WORDS.iter().fold(error.to_string(), |said, (theirs, ours)| said.replace(theirs, ours))
}

#[cfg(test)]
mod tests {
    use larder::{Config, Larder, RealClock, Tenant, Tenants, TenantsConfig, block_on};
    use larder_device::{Device, MemoryDevice};
    use larder_server::ServerConfig;
    use std::sync::Arc;

    use super::*;

    /// Words that look like a Rust field.
    fn fields(said: &str) -> Vec<&str> {
        let words = said.split(|it: char| !(it.is_ascii_alphanumeric() || "_.:".contains(it)));
        let words = words.map(|word| word.trim_matches(['.', ':']));
        words
            .filter(|word| {
                word.contains("_bytes")
                    || word.contains("_max")
                        && ![
                            "value_max",
                            "pubsub_max",
                            "collection_max",
                            "script_memory_max",
                            "tracking_table_max",
                        ]
                        .contains(word)
                    || word.contains("::")
                    || ["start_empty", "lock_wait", "None", "Discard"].contains(word)
            })
            .collect()
    }

    fn is_ours(said: &str) {
        let told = of_serve(&said);
        assert_eq!(fields(&told), Vec::<&str>::new(), "{told}");
    }

    #[test]
    fn names_of_fields_are_names_of_options() {
        let server = |config: ServerConfig| config.check().unwrap_err().to_string();
        is_ours(&server(ServerConfig { connections_max: 0, ..ServerConfig::default() }));
        is_ours(&server(ServerConfig { value_bytes_max: 1, ..ServerConfig::default() }));
        is_ours(&server(ServerConfig { pubsub_bytes_max: 0, ..ServerConfig::default() }));
        is_ours(&server(ServerConfig { tracking_keys_max: 0, ..ServerConfig::default() }));
        is_ours(&server(ServerConfig { collection_bytes_max: 0, ..ServerConfig::default() }));
        is_ours(&server(ServerConfig { script_bytes_max: 0, ..ServerConfig::default() }));
        assert!(!fields("connections_max = 0: loc.write_bytes, start_empty").is_empty());
        is_ours("soc.log_percent, soc.max_object_bytes, loc.region_bytes, loc.ru_aware_eviction");
        is_ours("tombstone_log_bytes, admission_memory_bytes, array.min_object_bytes");
    }

    #[test]
    fn caches_that_cannot_be_are_refused_in_words_of_the_command() {
        let clock = || Arc::new(RealClock);
        let device =
            |bytes: usize| Some(Arc::new(MemoryDevice::holding(vec![0; bytes])) as Arc<dyn Device>);
        let refused = |config: TenantsConfig, bytes| {
            let opened = block_on(Tenants::open(config, device(bytes), clock()));
            is_ours(&opened.err().unwrap().to_string());
        };
        let one = || vec![Tenant::new("a", 100.0)];
        refused(
            TenantsConfig { memory_bytes: Some(1), tenants: one(), ..TenantsConfig::default() },
            64 << 20,
        );
        refused(
            TenantsConfig {
                memory_bytes: Some(1 << 20),
                tenants: one(),
                ..TenantsConfig::default()
            },
            256 << 20,
        );
        // A device that another cache uses alone.
        let own = device(64 << 20);
        let config = Config { dram_bytes: 8 << 20, ..Config::default() };
        block_on(block_on(Larder::open(config, own.clone(), clock())).unwrap().close()).unwrap();
        let config = TenantsConfig {
            memory_bytes: Some(64 << 20),
            tenants: one(),
            ..TenantsConfig::default()
        };
        is_ours(&block_on(Tenants::open(config, own, clock())).err().unwrap().to_string());
    }
}
