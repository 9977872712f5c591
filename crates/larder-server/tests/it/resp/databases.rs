//! Databases: each has its own keys, whatever command names them.

use std::time::Duration;

use larder_server::ServerConfig;

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with, try_with_tenants};

fn in_database(server: &larder_server::Server, index: u8) -> Client {
    let mut client = client(server);
    client.tells(&format!("SELECT {index}"), "OK");
    client
}

#[test]
fn a_key_belongs_to_the_database_in_which_it_was_set() {
    let server = in_memory();
    let (mut zero, mut five) = (client(&server), in_database(&server, 5));
    zero.tells("SET k zero", "OK");
    five.tells("GET k", "nil");
    five.tells("SET k five", "OK");
    five.tells("SET only 1 PX 100000", "OK");
    zero.tells("GET k", "zero");
    zero.tells("MGET k only", "[zero nil]");
    five.tells("MGET k only", "[five 1]");
    zero.tells("EXISTS only", ":0");
    five.tells("INCR only", ":2");
    five.tells("STRLEN k", ":4");
    five.tells("TYPE k", "string");
    five.tells("DEL k", ":1");
    zero.tells("GET k", "zero");
    five.tells("RPUSH list a b", ":2");
    five.tells("LMPOP 2 nope list LEFT", "[list [a]]");
    five.tells("BLPOP nope list 1", "[list b]");
    five.tells("SADD s 1 2", ":2");
    five.tells("SADD t 2 3", ":2");
    five.tells("SINTERSTORE u s t", ":1");
    five.tells("SMEMBERS u", "[2]");
    five.tells("MSET w1 5 w2 1 w3 9", "OK");
    five.tells("RPUSH r 1 2 3", ":3");
    five.tells("SORT r BY w* GET # GET w* STORE sorted", ":6");
    five.tells("LRANGE sorted 0 -1", "[2 1 1 5 3 9]");
    zero.tells("EXISTS sorted", ":0");
    zero.tells("EXISTS s t u list", ":0");
    let script = b"return{redis.call('get',KEYS[1]),redis.call('keys','o*')}";
    five.asks(array(&[b"EVAL", script, b"1", b"only"]), "*2\r\n$1\r\n2\r\n*1\r\n$4\r\nonly\r\n");
    let script = b"redis.call('select',0) return redis.call('get','k')";
    five.asks(array(&[b"EVAL", script, b"0"]), "$4\r\nzero\r\n");
    five.tells("RENAME only renamed", "OK");
    five.tells("KEYS ren*", "[renamed]");
    zero.tells("KEYS *", "[k]");
    five.tells("SELECT 16", "-ERR DB index is out of range");
    five.tells("SELECT -1", "-ERR DB index is out of range");
    five.tells("SELECT x", "-ERR value is not an integer or out of range");
    five.tells("GET renamed", "2");
    five.tells("CONFIG GET databases", "[databases 16]");
}

#[test]
fn a_flush_of_one_leaves_the_others() {
    let server = in_memory();
    let (mut zero, mut one) = (client(&server), in_database(&server, 1));
    for number in 0..300 {
        zero.tells(&format!("SET z{number} 1"), "OK");
        one.tells(&format!("SET o{number} 1"), "OK");
    }
    zero.tells("DBSIZE", ":300");
    one.tells("DBSIZE", ":300");
    one.tells("DEL o0", ":1");
    let info = String::from_utf8(one.bulk("INFO keyspace")).unwrap();
    assert!(info.contains("db0:keys=300,") && info.contains("db1:keys=299,"), "{info}");
    one.tells("FLUSHDB", "OK");
    one.tells("DBSIZE", ":0");
    one.tells("RANDOMKEY", "nil");
    zero.tells("DBSIZE", ":300");
    zero.tells("GET z7", "1");
    one.tells("SET o1 1", "OK");
    zero.tells("FLUSHDB ASYNC", "OK");
    zero.tells("KEYS *", "[]");
    one.tells("KEYS *", "[o1]");
    one.tells("RANDOMKEY", "o1");
    one.tells("SCAN 0 MATCH o* COUNT 1000", "[0 [o1]]");
    zero.tells("FLUSHALL", "OK");
    one.tells("EXISTS o1", ":0");
}

