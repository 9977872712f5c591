//! Events of keys: which are published, where, and in which order.

use larder_server::{KeyspaceEvents, Server, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with};

/// A server that publishes these events.
fn server(events: &str) -> Server {
    let notify_keyspace_events: KeyspaceEvents = events.parse().unwrap();
    in_memory_with(ServerConfig { workers: 2, notify_keyspace_events, ..config() })
}

/// A client that hears all events by key: `event key`.
fn listener(server: &Server, pattern: &str) -> Client {
    let mut it = client(server);
    it.tells(&format!("PSUBSCRIBE {pattern}"), &format!("[psubscribe {pattern} :1]"));
    it
}

#[track_caller]
fn hears(it: &mut Client, pattern: &str, channel: &str, payload: &str) {
    assert_eq!(it.told(), format!("[pmessage {pattern} {channel} {payload}]"));
}

/// Runs a request, and checks the events that it publishes: pairs of event and key.
#[track_caller]
fn publishes(writer: &mut Client, it: &mut Client, request: &str, events: &[(&str, &str)]) {
    let answer = writer.asked(request);
    assert!(!answer.starts_with('-'), "{request}: {answer}");
    for (event, key) in events {
        let told = it.told();
        assert_eq!(
            told,
            format!("[pmessage __keyevent@* __keyevent@0__:{event} {key}]"),
            "{request}"
        );
    }
}

#[test]
fn both_channels_have_the_event() {
    let server = server("KEA");
    let (mut it, mut writer) = (listener(&server, "*"), client(&server));
    writer.tells("SET bread rye", "OK");
    hears(&mut it, "*", "__keyspace@0__:bread", "set");
    hears(&mut it, "*", "__keyevent@0__:set", "bread");
    writer.tells("SELECT 5", "OK");
    writer.tells("SET bread rye", "OK");
    hears(&mut it, "*", "__keyspace@5__:bread", "set");
    hears(&mut it, "*", "__keyevent@5__:set", "bread");
    writer.tells("MOVE bread 6", ":1");
    hears(&mut it, "*", "__keyspace@6__:bread", "move_to");
    hears(&mut it, "*", "__keyevent@6__:move_to", "bread");
    hears(&mut it, "*", "__keyspace@5__:bread", "move_from");
    hears(&mut it, "*", "__keyevent@5__:move_from", "bread");
}

#[test]
fn requests_have_the_events_of_redis() {
    let server = server("EA");
    let (mut it, mut writer) = (listener(&server, "__keyevent@*"), client(&server));
    let requests: &[(&str, &[(&str, &str)])] = &[
        ("SET a 1", &[("set", "a")]),
        ("SET a 1 EX 100", &[("set", "a"), ("expire", "a")]),
        ("SETEX a 100 1", &[("set", "a"), ("expire", "a")]),
        ("INCR a", &[("incrby", "a")]),
        ("DECRBY a 2", &[("decrby", "a")]),
        ("INCRBYFLOAT a 1.5", &[("incrbyfloat", "a")]),
        ("APPEND a 1", &[("append", "a")]),
        ("SETRANGE a 0 2", &[("setrange", "a")]),
        ("GETEX a EX 10", &[("expire", "a")]),
        ("PERSIST a", &[("persist", "a")]),
        ("PERSIST a", &[]),
        ("EXPIRE a 100", &[("expire", "a")]),
        ("RENAME a b", &[("rename_to", "b"), ("rename_from", "a")]),
        ("COPY b a", &[("copy_to", "a")]),
        ("EXPIRE a -1", &[("del", "a")]),
        ("GETDEL b", &[("del", "b")]),
        ("DEL b", &[]),
        ("MSET a 1 b 2", &[("set", "a"), ("set", "b")]),
        ("DEL a b", &[("del", "a"), ("del", "b")]),
        ("SETBIT a 3 1", &[("setbit", "a")]),
        ("PFADD sketch a", &[("pfadd", "sketch")]),
        ("RPUSH list a b c", &[("rpush", "list")]),
        ("LPUSH list z", &[("lpush", "list")]),
        ("LSET list 0 y", &[("lset", "list")]),
        ("LINSERT list BEFORE a x", &[("linsert", "list")]),
        ("LREM list 0 x", &[("lrem", "list")]),
        ("LTRIM list 0 2", &[("ltrim", "list")]),
        ("LPOP list", &[("lpop", "list")]),
        ("RPOP list", &[("rpop", "list")]),
        ("LMOVE list other LEFT RIGHT", &[("rpush", "other"), ("lpop", "list"), ("del", "list")]),
        ("SADD set a b", &[("sadd", "set")]),
        ("SADD set a", &[]),
        ("SREM set a", &[("srem", "set")]),
        ("SMOVE set set2 b", &[("sadd", "set2"), ("srem", "set"), ("del", "set")]),
        ("SUNIONSTORE set3 set2 set2", &[("sunionstore", "set3")]),
        ("SDIFFSTORE set3 set2 set2", &[("del", "set3")]),
        ("SPOP set2", &[("spop", "set2"), ("del", "set2")]),
        ("HSET h f 1", &[("hset", "h")]),
        ("HINCRBY h f 1", &[("hincrby", "h")]),
        ("HINCRBYFLOAT h f 1", &[("hincrbyfloat", "h")]),
        ("HDEL h none", &[]),
        ("HDEL h f", &[("hdel", "h"), ("del", "h")]),
        ("ZADD z 1 a 2 b 3 c 4 d", &[("zadd", "z")]),
        ("ZADD z 1 a", &[]),
        ("ZINCRBY z 1 a", &[("zincr", "z")]),
        ("ZADD z INCR 1 a", &[("zincr", "z")]),
        ("ZREM z a", &[("zrem", "z")]),
        ("ZPOPMIN z", &[("zpopmin", "z")]),
        ("ZREMRANGEBYSCORE z 4 4", &[("zremrangebyscore", "z")]),
        ("ZPOPMAX z", &[("zpopmax", "z"), ("del", "z")]),
        ("FLUSHALL", &[]),
        ("SWAPDB 0 1", &[]),
        ("SWAPDB 0 1", &[]),
        ("SET last 1", &[("set", "last")]),
    ];
    for (request, events) in requests {
        publishes(&mut writer, &mut it, request, events);
    }
}

