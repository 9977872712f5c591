//! Hashes, and what holds for all collections: kinds, limits, lifetimes, damage.

use larder_server::{Server, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn fields_are_set_read_and_removed() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("HSET h b 2 a 1 b 3", ":2");
    it.tells("HSET h a 1 c 4", ":1");
    it.tells("HGETALL h", "[a 1 b 3 c 4]");
    it.tells("HKEYS h", "[a b c]");
    it.tells("HVALS h", "[1 3 4]");
    it.tells("HMGET h a nope c", "[1 nil 4]");
    it.tells("HGET h nope", "nil");
    it.tells("HGET nope a", "nil");
    it.tells("HGETALL nope", "[]");
    it.tells("HLEN h", ":3");
    it.tells("HEXISTS h a", ":1");
    it.tells("HEXISTS h z", ":0");
    it.tells("HSTRLEN h a", ":1");
    it.tells("HSETNX h a 9", ":0");
    it.tells("HSETNX h d 9", ":1");
    it.tells("HMSET h e 5", "OK");
    it.tells("HDEL h a a nope b", ":2");
    it.tells("HDEL h nope", ":0");
    it.tells("HDEL h c d e", ":3");
    it.tells("EXISTS h", ":0");
    it.tells("DBSIZE", ":0");
    it.tells("HSET h a", "-ERR wrong number of arguments for 'hset' command");
    it.tells("HSET h a 1 b", "-ERR wrong number of arguments for 'hset' command");
}

#[test]
fn numbers_of_fields_are_counted() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("HINCRBY h n 5", ":5");
    it.tells("HINCRBY h n -7", ":-2");
    it.tells("HINCRBYFLOAT h f 10.5", "10.5");
    it.tells("HINCRBYFLOAT h f 0.1", "10.6");
    it.tells("HSET h s x", ":1");
    it.tells("HINCRBY h s 1", "-ERR hash value is not an integer");
    it.tells("HINCRBYFLOAT h s 1", "-ERR hash value is not a float");
    it.tells("HSET h n 9223372036854775807", ":0");
    it.tells("HINCRBY h n 1", "-ERR increment or decrement would overflow");
    it.tells("HGET h n", "9223372036854775807");
    it.tells("HINCRBYFLOAT h f inf", "-ERR value is NaN or Infinity");
}

#[test]
fn fields_expire() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("HSET h a 1 b 2 c 3 n 4", ":4");
    it.tells("HEXPIRE h 100 FIELDS 3 a b nope", "[:1 :1 :-2]");
    it.tells("HTTL h FIELDS 4 a b c nope", "[:100 :100 :-1 :-2]");
    it.tells("HEXPIRE nope 100 FIELDS 1 a", "[:-2]");
    it.tells("HTTL nope FIELDS 1 a", "[:-2]");
    it.tells("HEXPIRE h 50 NX FIELDS 2 a c", "[:0 :1]");
    it.tells("HEXPIRE h 200 GT FIELDS 2 a c", "[:1 :1]");
    it.tells("HEXPIRE h 10 LT FIELDS 2 a n", "[:1 :1]");
    it.tells("HPERSIST h FIELDS 3 a n nope", "[:1 :1 :-2]");
    it.tells("HPERSIST h FIELDS 1 a", "[:-1]");
    it.tells("HEXPIREAT h 4000000000 FIELDS 1 a", "[:1]");
    it.tells("HEXPIRETIME h FIELDS 1 a", "[:4000000000]");
    it.tells("HPEXPIREAT h 4000000000001 FIELDS 1 a", "[:1]");
    it.tells("HPEXPIRETIME h FIELDS 1 a", "[:4000000000001]");
    it.tells("HEXPIRETIME h FIELDS 1 a", "[:4000000001]");
    // What ends a lifetime, and what keeps it.
    it.tells("HEXPIRE h 100 FIELDS 1 n", "[:1]");
    it.tells("HINCRBY h n 1", ":5");
    it.tells("HTTL h FIELDS 1 n", "[:100]");
    it.tells("HSET h n 7", ":0");
    it.tells("HTTL h FIELDS 1 n", "[:-1]");
    // A time that is over removes.
    it.tells("HEXPIRE h 0 FIELDS 1 n", "[:2]");
    it.tells("HPEXPIREAT h 1 FIELDS 2 b b", "[:2 :2]");
    it.tells("HKEYS h", "[a c]");
    // All readers see that fields are gone; the hash goes with the last.
    it.tells("HPEXPIRE h 30 FIELDS 1 a", "[:1]");
    it.tells("HSET other a 1", ":1");
    it.tells("HPEXPIRE other 30 FIELDS 1 a", "[:1]");
    std::thread::sleep(std::time::Duration::from_millis(60));
    it.tells("HLEN h", ":1");
    it.tells("HGETALL h", "[c 3]");
    it.tells("HSCAN h 0", "[0 [c 3]]");
    it.tells("HSETNX h a 9", ":1");
    it.tells("HRANDFIELD other 5", "[]");
    it.tells("EXISTS other", ":0");
    // Over flash, copies and renames they stay.
    it.tells("HEXPIRE h 100 FIELDS 1 a", "[:1]");
    it.tells("COPY h copy", ":1");
    it.tells("RENAME copy moved", "OK");
    it.tells("HTTL moved FIELDS 2 a c", "[:100 :200]");
}