#[test]
fn keys_move_between_databases_and_databases_are_swapped() {
    let server = in_memory();
    let (mut zero, mut one) = (client(&server), in_database(&server, 1));
    zero.tells("SET k v PX 100000", "OK");
    zero.tells("MOVE k 1", ":1");
    zero.tells("EXISTS k", ":0");
    one.tells("GET k", "v");
    assert!(one.asked("PTTL k").trim_start_matches(':').parse::<u32>().unwrap() > 90_000);
    zero.tells("SET k other", "OK");
    zero.tells("MOVE k 1", ":0");
    zero.tells("MOVE nope 1", ":0");
    zero.tells("MOVE k 0", "-ERR source and destination objects are the same");
    zero.tells("MOVE k 16", "-ERR DB index is out of range");
    zero.tells("COPY k c DB 1", ":1");
    one.tells("GET c", "other");
    zero.tells("COPY k k DB 1", ":0");
    zero.tells("COPY k k DB 1 REPLACE", ":1");
    one.tells("GET k", "other");
    zero.tells("COPY k k", "-ERR source and destination objects are the same");
    one.tells("SET k one", "OK");
    one.tells("SWAPDB 0 1", "OK");
    zero.tells("GET k", "one");
    one.tells("GET k", "other");
    one.tells("SWAPDB 1 1", "OK");
    one.tells("SWAPDB x 1", "-ERR invalid first DB index");
    one.tells("SWAPDB 1 x", "-ERR invalid second DB index");
    one.tells("SWAPDB 0 16", "-ERR DB index is out of range");
}

#[test]
fn a_choice_within_a_transaction_lasts() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("MULTI", "OK");
    it.tells("SET a 0", "QUEUED");
    it.tells("SELECT 2", "QUEUED");
    it.tells("SET a 2", "QUEUED");
    it.tells("EXEC", "[OK OK OK]");
    it.tells("GET a", "2");
    let list = String::from_utf8(it.bulk("CLIENT INFO")).unwrap();
    assert!(list.contains(" db=2 "), "{list}");
    it.tells("WATCH a", "OK");
    let mut other = in_database(&server, 2);
    other.tells("SET a 3", "OK");
    it.tells("MULTI", "OK");
    it.tells("SET a 4", "QUEUED");
    it.tells("EXEC", "nil");
    it.tells("RESET", "RESET");
    it.tells("GET a", "0");
}

#[test]
fn memcached_clients_use_the_database_of_the_setting() {
    for database in [0, 7] {
        let server = in_memory_with(ServerConfig { memcached_database: database, ..config() });
        let mut memcached = Client::memcached(&server);
        memcached.asks("set k 0 0 3\r\nrye\r\n", "STORED\r\n");
        let mut own = in_database(&server, database);
        own.tells("GET k", "rye");
        let mut other = in_database(&server, 1);
        other.tells("GET k", "nil");
        other.tells("SET k oat", "OK");
        memcached.asks("get k\r\n", "VALUE k 0 3\r\nrye\r\nEND\r\n");
        own.tells("SET k spelt", "OK");
        memcached.asks("get k\r\n", "VALUE k 0 5\r\nspelt\r\nEND\r\n");
    }
    let refused =
        try_with_tenants(&["default"], ServerConfig { memcached_database: 16, ..config() });
    let said = refused.err().expect("it must be refused").to_string();
    assert!(said.contains("memcached_database = 16: must be 0 to 15"), "{said}");
}

#[test]
fn a_stopped_script_is_undone_in_the_database_of_its_client() {
    let limited = ServerConfig { script_time_limit: Duration::from_millis(50), ..config() };
    let server = in_memory_with(limited);
    let (mut zero, mut two) = (client(&server), in_database(&server, 2));
    zero.tells("SET k zero", "OK");
    two.tells("SET k old", "OK");
    let script = b"redis.call('set',KEYS[1],'new') redis.call('set','fresh',1) while true do end";
    two.send(array(&[b"EVAL", script, b"1", b"k"]));
    assert!(two.told().contains("Its writes are undone"));
    two.tells("GET k", "old");
    two.tells("EXISTS fresh", ":0");
    zero.tells("GET k", "zero");
    zero.tells("EXISTS fresh", ":0");
}

#[test]
fn a_command_that_is_not_there_says_what_to_use() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells(
        "XADD s * a 1",
        "-ERR unknown command 'XADD', with args beginning with: 's' '*' 'a' '1' this cache has no streams: use a \
         broker or a log",
    );
    it.tells("NOPE", "-ERR unknown command 'NOPE', with args beginning with:");
}

/// A key whose last bytes look like the mark of a database is a key like any other.
#[test]
fn no_key_reaches_into_another_database() {
    let server = in_memory();
    let (mut zero, mut one) = (client(&server), in_database(&server, 1));
    one.tells("SET k secret", "OK");
    let request = |name: &[u8]| [&b"*2\r\n$3\r\nGET\r\n$4\r\n"[..], name, b"\r\n"].concat();
    zero.asks(request(b"k\xff\xdb\x01"), "$-1\r\n");
    zero.asks(b"*3\r\n$3\r\nSET\r\n$4\r\nk\xff\xdb\x01\r\n$1\r\nx\r\n", "+OK\r\n");
    zero.asks(request(b"k\xff\xdb\x01"), "$1\r\nx\r\n");
    one.tells("GET k", "secret");
}
