//! Client-side caching: what is remembered, what invalidates it, and who is told.

use larder_server::{Server, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with, with_tenants};

/// A client of version 3 that tracks with these options.
fn tracker(server: &Server, options: &str) -> Client {
    let mut it = Client::resp3(server);
    it.tells(&format!("CLIENT TRACKING ON {options}"), "OK");
    it
}

/// What the client is told next without a request.
#[track_caller]
fn pushed(it: &mut Client, words: &str) {
    let line = it.line();
    assert_eq!(line, ">2\r\n", "a push");
    let told = format!("{} {}", it.told(), it.told());
    assert_eq!(told, words);
}

/// Checks that the client is told nothing: the next that comes is the answer of a request.
#[track_caller]
fn is_silent(it: &mut Client) {
    // Pushes of earlier writes have come when the answer of the writer had.
    it.tells("PING", "PONG");
}

#[test]
fn a_key_that_was_read_is_invalidated_once() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    writer.tells("SET bread rye", "OK");
    it.tells("GET bread", "rye");
    writer.tells("SET bread rye", "OK");
    pushed(&mut it, "invalidate [bread]");
    writer.tells("SET bread oat", "OK");
    is_silent(&mut it);
    it.tells("GET bread", "oat");
    writer.tells("DEL bread", ":1");
    pushed(&mut it, "invalidate [bread]");
    // A missing key is remembered too.
    it.tells("GET bread", "nil");
    writer.tells("SET bread new", "OK");
    pushed(&mut it, "invalidate [bread]");
}

#[test]
fn all_reads_are_remembered_but_those_of_walks_and_writes() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    for read in [
        "GET k",
        "MGET k other",
        "EXISTS k",
        "TTL k",
        "TYPE k",
        "STRLEN k",
        "GETRANGE k 0 1",
        "OBJECT ENCODING k",
        "TOUCH k",
        "PTTL k",
        "GETBIT k 1",
        "BITCOUNT k",
    ] {
        it.asked(read);
        writer.tells("SET k v", "OK");
        pushed(&mut it, "invalidate [k]");
    }
    for read in ["HGET h f", "HGETALL h", "HLEN h"] {
        it.asked(read);
        writer.asked("HSET h f v");
        pushed(&mut it, "invalidate [h]");
    }
    for read in ["SCAN 0", "KEYS *", "GETEX k", "DBSIZE", "RANDOMKEY"] {
        it.asked(read);
        writer.tells("SET k v", "OK");
        is_silent(&mut it);
    }
    // Within a transaction, and in a script, also undeclared keys.
    it.tells("MULTI", "OK");
    it.tells("GET k", "QUEUED");
    it.tells("EXEC", "[v]");
    writer.tells("SET k v", "OK");
    pushed(&mut it, "invalidate [k]");
    for (name, keys) in [("EVAL", "1 k"), ("EVAL", "0"), ("EVAL_RO", "0")] {
        it.asks(
            array(
                &[name.as_bytes(), b"return redis.call('get', 'k')"]
                    .into_iter()
                    .chain(keys.split(' ').map(str::as_bytes))
                    .collect::<Vec<_>>(),
            ),
            "$1\r\nv\r\n",
        );
        writer.tells("SET k v", "OK");
        pushed(&mut it, "invalidate [k]");
    }
}

#[test]
fn any_successful_write_invalidates_and_others_do_not() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    writer.tells("MSET n 1 s abc", "OK");
    writer.tells("SADD set a", ":1");
    writer.tells("HSET h f v", ":1");
    let writes = [
        ("n", "INCRBY n 0"),
        ("h", "HSET h f v"),
        ("s", "EXPIRE s 100"),
        ("s", "PERSIST s"),
        ("s", "APPEND s d"),
        ("s", "RENAME s t"),
        ("t", "GETDEL t"),
        ("s", "SETEX s 10 x"),
        ("s", "GETEX s EX 20"),
        ("set", "SADD set b"),
        ("set", "DEL set"),
        ("s", "PEXPIRE s -1"),
    ];
    for (key, write) in writes {
        it.asked(&format!("EXISTS {key}"));
        writer.asked(write);
        pushed(&mut it, &format!("invalidate [{key}]"));
    }
    writer.tells("SADD set a", ":1");
    writer.tells("SET s abc", "OK");
    for key in ["s", "set", "none"] {
        it.asked(&format!("EXISTS {key}"));
    }
    for no_write in [
        "SET s x NX",
        "PERSIST s",
        "SADD set a",
        "DEL none",
        "SREM set none",
        "GETDEL none",
        "SET none x XX",
        "EXPIRE none 1",
        "SWAPDB 0 1",
        "SWAPDB 0 1",
    ] {
        writer.asked(no_write);
        is_silent(&mut it);
    }
    writer.send("*4\r\n$8\r\nSETRANGE\r\n$1\r\ns\r\n$1\r\n0\r\n$0\r\n\r\n");
    assert_eq!(writer.told(), ":3");
    is_silent(&mut it);
    writer.asked("SET s x XX");
    pushed(&mut it, "invalidate [s]");
}