#[test]
fn fields_are_read_and_set_with_lifetimes() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("HSETEX h EX 100 FIELDS 2 a 1 b 2", ":1");
    it.tells("HTTL h FIELDS 2 a b", "[:100 :100]");
    it.tells("HSETEX h FNX FIELDS 2 b 9 c 9", ":0");
    it.tells("HSETEX h FXX KEEPTTL FIELDS 1 b 3", ":1");
    it.tells("HTTL h FIELDS 1 b", "[:100]");
    it.tells("HSETEX h FIELDS 1 b 3", ":1");
    it.tells("HTTL h FIELDS 1 b", "[:-1]");
    it.tells("HGETEX h PERSIST FIELDS 2 a nope", "[1 nil]");
    it.tells("HTTL h FIELDS 1 a", "[:-1]");
    it.tells("HGETEX h PX 100000 FIELDS 1 a", "[1]");
    it.tells("HTTL h FIELDS 1 a", "[:100]");
    it.tells("HGETEX h FIELDS 1 a", "[1]");
    it.tells("HGETDEL h FIELDS 3 a nope b", "[1 nil 3]");
    it.tells("EXISTS h", ":0");
    for (request, said) in [
        (
            "HEXPIRE h 1 FILDS 1 a",
            "Mandatory argument FIELDS is missing or not at the right position",
        ),
        ("HEXPIRE h 1 FIELDS 0 a", "Parameter `numFields` should be greater than 0"),
        ("HEXPIRE h 1 FIELDS 2 a", "The `numfields` parameter must match the number of arguments"),
        ("HEXPIRE h 1 XY FIELDS 1 a", "Unsupported option XY"),
        ("HEXPIRE h -1 FIELDS 1 a", "invalid expire time, must be >= 0"),
        ("HEXPIRE h 9223372036854775807 FIELDS 1 a", "invalid expire time in 'hexpire' command"),
        ("HSETEX h EX 1 PX 1 FIELDS 1 a 1", "syntax error"),
        ("HSETEX h NOW FIELDS 1 a 1", "unknown argument: NOW"),
        ("HSETEX h EX 0 FIELDS 1 a 1", "invalid expire time in 'hsetex' command"),
    ] {
        it.tells(request, &format!("-ERR {said}"));
    }
    it.tells("SET s x", "OK");
    it.tells("HEXPIRE s 1 FIELDS 1 a", WRONG);
    it.tells("HTTL s FIELDS 1 a", WRONG);
}

#[test]
fn random_fields_and_walks() {
    let server = in_memory();
    let mut it = client(&server);
    for number in 0..600 {
        it.tells(&format!("HSET h field:{number} {number}"), ":1");
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let answer = it.asked(&format!("HSCAN h {cursor} COUNT 50"));
        let (next, rest) = answer[1..answer.len() - 2].split_once(" [").unwrap();
        let words: Vec<_> = rest.split_whitespace().collect();
        assert!(words.len() <= 100);
        for pair in words.chunks(2) {
            assert_eq!(pair[0], format!("field:{}", pair[1]));
            assert!(seen.insert(pair[0].to_owned()), "each once");
        }
        cursor = next.to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 600);
    it.tells("HSCAN h 0 MATCH field:59 COUNT 1000", "[0 [field:59 59]]");
    it.tells("HSCAN h 0 MATCH field:59 COUNT 1000 NOVALUES", "[0 [field:59]]");
    it.tells("HSCAN nope 0", "[0 []]");
    it.tells("HSCAN h x", "-ERR invalid cursor");
    let one = it.asked("HRANDFIELD h");
    assert!(seen.contains(&one));
    let some = it.asked("HRANDFIELD h 5 WITHVALUES");
    assert_eq!(some.split_whitespace().count(), 10);
    let all = it.asked("HRANDFIELD h 1000");
    let all: std::collections::BTreeSet<_> = all[1..all.len() - 1].split(' ').collect();
    assert_eq!(all.len(), 600, "no field twice");
    assert_eq!(it.asked("HRANDFIELD h -700").split_whitespace().count(), 700);
    it.tells("HRANDFIELD nope -5", "[]");
    it.tells("HRANDFIELD nope", "nil");
    it.tells("HRANDFIELD h -9223372036854775808", "-ERR value is out of range");
}

