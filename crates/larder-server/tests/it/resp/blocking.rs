//! Requests that wait for something to take.

use std::time::{Duration, Instant};

use larder_server::{Server, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory_with};

/// More than one worker: those that wait and those that push are on different threads.
fn server() -> Server {
    in_memory_with(ServerConfig { workers: 3, ..config() })
}

/// Waits until this number of clients waits.
fn waiting(it: &mut Client, number: usize) {
    let line = format!("blocked_clients:{number}\r\n");
    let end = Instant::now() + Duration::from_secs(20);
    while !it.asked("INFO clients").contains(&line) {
        assert!(Instant::now() < end, "{line}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_there_is_taken_at_once() {
    let server = server();
    let mut it = client(&server);
    it.tells("RPUSH l a b c d", ":4");
    it.tells("BLPOP nope l 0", "[l a]");
    it.tells("BRPOP l 0", "[l d]");
    it.tells("BLMOVE l m LEFT LEFT 0", "b");
    it.tells("BRPOPLPUSH l m 0", "c");
    it.tells("LRANGE m 0 -1", "[c b]");
    it.tells("BLMPOP 0 2 nope m LEFT COUNT 5", "[m [c b]]");
    it.tells("ZADD z 1 a 2 b 3 c", ":3");
    it.tells("BZPOPMIN z 0", "[z a 1]");
    it.tells("BZPOPMAX z 0", "[z c 3]");
    it.tells("BZMPOP 0 1 z MIN", "[z [[b 2]]]");
    it.tells("SET s x", "OK");
    it.tells("BLPOP s 0", "-WRONGTYPE Operation against a key holding the wrong kind of value");
    it.tells("BLPOP l x", "-ERR timeout is not a float or out of range");
    it.tells("BLPOP l -1", "-ERR timeout is negative");
}

#[test]
fn a_push_serves_those_that_wait_in_their_order() {
    let server = server();
    let mut it = client(&server);
    let mut waiters: Vec<Client> = (0..5).map(|_| client(&server)).collect();
    for (at, waiter) in waiters.iter_mut().enumerate() {
        waiter.send("BLPOP other l 0\r\n");
        waiting(&mut it, at + 1);
    }
    it.tells("RPUSH l 0 1 2", ":3");
    for (at, waiter) in waiters.iter_mut().take(3).enumerate() {
        assert_eq!(waiter.told(), format!("[l {at}]"));
    }
    waiting(&mut it, 2);
    it.tells("RPUSH k 3", ":1");
    it.tells("RENAME k l", "OK");
    assert_eq!(waiters[3].told(), "[l 3]");
    it.tells("RPUSH k 4", ":1");
    it.tells("LMOVE k other LEFT LEFT", "4");
    assert_eq!(waiters[4].told(), "[other 4]");
    waiting(&mut it, 0);
    it.tells("EXISTS l other", ":0");
}

#[test]
fn each_kind_of_request_is_woken() {
    let server = server();
    let (mut it, mut waiter) = (client(&server), client(&server));
    for (waits, wakes, answer) in [
        ("BRPOP k 0", "RPUSH k a b", "[k b]"),
        ("BLMOVE k m RIGHT LEFT 0", "LPUSH k a", "a"),
        ("BRPOPLPUSH k m 0", "LPUSH k a", "a"),
        ("BLMPOP 0 2 j k LEFT COUNT 2", "RPUSH k a b c", "[k [a b]]"),
        ("BZPOPMIN k 0", "ZADD k 1 a 2 b", "[k a 1]"),
        ("BZPOPMAX k 0", "ZADD k 1 a 2 b", "[k b 2]"),
        ("BZMPOP 0 1 k MAX", "ZINCRBY k 3 a", "[k [[a 3]]]"),
    ] {
        it.asked("DEL k m");
        waiter.send(format!("{waits}\r\n"));
        waiting(&mut it, 1);
        it.asked(wakes);
        assert_eq!(waiter.told(), answer, "{waits}");
    }
    // Another kind of value is nothing to take; a wrong target is an error.
    it.asked("DEL k m");
    waiter.send("BLPOP k 0\r\n");
    waiting(&mut it, 1);
    it.tells("ZADD k 1 a", ":1");
    it.tells("DEL k", ":1");
    it.tells("RPUSH k a", ":1");
    assert_eq!(waiter.told(), "[k a]");
    it.tells("SET m x", "OK");
    waiter.send("BRPOPLPUSH k m 0\r\n");
    waiting(&mut it, 1);
    it.tells("RPUSH k a", ":1");
    assert!(waiter.told().starts_with("-WRONGTYPE"));
    it.tells("LRANGE k 0 -1", "[a]");
}

#[test]
fn a_wait_ends_with_its_time() {
    let server = server();
    let (mut it, mut waiter) = (client(&server), client(&server));
    let begun = Instant::now();
    waiter.tells("BLPOP k 0.05", "nil");
    assert!(begun.elapsed() >= Duration::from_millis(50));
    waiter.tells("BZPOPMIN k 0.01", "nil");
    waiter.tells("BLMOVE k m LEFT LEFT 0.01", "nil");
    waiter.send("BLPOP k 0.05\r\nPING\r\nSET a 1\r\n");
    assert_eq!(
        (waiter.told(), waiter.told(), waiter.told()),
        ("nil".into(), "PONG".into(), "OK".into())
    );
    waiting(&mut it, 0);
}

#[test]
fn what_comes_behind_a_request_that_waits_is_answered_after_it() {
    let server = server();
    let (mut it, mut waiter) = (client(&server), client(&server));
    waiter.send("BLPOP k 0\r\nGET a\r\nBLPOP k 0\r\n");
    waiting(&mut it, 1);
    waiter.send("GET a\r\nPI");
    it.tells("SET a 1", "OK");
    it.tells("RPUSH k x", ":1");
    assert_eq!((waiter.told(), waiter.told()), ("[k x]".into(), "1".into()));
    waiting(&mut it, 1);
    it.tells("RPUSH k y", ":1");
    assert_eq!((waiter.told(), waiter.told()), ("[k y]".into(), "1".into()));
    waiter.asks("NG\r\n", "+PONG\r\n");
}

#[test]
fn a_client_that_has_gone_leaves_no_waiter() {
    let server = server();
    let mut it = client(&server);
    let (mut one, mut two) = (client(&server), client(&server));
    one.send("BLPOP k 0\r\n");
    waiting(&mut it, 1);
    two.send("BLPOP k 0\r\n");
    waiting(&mut it, 2);
    drop(one);
    waiting(&mut it, 1);
    it.tells("RPUSH k x", ":1");
    assert_eq!(two.told(), "[k x]");
    waiting(&mut it, 0);
    it.tells("EXISTS k", ":0");
}

#[test]
fn others_may_end_a_wait() {
    let server = server();
    let (mut it, mut waiter) = (client(&server), client(&server));
    let id = waiter.asked("CLIENT ID");
    let id = id.trim_start_matches(':');
    it.tells(&format!("CLIENT UNBLOCK {id}"), ":0");
    waiter.send("BLPOP k 0\r\n");
    waiting(&mut it, 1);
    assert!(it.asked("CLIENT LIST").contains(" flags=b "));
    it.tells(&format!("CLIENT UNBLOCK {id}"), ":1");
    assert_eq!(waiter.told(), "nil");
    waiter.send("BLPOP k 0\r\n");
    waiting(&mut it, 1);
    it.tells(&format!("CLIENT UNBLOCK {id} ERROR"), ":1");
    assert_eq!(waiter.told(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    waiter.tells("PING", "PONG");
}

#[test]
fn a_transaction_does_not_wait_and_is_seen_whole() {
    let server = server();
    let (mut it, mut waiter) = (client(&server), client(&server));
    it.tells("MULTI", "OK");
    it.tells("BLPOP k 0", "QUEUED");
    it.tells("BLMOVE k m LEFT LEFT 0", "QUEUED");
    it.tells("BZPOPMIN k 0", "QUEUED");
    it.tells("EXEC", "[nil nil nil]");
    for _ in 0..20 {
        waiter.send("BLPOP k 0\r\n");
        waiting(&mut it, 1);
        it.send("MULTI\r\nRPUSH k a\r\nDEL k\r\nRPUSH k b\r\nEXEC\r\n");
        assert_eq!(waiter.told(), "[k b]");
        (0..4).for_each(|_| drop(it.told()));
        assert_eq!(it.told(), "[:1 :1 :1]");
    }
}

#[test]
fn waiters_cost_memory_of_their_tenant() {
    let limits = ServerConfig {
        workers: 1,
        value_bytes_max: 1 << 20,
        client_bytes_max: 4 << 20,
        ..config()
    };
    let server = in_memory_with(limits);
    let mut it = client(&server);
    let keys: Vec<String> = (0..4).map(|number| format!("{number}").repeat(50 << 10)).collect();
    let mut request: Vec<&[u8]> = vec![b"BLPOP"];
    request.extend(keys.iter().map(|key| key.as_bytes()));
    request.push(b"0");
    let mut waiters: Vec<Client> = (0..5).map(|_| client(&server)).collect();
    let mut refused = 0;
    for waiter in &mut waiters {
        waiter.send(array(&request));
    }
    for waiter in waiters.iter_mut() {
        waiter.0.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut byte = [0];
        if std::io::Read::read(&mut waiter.0, &mut byte).is_ok() {
            assert_eq!(byte, *b"-");
            refused += 1;
        }
    }
    assert!((1..5).contains(&refused), "{refused} of 5 are refused");
    drop(waiters);
    waiting(&mut it, 0);
}

#[test]
fn silence_does_not_end_a_client_that_waits() {
    let short = Some(Duration::from_millis(200));
    let limits =
        ServerConfig { workers: 1, idle_timeout: short, request_timeout: short, ..config() };
    let server = in_memory_with(limits);
    let (mut waiter, mut silent) = (client(&server), client(&server));
    silent.tells("PING", "PONG");
    waiter.send("BLPOP k 0\r\nPI");
    // The client that does not wait is closed meanwhile.
    silent.is_closed();
    std::thread::sleep(Duration::from_millis(500));
    client(&server).tells("RPUSH k x", ":1");
    assert_eq!(waiter.told(), "[k x]");
    waiter.asks("NG\r\n", "+PONG\r\n");
}
