//! The table of commands: name, action, arity, flags, keys, the version that introduced it, and a summary.

use super::command::flags::*;
use super::command::{Command, Does, Group, Keys};

const NO_KEYS: Keys = Keys { first: 0, last: 0, step: 0 };
const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
const TWO: Keys = Keys { first: 1, last: 2, step: 1 };
const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };
const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };

const R: u16 = READONLY;
const RF: u16 = READONLY | FAST;
const W: u16 = WRITE;
const WF: u16 = WRITE | FAST;
const WO: u16 = WRITE | DENYOOM;
const WOF: u16 = WRITE | DENYOOM | FAST;
/// Commands about the connection.
const C: u16 = NOSCRIPT | LOADING | STALE | FAST;
/// Commands for operators.
const A: u16 = ADMIN | NOSCRIPT | LOADING | STALE;
const INFO: u16 = LOADING | STALE;
/// Commands that change what a client has subscribed to.
const P: u16 = PUBSUB | NOSCRIPT | LOADING | STALE;
const PF: u16 = PUBSUB | LOADING | STALE | FAST;

/// Name, action, arity with the name (negative: at least), flags, keys, group, since, summary.
macro_rules! table {
    ($($name:literal $does:ident $arity:literal
        $flags:expr, $keys:ident $group:ident $since:literal $summary:literal;)*) => {
        &[$(Command {
            name: $name, does: Does::$does, arity: $arity, flags: $flags, keys: $keys, group: Group::$group,
            since: $since, summary: $summary,
        }),*]
    };
}