#[test]
fn both_names_of_a_rename_are_invalid() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    writer.tells("SET a 1", "OK");
    it.tells("MGET a b", "[1 nil]");
    writer.tells("RENAME a b", "OK");
    let mut told = vec![];
    for _ in 0..2 {
        assert_eq!(it.line(), ">2\r\n");
        told.push(format!("{} {}", it.told(), it.told()));
    }
    told.sort();
    assert_eq!(told, ["invalidate [a]", "invalidate [b]"]);
}

#[test]
fn a_flush_of_any_database_tells_all_to_drop_all() {
    let server = in_memory();
    let mut writer = client(&server);
    let (mut it, mut other) = (tracker(&server, ""), tracker(&server, "BCAST PREFIX x"));
    it.tells("GET k", "nil");
    writer.tells("SELECT 3", "OK");
    writer.tells("FLUSHDB", "OK");
    for it in [&mut it, &mut other] {
        pushed(it, "invalidate nil");
    }
    writer.tells("FLUSHALL", "OK");
    for it in [&mut it, &mut other] {
        pushed(it, "invalidate nil");
    }
    writer.tells("SELECT 0", "OK");
    writer.tells("SET k v", "OK");
    is_silent(&mut it);
    it.tells("GET k", "v");
    let mut memcached = Client::memcached(&server);
    memcached.asks("flush_all\r\n", "OK\r\n");
    pushed(&mut it, "invalidate nil");
    pushed(&mut other, "invalidate nil");
}

#[test]
fn a_write_in_another_database_invalidates_the_key_of_that_name() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    it.tells("GET k", "nil");
    writer.tells("SELECT 1", "OK");
    writer.tells("SET k v", "OK");
    pushed(&mut it, "invalidate [k]");
    it.tells("SELECT 1", "OK");
    it.tells("GET k", "v");
    writer.tells("DEL k", ":1");
    pushed(&mut it, "invalidate [k]");
}

#[test]
fn writes_of_memcached_invalidate() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, ""), Client::memcached(&server));
    let writes = [
        ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("incr k 1\r\n", "2\r\n"),
        ("append k 0 0 1\r\n0\r\n", "STORED\r\n"),
        ("touch k 100\r\n", "TOUCHED\r\n"),
        ("gat 100 k\r\n", "VALUE k 0 2\r\n20\r\nEND\r\n"),
        ("ms k 1\r\n7\r\n", "HD\r\n"),
        ("mg k T100\r\n", "HD\r\n"),
        ("ma k\r\n", "HD\r\n"),
        ("md k\r\n", "HD\r\n"),
        ("add k 0 0 1\r\n1\r\n", "STORED\r\n"),
        ("delete k\r\n", "DELETED\r\n"),
    ];
    for (request, answer) in writes {
        it.asked("EXISTS k");
        writer.asks(request, answer);
        pushed(&mut it, "invalidate [k]");
    }
    it.asked("EXISTS k");
    writer.asks(
        "delete k\r\nincr k 1\r\nreplace k 0 0 1\r\n1\r\n",
        "NOT_FOUND\r\nNOT_FOUND\r\nNOT_STORED\r\n",
    );
    is_silent(&mut it);
}

