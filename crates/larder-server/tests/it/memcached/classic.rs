//! Classic text: requests and answers, with the corner cases that clients rely on.

use std::sync::Arc;

use larder_server::{Endpoint, ListenerConfig, ProtocolKind, ServerConfig};

use crate::serving::{Client, config, in_memory, in_memory_with};

/// Sends each request and checks its answer.
fn dialogue(lines: &[(&str, &str)]) {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    for (request, answer) in lines {
        client.asks(request, answer);
    }
}

#[test]
fn values_are_stored_under_conditions() {
    dialogue(&[
        ("get a\r\n", "END\r\n"),
        ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("get a nothing a\r\n", "VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("add b 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("replace b 0 0 1\r\ny\r\n", "STORED\r\n"),
        ("replace c 0 0 1\r\ny\r\n", "NOT_STORED\r\n"),
        ("append a 0 0 2\r\nde\r\n", "STORED\r\n"),
        ("prepend a 9 9 1\r\n_\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 5 6\r\n_abcde\r\nEND\r\n"),
        ("append c 0 0 2\r\nde\r\n", "NOT_STORED\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("set e 0 0 0\r\n\r\n", "STORED\r\n"),
        ("get e\r\n", "VALUE e 0 0\r\n\r\nEND\r\n"),
    ]);
}

#[test]
fn time_is_moved_where_that_is_allowed() {
    let debug_clock = Some(Arc::default());
    let server = in_memory_with(ServerConfig { debug_clock, ..config() });
    let mut client = Client::memcached(&server);
    client.asks("set a 0 100 1\r\nx\r\n", "STORED\r\n");
    client.asks("debugtime p\r\n", "OK\r\n");
    client.asks("debugtime 99\r\nget a\r\n", "OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    client.asks("debugtime r\r\ndebugtime 2\r\nget a\r\n", "OK\r\nOK\r\nEND\r\n");
    client.asks("debugtime x\r\ndebugtime\r\n", "ERROR\r\nERROR\r\n");
    dialogue(&[("debugtime 1\r\n", "ERROR\r\n")]);
}

#[test]
fn time_is_not_moved_from_elsewhere() {
    let open =
        ListenerConfig::new(Endpoint::Tcp(([0, 0, 0, 0], 0).into()), ProtocolKind::Memcached);
    let debug_clock = Some(Arc::default());
    let config =
        ServerConfig { listeners: vec![open], allow_unprotected: true, debug_clock, ..config() };
    assert!(config.check().unwrap_err().to_string().contains("debug_clock"));
    ServerConfig { debug_clock: None, ..config }.check().unwrap();
}

#[test]
fn cas_stores_over_the_version_that_was_seen() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("cas a 0 0 1 1\r\nx\r\n", "NOT_FOUND\r\n");
    client.asks("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.send("gets a\r\n");
    let line = client.line();
    let unique = line.trim_end().rsplit(' ').next().unwrap().to_owned();
    client.hears("x\r\nEND\r\n");
    client.asks("cas a 0 0 1 0\r\ny\r\n", "EXISTS\r\n");
    client.asks(format!("cas a 0 0 1 {unique}\r\ny\r\n"), "STORED\r\n");
    client.asks(format!("cas a 0 0 1 {unique}\r\nz\r\n"), "EXISTS\r\n");
    client.asks("get a\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn numbers_wrap_around_upwards_and_stop_downwards() {
    dialogue(&[
        ("incr n 1\r\n", "NOT_FOUND\r\n"),
        ("set n 3 0 20\r\n18446744073709551615\r\n", "STORED\r\n"),
        ("incr n 2\r\n", "1\r\n"),
        ("decr n 5\r\n", "0\r\n"),
        ("incr n 18446744073709551610\r\n", "18446744073709551610\r\n"),
        ("get n\r\n", "VALUE n 3 20\r\n18446744073709551610\r\nEND\r\n"),
        ("incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("decr n -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
        ("set t 0 0 2\r\nhi\r\n", "STORED\r\n"),
        ("incr t 1\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
}

#[test]
fn lines_that_cannot_be_meant() {
    let key = "k".repeat(251);
    let longest = "k".repeat(250);
    let bad = "CLIENT_ERROR bad command line format\r\n";
    dialogue(&[
        ("foo\r\n", "ERROR\r\n"),
        ("\r\n", "ERROR\r\n"),
        (" \n", "ERROR\r\n"),
        ("get\r\n", "ERROR\r\n"),
        ("touch a\r\n", "ERROR\r\n"),
        ("mg\r\n", "ERROR\r\n"),
        ("verbosity\r\n", "ERROR\r\n"),
        ("cas a 0 0 1\r\nx\r\n", "ERROR\r\nERROR\r\n"),
        (&format!("set {key} 0 0 1\r\n"), bad),
        (&format!("get {key}\r\n"), bad),
        ("set a 0 0 abc\r\n", bad),
        ("set a 0 0 -1\r\n", bad),
        ("ms a abc\r\n", bad),
        ("ms a S3\r\n", bad),
        ("set a 0 0 3\r\nabcde\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        ("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
        ("gat x a\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
        ("mg a v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("mg a !\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("ms a 3 MZ\r\nabc\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n"),
        ("mg nokey k O1\r\n", "EN knokey O1\r\n"),
        (&format!("set {longest} 0 0 1\r\nx\r\n"), "STORED\r\n"),
        ("set a 0 0 1\r\na\r\n", "STORED\r\n"),
        (&format!("get a {key}\r\n"), bad),
        (
            "version nonsense\r\n",
            concat!("VERSION 1.6.38-larder-", env!("CARGO_PKG_VERSION"), "\r\n"),
        ),
    ]);
}

#[test]
fn a_value_that_is_too_long_is_swallowed_and_the_old_one_is_gone() {
    let long = "x".repeat((1 << 20) + 1);
    dialogue(&[
        ("set a 0 0 1\r\na\r\n", "STORED\r\n"),
        (
            &format!("set a 0 0 {}\r\n{long}\r\n", long.len()),
            "SERVER_ERROR object too large for cache\r\n",
        ),
        ("get a\r\n", "END\r\n"),
        ("ms a 1\r\na\r\n", "HD\r\n"),
        (
            &format!("ms a {}\r\n{long}\r\n", long.len()),
            "SERVER_ERROR object too large for cache\r\n",
        ),
        ("mg a\r\n", "EN\r\n"),
        ("set a 0 0 1\r\na\r\n", "STORED\r\n"),
        (
            &format!("append a 0 0 {}\r\n{}\r\n", 1 << 20, &long[1..]),
            "SERVER_ERROR object too large for cache\r\n",
        ),
        ("get a\r\n", "VALUE a 0 1\r\na\r\nEND\r\n"),
    ]);
}

/// A conditional request may not have meant the existing value.
#[test]
fn a_refused_value_with_a_condition_leaves_the_old_one() {
    let long = "x".repeat((1 << 20) + 1);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let server = in_memory();
    let mut client = Client::memcached(&server);
    let lines = [
        "add a 0 0 {}",
        "replace a 0 0 {}",
        "append a 0 0 {}",
        "prepend a 0 0 {}",
        "cas a 0 0 {} 1",
        "ms a {} ME",
        "ms a {} MR",
        "ms a {} MA",
        "ms a {} MP",
        "ms a {} C1",
        "ms a {} C1 I",
    ];
    for line in lines {
        client.asks("set a 0 0 3\r\nold\r\n", "STORED\r\n");
        let line = line.replace("{}", &long.len().to_string());
        client.asks(format!("{line}\r\n{long}\r\n"), too_large);
        client.asks("get a\r\n", "VALUE a 0 3\r\nold\r\nEND\r\n");
    }
    for line in [format!("set a 0 0 {}", long.len()), format!("ms a {} MS", long.len())] {
        client.asks("set a 0 0 3\r\nold\r\n", "STORED\r\n");
        client.asks(format!("{line}\r\n{long}\r\n"), too_large);
        client.asks("get a\r\n", "END\r\n");
    }
}

/// As in memcached 1.6, the low 32 bits of a number count, signed.
#[test]
fn lifetimes_are_numbers_of_32_bits() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    let over = ["-1", "2592001", "2147483648", "4294967295", "99999999999", "9223372036854775807"];
    let endless = ["0", "4294967296", "-9223372036854775808"];
    let bad = ["9223372036854775808", "1x", "x", "0x10", "1.5"];
    for word in over.iter().chain(&endless) {
        let found = if over.contains(word) { "EN\r\n" } else { "HD t-1\r\n" };
        let requests = [
            (format!("set a 0 {word} 1\r\nx\r\n"), "STORED\r\n"),
            (format!("touch a {word}\r\n"), "TOUCHED\r\n"),
            (format!("gat {word} a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n"),
            (format!("ms a 1 T{word}\r\nx\r\n"), "HD\r\n"),
            (format!("mg a T{word}\r\n"), "HD\r\n"),
            (format!("md a I T{word}\r\n"), "HD\r\n"),
        ];
        for (request, answer) in &requests[..5] {
            client.asks("set a 0 0 1\r\nx\r\n", "STORED\r\n");
            client.asks(request, answer);
            client.asks("mg a t\r\n", found);
        }
        client.asks("delete b\r\n", "NOT_FOUND\r\n");
        client.asks(format!("ma b N{word} J5\r\nmg b t\r\n"), format!("HD\r\n{found}"));
        client.send("delete b\r\n");
        client.line();
    }
    for word in bad {
        client.asks("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        client.asks(format!("touch a {word}\r\n"), "CLIENT_ERROR invalid exptime argument\r\n");
        client.asks(format!("gat {word} a\r\n"), "CLIENT_ERROR invalid exptime argument\r\n");
        client.asks(format!("flush_all {word}\r\n"), "CLIENT_ERROR invalid exptime argument\r\n");
        client.asks("mg a t\r\n", "HD t-1\r\n");
    }
}

#[test]
fn a_line_without_end_closes_the_connection_unless_it_names_keys() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.send("x".repeat(3000));
    client.is_closed();
    let mut client = Client::memcached(&server);
    let keys = " 1234567".repeat(750);
    client.asks(format!("get{keys}\r\n"), "END\r\n");
    let mut client = Client::memcached(&server);
    client.send("GET / HTTP/1.1\r\n");
    client.is_closed();
}

#[test]
fn a_long_line_of_keys_is_answered_as_it_comes() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("set abcdefg 0 0 2\r\nhi\r\n", "STORED\r\n");
    let mut reader = Client(client.0.try_clone().unwrap());
    let keys = 100_000;
    let answers = std::thread::spawn(move || {
        let one = "VALUE abcdefg 0 2\r\nhi\r\n";
        (0..keys / 1000).for_each(|_| reader.hears(one.repeat(1000)));
        reader.hears("END\r\n");
    });
    client.send(format!("get {}\r\n", "abcdefg ".repeat(keys)));
    answers.join().unwrap();
    let key = "k".repeat(300);
    let filler = "a ".repeat(40_000);
    client.asks(format!("get {filler}{key} b\r\n"), "CLIENT_ERROR bad command line format\r\n");
    client.asks("get a\r\n", "END\r\n");
}

#[test]
fn answers_to_noreply_commands_are_not_sent() {
    dialogue(&[
        ("set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("add a 0 0 1 noreply\r\ny\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("touch a 0 noreply\r\nverbosity 1 noreply\r\nincr a 1 noreply\r\nmn\r\n", "MN\r\n"),
        ("set a 0 0 x noreply\r\ndelete a 5 noreply\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ("delete a noreply\r\nflush_all noreply\r\nflush_all 0 noreply\r\nget a\r\n", "END\r\n"),
    ]);
}

#[test]
fn lifetimes_are_relative_absolute_or_over() {
    dialogue(&[
        ("set a 0 -1 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n"),
        ("set a 0 2592001 1\r\nx\r\nget a\r\n", "STORED\r\nEND\r\n"),
        ("set a 0 60 1\r\nx\r\ntouch a -1\r\nget a\r\n", "STORED\r\nTOUCHED\r\nEND\r\n"),
        ("touch a 0\r\n", "NOT_FOUND\r\n"),
        (
            "set a 0 0 1\r\nx\r\ngat 60 a\r\nmg a t\r\n",
            "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD t60\r\n",
        ),
        ("gat -1 a\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\nEND\r\n"),
        ("gat 10\r\n", "ERROR\r\n"),
    ]);
}

#[test]
fn all_keys_are_forgotten_at_once_or_later() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\n", "STORED\r\nOK\r\nEND\r\n");
    client.asks(
        "flush_all 1\r\nset a 0 0 1\r\nx\r\nget a\r\n",
        "OK\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
    );
    let begun = std::time::Instant::now();
    loop {
        client.send("get a\r\n");
        if client.line() == "END\r\n" {
            break;
        }
        client.hears("x\r\nEND\r\n");
        assert!(begun.elapsed().as_secs() < 20, "it is forgotten");
    }
    assert!(begun.elapsed().as_millis() > 800, "later");
    // The last delayed flush counts.
    client.asks("flush_all 1\r\nflush_all 60\r\nset a 0 0 1\r\nx\r\n", "OK\r\nOK\r\nSTORED\r\n");
    std::thread::sleep(std::time::Duration::from_millis(1300));
    client.asks("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_is_for_people() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("shutdown\r\n", "ERROR: shutdown not enabled\r\n");
    client.asks("verbosity 1\r\n", "OK\r\n");
    client.asks("verbosity x\r\n", "CLIENT_ERROR bad command line format\r\n");
    for mebibytes in [64, 128] {
        client.asks(format!("cache_memlimit {mebibytes}\r\n"), "OK\r\n");
        let limit = stat(&mut client, "limit_maxbytes");
        assert!(limit <= mebibytes << 20 && limit >= mebibytes << 19, "{limit} of {mebibytes} MiB");
    }
    client.asks("lru_crawler enable\r\n", "OK\r\n");
    client.asks("config get cluster\r\n", "ERROR\r\n");
    client.asks("stats items\r\n", "END\r\n");
    client.asks("set a%b0 0 60 1\r\nx\r\n", "STORED\r\n");
    client.send("lru_crawler metadump all\r\n");
    let line = client.line();
    assert!(line.starts_with("key=a%25b0 exp="), "{line}");
    assert!(line.ends_with(" cls=1 size=5\r\n"), "{line}");
    client.hears("END\r\n");
    client.asks("lru_crawler mgdump all\r\n", "mg a%25b0\r\nEN\r\n");
    assert_eq!(stat(&mut client, "cmd_set"), 1);
    client.asks("get a nothing\r\n", "END\r\n");
    assert_eq!((stat(&mut client, "get_hits"), stat(&mut client, "get_misses")), (0, 2));
    client.asks("stats reset\r\n", "RESET\r\n");
    assert_eq!((stat(&mut client, "cmd_set"), stat(&mut client, "get_misses")), (0, 0));
    client.send("quit\r\nget a\r\n");
    client.is_closed();
}

pub(super) fn stat(client: &mut Client, name: &str) -> u64 {
    client.send("stats\r\n");
    let mut found = None;
    loop {
        let line = client.line();
        if line == "END\r\n" {
            return found.unwrap();
        }
        let mut words = line.split_whitespace().skip(1);
        if words.next() == Some(name) {
            found = words.next().and_then(|value| value.parse().ok());
        }
    }
}

#[test]
fn the_slowest_uploads_end_where_there_is_no_room_and_the_others_go_on() {
    let mut little = config();
    (little.value_bytes_max, little.client_bytes_max) = (1 << 20, 4 << 20);
    little.workers = 1;
    let server = in_memory_with(little);
    let value = "x".repeat(1_000_000);
    let most = |key: &str| {
        let mut client = Client::memcached(&server);
        client.send(format!("set {key} 0 0 1000000\r\n{}", &value[..900_000]));
        client
    };
    let mut halves: Vec<Client> = ["a", "b", "c", "d"].map(most).into();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let mut other = Client::memcached(&server);
    other.asks("get a\r\n", "END\r\n");
    other.asks(format!("set e 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    let mut ended = 0;
    for half in &mut halves {
        half.send(format!("{}\r\n", &value[900_000..]));
        match &*half.line() {
            "STORED\r\n" => {}
            answer => {
                assert_eq!(answer, "SERVER_ERROR out of memory storing object\r\n");
                ended += 1;
            }
        }
        half.asks("set f 0 0 1\r\nx\r\n", "STORED\r\n");
    }
    assert!((1..=3).contains(&ended), "{ended}");
}

#[test]
fn clients_are_told_among_which_servers_they_divide_their_keys() {
    let nodes = vec![("10.0.0.1".to_owned(), 11211), ("b.example".to_owned(), 11211)];
    let memcached_nodes = Some(larder_server::NodeList::new(3, nodes).unwrap());
    let server = in_memory_with(larder_server::ServerConfig { memcached_nodes, ..config() });
    let list = "3\n10.0.0.1|10.0.0.1|11211 b.example|b.example|11211\n";
    let answer = format!("CONFIG cluster 0 {}\r\n{list}\r\nEND\r\n", list.len());
    Client::memcached(&server).asks("config get cluster\r\n", answer);
}
