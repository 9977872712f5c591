//! Commands about the connection, and for operators.

use larder_server::{ServerConfig, SlotMap, SlotNode};

use super::client;
use crate::serving::{config, in_memory, in_memory_with};

#[test]
fn both_versions_of_the_protocol() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$2\r\n16");
    assert_eq!(it.line_of("HELLO 3 SETNAME me"), "7");
    it.hears("$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n");
    let rest = it.bulk("PING");
    assert!(rest.starts_with(b"7."), "{rest:?}");
    it.hears("$5\r\nproto\r\n:3\r\n$2\r\nid\r\n");
    it.line_of("PING");
    it.hears(
        "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
    );
    it.hears("+PONG\r\n+PONG\r\n");
    it.says("GET nope", "_");
    it.says("CONFIG GET databases", "%1\r\n$9\r\ndatabases\r\n$2\r\n16");
    it.gives("CLIENT GETNAME", "me");
    it.says("RESET", "+RESET");
    it.says("GET nope", "$-1");
    it.says("CLIENT GETNAME", "$-1");
}

#[test]
fn client_reply_suppresses_answers() {
    let server = in_memory();
    let mut it = client(&server);
    it.asks("CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\n", "$1\r\n1\r\n");
    it.asks(
        "CLIENT REPLY OFF\r\nSET a 2\r\nGET a\r\nCLIENT REPLY ON\r\nGET a\r\n",
        "+OK\r\n$1\r\n2\r\n",
    );
    it.asks("QUIT\r\nPING\r\n", "+OK\r\n");
    it.is_closed();
}

#[test]
fn clients_are_listed_named_and_ended() {
    let server = in_memory();
    let (mut it, mut other) = (client(&server), client(&server));
    it.says("CLIENT SETNAME a", "+OK");
    it.says(
        "CLIENT SETNAME 'a b'",
        "-ERR Client names cannot contain spaces, newlines or special characters.",
    );
    it.says("CLIENT SETINFO LIB-NAME lib", "+OK");
    other.says("CLIENT SETNAME b", "+OK");
    let list = String::from_utf8(it.bulk("CLIENT LIST")).unwrap();
    assert_eq!(list.lines().count(), 2);
    assert!(
        list.contains(" name=a ") && list.contains("lib-name=lib") && list.contains(" name=b ")
    );
    let id = other.line_of("CLIENT ID");
    it.says(&format!("CLIENT KILL ID {id}"), ":1");
    other.send("PING\r\n");
    other.is_closed();
    assert_eq!(String::from_utf8(it.bulk("CLIENT LIST")).unwrap().lines().count(), 1);
    it.says("CLIENT NO-EVICT ON", "+OK");
    it.says("CLIENT TRACKING ON", "+OK");
    it.says("CLIENT TRACKING OFF", "+OK");
}

#[test]
fn the_table_of_commands_is_told() {
    let server = in_memory();
    let mut it = client(&server);
    it.says(
        "COMMAND INFO get nope",
        "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*3\r\n+@read\r\n+@string\r\n\
         +@fast\r\n*0\r\n*0\r\n*0\r\n*-1",
    );
    it.says("COMMAND GETKEYS MSET a 1 b 2", "*2\r\n$1\r\na\r\n$1\r\nb");
    it.says("COMMAND LIST FILTERBY PATTERN m?et", "*2\r\n$4\r\nmget\r\n$4\r\nmset");
    let count: usize = it.line_of("COMMAND COUNT").parse().unwrap();
    assert!(count > 70);
}

#[test]
fn what_is_slow_is_noted() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("CONFIG SET slowlog-log-slower-than -5", "-ERR CONFIG SET failed (possibly related to argument \
        'slowlog-log-slower-than') - argument couldn't be parsed into an integer, or is out of range");
    it.says("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2", "+OK");
    it.says("SET a 1", "+OK");
    it.says("SET b 1", "+OK");
    it.says("CONFIG SET slowlog-log-slower-than -1", "+OK");
    it.says("SLOWLOG LEN", ":2");
    it.says("SLOWLOG RESET", "+OK");
    it.says("SLOWLOG GET", "*0");
}

