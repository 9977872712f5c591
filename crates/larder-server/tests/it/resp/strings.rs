//! Storing, reading and amending values.

use std::sync::Arc;

use larder::{Clock, RealClock};
use larder_server::{DebugClock, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with};

#[test]
fn set_and_its_conditions() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("GET a", "$-1");
    it.says("SET a 1 XX", "$-1");
    it.says("SET a 1 NX", "+OK");
    it.says("SET a 2 NX", "$-1");
    it.says("SET a 2 NX GET", "$1\r\n1");
    it.says("SET a 2 XX GET", "$1\r\n1");
    it.says("SET a 3 IFEQ 1", "$-1");
    it.says("SET a 3 IFEQ 2", "+OK");
    it.says("SET b 3 GET", "$-1");
    it.gives("GETSET a 4", "3");
    it.gives("GETDEL a", "4");
    it.says("GET a", "$-1");
    it.says("EXISTS a b", ":1");
    it.says("SETNX b 1", ":0");
    it.says("SETNX c 1", ":1");
    it.says("MSETNX d 1 c 2", ":0");
    it.says("MSETNX d 1 e 2 d 3", ":1");
    it.says("MGET d e nope", "*3\r\n$1\r\n3\r\n$1\r\n2\r\n$-1");
    it.says("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command");
}

#[test]
fn the_empty_key_is_a_key() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("SET '' 1", "+OK");
    it.says("GET ''", "$1\r\n1");
    it.says("INCR ''", ":2");
    it.says("MGET '' a", "*2\r\n$1\r\n2\r\n$-1");
    it.says("EXPIRE '' 100", ":1");
    it.says("KEYS *", "*1\r\n$0\r\n");
    it.says("RENAME '' a", "+OK");
    it.says("COPY a ''", ":1");
    it.says("DEL '' a", ":2");
    it.says("EXISTS ''", ":0");
}

/// After the clock was an hour ahead, the cache's time stays ahead, but points in time still follow the wall clock.
#[test]
fn points_in_time_are_of_the_wall_clock() {
    let clock = Arc::new(DebugClock::new());
    let debug_clock = Some(Arc::clone(&clock));
    let server = in_memory_with(ServerConfig { debug_clock, ..config() });
    let mut it = client(&server);
    it.says("SET a 1", "+OK");
    clock.move_by(3600);
    it.says("GET a", "$1\r\n1");
    clock.move_by(-3600);
    it.says("GET a", "$1\r\n1");
    let now = RealClock.now().as_secs();
    let at = now + 1800;
    for request in
        [format!("SET b 1 EXAT {at}"), format!("GETEX b PXAT {at}000"), format!("EXPIREAT b {at}")]
    {
        match request.starts_with("GETEX") {
            true => it.gives(&request, "1"),
            false => drop(it.line_of(&request)),
        }
        it.says("EXPIRETIME b", &format!(":{at}"));
        it.says("PEXPIRETIME b", &format!(":{at}000"));
        let left: u64 = it.line_of("TTL b").parse().unwrap();
        assert!((1790..=1800).contains(&left), "{request}: {left}");
        it.says("EXPIREAT b 1 GT", ":0");
        it.says(&format!("EXPIREAT b {} LT", at + 5), ":0");
    }
    it.says("RENAME b c", "+OK");
    it.says("EXPIRETIME c", &format!(":{at}"));
    let mut memcached = Client::memcached(&server);
    memcached
        .asks(format!("set d 0 {at} 1\r\nx\r\nget d\r\n"), "STORED\r\nVALUE d 0 1\r\nx\r\nEND\r\n");
    it.says("EXPIRETIME d", &format!(":{at}"));
    assert_eq!(it.line_of("TIME"), "2");
    let told: u64 = String::from_utf8(it.bulk("")).unwrap().parse().unwrap();
    assert!((now..now + 60).contains(&told), "{told}, and it is {now}");
}

#[test]
fn lifetimes_are_kept_and_told() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("SET a 1 PXAT 3317711742012", "+OK");
    it.says("PEXPIRETIME a", ":3317711742012");
    it.says("SET a 2 KEEPTTL", "+OK");
    it.says("APPEND a 3", ":2");
    it.says("PEXPIRETIME a", ":3317711742012");
    it.says("EXPIRETIME a", ":3317711742");
    it.says("SET a 2", "+OK");
    it.says("TTL a", ":-1");
    it.says("TTL nope", ":-2");
    it.says("SETEX a 100 1", "+OK");
    assert!(matches!(it.line_of("TTL a").as_str(), "99" | "100"));
    it.gives("GETEX a PERSIST", "1");
    it.says("PTTL a", ":-1");
    it.says("EXPIRE a 100 XX", ":0");
    it.says("EXPIRE a 100 NX", ":1");
    it.says("EXPIRE a 50 GT", ":0");
    it.says("EXPIRE a 50 LT", ":1");
    it.says(
        "EXPIRE a 5 NX XX",
        "-ERR NX and XX, GT or LT options at the same time are not compatible",
    );
    it.says("PERSIST a", ":1");
    it.says("PERSIST a", ":0");
    it.says("EXPIRE a -1", ":1");
    it.says("GET a", "$-1");
    it.says("DBSIZE", ":0");
    it.says("SET a 1 EXAT 1", "+OK");
    it.says("EXISTS a", ":0");
}

#[test]
fn milliseconds_pass() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("PSETEX a 60 1", "+OK");
    it.gives("GET a", "1");
    std::thread::sleep(std::time::Duration::from_millis(70));
    it.says("GET a", "$-1");
}

#[test]
fn numbers() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("INCR n", ":1");
    it.says("DECRBY n 11", ":-10");
    it.says("SET n 9223372036854775807", "+OK");
    it.says("INCR n", "-ERR increment or decrement would overflow");
    it.says("DECRBY n -9223372036854775808", "-ERR decrement would overflow");
    it.says("SET n '1 '", "+OK");
    it.says("INCR n", "-ERR value is not an integer or out of range");
    it.says("SET f 1", "+OK");
    it.gives("INCRBYFLOAT f -1.1", "-0.1");
    // The sum of `long double`s.
    it.says("SET f 654.1", "+OK");
    it.gives("INCRBYFLOAT f 1", "655.09999999999999998");
    it.says("INCRBYFLOAT f x", "-ERR value is not a valid float");
    it.says("INCRBYFLOAT f +inf", "-ERR increment would produce NaN or Infinity");
}

#[test]
fn parts() {
    let server = in_memory();
    let mut it = client(&server);
    it.says("APPEND a Hello", ":5");
    it.says("SETRANGE a 6 World", ":11");
    it.gives("GETRANGE a -5 -1", "World");
    it.gives("SUBSTR a 0 4", "Hello");
    it.says("STRLEN a", ":11");
    it.says("SETRANGE b 3 ''", ":0");
    it.says("EXISTS b", ":0");
    it.says("SETRANGE a -1 x", "-ERR offset is out of range");
}

#[test]
fn long_values_come_back_whole() {
    let server = in_memory();
    let mut it = client(&server);
    let long: Vec<u8> = (0..1_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    it.asks(array(&[b"SET", b"a", &long]), "+OK\r\n");
    for _ in 0..3 {
        assert!(it.bulk("GET a") == long);
    }
    it.says("GETRANGE a 999999 -1", &format!("$1\r\n{}", char::from(long[999_999])));
    let both = [&b"*2\r\n$1000000\r\n"[..], &long, b"\r\n$-1\r\n"].concat();
    it.asks("MGET a b\r\n", both);
}
