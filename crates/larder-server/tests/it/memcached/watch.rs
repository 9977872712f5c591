//! `watch`: the lines that a watcher gets, and what a watcher costs others.

use std::io::Read;
use std::time::{Duration, Instant};

use larder::Config;
use larder_device::{Fault, FaultPlan, FaultRule};
use larder_server::{Server, ServerConfig, User};

use super::binary::{hears, packet};
use super::classic::stat;
use crate::drive::{drive, fill, impatient, metric, metric_of_server, serve_on};
use crate::serving::{Client, config, in_memory, in_memory_with, with_tenants};
use crate::users::user;

const EVER: Duration = Duration::from_secs(30);

fn watcher(server: &Server, streams: &str) -> Client {
    let mut watcher = Client::memcached(server);
    watcher.asks(format!("watch {streams}\r\n"), "OK\r\n");
    watcher
}

/// The next line without its time and its number, with `N` for the numbers of connections and ports.
#[track_caller]
fn event(watcher: &mut Client) -> String {
    let line = watcher.line();
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let number = |word: &str, name| word.strip_prefix(name)?.parse::<f64>().ok();
    let is_numbered = number(words[0], "ts=").is_some_and(|time| time > 1e9)
        && number(words[1], "gid=").is_some_and(|id| id >= 1.0);
    assert!(is_numbered && line.ends_with('\n') && !line.ends_with("\r\n"), "{line}");
    let shown = words[2..].iter().map(|word| match word.split_once('=') {
        Some((name @ ("cfd" | "rport"), number)) if number.parse::<u64>().is_ok() => {
            format!("{name}=N")
        }
        _ => (*word).to_owned(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Waits until a statistic is `value`.
#[track_caller]
fn becomes(client: &mut Client, name: &str, value: u64) {
    let begun = Instant::now();
    while stat(client, name) != value {
        assert!(begun.elapsed() < EVER, "{name} is not {value}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn get(key: &str, status: &str, size: usize) -> String {
    let clsid = u8::from(status == "found");
    format!("type=item_get key={key} status={status} clsid={clsid} cfd=N size={size}")
}

fn found(key: &str, size: usize) -> String {
    get(key, "found", size)
}

fn none(key: &str) -> String {
    get(key, "not_found", 0)
}

fn set(key: &str, status: &str, cmd: &str, ttl: u32, size: usize) -> String {
    let rest = format!("cmd={cmd} ttl={ttl} clsid=1 cfd=N size={size}");
    format!("type=item_store key={key} status={status} {rest}")
}

fn put(key: &str, cmd: &str, size: usize) -> String {
    set(key, "stored", cmd, 0, size)
}

fn deleted(key: &str, cmd: &str, size: usize) -> String {
    format!("type=deleted key={key} cmd={cmd} clsid=1 size={size}")
}

/// Sends each request, and checks its answer and its lines. These are those of memcached 1.6.18, but for what is told
/// of `deletions`, which later versions have, and for the look-up before a plain `set`, which memcached makes and this
/// server does not.
#[track_caller]
fn tells(watcher: &mut Client, client: &mut Client, table: &[(&str, &str, &[String])]) {
    for (request, answer, lines) in table {
        client.asks(request, answer);
        for line in *lines {
            assert_eq!(event(watcher), *line, "{request:.40}");
        }
    }
}

#[test]
fn requests_have_the_lines_of_memcached() {
    let server = in_memory();
    let mut watcher = watcher(&server, "fetchers mutations deletions");
    let mut client = Client::memcached(&server);
    let add_fails = [found("a", 5), set("a", "not_stored", "add", 0, 1)];
    let append_fails = [none("no"), set("no", "not_stored", "append", 0, 1)];
    let cas_fails = [found("b", 3), set("b", "exists", "cas", 0, 1)];
    let cas_misses = [none("no"), set("no", "not_found", "cas", 0, 1)];
    tells(
        &mut watcher,
        &mut client,
        &[
            ("get a b\r\n", "END\r\n", &[none("a"), none("b")]),
            ("set a 0 0 3\r\nabc\r\n", "STORED\r\n", &[put("a", "set", 3)]),
            ("get a\r\n", "VALUE a 0 3\r\nabc\r\nEND\r\n", &[found("a", 3)]),
            ("set a 0 100 5\r\nabcde\r\n", "STORED\r\n", &[set("a", "stored", "set", 100, 5)]),
            ("gat 50 a\r\n", "VALUE a 0 5\r\nabcde\r\nEND\r\n", &[found("a", 5)]),
            ("touch a 50\r\n", "TOUCHED\r\n", &[found("a", 5)]),
            ("touch no 50\r\n", "NOT_FOUND\r\n", &[none("no")]),
            ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n", &add_fails),
            ("add b 0 0 1\r\n1\r\n", "STORED\r\n", &[none("b"), put("b", "add", 1)]),
            ("replace b 0 0 1\r\n1\r\n", "STORED\r\n", &[found("b", 1), put("b", "replace", 1)]),
            ("append b 0 0 1\r\n2\r\n", "STORED\r\n", &[found("b", 1), put("b", "append", 2)]),
            ("append no 0 0 1\r\n2\r\n", "NOT_STORED\r\n", &append_fails),
            ("prepend b 0 0 1\r\n2\r\n", "STORED\r\n", &[found("b", 2), put("b", "prepend", 3)]),
            ("incr b 1\r\n", "213\r\n", &[found("b", 3)]),
            ("decr no 1\r\n", "NOT_FOUND\r\n", &[none("no")]),
            ("cas b 0 0 1 1\r\nx\r\n", "EXISTS\r\n", &cas_fails),
            ("cas no 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n", &cas_misses),
            ("delete b\r\n", "DELETED\r\n", &[found("b", 3), deleted("b", "delete", 3)]),
            ("delete b\r\n", "NOT_FOUND\r\n", &[none("b")]),
            ("set e 0 -1 1\r\nx\r\n", "STORED\r\n", &[set("e", "stored", "set", u32::MAX, 1)]),
            ("flush_all\r\nget a\r\n", "OK\r\nEND\r\n", &[none("a")]),
        ],
    );
}

/// One connection waits, and one is dropped amid a request: both ends are events for a watcher that ends too.
#[test]
fn the_end_of_the_server_ends_watchers() {
    let drain_time = Duration::from_millis(200);
    let server = in_memory_with(ServerConfig { workers: 1, drain_time, ..config() });
    let mut client = Client::memcached(&server);
    client.asks("get a\r\n", "END\r\n");
    let mut watcher = watcher(&server, "connevents fetchers");
    let mut half = Client::memcached(&server);
    half.send("half");
    assert!(event(&mut watcher).starts_with("type=conn_new "));
    server.end(EVER).unwrap();
    half.is_closed();
    // The client may be told of before the watcher itself ends.
    let mut told = String::new();
    watcher.0.read_to_string(&mut told).unwrap();
    assert!(told.lines().all(|line| line.contains(" reason=shutdown ")), "{told}");
}

#[test]
fn meta_requests_have_the_lines_of_memcached() {
    let server = in_memory();
    let mut watcher = watcher(&server, "fetchers mutations deletions");
    let mut client = Client::memcached(&server);
    tells(
        &mut watcher,
        &mut client,
        &[
            ("ms m 2\r\nhi\r\n", "HD\r\n", &[put("m", "set", 2)]),
            ("ms m 2 MA\r\nhi\r\n", "HD\r\n", &[found("m", 2), put("m", "append", 4)]),
            ("mg m v\r\n", "VA 4\r\nhihi\r\n", &[found("m", 4)]),
            ("mg m s T30\r\n", "HD s4\r\n", &[found("m", 4)]),
            ("mg m s u\r\n", "HD s4\r\n", &[found("m", 4)]),
            ("mg no v\r\n", "EN\r\n", &[none("no")]),
            ("mg viv N30 v\r\n", "VA 0 W\r\n\r\n", &[none("viv")]),
            ("ma num N0 J15\r\n", "HD\r\n", &[none("num"), put("num", "add", 2)]),
            ("ma num\r\n", "HD\r\n", &[found("num", 2)]),
            ("md m I\r\n", "HD\r\n", &[found("m", 4)]),
            ("md m\r\n", "HD\r\n", &[found("m", 4), deleted("m", "md", 4)]),
            ("ms YmFzZSw= 2 b\r\nhi\r\n", "HD\r\n", &[put("base%2C", "set", 2)]),
        ],
    );
}

#[test]
fn values_that_are_too_long_are_told() {
    let server = in_memory();
    let mut watcher = watcher(&server, "fetchers mutations");
    let mut client = Client::memcached(&server);
    let value = "x".repeat(2_000_000);
    for (request, cmd) in [("set l 0 0", "set"), ("add l 0 0", "add"), ("ms l", "set")] {
        client.send(format!("{request} {}\r\n{value}\r\n", value.len()));
        client.hears("SERVER_ERROR object too large for cache\r\n");
        let line = format!("status=too_large cmd={cmd} ttl=0 clsid=0 cfd=N size=0");
        assert_eq!(event(&mut watcher), format!("type=item_store key=l {line}"));
    }
}

#[test]
fn values_that_memory_cannot_hold_are_told() {
    let (value_bytes_max, client_bytes_max) = (32 << 20, 128 << 20);
    let server = in_memory_with(ServerConfig { value_bytes_max, client_bytes_max, ..config() });
    let mut watcher = watcher(&server, "mutations");
    let mut client = Client::memcached(&server);
    // DRAM has 16 MiB.
    let value = "x".repeat(20_000_000);
    for cmd in ["set", "add"] {
        client.send(format!("{cmd} l 0 0 {}\r\n{value}\r\n", value.len()));
        client.hears("SERVER_ERROR object too large for cache\r\n");
        let line = format!("status=too_large cmd={cmd} ttl=0 clsid=0 cfd=N size=0");
        assert_eq!(event(&mut watcher), format!("type=item_store key=l {line}"));
    }
}

#[test]
fn keys_that_have_expired_are_told() {
    let server = in_memory();
    let mut watcher = watcher(&server, "fetchers mutations");
    let mut client = Client::memcached(&server);
    client.asks("set r 0 1 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(event(&mut watcher), set("r", "stored", "set", 1, 1));
    std::thread::sleep(Duration::from_millis(1100));
    client.asks("get r\r\nget r\r\n", "END\r\nEND\r\n");
    assert_eq!(event(&mut watcher), get("r", "expired", 0));
    assert_eq!(event(&mut watcher), none("r"));
}

#[test]
fn binary_requests_have_lines_too() {
    let server = in_memory();
    let mut watcher = watcher(&server, "fetchers mutations deletions");
    let mut client = Client::memcached(&server);
    for (opcode, extras, value, lines) in [
        (1, &[0; 8][..], &b"rye"[..], &["type=item_store key=k status=stored cmd=set ttl=0"][..]),
        (0, b"", b"", &["type=item_get key=k status=found clsid=1 cfd=N size=3"]),
        (0x1d, &[0, 0, 0, 9], b"", &["type=item_get key=k status=found clsid=1 cfd=N size=3"]),
        (
            4,
            b"",
            b"",
            &[
                "type=item_get key=k status=found clsid=1 cfd=N size=3",
                "type=deleted key=k cmd=delete clsid=1 size=3",
            ],
        ),
        (0, b"", b"", &["type=item_get key=k status=not_found clsid=0 cfd=N size=0"]),
    ] {
        client.send(packet(opcode, extras, b"k", value, 0));
        hears(&mut client, opcode);
        for line in lines {
            let told = event(&mut watcher);
            assert!(told.starts_with(line), "{opcode}: {told}");
        }
    }
}

#[test]
fn connections_are_told_with_the_reason_of_their_end() {
    let idle_timeout = Some(Duration::from_secs(1));
    let server = in_memory_with(ServerConfig { workers: 1, idle_timeout, ..config() });
    let mut watcher = watcher(&server, "connevents");
    for (last, reason) in [
        (&b"quit\r\n"[..], "normal"),
        (b"GET / HTTP/1.1\r\n", "error"),
        (b"\x01\x02\x03\xff".repeat(1000).as_slice(), "error"),
        (b"", "idle_timeout"),
    ] {
        let mut client = Client::memcached(&server);
        client.send(last);
        let told = [event(&mut watcher), event(&mut watcher)];
        let new = "type=conn_new rip=127.0.0.1 rport=N transport=tcp cfd=N";
        let close =
            format!("type=conn_close rip=127.0.0.1 rport=N transport=tcp reason={reason} cfd=N");
        assert_eq!(told, [new, &close]);
    }
    drop(Client::resp(&server));
    assert!(event(&mut watcher).starts_with("type=conn_new "));
    assert!(event(&mut watcher).contains(" reason=normal "));
    // It was idle for longer than others may be.
    watcher.send("get a\r\nquit\r\n");
    drop(Client::memcached(&server));
    assert!(event(&mut watcher).starts_with("type=conn_new "), "what it sends is discarded");
}

#[test]
fn words_and_numbers_of_watchers_are_checked() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("watch foo\r\nwatch fetchers foo\r\nwatch fetch\r\n", "ERROR\r\n".repeat(3));
    let mut all: Vec<Client> = (0..20).map(|_| watcher(&server, "fetchers")).collect();
    let too_many = "WATCHER_TOO_MANY log watcher limit reached\r\n";
    client.asks("watch\r\nget a\r\n", format!("{too_many}END\r\n"));
    assert!(all.iter_mut().all(|it| event(it).contains("key=a status=not_found")));
    becomes(&mut client, "log_watchers", 20);
    becomes(&mut client, "log_watcher_sent", 20);
    drop(all.split_off(3));
    becomes(&mut client, "log_watchers", 3);
    client.asks("watch\r\n", "OK\r\n");
    all[0].send("get x\r\n");
    Client::memcached(&server).asks("get b\r\n", "END\r\n");
    assert!(event(&mut client).contains("key=b"), "a watcher's own requests are discarded");
}

#[test]
fn a_watcher_that_reads_nothing_costs_bounded_memory_and_slows_none() {
    let admin = Some(([127, 0, 0, 1], 0).into());
    let server = in_memory_with(ServerConfig { workers: 1, admin, ..config() });
    let mut client = Client::memcached(&server);
    client.asks("get a\r\n", "END\r\n");
    let before = metric_of_server(&server, "client_bytes");
    let mut silent = watcher(&server, "fetchers");
    let request = format!("get {}\r\n", "k#".repeat(120)).repeat(100);
    let begun = Instant::now();
    let mut rounds = 0;
    // The kernel takes the first megabytes of lines for the watcher.
    while stat(&mut client, "log_watcher_skipped") < 10_000 {
        client.asks(&request, "END\r\n".repeat(100));
        rounds += 1;
        assert!(begun.elapsed() < EVER, "{rounds} rounds");
    }
    let held = metric_of_server(&server, "client_bytes") - before;
    assert!((256 << 10..640 << 10).contains(&held), "{held} bytes");
    let (sent, skipped) =
        (stat(&mut client, "log_watcher_sent"), stat(&mut client, "log_watcher_skipped"));
    assert_eq!(sent + skipped, rounds * 100);
    assert_eq!(metric_of_server(&server, "watch_lines_skipped_total"), skipped);
    // It reads again: it is told what it has missed.
    let mut told = 0;
    while told < sent {
        told += u64::from(silent.line().starts_with("ts="));
    }
    client.asks("get a\r\n", "END\r\n");
    assert_eq!(silent.line(), format!("skipped={skipped}\n"));
    assert!(event(&mut silent).contains("key=a status=not_found"));
    drop(silent);
    becomes(&mut client, "log_watchers", 0);
    let begun = Instant::now();
    while metric_of_server(&server, "client_bytes") > before {
        assert!(begun.elapsed() < EVER, "its memory is not given back");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn only_administrators_watch_and_they_see_all_tenants() {
    let root = User { is_admin: true, ..user("root", "salt", "photos") };
    let users = vec![user("bob", "oat", "pages"), root];
    let server = with_tenants(&["photos", "pages"], ServerConfig { users, ..config() });
    let [mut stranger, mut bob, mut root] = [(); 3].map(|()| Client::memcached(&server));
    stranger.asks("watch evictions\r\n", "CLIENT_ERROR unauthenticated\r\n");
    bob.asks("set auth 0 0 7\r\nbob oat\r\n", "STORED\r\n");
    root.asks("set auth 0 0 9\r\nroot salt\r\n", "STORED\r\n");
    bob.asks("watch fetchers\r\n", "CLIENT_ERROR this command is for administrators\r\n");
    root.asks("watch fetchers mutations\r\n", "OK\r\n");
    bob.asks(
        "set own 0 0 6\r\nsecret\r\nget own\r\n",
        "STORED\r\nVALUE own 0 6\r\nsecret\r\nEND\r\n",
    );
    assert!(event(&mut root).starts_with("type=item_store key=own status=stored"));
    assert!(event(&mut root).starts_with("type=item_get key=own status=found"));
}

#[test]
fn evictions_from_memory_are_told() {
    let server = in_memory();
    let mut watcher = watcher(&server, "evictions");
    let mut client = Client::memcached(&server);
    client.asks(
        "set gone 0 1 1\r\nx\r\nset k 0 0 1\r\nx\r\ndelete k\r\n",
        "STORED\r\nSTORED\r\nDELETED\r\n",
    );
    let value = "x".repeat(100_000);
    for key in 0..400 {
        client.asks(format!("set k,{key} 0 0 100000\r\n{value}\r\n"), "STORED\r\n");
    }
    let told = event(&mut watcher);
    assert!(told.starts_with("type=eviction key="), "{told}");
    let told: Vec<String> = (0..20).map(|_| event(&mut watcher)).collect();
    let is_long = |line: &String| {
        line.starts_with("type=eviction key=k%2C")
            && line.ends_with(" fetch=na ttl=na la=na clsid=1 size=100000")
    };
    assert!(told.iter().all(is_long), "{told:?}");
}

/// A line of the watcher, if there is one soon.
fn soon(watcher: &mut Client) -> Option<u8> {
    watcher.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut byte = [0];
    let first = watcher.0.read(&mut byte).ok().map(|_| byte[0]);
    watcher.0.set_read_timeout(Some(EVER)).unwrap();
    first
}

#[test]
fn a_demotion_to_flash_is_no_eviction_and_a_loss_is_one() {
    let drive = drive();
    let settings: Config = impatient();
    let server =
        serve_on(&drive, &[("default", settings)], ServerConfig { workers: 2, ..config() });
    let mut watcher = watcher(&server, "evictions");
    let mut client = Client::memcached(&server);
    assert_eq!(fill(&mut client, 0..6000), 6000);
    // DRAM has 2 MiB for 6 MB of values.
    assert!(metric(&server, "larder_dram_items", "default") < 3000);
    assert_eq!(stat(&mut client, "evictions"), 0);
    assert_eq!(soon(&mut watcher), None);
    drive.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    let begun = Instant::now();
    let mut first = 6000;
    while stat(&mut client, "evictions") == 0 {
        fill(&mut client, first..first + 1000);
        first += 1000;
        assert!(begun.elapsed() < EVER, "nothing is lost");
    }
    assert_eq!(soon(&mut watcher), Some(b't'));
    let rest = watcher.line();
    assert!(rest.starts_with("s=") && rest.contains(" type=eviction key=k"), "{rest}");
}