#[test]
fn counters_are_told() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("SET a 1", "+OK");
    it.says("GET a", "$1\r\n1");
    it.says("GET b", "$-1");
    let info = String::from_utf8(it.bulk("INFO everything")).unwrap();
    for line in [
        "redis_version:7.4.0",
        "keyspace_hits:1",
        "keyspace_misses:1",
        "db0:keys=1,",
        "connected_clients:1",
        "cmdstat_get:calls=2,",
        "larder_version:",
        "role:master",
    ] {
        assert!(info.contains(line), "{line} in {info}");
    }
    let limit = info.lines().find_map(|line| line.strip_prefix("maxmemory:")).unwrap().trim();
    assert!(limit.parse::<u64>().unwrap() > 0, "{limit}");
    let answer = format!("*2\r\n$9\r\nmaxmemory\r\n${}\r\n{limit}", limit.len());
    it.says("CONFIG GET maxmemory", &answer);
    let one = String::from_utf8(it.bulk("INFO keyspace")).unwrap();
    assert_eq!(one, "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n");
    it.says("SET c 1 EX 100", "+OK");
    it.says("SET d 1", "+OK");
    let some = String::from_utf8(it.bulk("INFO keyspace")).unwrap();
    assert_eq!(some, "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\n");
    it.says("PERSIST c", ":1");
    let none = String::from_utf8(it.bulk("INFO keyspace")).unwrap();
    assert_eq!(none, "# Keyspace\r\ndb0:keys=3,expires=0,avg_ttl=0\r\n");
}

#[test]
fn keys_of_others_are_sent_away() {
    let node = |port, first, last| SlotNode {
        host: "10.0.0.1".to_owned(),
        port,
        slots: vec![(first, last)],
    };
    let map = SlotMap::new(vec![node(1, 0, 8191), node(2, 8192, 16383)], 0).unwrap();
    let server = in_memory_with(ServerConfig { cluster: Some(map), ..config() });
    let mut it = client(&server);
    it.says("SET bar 1", "+OK");
    it.says("SET foo 1", "-MOVED 12182 10.0.0.1:2");
    it.says("MGET foo bar", "-CROSSSLOT Keys in request don't hash to the same slot");
    it.says("CLUSTER KEYSLOT foo", ":12182");
    let nodes = String::from_utf8(it.bulk("CLUSTER NODES")).unwrap();
    assert!(nodes.contains("10.0.0.1:1@1 myself,master - 0 0 1 connected 0-8191"), "{nodes}");
    it.says("READONLY", "+OK");
}

#[test]
fn users_are_shown_as_access_lists() {
    let server = in_memory();
    let mut it = client(&server);
    it.gives("ACL WHOAMI", "default");
    it.says("ACL LIST", "*1\r\n$34\r\nuser default on nopass ~* &* +@all");
    it.says("ACL USERS", "*1\r\n$7\r\ndefault");
    it.says("ACL GETUSER nope", "$-1");
    it.asks(
        "ACL GETUSER default\r\n",
        "*12\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$6\r\nnopass\r\n$9\r\npasswords\r\n*0\r\n\
         $8\r\ncommands\r\n$5\r\n+@all\r\n\
         $4\r\nkeys\r\n$2\r\n~*\r\n$8\r\nchannels\r\n$2\r\n&*\r\n$9\r\nselectors\r\n*0\r\n",
    );
    it.says(
        "ACL CAT transaction",
        "*5\r\n$7\r\ndiscard\r\n$4\r\nexec\r\n$5\r\nmulti\r\n$7\r\nunwatch\r\n$5\r\nwatch",
    );
    assert!(it.line_of("ACL CAT nope").contains("Unknown category"));
    assert!(it.line_of("ACL SETUSER a on").contains("configuration file"));
}

#[test]
fn clients_are_told_the_policy_that_is_set() {
    let server = in_memory();
    assert!(client(&server).bulk("INFO memory").ends_with(b"maxmemory_policy:allkeys-lru\r\n"));
    let maxmemory_policy = "volatile-lru".parse().unwrap();
    let server = in_memory_with(ServerConfig { maxmemory_policy, ..config() });
    let mut it = client(&server);
    assert!(it.bulk("INFO memory").ends_with(b"maxmemory_policy:volatile-lru\r\n"));
    it.says("CONFIG GET maxmemory-policy", "*2\r\n$16\r\nmaxmemory-policy\r\n$12\r\nvolatile-lru");
}
