//! Scripts.

mod hostile;
mod libraries;
mod steps;

use std::sync::Arc;
use std::thread;

use larder::{FileDevice, RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_server::{Server, ServerConfig, SocketBackend};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with};

/// A request of a script without keys.
pub(super) fn eval(source: &str) -> Vec<u8> {
    array(&[b"EVAL", source.as_bytes(), b"0"])
}

/// `EVAL` of a source with keys and arguments.
pub(super) fn eval_of(source: &str, keys: &[&str], arguments: &[&str]) -> Vec<u8> {
    let count = keys.len().to_string();
    let mut all = vec![&b"EVAL"[..], source.as_bytes(), count.as_bytes()];
    all.extend(keys.iter().chain(arguments).map(|it| it.as_bytes()));
    array(&all)
}

impl Client {
    /// Sends a request, and returns the line that is its answer, or the head of it.
    #[track_caller]
    pub(super) fn line_for(&mut self, request: Vec<u8>) -> String {
        self.send(request);
        self.line_heard()
    }
}

/// One of each backend of sockets.
pub(super) fn everywhere(test: impl Fn(&Server)) {
    for sockets in [SocketBackend::IoUring, SocketBackend::Epoll] {
        test(&in_memory_with(ServerConfig { sockets, ..config() }));
    }
}

#[test]
fn a_script_reads_and_writes() {
    everywhere(|server| {
        let mut it = client(server);
        it.asks(eval_of("return redis.call('set', KEYS[1], ARGV[1])", &["k"], &["5"]), "+OK\r\n");
        it.asks(eval_of("return redis.call('get', KEYS[1])", &["k"], &[]), "$1\r\n5\r\n");
        it.asks(eval_of("return redis.call('incrby', KEYS[1], ARGV[1])", &["k"], &["3"]), ":8\r\n");
        it.asks(eval("return redis.call('get', 'none')"), "$-1\r\n");
        it.asks(eval("return redis.call('mget', 'k', 'none')"), "*2\r\n$1\r\n8\r\n$-1\r\n");
        it.asks(eval("return redis.call('ping')"), "+PONG\r\n");
        speaks_resp3(&mut it);
        it.asks(
            eval("redis.setresp(3) return {true, redis.call('get', 'none') == nil}"),
            "*2\r\n#t\r\n#t\r\n",
        );
        it.asks(eval("return {redis.call('get', 'none') == false}"), "*1\r\n:1\r\n");
        it.asks(eval("return nil"), "_\r\n");
    });
}

/// Asks for version 3 of the protocol.
pub(super) fn speaks_resp3(it: &mut Client) {
    it.send("HELLO 3\r\nECHO marker\r\n");
    let mut heard = Vec::new();
    while !heard.ends_with(b"marker\r\n") {
        heard.extend(it.line().bytes());
    }
}

#[test]
fn requests_that_no_script_may_make_are_refused() {
    let server = in_memory();
    let mut it = client(&server);
    let mut refuses = |source: &str, why: &str| {
        let said = it.line_for(eval(source));
        assert!(said.starts_with(why), "{source}: {said}");
    };
    refuses("return redis.call('nope')", "ERR Unknown Redis command called from script script: ");
    refuses(
        "return redis.call('get')",
        "ERR Wrong number of args calling Redis command from script",
    );
    for request in [
        "'eval', '', 0",
        "'multi'",
        "'subscribe', 'a'",
        "'config', 'get', 'x'",
        "'client', 'id'",
        "'script', 'flush'",
        "'auth', 'a'",
        "'hello'",
        "'watch', 'a'",
        "'quit'",
    ] {
        refuses(
            &format!("return redis.call({request})"),
            "ERR This Redis command is not allowed from script",
        );
    }
    refuses(
        "#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)",
        "ERR Write commands are not allowed from read-only scripts.",
    );
    refuses("#!lua flags=bad\nreturn 1", "ERR Unexpected flag in script shebang: bad");
    let said = it.line_for(array(&[b"EVAL_RO", b"return redis.call('del', 'a')", b"0"]));
    assert!(said.starts_with("ERR Write commands are not allowed"), "{said}");
    it.asks(array(&[b"EVAL_RO", b"return 1", b"0"]), ":1\r\n");
    for (keys, why) in [
        ("x", "ERR value is not an integer or out of range"),
        ("1", "ERR Number of keys can't be greater than number of args"),
        ("-1", "ERR Number of keys can't be negative"),
    ] {
        assert_eq!(it.line_for(array(&[b"EVAL", b"return 1", keys.as_bytes()])), why);
    }
}

