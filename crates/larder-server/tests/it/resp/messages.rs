//! Channels: subscribers, and the messages that are published to them.

use std::time::{Duration, Instant};

use larder_server::{ListenerConfig, ProtocolKind, Server, ServerConfig};

use super::{array, client};
use crate::serving::{Client, config, in_memory, in_memory_with, local, with_tenants};

/// A message in version 2 of the protocol, without the last line end.
fn parts(parts: &[&str]) -> String {
    let bulk = |part: &&str| format!("\r\n${}\r\n{part}", part.len());
    format!("*{}{}", parts.len(), parts.iter().map(bulk).collect::<String>())
}

/// A confirmation of a subscription, without the last line end.
fn confirmed(word: &str, name: &str, count: usize) -> String {
    let head = format!("*3\r\n${}\r\n{word}\r\n${}\r\n{name}", word.len(), name.len());
    format!("{head}\r\n:{count}")
}

#[track_caller]
fn hears(it: &mut Client, text: &str) {
    it.hears(format!("{text}\r\n"));
}

#[test]
fn subscribers_hear_channels_and_patterns() {
    // More than one worker: the publisher and its subscribers are on different threads.
    let server = in_memory_with(ServerConfig { workers: 3, ..config() });
    let (mut one, mut other, mut publisher) = (client(&server), client(&server), client(&server));
    publisher.says("PUBLISH news nothing", ":0");
    one.says(
        "SUBSCRIBE news sport",
        &format!("{}\r\n{}", confirmed("subscribe", "news", 1), confirmed("subscribe", "sport", 2)),
    );
    other.says("PSUBSCRIBE n?ws", &confirmed("psubscribe", "n?ws", 1));
    publisher.says("PUBLISH news hello", ":2");
    hears(&mut one, &parts(&["message", "news", "hello"]));
    hears(&mut other, &parts(&["pmessage", "n?ws", "news", "hello"]));
    publisher.says("PUBLISH nows hi", ":1");
    hears(&mut other, &parts(&["pmessage", "n?ws", "nows", "hi"]));
    // A channel and a pattern of the same client deliver twice.
    one.says("PSUBSCRIBE *", &confirmed("psubscribe", "*", 3));
    publisher.says("PUBLISH sport x", ":2");
    hears(&mut one, &parts(&["message", "sport", "x"]));
    hears(&mut one, &parts(&["pmessage", "*", "sport", "x"]));
    one.says("UNSUBSCRIBE sport", &confirmed("unsubscribe", "sport", 2));
    one.says("PUNSUBSCRIBE", &confirmed("punsubscribe", "*", 1));
    publisher.says("PUBLISH sport y", ":0");
    one.says("UNSUBSCRIBE", &confirmed("unsubscribe", "news", 0));
    one.says("UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0");
    one.says("GET a", "$-1");
}

#[test]
fn messages_keep_their_order_and_come_whole() {
    let server = in_memory_with(ServerConfig { workers: 2, ..config() });
    let (mut subscriber, mut publisher) = (client(&server), client(&server));
    subscriber.says("SUBSCRIBE c", &confirmed("subscribe", "c", 1));
    let payload = |number: usize| format!("{number}:{}", "x".repeat(number * 37 % 5000));
    let requests = (0..2000).flat_map(|it| array(&[b"PUBLISH", b"c", payload(it).as_bytes()]));
    let requests: Vec<u8> = requests.collect();
    let answers = std::thread::spawn(move || {
        publisher.send(requests);
        (0..2000).for_each(|_| hears(&mut publisher, ":1"));
    });
    (0..2000).for_each(|it| hears(&mut subscriber, &parts(&["message", "c", &payload(it)])));
    answers.join().unwrap();
}