/// Sorted by name.
pub(super) static TABLE: &[Command] = table! {
    "acl" Acl -2 C, NO_KEYS Server "6.0.0" "Users of the configuration.";
    "append" Append 3 WOF, ONE String "2.0.0" "Puts bytes behind a value, or makes one of them.";
    "asking" Asking 1 FAST, NO_KEYS Cluster "3.0.0" "Answers OK: no slot is on its way elsewhere.";
    "auth" Auth -2 C | NO_AUTH, NO_KEYS Connection "1.0.0" "Logs in.";
    "client" Client -2 C, NO_KEYS Connection "2.4.0" "Connections: their names, lists and replies.";
    "cluster" Cluster -2 INFO, NO_KEYS Cluster "3.0.0" "Which server has which slots.";
    "command" Command -1 INFO, NO_KEYS Server "2.8.13" "This table.";
    "config" Config -2 A, NO_KEYS Server "2.0.0" "Settings.";
    "copy" Copy -3 WO, TWO Generic "6.2.0" "Stores the value of a key under another one too.";
    "dbsize" Dbsize 1 RF, NO_KEYS Server "1.0.0" "How many keys there are, about.";
    "debug" Debug -2 A, NO_KEYS Server "1.0.0" "Refused.";
    "decr" Decr 2 WOF, ONE String "1.0.0" "Takes one from a number.";
    "decrby" Decrby 3 WOF, ONE String "1.0.0" "Takes so much from a number.";
    "del" Del -2 W, ALL Generic "1.0.0" "Removes keys.";
    "discard" Discard 1 C, NO_KEYS Transactions "2.0.0" "Forgets a transaction that was begun.";
    "echo" Echo 2 LOADING | STALE | FAST, NO_KEYS Connection "1.0.0" "Answers what it is sent.";
    "exec" Exec 1 NOSCRIPT | LOADING | STALE, NO_KEYS Transactions "1.2.0" "Does what a transaction has collected.";
    "exists" Exists -2 RF, ALL Generic "1.0.0" "How many of these keys have a value.";
    "expire" Expire -3 WF, ONE Generic "1.0.0" "Sets how many seconds a value lives.";
    "expireat" Expireat -3 WF, ONE Generic "1.2.0" "A value shall live until this second.";
    "expiretime" Expiretime 2 RF, ONE Generic "7.0.0" "The second in which a value expires.";
    "flushall" Flushall -1 W, NO_KEYS Server "1.0.0" "Removes all keys.";
    "flushdb" Flushdb -1 W, NO_KEYS Server "1.0.0" "Removes all keys.";
    "function" Function -2 NOSCRIPT, NO_KEYS Scripting "7.0.0" "There are no functions.";
    "get" Get 2 RF, ONE String "1.0.0" "The value of a key.";
    "getdel" Getdel 2 WF, ONE String "6.2.0" "The value of a key, which is removed.";
    "getex" Getex -2 WF, ONE String "6.2.0" "The value of a key, which shall expire at another time.";
    "getrange" Getrange 4 R, ONE String "2.4.0" "A part of a value.";
    "getset" Getset 3 WOF, ONE String "1.0.0" "The value of a key, and puts another in its place.";
    "hello" Hello -1 C | NO_AUTH, NO_KEYS Connection "6.0.0" "Chooses the version of the protocol, and logs in.";
    "incr" Incr 2 WOF, ONE String "1.0.0" "Adds one to a number.";
    "incrby" Incrby 3 WOF, ONE String "1.0.0" "Adds so much to a number.";
    "incrbyfloat" Incrbyfloat 3 WOF, ONE String "2.6.0" "Adds a fraction to a number.";
    "info" Info -1 INFO, NO_KEYS Server "1.0.0" "What is known of the server.";
    "keys" KeysLike 2 R, NO_KEYS Generic "1.0.0" "All keys that a pattern describes.";
    "lastsave" Lastsave 1 LOADING | STALE | FAST, NO_KEYS Server "1.0.0" "The second in which the server began.";
    "latency" Latency -2 A, NO_KEYS Server "2.8.13" "Spikes of latency, which are not recorded.";
    "memory" Memory -2 R, NO_KEYS Server "4.0.0" "What an item takes in memory.";
    "mget" Mget -2 RF, ALL String "1.0.0" "The values of keys, each as it is when it is looked up.";
    "mset" Mset -3 WO, PAIRS String "1.0.1" "Stores values, one after the other.";
    "msetnx" Msetnx -3 WO, PAIRS String "1.0.1" "Stores values if none of the keys has one.";
    "multi" Multi 1 C, NO_KEYS Transactions "1.2.0" "Begins a transaction.";
    "object" Object -2 R, SECOND Generic "2.2.3" "What is known of a value beside its bytes.";
    "persist" Persist 2 WF, ONE Generic "2.2.0" "A value shall live for ever.";
    "pexpire" Pexpire -3 WF, ONE Generic "2.6.0" "Sets how many milliseconds a value lives.";
    "pexpireat" Pexpireat -3 WF, ONE Generic "2.6.0" "A value shall live until this millisecond.";
    "pexpiretime" Pexpiretime 2 RF, ONE Generic "7.0.0" "The millisecond in which a value expires.";
    "ping" Ping -1 FAST, NO_KEYS Connection "1.0.0" "Answers.";
    "psetex" Psetex 4 WO, ONE String "2.6.0" "Stores a value for a number of milliseconds.";
    "psubscribe" Psubscribe -2 P, NO_KEYS Pubsub "2.0.0" "Hears the channels that patterns describe.";
    "pttl" Pttl 2 RF, ONE Generic "2.6.0" "How many milliseconds a value has left to live.";
    "publish" Publish 3 PF, NO_KEYS Pubsub "2.0.0" "Sends a message to the subscribers of a channel.";
    "pubsub" Pubsub -2 INFO | PUBSUB, NO_KEYS Pubsub "2.8.0" "Which channels have subscribers.";
    "punsubscribe" Punsubscribe -1 P, NO_KEYS Pubsub "2.0.0" "Hears the channels of patterns no more.";
    "quit" Quit -1 C | NO_AUTH, NO_KEYS Connection "1.0.0" "Closes the connection.";
    "randomkey" Randomkey 1 R, NO_KEYS Generic "1.0.0" "Some key.";
    "readonly" Readonly 1 LOADING | STALE | FAST, NO_KEYS Cluster "3.0.0" "Answers OK: there are no replicas.";
    "readwrite" Readonly 1 LOADING | STALE | FAST, NO_KEYS Cluster "3.0.0" "Answers OK: there are no replicas.";
    "rename" Rename 3 W, TWO Generic "1.0.0" "Gives a value another key, in the place of what that has.";
    "renamenx" Renamenx 3 WF, TWO Generic "1.0.0" "Gives a value another key that has none.";
    "reset" Reset 1 C | NO_AUTH, NO_KEYS Connection "6.2.0" "Makes the connection what it was at its begin.";
    "role" Role 1 C, NO_KEYS Server "2.8.12" "Says that this server is a master without replicas.";
    "scan" Scan -2 R, NO_KEYS Generic "2.8.0" "Keys, page by page.";
    "select" Select 2 LOADING | STALE | FAST, NO_KEYS Connection "1.0.0" "Chooses the only database, 0.";
    "set" Set -3 WO, ONE String "1.0.0" "Stores a value, on conditions.";
    "setex" Setex 4 WO, ONE String "2.0.0" "Stores a value for a number of seconds.";
    "setnx" Setnx 3 WOF, ONE String "1.0.0" "Stores a value if the key has none.";
    "setrange" Setrange 4 WO, ONE String "2.2.0" "Writes over a part of a value.";
    "slowlog" Slowlog -2 A, NO_KEYS Server "2.2.12" "Requests that took long.";
    "spublish" Spublish 3 PF, ONE Pubsub "7.0.0" "Sends a message to the subscribers of a sharded channel.";
    "ssubscribe" Ssubscribe -2 P, ALL Pubsub "7.0.0" "Hears sharded channels.";
    "strlen" Strlen 2 RF, ONE String "2.2.0" "How long a value is.";
    "subscribe" Subscribe -2 P, NO_KEYS Pubsub "2.0.0" "Hears channels.";
    "substr" Getrange 4 R, ONE String "1.0.0" "A part of a value.";
    "sunsubscribe" Sunsubscribe -1 P, ALL Pubsub "7.0.0" "Hears sharded channels no more.";
    "time" Time 1 LOADING | STALE | FAST, NO_KEYS Server "2.6.0" "The server's time.";
    "touch" Touch -2 RF, ALL Generic "3.2.1" "How many of these keys have a value, which are used by that.";
    "ttl" Ttl 2 RF, ONE Generic "1.0.0" "How many seconds a value has left to live.";
    "type" Type 2 RF, ONE Generic "1.0.0" "string, or none.";
    "unlink" Del -2 WF, ALL Generic "4.0.0" "Removes keys.";
    "unsubscribe" Unsubscribe -1 P, NO_KEYS Pubsub "2.0.0" "Hears channels no more.";
    "unwatch" Unwatch 1 C, NO_KEYS Transactions "2.2.0" "Watches no key any more.";
    "wait" Wait 3 0, NO_KEYS Generic "3.0.0" "How many replicas have followed: none.";
    "watch" Watch -2 C, ALL Transactions "2.2.0" "A transaction shall do nothing if one of these keys changes before.";
};

