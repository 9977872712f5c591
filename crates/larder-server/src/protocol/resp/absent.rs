//! Commands that this cache does not have, and what to use instead.

const STREAMS: &str = "this cache has no streams: use a broker or a log";
const PLACES: &str = "this cache has no geographic indices: use a sorted set of geohashes";
const FUNCTIONS: &str = "this cache has no functions: use EVAL or EVALSHA";
const REPLICAS: &str = "this cache has no replicas: give clients several servers";
const SLOTS: &str = "slots do not move: change the map of slots, and restart";
const DUMPS: &str = "nothing is dumped: what is on flash survives a restart";

/// Names in lower case, and what is said of them.
const ABSENT: [(&str, &str); 16] = [
    ("bgrewriteaof", DUMPS),
    ("bgsave", DUMPS),
    ("failover", REPLICAS),
    ("fcall", FUNCTIONS),
    ("fcall_ro", FUNCTIONS),
    ("lcs", "this cache compares no strings: read both, and compare them in the client"),
    ("migrate", SLOTS),
    ("module", "this cache has no modules: use EVAL"),
    ("monitor", "requests are not copied to clients: use SLOWLOG, INFO commandstats, or /metrics"),
    ("psync", REPLICAS),
    ("replicaof", REPLICAS),
    ("save", DUMPS),
    ("shutdown", "clients cannot stop this server: send it SIGTERM"),
    ("slaveof", REPLICAS),
    ("sync", REPLICAS),
    ("waitaof", REPLICAS),
];

/// What to use instead of this command, if it is known elsewhere.
pub(super) fn instead_of(name: &[u8]) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let is_of = |commands: &[&str]| {
        let rest = name.get(1..).unwrap_or_default();
        commands.iter().any(|command| rest == command.as_bytes())
    };
    let streams = [
        "ack",
        "add",
        "autoclaim",
        "claim",
        "del",
        "group",
        "info",
        "len",
        "pending",
        "range",
        "read",
    ];
    let more = ["readgroup", "revrange", "setid", "trim"];
    if name.starts_with(b"x") && (is_of(&streams) || is_of(&more)) {
        return Some(STREAMS);
    }
    if name.starts_with(b"geo") {
        return Some(PLACES);
    }
    let known = ABSENT.iter().find(|(absent, _)| absent.as_bytes() == name);
    known.map(|(_, said)| *said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_not_there() {
        for (name, said) in ABSENT {
            assert!(super::super::table::find(name.as_bytes()).is_none(), "{name} is there");
            assert_eq!(instead_of(name.to_ascii_uppercase().as_bytes()), Some(said));
        }
        assert_eq!(instead_of(b"XADD"), Some(STREAMS));
        assert_eq!(instead_of(b"geoadd"), Some(PLACES));
        assert_eq!(instead_of(b"get"), None);
        assert_eq!(instead_of(b"xyz"), None);
        assert_eq!(instead_of(b""), None);
    }
}
