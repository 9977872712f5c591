//! No request keeps a worker from its other connections for long. The tests count units of work, not time.

use std::time::{Duration, Instant};

use larder_server::{Server, ServerConfig, SlotMap, SlotNode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::drive::metric_of_server;
use crate::serving::{Client, config, in_memory_with};

const MIB: usize = 1 << 20;
/// A turn ends after 1000 units; the last request in it may read and write the longest value.
const UNITS_MAX: u64 = 1000 + 2 * 1024 + 100;

fn serve() -> Server {
    let admin = Some(([127, 0, 0, 1], 0).into());
    in_memory_with(ServerConfig { workers: 1, admin, ..config() })
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A command with `keys` keys, each followed by a value if `has_values`.
fn of_keys(command: &str, keys: usize, has_values: bool) -> Vec<u8> {
    let names: Vec<String> = (0..keys).map(|key| format!("k{key}")).collect();
    let mut words = vec![command.as_bytes()];
    for name in &names {
        words.push(name.as_bytes());
        if has_values {
            words.push(b"v");
        }
    }
    request(&words)
}

#[test]
fn every_long_request_gives_others_their_turns() {
    let long_key = [b'a'; 30_000];
    let pattern = [&b"*"[..], &[b'a'; 2000], b"b"].concat();
    let class = [&b"*["[..], &b"bc".repeat(1500), b"]"].concat();
    let table: Vec<(&str, Vec<u8>, String)> = vec![
        ("MSET", of_keys("MSET", 20_000, true), "+OK\r\n".to_owned()),
        ("EXISTS", of_keys("EXISTS", 20_000, false), ":20000\r\n".to_owned()),
        ("TOUCH", of_keys("TOUCH", 20_000, false), ":20000\r\n".to_owned()),
        ("WATCH", of_keys("WATCH", 20_000, false), "+OK\r\n".to_owned()),
        (
            "EXEC of what is watched",
            [request(&[b"MULTI"]), of_keys("EXISTS", 20_000, false), request(&[b"EXEC"])].concat(),
            "+OK\r\n+QUEUED\r\n*1\r\n:20000\r\n".to_owned(),
        ),
        ("DEL", of_keys("DEL", 20_000, false), ":20000\r\n".to_owned()),
        ("MSETNX", of_keys("MSETNX", 20_000, true), ":1\r\n".to_owned()),
        ("DEL again", of_keys("DEL", 20_000, false), ":20000\r\n".to_owned()),
        ("SET", request(&[b"SET", &long_key, b"v"]), "+OK\r\n".to_owned()),
        ("KEYS of a hard pattern", request(&[b"KEYS", &pattern]), "*0\r\n".to_owned()),
        ("KEYS of a long class", request(&[b"KEYS", &class]), "*0\r\n".to_owned()),
        (
            "SCAN of a hard pattern",
            request(&[b"SCAN", b"0", b"MATCH", &pattern, b"COUNT", b"1000"]),
            "*2\r\n$1\r\n0\r\n*0\r\n".to_owned(),
        ),
        (
            "SETRANGE of a long value, again and again",
            request(&[b"SETRANGE", b"x", (MIB - 1).to_string().as_bytes(), b"y"]).repeat(50),
            format!(":{MIB}\r\n").repeat(50),
        ),
    ];
    each_gives_others_their_turns(table);
}

/// Sends requests with their names, and compares the answers.
fn each_gives_others_their_turns(table: Vec<(&str, Vec<u8>, String)>) {
    let server = serve();
    let mut client = Client::resp(&server);
    for (name, bytes, answer) in table {
        client.send(bytes);
        client.hears(answer);
        let units = metric_of_server(&server, "longest_turn_units");
        assert!(units <= UNITS_MAX, "{name}: {units} units");
    }
    assert!(metric_of_server(&server, "longest_turn_units") >= 1000, "turns were counted");
}

#[test]
fn every_long_request_of_collections_gives_others_their_turns() {
    const MEMBERS: usize = 20_000;
    let names: Vec<String> = (0..MEMBERS).map(|member| format!("m{member:05}")).collect();
    let of_members = |command: &str, key: &str, beside: Option<&str>| {
        let mut words = vec![command.as_bytes(), key.as_bytes()];
        for name in &names {
            // A score stands before its member, a value behind its field.
            words.extend(beside.filter(|_| command == "ZADD").map(str::as_bytes));
            words.push(name.as_bytes());
            words.extend(beside.filter(|_| command != "ZADD").map(str::as_bytes));
        }
        request(&words)
    };
    let bulks = |names: &mut dyn Iterator<Item = &String>| {
        names.map(|name| format!("$6\r\n{name}\r\n")).collect::<String>()
    };
    let all = format!("*{MEMBERS}\r\n{}", bulks(&mut names.iter()));
    let count = format!(":{MEMBERS}\r\n");
    let ones = format!("*{MEMBERS}\r\n{}", ":1\r\n".repeat(MEMBERS));
    let table: Vec<(&str, Vec<u8>, String)> = vec![
        ("HSET", of_members("HSET", "h", Some("v")), count.clone()),
        ("SADD", of_members("SADD", "s", None), count.clone()),
        ("ZADD", of_members("ZADD", "z", Some("1")), count.clone()),
        ("RPUSH", of_members("RPUSH", "l", None), count.clone()),
        ("HGETALL", request(&[b"HKEYS", b"h"]), all.clone()),
        ("SMISMEMBER", of_members("SMISMEMBER", "s", None), ones),
        ("SUNION", request(&[b"SUNION", b"s", b"s"]), all.clone()),
        ("SINTER", request(&[b"SINTER", b"s", b"s", b"s"]), all.clone()),
        ("ZUNION", request(&[b"ZUNION", b"2", b"z", b"z"]), all),
        ("ZINTERSTORE", request(&[b"ZINTERSTORE", b"d", b"2", b"z", b"s"]), count.clone()),
        ("HSCAN", request(&[b"HSCAN", b"h", b"0", b"MATCH", b"x", b"COUNT", b"1000000"]), {
            "*2\r\n$1\r\n0\r\n*0\r\n".to_owned()
        }),
        ("LREM", request(&[b"LREM", b"l", b"0", b"m00001"]).repeat(2), ":1\r\n:0\r\n".to_owned()),
        ("SREM", of_members("SREM", "s", None), count.clone()),
        ("HDEL", of_members("HDEL", "h", None), count.clone()),
        ("ZREM", of_members("ZREM", "z", None), count),
    ];
    each_gives_others_their_turns(table);
}

#[test]
fn a_list_of_many_clients_gives_others_their_turns() {
    // Both ends of each connection are open in this process.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let server = serve();
    let long = [b'n'; 1000];
    let says = |word: &[u8]| request(&[b"CLIENT", b"SETINFO", word, &long]);
    let words = [says(b"LIB-NAME"), says(b"LIB-VER"), request(&[b"CLIENT", b"SETNAME", &long])];
    let others: Vec<Client> = (0..600)
        .map(|_| {
            let mut client = Client::resp(&server);
            client.asks(words.concat(), "+OK\r\n".repeat(3));
            client
        })
        .collect();
    let mut client = Client::resp(&server);
    client.send("CLIENT LIST\r\n");
    let bytes: usize = client.line().trim().trim_start_matches('$').parse().unwrap();
    assert!(bytes > 600 * 3000, "{bytes}");
    for _ in 0..=others.len() {
        assert!(client.line().contains(" cmd=client "));
    }
    client.hears("\r\n");
    // None of the steps is long. On a slow machine a turn ends by the clock, after 2 ms, with fewer units.
    let units = metric_of_server(&server, "longest_turn_units");
    assert!((1..1500).contains(&units), "{units} units");
    let mut words = vec![&b"CLIENT"[..], b"LIST", b"ID"];
    words.resize(20_000, b"999999");
    client.asks(request(&words), "$0\r\n\r\n");
    let units = metric_of_server(&server, "longest_turn_units");
    assert!(units < 1500, "{units} units");
}

#[test]
fn looking_for_the_slots_of_many_keys_gives_others_their_turns() {
    let node = |port, slots| SlotNode { host: "h".to_owned(), port, slots };
    let map = SlotMap::new(vec![node(1, vec![(0, 16_382)]), node(2, vec![])], 0).unwrap();
    let admin = Some(([127, 0, 0, 1], 0).into());
    let config = ServerConfig { workers: 1, admin, cluster: Some(map), ..config() };
    let server = in_memory_with(config);
    let mut client = Client::resp(&server);
    let mut words = vec![&b"DEL"[..]];
    words.resize(20_000, b"{a}");
    words.push(b"{b}");
    client.asks(request(&words), "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    let units = metric_of_server(&server, "longest_turn_units");
    assert!((1000..=UNITS_MAX).contains(&units), "{units} units");
}

#[test]
fn patterns_that_are_too_long_are_refused() {
    let server = serve();
    let mut client = Client::resp(&server);
    let pattern = [b'a'; 5000];
    let refused = "-ERR the pattern has 5000 bytes: 4096 are the most\r\n";
    client.asks(request(&[b"KEYS", &pattern]), refused);
    client.asks(request(&[b"SCAN", b"0", b"MATCH", &pattern]), refused);
    client.asks("PING\r\n", "+PONG\r\n");
}

#[test]
fn scans_end_where_their_answer_is_long_and_go_on_from_there() {
    let server = serve();
    let mut client = Client::resp(&server);
    for key in 0..60 {
        let name = [format!("{key:03}").as_bytes(), &[b'k'; 20_000]].concat();
        client.asks(request(&[b"SET", &name, b"v"]), "+OK\r\n");
    }
    let (mut cursor, mut keys, mut pages) = (String::from("0"), 0, 0);
    loop {
        client.send(request(&[b"SCAN", cursor.as_bytes(), b"COUNT", b"100000"]));
        assert_eq!(client.line(), "*2\r\n");
        client.line();
        cursor = client.line().trim().to_owned();
        let count: usize = client.line().trim().trim_start_matches('*').parse().unwrap();
        for _ in 0..count {
            assert_eq!(client.line(), "$20003\r\n");
            assert_eq!(client.line().len(), 20_005);
        }
        (keys, pages) = (keys + count, pages + 1);
        assert!(count * 20_003 < 256 * 1024 + 40 * 20_003, "{count} keys");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(keys, 60);
    assert!(pages >= 2, "an answer is bounded in bytes: {pages} pages");
}

#[test]
fn what_was_asked_by_a_client_that_has_gone_is_not_done() {
    let server = serve();
    let mut client = Client::resp(&server);
    client.asks(request(&[b"SET", b"v", &vec![b'x'; MIB]]), "+OK\r\n");
    let mut gone = Client::resp(&server);
    // All requests fit into one buffer of the server, and no answer is read.
    gone.send(request(&[b"GET", b"v"]).repeat(600));
    std::thread::sleep(Duration::from_millis(300));
    drop(gone);
    let begun = Instant::now();
    while metric_of_server(&server, "connections") > 1 {
        assert!(begun.elapsed() < Duration::from_secs(5), "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
    let gets = metric_of_server(&server, "cmd_get_total");
    assert!(gets < 100, "{gets} of 600");
}