#[test]
fn the_clients_own_write_is_answered_first() {
    let server = in_memory();
    let mut it = tracker(&server, "");
    it.tells("GET k", "nil");
    it.asks("SET k v\r\n", "+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    it.tells("GET k", "v");
    it.asks(
        "MULTI\r\nSET k w\r\nGET k\r\nEXEC\r\n",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\nw\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
    );
    // What was read after the write is remembered.
    it.asks("SET k v\r\n", "+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

#[test]
fn noloop_tells_nothing_of_own_writes_and_forgets_the_key() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, "NOLOOP"), client(&server));
    it.tells("GET k", "nil");
    it.tells("SET k v", "OK");
    is_silent(&mut it);
    writer.tells("SET k w", "OK");
    is_silent(&mut it);
    it.tells("GET k", "w");
    writer.tells("SET k x", "OK");
    pushed(&mut it, "invalidate [k]");
}

#[test]
fn prefixes_are_followed_without_reads() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, "BCAST PREFIX a: PREFIX b:"), client(&server));
    writer.tells("SET c:1 v", "OK");
    writer.tells("SET a:1 v", "OK");
    pushed(&mut it, "invalidate [a:1]");
    writer.tells("SET a:1 v", "OK");
    pushed(&mut it, "invalidate [a:1]");
    // All of a transaction comes in one message, each key once.
    writer.tells("MULTI", "OK");
    for write in ["SET a:2 v", "SET a:1 v", "SET a:2 w"] {
        writer.tells(write, "QUEUED");
    }
    writer.tells("EXEC", "[OK OK OK]");
    pushed(&mut it, "invalidate [a:1 a:2]");
    let refused = it.asked("CLIENT TRACKING ON BCAST PREFIX a:x");
    assert!(
        refused.starts_with("-ERR Prefix 'a:x' overlaps with an existing prefix 'a:'."),
        "{refused}"
    );
    it.tells("CLIENT TRACKING ON BCAST PREFIX c:", "OK");
    writer.tells("MSET c:1 v b:1 v", "OK");
    pushed(&mut it, "invalidate [b:1]");
    pushed(&mut it, "invalidate [c:1]");
    assert!(it.asked("CLIENT TRACKING ON").starts_with("-ERR You can't switch BCAST mode"));
    it.tells("CLIENT TRACKING OFF", "OK");
    writer.tells("SET a:1 v", "OK");
    is_silent(&mut it);
    // The empty prefix is that of all keys.
    it.tells("CLIENT TRACKING ON BCAST", "OK");
    it.asks("SET any v\r\n", "+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nany\r\n");
}

#[test]
fn clients_choose_which_reads_are_remembered() {
    let server = in_memory();
    let (mut it, mut writer) = (tracker(&server, "OPTIN"), client(&server));
    it.tells("GET k", "nil");
    writer.tells("SET k v", "OK");
    is_silent(&mut it);
    it.tells("CLIENT CACHING YES", "OK");
    it.tells("GET k", "v");
    it.tells("GET other", "nil");
    writer.tells("MSET other v k v", "OK");
    pushed(&mut it, "invalidate [k]");
    it.tells("CLIENT CACHING YES", "OK");
    it.tells("PING", "PONG");
    it.tells("GET k", "v");
    writer.tells("SET k v", "OK");
    is_silent(&mut it);
    // It counts for a whole transaction.
    it.tells("CLIENT CACHING YES", "OK");
    it.tells("MULTI", "OK");
    it.tells("GET k", "QUEUED");
    it.tells("EXEC", "[v]");
    writer.tells("SET k v", "OK");
    pushed(&mut it, "invalidate [k]");
    assert!(it.asked("CLIENT CACHING NO").starts_with("-ERR CLIENT CACHING NO is only valid"));
    assert!(
        it.asked("CLIENT TRACKING ON OPTOUT").starts_with("-ERR You can't switch OPTIN/OPTOUT")
    );
    it.tells("CLIENT TRACKING OFF", "OK");
    assert!(it.asked("CLIENT CACHING YES").starts_with("-ERR CLIENT CACHING can be called only"));
    it.tells("CLIENT TRACKING ON OPTOUT", "OK");
    it.tells("CLIENT CACHING NO", "OK");
    it.tells("GET k", "v");
    writer.tells("SET k v", "OK");
    is_silent(&mut it);
    it.tells("GET k", "v");
    writer.tells("SET k v", "OK");
    pushed(&mut it, "invalidate [k]");
}