#[test]
fn a_class_that_is_not_set_is_silent() {
    let server = in_memory();
    let (mut it, mut writer) = (listener(&server, "__keyevent@*"), client(&server));
    writer.tells("CONFIG GET notify-keyspace-events", "[notify-keyspace-events ]");
    writer.tells("SET a 1", "OK");
    for (letters, shown) in [("KEA", "AKE"), ("g$lshzxeKEtmdn", "AnKEm"), ("El", "lE")] {
        writer.tells(&format!("CONFIG SET notify-keyspace-events {letters}"), "OK");
        writer.tells(
            "CONFIG GET notify-keyspace-events",
            &format!("[notify-keyspace-events {shown}]"),
        );
    }
    let refused = writer.asked("CONFIG SET notify-keyspace-events Ey");
    assert!(refused.contains("Invalid event class character"), "{refused}");
    publishes(&mut writer, &mut it, "SET a 1", &[]);
    publishes(&mut writer, &mut it, "RPUSH l 1", &[("rpush", "l")]);
}

#[test]
fn new_keys_and_misses_are_told_if_asked_for() {
    let server = server("E$nm");
    let (mut it, mut writer) = (listener(&server, "__keyevent@*"), client(&server));
    publishes(&mut writer, &mut it, "GET none", &[("keymiss", "none")]);
    publishes(&mut writer, &mut it, "SET a 1", &[("new", "a"), ("set", "a")]);
    publishes(&mut writer, &mut it, "SET a 1", &[("set", "a")]);
    publishes(&mut writer, &mut it, "GET a", &[]);
    publishes(&mut writer, &mut it, "MGET a none2", &[("keymiss", "none2")]);
    let mut memcached = Client::memcached(&server);
    memcached.asks("set b 0 0 1\r\n1\r\n", "STORED\r\n");
    publishes(&mut writer, &mut it, "PING", &[("set", "b")]);
}

#[test]
fn expiry_and_eviction_are_told() {
    let server = server("Exe");
    let (mut it, mut writer) = (listener(&server, "__keyevent@*"), client(&server));
    writer.tells("SET a 1 PX 20", "OK");
    std::thread::sleep(std::time::Duration::from_millis(60));
    publishes(&mut writer, &mut it, "GET a", &[("expired", "a")]);
    // A value whose lifetime a request ends is removed, and has not expired.
    writer.tells("RPUSH l 1", ":1");
    publishes(&mut writer, &mut it, "LPOP l", &[]);
    publishes(&mut writer, &mut it, "SET b 1", &[]);
    let value = "x".repeat(100_000);
    let fill = |key| array(&[b"SET", format!("fill{key}").as_bytes(), value.as_bytes()]);
    (0..400).for_each(|key: u32| writer.asks(fill(key), "+OK\r\n"));
    assert!(it.told().starts_with("[pmessage __keyevent@* __keyevent@0__:evicted "));
}

#[test]
fn memcached_has_events_too() {
    let server = server("EA");
    let (mut it, mut writer) = (listener(&server, "__keyevent@*"), Client::memcached(&server));
    for (request, answer, event) in [
        ("set k 0 0 1\r\n1\r\n", "STORED\r\n", "set"),
        ("incr k 1\r\n", "2\r\n", "incrby"),
        ("decr k 1\r\n", "1\r\n", "decrby"),
        ("append k 0 0 1\r\n0\r\n", "STORED\r\n", "append"),
        ("touch k 100\r\n", "TOUCHED\r\n", "expire"),
        ("delete k\r\n", "DELETED\r\n", "del"),
    ] {
        writer.asks(request, answer);
        hears(&mut it, "__keyevent@*", &format!("__keyevent@0__:{event}"), "k");
    }
}