/// Longest name, in bytes, that we look up.
const NAME_BYTES_MAX: usize = 16;

/// The command with this name, and its index in the table.
pub(super) fn find(name: &[u8]) -> Option<(usize, &'static Command)> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let at = TABLE.binary_search_by(|command| command.name.as_bytes().cmp(lower)).ok()?;
    TABLE.get(at).map(|command| (at, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_found() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, no name twice");
        for (at, command) in TABLE.iter().enumerate() {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert!(found.is_some_and(|(place, it)| place == at && it.name == command.name));
        }
        for wrong in [&b""[..], b"nope", b"gett", &[b'g'; 100], b"\xff"] {
            assert!(find(wrong).is_none());
        }
    }

    #[test]
    fn arities() {
        let takes = |name: &str, count| find(name.as_bytes()).unwrap().1.takes(count);
        assert!(takes("get", 2) && !takes("get", 1) && !takes("get", 3));
        assert!(takes("mget", 2) && takes("mget", 1000) && !takes("mget", 1));
    }

    #[test]
    fn keys_by_place() {
        let places = |name: &str, count| -> Vec<usize> {
            find(name.as_bytes()).unwrap().1.key_places(count).collect()
        };
        assert_eq!(places("get", 2), [1]);
        assert_eq!(places("mget", 4), [1, 2, 3]);
        assert_eq!(places("mset", 5), [1, 3]);
        assert_eq!(places("rename", 3), [1, 2]);
        assert_eq!(places("object", 3), [2]);
        assert_eq!(places("object", 2), [] as [usize; 0]);
        assert_eq!(places("ping", 2), [] as [usize; 0]);
        assert_eq!(places("del", 0), [] as [usize; 0]);
    }
}