#[test]
fn version_3_has_maps_and_pairs() {
    let server = in_memory();
    let mut it = Client::resp3(&server);
    it.tells("HSET h a 1", ":1");
    it.tells("HGETALL h", "{a 1}");
    it.tells("HGETALL nope", "{}");
    it.tells("HRANDFIELD h 1 WITHVALUES", "[[a 1]]");
    it.tells("HGET h b", "nil");
}

#[test]
fn collections_and_strings_do_not_mix() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("SET s x", "OK");
    it.tells("HSET h a 1", ":1");
    it.tells("SADD e a", ":1");
    it.tells("ZADD z 1 a", ":1");
    it.tells("RPUSH l a", ":1");
    for (key, kind) in [("s", "string"), ("h", "hash"), ("e", "set"), ("z", "zset"), ("l", "list")]
    {
        it.tells(&format!("TYPE {key}"), kind);
        it.tells(&format!("SCAN 0 COUNT 100 TYPE {kind}"), &format!("[0 [{key}]]"));
        let of = |command: &str, word: &str| (command.replace("KEY", key), word != kind);
        for (request, is_wrong) in [
            of("HGET KEY a", "hash"),
            of("HSET KEY a 1", "hash"),
            of("SADD KEY a", "set"),
            of("SISMEMBER KEY a", "set"),
            of("ZADD KEY 1 a", "zset"),
            of("ZCARD KEY", "zset"),
            of("RPUSH KEY a", "list"),
            of("LRANGE KEY 0 0", "list"),
            of("GET KEY", "string"),
            of("STRLEN KEY", "string"),
            of("GETRANGE KEY 0 0", "string"),
            of("APPEND KEY a", "string"),
            of("SETRANGE KEY 0 x", "string"),
            of("GETEX KEY EX 100", "string"),
            of("SET KEY x GET IFEQ y", "string"),
        ] {
            assert_eq!(it.asked(&request) == WRONG, is_wrong, "{request}");
        }
        if kind != "string" {
            for request in ["INCR", "INCRBYFLOAT KEY 1", "GETDEL", "GETSET KEY x"] {
                let request = match request.contains(' ') {
                    true => request.replace("KEY", key),
                    false => format!("{request} {key}"),
                };
                it.tells(&request, WRONG);
            }
        }
    }
    it.tells("MGET s h e z l", "[xa nil nil nil nil]");
    it.tells("OBJECT ENCODING h", "listpack");
    it.tells("RENAME h i", "OK");
    it.tells("COPY i j", ":1");
    it.tells("HGETALL j", "[a 1]");
    it.tells("TYPE j", "hash");
    assert!(it.asked("MEMORY USAGE j").starts_with(':'));
    it.tells("SETNX j x", ":0");
    it.tells("EXPIRE j 100", ":1");
    it.tells("SET j x KEEPTTL", "OK");
    it.tells("GET j", "x");
    assert!(it.asked("TTL j").trim_start_matches(':').parse::<i64>().unwrap() > 90);
    it.tells("SET i y", "OK");
    it.tells("GET i", "y");
}

#[test]
fn lifetimes_stay_and_transactions_hold() {
    let server = in_memory();
    let (mut it, mut other) = (client(&server), client(&server));
    it.tells("HSET h a 1", ":1");
    it.tells("PEXPIREAT h 3317711742012", ":1");
    it.tells("HSET h b 2", ":1");
    it.tells("HDEL h a", ":1");
    it.tells("PEXPIRETIME h", ":3317711742012");
    it.tells("WATCH h", "OK");
    other.tells("HSET h b 2", ":0");
    it.tells("MULTI", "OK");
    it.tells("HSET h b 3", "QUEUED");
    it.tells("EXEC", "nil");
    it.tells("WATCH h", "OK");
    it.tells("HGET h b", "2");
    it.tells("MULTI", "OK");
    it.tells("HINCRBY h b 5", "QUEUED");
    it.tells("GET h", "QUEUED");
    it.tells("HGETALL h", "QUEUED");
    it.tells("EXEC", &format!("[:7 {WRONG} [b 7]]"));
}

