//! Rate limits apply to their tenant, and do not affect the others.

use std::io::Read;
use std::time::{Duration, Instant};

use larder_server::{OverLimit, Server, ServerConfig, TenantPolicy};

use crate::drive::metric;
use crate::serving::{Client, config, with_tenants};
use crate::users::user;

const SECOND: Duration = Duration::from_secs(1);

/// One worker. The tenant "pages" has this policy, "photos" has none; users "bob" and "ann" belong to them.
fn serve(policy: TenantPolicy) -> Server {
    let users = vec![user("ann", "rye", "photos"), user("bob", "oat", "pages")];
    let admin = Some(([127, 0, 0, 1], 0).into());
    let tenants = vec![policy];
    let config = ServerConfig { users, admin, tenants, workers: 1, ..config() };
    with_tenants(&["photos", "pages"], config)
}

/// A request rate, with a burst of five seconds.
fn requests(requests_per_second: u64, over_limit: OverLimit) -> TenantPolicy {
    let burst = 5 * SECOND;
    TenantPolicy { requests_per_second, over_limit, burst, ..TenantPolicy::new("pages") }
}

fn resp(server: &Server, login: &str) -> Client {
    let mut client = Client::resp(server);
    client.asks(format!("AUTH {login}\r\n"), "+OK\r\n");
    client
}

fn counted(server: &Server, name: &str) -> u64 {
    metric(server, &format!("larder_server_tenant_{name}_requests_total"), "pages")
}

#[test]
fn what_is_over_the_limit_is_refused_in_each_protocols_words() {
    let server = serve(requests(1, OverLimit::Error));
    let begun = Instant::now();
    let mut bob = resp(&server, "bob oat");
    bob.send("SET k v\r\n".repeat(40));
    let answers: Vec<String> = (0..40).map(|_| bob.line()).collect();
    let stored = answers.iter().filter(|it| *it == "+OK\r\n").count();
    let refused = "-ERR the tenant is over its limit; try again later\r\n";
    assert_eq!(answers.iter().filter(|it| *it == refused).count(), 40 - stored, "{answers:?}");
    let at_most = 5 + usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!((5..=at_most).contains(&stored), "{stored} in {:?}", begun.elapsed());
    assert_eq!(counted(&server, "refused"), 40 - stored as u64);
    // The same limit applies to the other protocols and to every request; these are more than the time that passes
    // allows.
    let mut text = Client::memcached(&server);
    text.asks("set auth 0 0 7\r\nbob oat\r\n", "STORED\r\n");
    text.send("set k 0 0 1\r\nx\r\nget k\r\nmg k v\r\nset k 0 0 1 noreply\r\nx\r\n".repeat(30));
    text.send("set quiet 0 0 1 noreply\r\nx\r\nquit\r\n");
    let mut refused = 0;
    loop {
        let mut line = Vec::new();
        let mut byte = [0];
        while text.0.read(&mut byte).unwrap() == 1 {
            line.push(byte[0]);
            if byte[0] == b'\n' {
                break;
            }
        }
        match &line[..] {
            b"" => break,
            b"SERVER_ERROR the tenant is over its limit\r\n" => refused += 1,
            _ => {}
        }
    }
    assert!(refused > 60 && refused <= 90, "{refused}: what is quiet has no answer");
    // A tenant without a limit is not affected.
    let mut ann = resp(&server, "ann rye");
    ann.asks("SET k v\r\n".repeat(100), "+OK\r\n".repeat(100));
}

/// A request of the binary protocol with a key and a value, without extras.
fn packet(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 24];
    (packet[0], packet[1], packet[3]) = (0x80, opcode, u8::try_from(key.len()).unwrap());
    packet[11] = u8::try_from(key.len() + value.len()).unwrap();
    [&packet, key, value].concat()
}

/// The status of the next answer.
fn status(client: &mut Client) -> u16 {
    let mut head = [0; 24];
    client.0.read_exact(&mut head).unwrap();
    let mut body = vec![0; usize::from(u16::from_le_bytes([head[11], head[10]]))];
    client.0.read_exact(&mut body).unwrap();
    u16::from_le_bytes([head[7], head[6]])
}

#[test]
fn binary_clients_are_told_that_it_is_busy() {
    let server = serve(requests(1, OverLimit::Error));
    let mut bob = Client::memcached(&server);
    bob.send(packet(0x21, b"PLAIN", b"\0bob\0oat"));
    assert_eq!(status(&mut bob), 0);
    const NOOP: u8 = 0x0a;
    bob.send(packet(NOOP, b"", b"").repeat(30));
    let told: Vec<u16> = (0..30).map(|_| status(&mut bob)).collect();
    assert!(told[..5] == [0; 5] && told.iter().all(|it| [0, 0x85].contains(it)), "{told:?}");
    assert!(told.iter().filter(|it| **it == 0x85).count() > 10, "{told:?}");
}