#[test]
fn scripts_are_known_by_their_sha1() {
    let server = in_memory();
    let mut it = client(&server);
    let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    it.says(&format!("EVALSHA {name} 0"), "-NOSCRIPT No matching script. Please use EVAL.");
    it.gives("SCRIPT LOAD 'return 1'", name);
    it.says(&format!("EVALSHA {name} 0"), ":1");
    it.says(&format!("EVALSHA_RO {} 0", name.to_uppercase()), ":1");
    it.says(&format!("SCRIPT EXISTS {name} nope"), "*2\r\n:1\r\n:0");
    it.says("SCRIPT FLUSH", "+OK");
    it.says(&format!("EVALSHA {name} 0"), "-NOSCRIPT No matching script. Please use EVAL.");
    it.says("EVAL 'return 1' 0", ":1");
    it.says(&format!("EVALSHA {name} 0"), ":1");
    it.says("SCRIPT FLUSH ASYNC", "+OK");
    it.says("SCRIPT FLUSH NOW", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    it.says("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.");
    let said = it.line_of("SCRIPT LOAD 'return {'");
    assert!(
        said.starts_with("ERR Error compiling script (new function): user_script:1: "),
        "{said}"
    );
    it.says("EVAL 'return {' 0", &format!("-{said}"));
    let info = String::from_utf8(it.bulk("INFO memory")).unwrap();
    assert!(info.contains("used_memory_scripts:0\r\nnumber_of_cached_scripts:0\r\n"), "{info}");
}

#[test]
fn scripts_are_part_of_transactions() {
    let server = in_memory();
    let (mut it, mut other) = (client(&server), client(&server));
    it.says("MULTI", "+OK");
    it.asks(eval_of("return redis.call('incr', KEYS[1])", &["k"], &[]), "+QUEUED\r\n");
    it.asks(eval_of("return redis.call('incr', KEYS[1])", &["k"], &[]), "+QUEUED\r\n");
    it.says("EXEC", "*2\r\n:1\r\n:2");
    // A watched key that changes between EXEC's look and the script's write is seen by the write.
    it.says("WATCH k", "+OK");
    other.says("INCR k", ":3");
    it.says("MULTI", "+OK");
    it.asks(eval_of("return redis.call('incr', KEYS[1])", &["k"], &[]), "+QUEUED\r\n");
    it.says("EXEC", "*-1");
    it.gives("GET k", "3");
}

#[test]
fn the_time_stands_still_in_a_script() {
    let server = in_memory();
    let mut it = client(&server);
    let source = "local a = redis.call('time') for i = 1, 1e5 do end local b = redis.call('time') \
        return {a[1] == b[1], a[2] == b[2]}";
    it.asks(eval(source), "*2\r\n:1\r\n:1\r\n");
}

#[test]
fn no_increment_of_many_connections_is_lost() {
    const EACH: usize = 50;
    let directory = tempfile::tempdir().unwrap();
    let device = FileDevice::create(directory.path().join("flash"), 256 << 20).unwrap();
    let tenants = TenantsConfig {
        dram_bytes: 2 << 20,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    let opened = Tenants::open(tenants, Some(Arc::new(device)), Arc::new(RealClock));
    let flash =
        Server::start(ServerConfig { workers: 2, ..config() }, block_on(opened).unwrap()).unwrap();
    thread::scope(|scope| {
        for part in 0..8 {
            let server = &flash;
            scope.spawn(move || {
                let mut all: Vec<Client> = (0..8).map(|_| client(server)).collect();
                let source = "local v = tonumber(redis.call('get', KEYS[1]) or 0) \
                    redis.call('set', KEYS[2], ('x'):rep(2000)) \
                    redis.call('set', KEYS[1], v + 1) return v";
                for round in 0..EACH {
                    for (at, it) in all.iter_mut().enumerate() {
                        let other = format!("other:{part}:{at}:{round}");
                        it.send(eval_of(source, &["sum", &other], &[]));
                    }
                    all.iter_mut().for_each(|it| drop(it.line_heard()));
                }
            });
        }
    });
    client(&flash).gives("GET sum", &(64 * EACH).to_string());
}