#[test]
fn words_that_do_not_fit_are_refused() {
    let server = in_memory();
    let mut it = Client::resp3(&server);
    for (words, refused) in [
        ("ON PREFIX a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("ON BCAST OPTIN", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("ON OPTIN OPTOUT", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
        ("ON REDIRECT 123456", "-ERR The client ID you want redirect to does not exist"),
        ("ON REDIRECT x", "-ERR value is not an integer or out of range"),
        ("MAYBE", "-ERR syntax error"),
        ("ON NEVER", "-ERR syntax error"),
    ] {
        it.tells(&format!("CLIENT TRACKING {words}"), refused);
    }
    let refused = it.asked("CLIENT TRACKING ON BCAST PREFIX foobar PREFIX foo");
    assert!(
        refused.starts_with("-ERR Prefix 'foobar' overlaps with another provided prefix 'foo'."),
        "{refused}"
    );
    let refused = it.asked(&format!("CLIENT TRACKING ON BCAST PREFIX {}", "x".repeat(1025)));
    assert_eq!(refused, "-ERR a prefix has 1025 bytes: at most 1024 are allowed");
    it.tells("CLIENT TRACKINGINFO", "{flags ~[off] redirect :-1 prefixes ~[]}");
}

/// The number of the client's connection.
fn id(it: &mut Client) -> String {
    it.asked("CLIENT ID").trim_start_matches(':').to_owned()
}

#[test]
fn version_2_is_told_by_redirection_to_a_subscriber() {
    let server = in_memory();
    let (mut it, mut hears, mut writer) = (client(&server), client(&server), client(&server));
    it.tells("CLIENT TRACKING ON", "OK");
    it.tells("GET k", "nil");
    writer.tells("SET k v", "OK");
    it.tells("GET k", "v");
    let target = id(&mut hears);
    it.tells(&format!("CLIENT TRACKING ON REDIRECT {target}"), "OK");
    it.tells("CLIENT GETREDIR", &format!(":{target}"));
    hears.tells("SUBSCRIBE __redis__:invalidate", "[subscribe __redis__:invalidate :1]");
    it.tells("GET k", "v");
    writer.tells("SET k w", "OK");
    assert_eq!(hears.told(), "[message __redis__:invalidate [k]]");
    writer.tells("FLUSHALL", "OK");
    assert_eq!(hears.told(), "[message __redis__:invalidate nil]");
    it.tells("PING", "PONG");
    // Its own subscription is told nothing of its own reads.
    hears.tells("RESET", "RESET");
    it.tells("GET k", "nil");
    writer.tells("SET k w", "OK");
    hears.tells("PING", "PONG");
}

#[test]
fn a_redirection_to_version_3_needs_no_subscription() {
    let server = in_memory();
    let (mut it, mut hears, mut writer) =
        (client(&server), Client::resp3(&server), client(&server));
    let target = id(&mut hears);
    it.tells(&format!("CLIENT TRACKING ON REDIRECT {target} BCAST PREFIX a"), "OK");
    writer.tells("SET ab w", "OK");
    pushed(&mut hears, "invalidate [ab]");
}

#[test]
fn a_redirection_that_dies_is_told_at_the_next_invalidation() {
    let server = in_memory();
    let (mut hears, mut writer) = (client(&server), client(&server));
    let target = id(&mut hears);
    let mut it = tracker(&server, &format!("REDIRECT {target}"));
    let mut old = client(&server);
    old.tells(&format!("CLIENT TRACKING ON REDIRECT {target}"), "OK");
    it.tells("GET k", "nil");
    old.tells("GET k", "nil");
    hears.tells("QUIT", "OK");
    hears.is_closed();
    // The connection has ended for the client before the server has forgotten it.
    while String::from_utf8(writer.bulk("CLIENT LIST")).unwrap().contains(&format!("id={target} "))
    {
    }
    writer.tells("SET k v", "OK");
    pushed(&mut it, &format!("tracking-redir-broken :{target}"));
    let info = format!("{{flags ~[on broken_redirect] redirect :{target} prefixes ~[]}}");
    it.tells("CLIENT TRACKINGINFO", &info);
    old.tells(
        "CLIENT TRACKINGINFO",
        &format!("[flags [on broken_redirect] redirect :{target} prefixes []]"),
    );
    let line = String::from_utf8(old.bulk("CLIENT INFO")).unwrap();
    assert!(line.contains(" flags=tR ") && line.contains(&format!(" redir={target} ")), "{line}");
}

#[test]
fn tracking_is_shown_and_ends() {
    let server = in_memory();
    let mut writer = client(&server);
    let mut it = tracker(&server, "OPTIN NOLOOP");
    it.tells("CLIENT TRACKINGINFO", "{flags ~[on optin noloop] redirect :0 prefixes ~[]}");
    it.tells("CLIENT CACHING YES", "OK");
    it.tells(
        "CLIENT TRACKINGINFO",
        "{flags ~[on optin caching-yes noloop] redirect :0 prefixes ~[]}",
    );
    it.tells("MGET a b", "[nil nil]");
    let mut other = tracker(&server, "BCAST PREFIX x PREFIX y");
    other.tells("CLIENT TRACKINGINFO", "{flags ~[on bcast] redirect :0 prefixes ~[x y]}");
    let info = |writer: &mut Client| String::from_utf8(writer.bulk("INFO")).unwrap();
    let shown = info(&mut writer);
    for line in [
        "tracking_clients:2",
        "tracking_total_keys:2",
        "tracking_total_items:2",
        "tracking_total_prefixes:2",
    ] {
        assert!(shown.contains(&format!("{line}\r\n")), "{line} is missing");
    }
    let list = String::from_utf8(writer.bulk("CLIENT LIST")).unwrap();
    assert!(
        list.contains(" flags=t ") && list.contains(" flags=tB ") && list.contains(" redir=-1 "),
        "{list}"
    );
    it.tells("RESET", "RESET");
    writer.tells("SET a v", "OK");
    it.tells("PING", "PONG");
    drop(other);
    let ended = |shown: &str| {
        ["tracking_clients:0", "tracking_total_keys:0", "tracking_total_prefixes:0"]
            .iter()
            .all(|line| shown.contains(&format!("{line}\r\n")))
    };
    while !ended(&info(&mut writer)) {}
}

#[test]
fn a_full_table_drops_random_keys_and_tells_so() {
    let server = in_memory_with(ServerConfig { workers: 1, tracking_keys_max: 3, ..config() });
    let mut it = tracker(&server, "");
    let mut told = 0;
    for key in 0..8 {
        it.send(format!("GET k{key}\r\n"));
        assert_eq!(it.told(), "nil");
        if key >= 3 {
            assert_eq!(it.line(), ">2\r\n");
            assert!(it.told() == "invalidate" && it.told().starts_with("[k"));
            told += 1;
        }
    }
    assert_eq!(told, 5);
    assert!(String::from_utf8(it.bulk_of("INFO")).unwrap().contains("tracking_total_keys:3\r\n"));
    it.tells("CONFIG SET tracking-table-max-keys 100", "OK");
    it.tells("CONFIG GET tracking-table-max-keys", "{tracking-table-max-keys 100}");
    it.tells("GET more", "nil");
    is_silent(&mut it);
}

impl Client {
    /// A verbatim string.
    fn bulk_of(&mut self, request: &str) -> Vec<u8> {
        self.send(format!("{request}\r\n"));
        let length: usize = self.line().trim_start_matches('=').trim_end().parse().unwrap();
        let mut bytes = vec![0; length + 2];
        std::io::Read::read_exact(&mut self.0, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn a_hundred_thousand_keys_stay_within_the_table() {
    let limits =
        ServerConfig { workers: 2, tracking_keys_max: 1000, pubsub_bytes_max: 1 << 30, ..config() };
    let server = in_memory_with(limits);
    let (mut it, mut asks) = (Client::resp3(&server), client(&server));
    it.tells("CLIENT TRACKING ON", "OK");
    let mut reads = it.0.try_clone().unwrap();
    // The pushes must be read, or the client is closed.
    let reader = std::thread::spawn(move || {
        let (mut all, mut some) = (Vec::new(), [0; 1 << 16]);
        while !all.ends_with(b"+PONG\r\n") {
            let count = std::io::Read::read(&mut reads, &mut some).unwrap();
            assert!(count > 0, "it is not closed");
            all.extend_from_slice(&some[..count]);
        }
        all.windows(12).filter(|window| window == b"$10\r\ninvalid").count()
    });
    for page in 0..100 {
        let keys: String = (0..1000).map(|key| format!("GET k{}\r\n", page * 1000 + key)).collect();
        it.send(keys);
    }
    it.send("PING\r\n");
    assert_eq!(reader.join().unwrap(), 99_000);
    let info = String::from_utf8(asks.bulk("INFO")).unwrap();
    assert!(info.contains("tracking_total_keys:1000\r\n"), "{info}");
}

#[test]
fn a_client_that_reads_no_pushes_is_closed() {
    let limits = ServerConfig { workers: 1, pubsub_bytes_max: 1 << 16, ..config() };
    let server = in_memory_with(limits);
    let (mut it, mut writer) = (tracker(&server, "BCAST"), client(&server));
    let key = "k".repeat(60_000);
    for _ in 0..2000 {
        writer.tells(&format!("SET {key} v"), "OK");
        let info = String::from_utf8(writer.bulk("INFO")).unwrap();
        if info.contains("tracking_clients:0\r\n") {
            let (mut rest, mut read) = (0, vec![0; 1 << 16]);
            while let Ok(count @ 1..) = std::io::Read::read(&mut it.0, &mut read) {
                rest += count;
            }
            assert!(rest > 0, "it was told the first");
            return;
        }
    }
    panic!("it is still served");
}

#[test]
fn tenants_are_told_of_their_own_keys() {
    use larder_server::{ListenerConfig, ProtocolKind};
    let of = |tenant: &str| ListenerConfig {
        tenant: Some(tenant.to_owned()),
        ..crate::serving::local(ProtocolKind::Resp)
    };
    let listeners = vec![of("one"), of("two")];
    let server = with_tenants(&["one", "two"], ServerConfig { listeners, ..config() });
    let [mut one, mut two] = [0, 1].map(|at| Client::to(server.addresses()[at]));
    for it in [&mut one, &mut two] {
        it.asked("HELLO 3");
    }
    let mut writer = Client::to(server.addresses()[1]);
    one.tells("CLIENT TRACKING ON BCAST", "OK");
    two.tells("CLIENT TRACKING ON", "OK");
    two.tells("GET k", "nil");
    writer.tells("SET k v", "OK");
    pushed(&mut two, "invalidate [k]");
    writer.tells("FLUSHALL", "OK");
    pushed(&mut two, "invalidate nil");
    one.tells("PING", "PONG");
}

#[test]
fn keys_that_expire_or_are_evicted_are_invalid() {
    let server = in_memory_with(ServerConfig { workers: 1, ..config() });
    let (mut it, mut writer) = (tracker(&server, ""), client(&server));
    writer.tells("SET k v PX 20", "OK");
    it.tells("GET k", "v");
    std::thread::sleep(std::time::Duration::from_millis(60));
    writer.tells("GET k", "nil");
    pushed(&mut it, "invalidate [k]");
    writer.tells("SET k v", "OK");
    it.tells("GET k", "v");
    // DRAM has 16 MiB.
    let value = "x".repeat(100_000);
    let fill = |key| array(&[b"SET", format!("fill{key}").as_bytes(), value.as_bytes()]);
    (0..400).for_each(|key: u32| writer.asks(fill(key), "+OK\r\n"));
    writer.tells("EXISTS k", ":0");
    pushed(&mut it, "invalidate [k]");
}

#[test]
fn what_a_stopped_script_undoes_is_told() {
    let script_time_limit = std::time::Duration::from_millis(500);
    let server = in_memory_with(ServerConfig { workers: 2, script_time_limit, ..config() });
    let (mut it, mut writer) = (tracker(&server, "OPTIN"), client(&server));
    writer.tells("SET k v", "OK");
    it.tells("CLIENT CACHING YES", "OK");
    it.tells("GET k", "v");
    let script = b"redis.call('set', 'k', 'w') while true do end";
    writer.send(array(&[b"EVAL", script, b"1", b"k"]));
    // The value that it remembers is written over; it waits for the next until that is undone.
    pushed(&mut it, "invalidate [k]");
    it.tells("GET k", "v");
    let answer = writer.told();
    assert!(answer.starts_with("-ERR Script stopped"), "{answer}");
}