#[test]
fn a_collection_may_not_exceed_its_limit() {
    let server = in_memory_with(ServerConfig { collection_bytes_max: 200, ..config() });
    let mut it = client(&server);
    let long = "x".repeat(100);
    it.tells(&format!("HSET h a {long}"), ":1");
    let refused =
        "-ERR the collection of key h would have 226 bytes, more than collection_max (200)";
    it.tells(&format!("HSET h b {long}"), refused);
    it.tells("HKEYS h", "[a]");
    it.tells("HDEL h a", ":1");
    assert!(it.asked(&format!("SADD e {long} y{long}")).contains("more than collection_max (200)"));
    it.tells("EXISTS e", ":0");
    it.tells(&format!("SADD e {long}"), ":1");
    it.tells(&format!("SADD f y{long}"), ":1");
    assert!(it.asked("SUNIONSTORE g e f").contains("more than collection_max (200)"));
    it.tells("EXISTS g", ":0");
}

#[test]
fn memcached_clients_cannot_forge_a_collection() {
    let server = in_memory();
    let mut it = Client::memcached(&server);
    let refused = "CLIENT_ERROR flags = 1281454593: 1281454593 to 1281454847 mark collections of RESP clients; use \
                   other flags\r\n";
    it.asks("set a 1281454593 0 1\r\nx\r\nget a\r\n", format!("{refused}END\r\n"));
    it.asks("ms a 1 F1281454593\r\nx\r\nmg a v\r\n", format!("{refused}EN\r\n"));
    it.asks("add a 1281454847 0 1 noreply\r\nx\r\nget a\r\n", "END\r\n");
    it.asks("set a 1281454592 0 1\r\nx\r\n", "STORED\r\n");
    let mut resp = client(&server);
    resp.tells("HSET h a 1", ":1");
    it.asks("append h 0 0 1\r\nx\r\nprepend h 0 0 1\r\nx\r\n", "NOT_STORED\r\nNOT_STORED\r\n");
    it.asks("incr h 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
    resp.tells("HGETALL h", "[a 1]");
    it.asks("set h 0 0 1\r\nx\r\n", "STORED\r\n");
    resp.tells("GET h", "x");
}

#[test]
fn many_members_in_one_request() {
    let server = in_memory();
    let mut it = client(&server);
    let words: Vec<String> = (0..20_000).map(|number| format!("m{number}")).collect();
    let mut request: Vec<&[u8]> = vec![b"SADD", b"e"];
    request.extend(words.iter().map(|word| word.as_bytes()));
    it.asks(array(&request), ":20000\r\n");
    request[0] = b"SREM";
    request.truncate(10_002);
    it.asks(array(&request), ":10000\r\n");
    it.tells("SCARD e", ":10000");
    let mut request: Vec<&[u8]> = vec![b"HSET", b"h"];
    request.extend(words.iter().flat_map(|word| [word.as_bytes(), b"1"]));
    it.asks(array(&request), ":20000\r\n");
    it.tells("HLEN h", ":20000");
    it.tells("OBJECT ENCODING h", "hashtable");
}

/// Requests and answers, one after the other.
fn dialogue(server: &Server, lines: &[(&str, &str)]) {
    let mut it = client(server);
    lines.iter().for_each(|(request, answer)| it.tells(request, answer));
}

#[test]
fn the_table_knows_the_new_commands() {
    let server = in_memory();
    dialogue(
        &server,
        &[
            ("COMMAND GETKEYS ZUNIONSTORE d 2 a b WEIGHTS 1 2", "[d a b]"),
            ("COMMAND GETKEYS BLPOP a b 0", "[a b]"),
            ("COMMAND GETKEYS LMPOP 1 a LEFT", "[a]"),
            (
                "COMMAND LIST FILTERBY ACLCAT blocking",
                "[blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin]",
            ),
            ("COMMAND DOCS hget", "[hget [summary The value of a field. since 2.0.0 group hash]]"),
        ],
    );
    let mut it = client(&server);
    assert!(it.asked("ACL CAT").contains(" sortedset "), "a category");
    assert!(it.asked("ACL CAT hash").contains(" hget "));
}

#[test]
fn requests_that_end_at_once_are_timed_and_counted() {
    let server = in_memory();
    let mut it = client(&server);
    it.tells("RPUSH list a", ":1");
    it.tells("CONFIG SET slowlog-log-slower-than 0", "OK");
    it.tells("HSET slow a 1", ":1");
    assert!(it.asked("HGET list a").starts_with("-WRONGTYPE"));
    let slow = it.asked("SLOWLOG GET -1");
    assert!(slow.contains("[HSET slow a 1]") && slow.contains("[HGET list a]"), "{slow}");
    let counted = it.asked("INFO commandstats");
    let of = |name: &str| counted.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(of("cmdstat_hset:").contains("calls=1,"), "{counted}");
    let refused = of("cmdstat_hget:");
    assert!(refused.contains("calls=1,") && refused.ends_with("failed_calls=1"), "{counted}");
}