#[test]
fn version_2_allows_little_beside_subscriptions_and_version_3_all() {
    let server = in_memory();
    let (mut it, mut publisher) = (client(&server), client(&server));
    it.says("SUBSCRIBE c", &confirmed("subscribe", "c", 1));
    let refused = it.line_of("GET a");
    assert!(refused.starts_with("ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{refused}");
    it.says("PING", "*2\r\n$4\r\npong\r\n$0\r\n");
    it.says("PING x", &parts(&["pong", "x"]));
    it.says("RESET", "+RESET");
    publisher.says("PUBLISH c x", ":0");
}

/// A client of version 3 of the protocol.
fn resp3(server: &Server) -> Client {
    let mut it = client(server);
    it.send("HELLO 3\r\n");
    // The answer ends with an empty list of modules.
    while it.line() != "*0\r\n" {}
    it
}

#[test]
fn version_3_has_messages_between_answers() {
    let server = in_memory();
    let mut it = resp3(&server);
    it.says("SUBSCRIBE c", ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1");
    it.says("SET a 1", "+OK");
    // The client's own message comes behind the answer, and before that of the next request.
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n";
    it.asks("PUBLISH c x\r\nGET a\r\n", format!(":1\r\n{message}$1\r\n1\r\n"));
    it.asks(
        "MULTI\r\nPUBLISH c x\r\nGET a\r\nEXEC\r\n",
        format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n$1\r\n1\r\n{message}"),
    );
    it.says("PING", "+PONG");
}

#[test]
fn sharded_channels_are_apart() {
    let server = in_memory();
    let (mut it, mut publisher) = (client(&server), client(&server));
    it.says("SSUBSCRIBE c", &confirmed("ssubscribe", "c", 1));
    publisher.says("PUBLISH c x", ":0");
    publisher.says("SPUBLISH c x", ":1");
    hears(&mut it, &parts(&["smessage", "c", "x"]));
    publisher.says("PUBSUB SHARDCHANNELS", &parts(&["c"]));
    publisher.says("PUBSUB CHANNELS", "*0");
    publisher.says("PUBSUB SHARDNUMSUB c d", "*4\r\n$1\r\nc\r\n:1\r\n$1\r\nd\r\n:0");
    it.says("SUNSUBSCRIBE c", &confirmed("sunsubscribe", "c", 0));
    publisher.says("SPUBLISH c x", ":0");
}

#[test]
fn subscriptions_are_counted_listed_and_end_with_their_connection() {
    let server = in_memory();
    let (mut it, mut asks) = (client(&server), client(&server));
    it.says("SUBSCRIBE a", &confirmed("subscribe", "a", 1));
    it.says("PSUBSCRIBE b*", &confirmed("psubscribe", "b*", 2));
    asks.says("PUBSUB CHANNELS", &parts(&["a"]));
    asks.says("PUBSUB CHANNELS [b-z]*", "*0");
    asks.says("PUBSUB NUMSUB a", "*2\r\n$1\r\na\r\n:1");
    asks.says("PUBSUB NUMPAT", ":1");
    let list = String::from_utf8(asks.bulk("CLIENT LIST TYPE pubsub")).unwrap();
    assert!(list.contains(" flags=P ") && list.contains(" sub=1 psub=1 ssub=0 "), "{list}");
    let info = String::from_utf8(asks.bulk("INFO")).unwrap();
    for line in ["pubsub_channels:1", "pubsub_patterns:1", "pubsub_clients:1"] {
        assert!(info.contains(line), "{line} is missing");
    }
    drop(it);
    let begun = Instant::now();
    while asks.line_of("PUBSUB NUMPAT") != "0" {
        assert!(begun.elapsed() < Duration::from_secs(20), "the subscription outlives its client");
    }
    asks.says("PUBSUB CHANNELS", "*0");
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_and_others_are_served() {
    let limits = ServerConfig { workers: 1, pubsub_bytes_max: 1 << 20, ..config() };
    let server = in_memory_with(limits);
    let (mut slow, mut publisher) = (client(&server), client(&server));
    slow.says("SUBSCRIBE c", &confirmed("subscribe", "c", 1));
    let request = array(&[b"PUBLISH", b"c", &[b'x'; 64 << 10]]);
    // The buffers of the kernel take some megabytes.
    let heard = (0..1000).take_while(|_| {
        publisher.send(&request);
        publisher.line_heard() == "1"
    });
    let heard = heard.count();
    assert!((16..1000).contains(&heard), "{heard} messages were heard");
    publisher.says("PUBSUB NUMSUB c", "*2\r\n$1\r\nc\r\n:0");
    publisher.says("PING", "+PONG");
}

#[test]
fn an_administrator_changes_the_limit() {
    let server = in_memory();
    let mut it = client(&server);
    let name = "client-output-buffer-limit";
    let limit =
        |text: &str| format!("*2\r\n${}\r\n{name}\r\n${}\r\n{text}", name.len(), text.len());
    it.says(
        &format!("CONFIG GET {name}"),
        &limit("normal 0 0 0 slave 0 0 0 pubsub 33554432 8388608 60"),
    );
    it.says(&format!("CONFIG SET {name} 'pubsub 1mb 256kb 2'"), "+OK");
    it.says(
        &format!("CONFIG GET {name}"),
        &limit("normal 0 0 0 slave 0 0 0 pubsub 1048576 262144 2"),
    );
    let refused = it.line_of(&format!("CONFIG SET {name} 'normal 1mb 0 0'"));
    assert!(refused.contains("only the class pubsub"), "{refused}");
}

#[test]
fn tenants_do_not_hear_one_another() {
    let of = |tenant: &str| ListenerConfig {
        tenant: Some(tenant.to_owned()),
        ..local(ProtocolKind::Resp)
    };
    let listeners = vec![of("photos"), of("pages")];
    let server = with_tenants(&["photos", "pages"], ServerConfig { listeners, ..config() });
    let [mut photos, mut pages] = [0, 1].map(|at| Client::to(server.addresses()[at]));
    photos.says("SUBSCRIBE c", &confirmed("subscribe", "c", 1));
    pages.says("PUBLISH c x", ":0");
    pages.says("PUBSUB CHANNELS", "*0");
    Client::to(server.addresses()[0]).says("PUBLISH c x", ":1");
    hears(&mut photos, &parts(&["message", "c", "x"]));
}

#[test]
fn silence_does_not_end_a_subscriber() {
    let idle_timeout = Some(Duration::from_millis(300));
    let server = in_memory_with(ServerConfig { idle_timeout, ..config() });
    let (mut it, mut idle) = (client(&server), client(&server));
    it.says("SUBSCRIBE c", &confirmed("subscribe", "c", 1));
    idle.says("PING", "+PONG");
    idle.is_closed();
    client(&server).says("PUBLISH c x", ":1");
    hears(&mut it, &parts(&["message", "c", "x"]));
}