#[test]
fn a_refused_value_leaves_no_older_one() {
    let server = serve(TenantPolicy {
        requests_per_second: 1,
        over_limit: OverLimit::Error,
        burst: SECOND,
        ..TenantPolicy::new("pages")
    });
    let mut bob = Client::memcached(&server);
    bob.asks("set auth 0 0 7\r\nbob oat\r\n", "STORED\r\n");
    bob.asks("set k 0 0 3\r\nold\r\n", "STORED\r\n");
    bob.send("set k 0 0 3\r\nnew\r\n".repeat(10));
    let last = (0..10).map(|_| bob.line()).last().unwrap();
    assert!(last.starts_with("SERVER_ERROR"), "{last}");
    std::thread::sleep(SECOND + SECOND / 5);
    bob.asks("get k\r\n", "END\r\n");
}

#[test]
fn a_tenant_over_its_limit_waits_and_others_of_its_worker_do_not() {
    let server = serve(TenantPolicy { burst: SECOND / 10, ..requests(20, OverLimit::Delay) });
    let (mut bob, mut ann) = (resp(&server, "bob oat"), resp(&server, "ann rye"));
    let begun = Instant::now();
    bob.send("SET k v\r\n".repeat(30));
    let mut answered = 0;
    while begun.elapsed() < SECOND / 2 {
        ann.asks("SET k v\r\n", "+OK\r\n");
        answered += 1;
    }
    assert!(answered > 50, "{answered}");
    bob.hears("+OK\r\n".repeat(30));
    // 28 of them waited for a twentieth of a second each.
    assert!(begun.elapsed() > SECOND, "{:?}", begun.elapsed());
    let delayed = counted(&server, "delayed");
    assert!((20..=30).contains(&delayed), "{delayed}");
    assert_eq!(counted(&server, "refused"), 0);
}

#[test]
fn no_request_is_delayed_for_ever() {
    let server = serve(TenantPolicy { burst: SECOND, ..requests(1, OverLimit::Delay) });
    let mut bobs: Vec<Client> = (0..10).map(|_| resp(&server, "bob oat")).collect();
    let begun = Instant::now();
    bobs.iter_mut().for_each(|bob| bob.send("SET k v\r\n"));
    let answers: Vec<String> = bobs.iter_mut().map(Client::line).collect();
    let refused = answers.iter().filter(|it| it.starts_with("-ERR the tenant is over")).count();
    assert!((1..=9).contains(&refused), "{answers:?}");
    assert!(
        begun.elapsed() >= SECOND,
        "refused requests were delayed first: {:?}",
        begun.elapsed()
    );
    assert_eq!(counted(&server, "refused"), refused as u64);
}

#[test]
fn bytes_count_in_both_directions() {
    let server = serve(TenantPolicy {
        bytes_per_second: 1_000_000,
        burst: SECOND / 10,
        ..TenantPolicy::new("pages")
    });
    let mut bob = Client::memcached(&server);
    bob.asks("set auth 0 0 7\r\nbob oat\r\n", "STORED\r\n");
    let begun = Instant::now();
    let value = vec![b'x'; 400_000];
    bob.asks([b"set long 0 0 400000\r\n", &value[..], b"\r\n"].concat(), "STORED\r\n");
    bob.asks("mn\r\n", "MN\r\n");
    let after_set = begun.elapsed();
    assert!(after_set >= SECOND / 4, "{after_set:?}");
    bob.asks("get long\r\n", [b"VALUE long 0 400000\r\n", &value[..], b"\r\nEND\r\n"].concat());
    bob.asks("mn\r\n", "MN\r\n");
    assert!(begun.elapsed() >= SECOND * 6 / 10, "{:?}", begun.elapsed());
}

#[test]
fn limits_change_while_it_runs() {
    let server = serve(requests(1, OverLimit::Error));
    let mut bob = resp(&server, "bob oat");
    bob.send("PING\r\n".repeat(50));
    let answers: Vec<String> = (0..50).map(|_| bob.line()).collect();
    assert!(answers.iter().any(|it| it.starts_with("-ERR")));
    let users = vec![user("ann", "rye", "photos"), user("bob", "oat", "pages")];
    let without = ServerConfig { users, workers: 1, ..config() };
    server.reload(&without).unwrap();
    // The new hash of its password counts as a change, so it has to log in again.
    bob.is_closed();
    let mut bob = resp(&server, "bob oat");
    bob.asks("PING\r\n".repeat(50), "+PONG\r\n".repeat(50));
    let unknown = ServerConfig { tenants: vec![TenantPolicy::new("music")], ..without };
    let refused = server.reload(&unknown).unwrap_err().to_string();
    assert!(refused.contains("tenant \"music\": has a policy and is none"), "{refused}");
}
