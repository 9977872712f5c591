//! Scripts that do not end, take too much memory, or are stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder_server::{Server, ServerConfig, SocketBackend};

use super::super::client;
use super::{eval, eval_of, speaks_resp3};
use crate::serving::{config, in_memory_with};

const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "coroutine.wrap(function() while true do end end)()",
    "while true do redis.pcall('get', 'k') end",
    "string.find(('a'):rep(400), ('.-'):rep(5)..'b')",
    "string.gsub(('a'):rep(1e6), 'a', function() while true do end end)",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "while true do loadstring(('local a = 1 '):rep(100)) end",
    "local s = ('x'):rep(3e6) while true do local a = s..'y' end",
];

fn strict(sockets: SocketBackend) -> Server {
    in_memory_with(ServerConfig {
        workers: 1,
        sockets,
        script_time_limit: Duration::from_millis(50),
        ..config()
    })
}

#[test]
fn an_endless_script_is_stopped_while_others_are_served() {
    for sockets in [SocketBackend::IoUring, SocketBackend::Epoll] {
        let server = strict(sockets);
        let (mut it, mut other) = (client(&server), client(&server));
        other.says("SET k 1", "+OK");
        let (mut late, mut all) = (0, 0);
        for source in ENDLESS {
            let begun = Instant::now();
            it.send(eval(source));
            while begun.elapsed() < Duration::from_millis(45) {
                let asked = Instant::now();
                other.gives("GET k", "1");
                all += 1;
                late += usize::from(asked.elapsed() > Duration::from_millis(10));
            }
            let said = it.line_heard();
            let is_stopped = said
                .starts_with("ERR Script stopped: it ran longer than script_time_limit, 50 ms.");
            assert!(is_stopped, "{source}: {said}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{source}: {:?}", begun.elapsed());
        }
        // Other processes of the machine may be in the way of a few.
        assert!(late <= all / 4 && all >= ENDLESS.len(), "{late} of {all} were late");
    }
}

#[test]
fn a_script_without_memory_is_stopped() {
    let server = strict(SocketBackend::default());
    let mut it = client(&server);
    it.says("SET k old", "+OK");
    for source in ["return ('x'):rep(2^30)", "local s = 'x' while true do s = s..s end"] {
        let said = it.line_for(eval(&format!("redis.call('set', 'k', 'new') {source}")));
        assert!(said.starts_with("ERR Script stopped: not enough memory"), "{source}: {said}");
        it.gives("GET k", "old");
    }
}

#[test]
fn what_a_stopped_script_has_written_is_undone() {
    let server = strict(SocketBackend::default());
    let mut it = client(&server);
    it.says("MSET a 1 b 2 c 3", "+OK");
    it.says("SET d 4 PX 100000", "+OK");
    let source = "redis.call('set', 'a', 'x') redis.call('incr', 'a2') redis.call('del', 'b') \
        redis.call('append', 'c', 'y') redis.call('append', 'c', 'z') redis.call('persist', 'd') \
        redis.call('rename', 'd', 'e') redis.call('mset', 'f', 1, 'g', 2) while true do end";
    let said = it.line_for(eval(source));
    assert!(said.contains("Its writes are undone"), "{said}");
    it.says("MGET a b c d", "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4");
    it.says("EXISTS a2 e f g", ":0");
    let left: i64 = it.line_of("PTTL d").parse().unwrap();
    assert!((80_000..=100_000).contains(&left), "{left}");
    // An error of the script itself undoes nothing.
    let said = it.line_for(eval("redis.call('set', 'a', 'x') error('own')"));
    assert!(said.starts_with("ERR user_script:1: own script: "), "{said}");
    it.gives("GET a", "x");
}

#[test]
fn a_client_can_stop_a_script() {
    let server = in_memory_with(ServerConfig { workers: 2, ..config() });
    let (mut it, mut other) = (client(&server), client(&server));
    it.send(eval_of("redis.call('set', KEYS[1], 1) while true do end", &["k"], &[]));
    let begun = Instant::now();
    while other.line_of("SCRIPT KILL") != "OK" {
        assert!(begun.elapsed() < Duration::from_secs(4), "it runs");
    }
    let said = it.line_heard();
    assert!(
        said.starts_with("ERR Error running script, Script killed by user with SCRIPT KILL."),
        "{said}"
    );
    it.says("EXISTS k", ":0");
}

#[test]
fn a_connection_may_end_in_the_middle() {
    let server = strict(SocketBackend::default());
    for _ in 0..20 {
        client(&server).send(eval_of(
            "redis.call('set', KEYS[1], 1) while true do end",
            &["k"],
            &[],
        ));
    }
    let mut it = client(&server);
    let begun = Instant::now();
    while it.line_for(eval_of("return redis.call('incr', KEYS[1])", &["k2"], &[])) != "20" {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    it.says("EXISTS k", ":0");
}

/// A subscriber that does not read its messages is closed, also amid its own script.
#[test]
fn a_script_of_a_connection_that_is_closed_is_undone() {
    let server =
        in_memory_with(ServerConfig { workers: 2, pubsub_bytes_max: 64 << 10, ..config() });
    let (mut it, mut other) = (client(&server), client(&server));
    speaks_resp3(&mut it);
    it.send("SUBSCRIBE c\r\n");
    it.hears(">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let begun = Instant::now();
    // What it publishes says that it has begun: no client sees what it has written.
    let source =
        "redis.call('set', KEYS[1], 1) redis.call('publish', 'begun', 1) while true do end";
    let mut hears = client(&server);
    speaks_resp3(&mut hears);
    hears.send("SUBSCRIBE begun\r\n");
    hears.hears(">3\r\n$9\r\nsubscribe\r\n$5\r\nbegun\r\n:1\r\n");
    it.send(eval_of(source, &["k"], &[]));
    hears.hears(">3\r\n$7\r\nmessage\r\n$5\r\nbegun\r\n$1\r\n1\r\n");
    let message = "x".repeat(10_000);
    while other.line_of(&format!("PUBLISH c {message}")) != "0" {
        assert!(begun.elapsed() < Duration::from_secs(4), "it is closed before its limit of time");
    }
    while other.line_of("EXISTS k") != "0" {
        assert!(begun.elapsed() < Duration::from_secs(4), "it is undone before its limit of time");
    }
}

#[test]
fn many_scripts_run_beside_each_other_and_none_is_refused() {
    let server = in_memory_with(ServerConfig { workers: 1, ..config() });
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let mut it = client(&server);
                let source = "for i = 1, 1e5 do end return redis.call('incr', KEYS[1])";
                let said = it.line_for(eval_of(source, &["n"], &[]));
                assert!(said.parse::<u64>().is_ok(), "{said}");
                has_ended.store(true, Ordering::Relaxed);
            });
        }
    });
    assert!(has_ended.load(Ordering::Relaxed));
    client(&server).gives("GET n", "40");
}
