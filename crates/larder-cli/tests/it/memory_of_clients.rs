//! How much memory clients can use, case by case, measured by the system on a server process. It must never be more
//! than `memory` and what docs/server.md adds to it.

use std::any::Any;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::serve_command::{ANYWHERE, Serving, command};
use crate::serve_protected::certify;

const MIB: usize = 1 << 20;
/// `--memory` of these servers.
const MEMORY: usize = 64 * MIB;
/// What docs/server.md adds for the process; the next constant is for each connection.
const PROCESS: usize = 64 * MIB;
const CONNECTION: usize = 8 << 10;
/// And more for a TLS connection.
const TLS: usize = 4 << 10;

/// A behaviour of clients: the number of connections, and the bytes that each sends.
struct Shape {
    name: &'static str,
    /// "resp", "memcached", or [`BY_TLS`].
    place: &'static str,
    connections: usize,
    bytes: fn(usize) -> Vec<u8>,
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

fn keys(command: &str, number: usize, count: usize, bytes: usize) -> Vec<u8> {
    let names: Vec<Vec<u8>> = (0..count)
        .map(|key| [format!("{number}-{key}-").as_bytes(), &vec![b'w'; bytes]].concat())
        .collect();
    let mut words = vec![command.as_bytes()];
    words.extend(names.iter().map(Vec::as_slice));
    request(&words)
}

fn half_of(head: &str) -> Vec<u8> {
    [head.as_bytes(), &vec![b'x'; MIB / 2]].concat()
}

/// RESP over TLS.
const BY_TLS: &str = "resp by TLS";

const SHAPES: [Shape; 15] = [
    Shape { name: "one byte", place: "resp", connections: 1500, bytes: |_| b"*".to_vec() },
    Shape { name: "one byte", place: "memcached", connections: 1500, bytes: |_| b"g".to_vec() },
    Shape {
        name: "10 KiB of a request",
        place: "resp",
        connections: 1500,
        bytes: |_| [&b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1048576\r\n"[..], &[b'x'; 10 << 10]].concat(),
    },
    Shape {
        name: "half a value",
        place: "resp",
        connections: 300,
        bytes: |_| half_of("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1048576\r\n"),
    },
    Shape {
        name: "half a value",
        place: "memcached",
        connections: 300,
        bytes: |_| half_of("set x 0 0 1048576\r\n"),
    },
    Shape {
        name: "many empty arguments",
        place: "resp",
        connections: 8,
        bytes: |_| {
            [&b"*2000000000\r\n$3\r\nDEL\r\n"[..], &b"$0\r\n\r\n".repeat(2_000_000)].concat()
        },
    },
    Shape {
        name: "WATCH of long keys",
        place: "resp",
        connections: 40,
        bytes: |number| keys("WATCH", number, 40, 60_000),
    },
    Shape {
        name: "MULTI",
        place: "resp",
        connections: 40,
        bytes: |_| {
            [request(&[b"MULTI"]), request(&[b"SET", b"x", &[b'x'; 1000]]).repeat(3000)].concat()
        },
    },
    Shape {
        name: "unread answers",
        place: "resp",
        connections: 300,
        bytes: |_| request(&[b"GET", b"v"]).repeat(500),
    },
    Shape {
        name: "unread MGET",
        place: "resp",
        connections: 100,
        bytes: |_| keys_of_v("MGET", 2000),
    },
    Shape {
        name: "unread transaction",
        place: "resp",
        connections: 30,
        bytes: |_| {
            [request(&[b"MULTI"]), keys_of_v("MGET", 50).repeat(20), request(&[b"EXEC"])].concat()
        },
    },
    Shape {
        name: "flush_all later",
        place: "memcached",
        connections: 8,
        bytes: |_| b"flush_all 100000 noreply\r\n".repeat(200_000),
    },
    Shape {
        name: "HELLO and AUTH with long words",
        place: "resp",
        connections: 1000,
        bytes: |_| {
            let long = [b'p'; 15_000];
            [request(&[b"HELLO", b"3", b"AUTH", b"x", &long]), request(&[b"AUTH", &long])].concat()
        },
    },
    Shape {
        name: "a long slow log, asked for and not read",
        place: "resp",
        connections: 8,
        bytes: |_| {
            let set = |name: &[u8], value: &[u8]| request(&[b"CONFIG", b"SET", name, value]);
            let begins =
                [set(b"slowlog-max-len", b"100000"), set(b"slowlog-log-slower-than", b"0")];
            let mut long = vec![&b"EXISTS"[..]];
            long.resize(32, &[b'k'; 200]);
            let ends = [request(&[b"SLOWLOG", b"GET", b"-1"]).repeat(200), set(SLOWER, b"10000")];
            [begins.concat(), request(&long).repeat(5000), ends.concat()].concat()
        },
    },
    Shape {
        name: "unread lists of clients with long names",
        place: "resp",
        connections: 300,
        bytes: |_| {
            let long = [b'n'; 1000];
            let says = |word| request(&[b"CLIENT", b"SETINFO", word, &long]);
            let names =
                [request(&[b"CLIENT", b"SETNAME", &long]), says(b"LIB-NAME"), says(b"LIB-VER")];
            [names.concat(), request(&[b"CLIENT", b"LIST"]).repeat(20)].concat()
        },
    },
];

const SLOWER: &[u8] = b"slowlog-log-slower-than";

const SHAPES_OF_TLS: [Shape; 4] = [
    Shape {
        name: "the beginning of a ClientHello",
        place: "resp",
        connections: 1500,
        bytes: |_| vec![0x16, 3, 1, 0x40, 0, 1],
    },
    Shape { name: "one byte", place: BY_TLS, connections: 800, bytes: |_| b"*".to_vec() },
    Shape {
        name: "half a value",
        place: BY_TLS,
        connections: 200,
        bytes: |_| half_of("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1048576\r\n"),
    },
    Shape {
        name: "unread answers",
        place: BY_TLS,
        connections: 200,
        bytes: |_| request(&[b"GET", b"v"]).repeat(500),
    },
];

fn keys_of_v(command: &str, count: usize) -> Vec<u8> {
    let mut words = vec![command.as_bytes()];
    words.resize(count + 1, b"v");
    request(&words)
}

/// A number of the process, in bytes.
fn status(serving: &Serving, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

/// Sends what the server takes, and stops when it takes nothing.
fn pour(stream: &mut impl Write, bytes: &[u8]) {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Ok(()) => {}
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ),
            "{error}"
        ),
    }
}

/// A client configuration that trusts a certificate in this directory.
fn trusting(directory: &Path) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(directory.join("good.pem")).unwrap();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connection that has sent its bytes; kept until the others have too.
fn pours(
    serving: &Serving,
    (place, bytes): (&str, &[u8]),
    tls: Option<&Arc<ClientConfig>>,
) -> Box<dyn Any> {
    let mut stream = serving.connect(if place == BY_TLS { "resp" } else { place });
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    match tls.filter(|_| place == BY_TLS) {
        None => {
            pour(&mut stream, bytes);
            Box::new(stream)
        }
        Some(config) => {
            let name = ServerName::try_from("localhost").unwrap();
            let client = ClientConnection::new(Arc::clone(config), name).unwrap();
            let mut stream = StreamOwned::new(client, stream);
            pour(&mut stream, bytes);
            Box::new(stream)
        }
    }
}

/// Whether the server answers on all listeners without TLS.
fn is_answered(serving: &Serving, has_tls: bool) -> bool {
    let asks = |place, request: &[u8], expected: &[u8]| {
        let mut stream = serving.connect(place);
        stream.write_all(request).unwrap();
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).is_ok() && answer == expected
    };
    asks("memcached", b"mn\r\n", b"MN\r\n") && (has_tls || asks("resp", b"PING\r\n", b"+PONG\r\n"))
}

/// How long the server keeps connections whose clients have left, including the time to ask it.
fn ends_in(serving: &Serving) -> Duration {
    let begun = Instant::now();
    let mut stream = serving.connect("memcached");
    loop {
        stream.write_all(b"stats\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"END\r\n") {
            let mut part = [0; 4096];
            let count = stream.read(&mut part).unwrap();
            answer.extend_from_slice(&part[..count]);
        }
        let answer = String::from_utf8(answer).unwrap();
        let there = answer.lines().find_map(|line| line.strip_prefix("STAT curr_connections "));
        // The connection that sets the value, and this one.
        if there.unwrap() == "2" || begun.elapsed() > Duration::from_secs(20) {
            return begun.elapsed();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs all cases one after the other, and returns those that used more than the budget.
fn takes_shapes(
    serving: &Serving,
    (sockets, shapes): (&str, &[Shape]),
    tls: Option<&Arc<ClientConfig>>,
) -> Vec<String> {
    let mut over = Vec::new();
    let mut setting = serving.connect("memcached");
    let value = [format!("set v 0 0 {MIB}\r\n").as_bytes(), &vec![b'x'; MIB], b"\r\n"].concat();
    setting.write_all(&value).unwrap();
    setting.read_exact(&mut [0; 8]).unwrap();
    for Shape { name, place, connections, bytes } in shapes {
        fs::write(format!("/proc/{}/clear_refs", serving.child.id()), "5").unwrap();
        let pours = |number| pours(serving, (place, &bytes(number)), tls);
        let all: Vec<Box<dyn Any>> = (0..*connections).map(pours).collect();
        std::thread::sleep(Duration::from_millis(500));
        let peak = status(serving, "VmHWM:");
        let each = CONNECTION + tls.map_or(0, |_| TLS);
        let budget = MEMORY + PROCESS + connections * each;
        println!("{sockets}, {place}: {name}: {} MiB of {}", peak / MIB, budget / MIB);
        if peak > budget {
            over.push(format!("{sockets}, {place}: {name}: {peak} of {budget} bytes"));
        }
        assert!(is_answered(serving, tls.is_some()), "{name}: other clients are still served");
        drop(all);
        let took = ends_in(serving);
        assert!(took < Duration::from_secs(5), "{sockets}, {name}: clients that left: {took:?}");
    }
    // All connections have gone, and their memory returns to the system; the cache holds 1 MiB. Pages of the program
    // itself do not count.
    let begun = Instant::now();
    while status(serving, "RssAnon:") > PROCESS {
        let bytes = status(serving, "RssAnon:");
        assert!(begun.elapsed() < Duration::from_secs(10), "{bytes} bytes");
        std::thread::sleep(Duration::from_millis(200));
    }
    over
}

fn take_shapes(sockets: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = command(directory.path(), &["--sockets", sockets]);
    command.args(ANYWHERE);
    let over = takes_shapes(&Serving::run(command), (sockets, &SHAPES), None);
    assert!(over.is_empty(), "{over:#?}");
}

fn take_shapes_of_tls(sockets: &str) {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path(), "good", |_| {});
    let path = |name: &str| directory.path().join(name).display().to_string();
    let mut command = command(directory.path(), &["--sockets", sockets]);
    let listens = ["--memcached", "127.0.0.1:0", "--resp-tls", "127.0.0.1:0", "--admin", "none"];
    command.args(listens);
    command.args(["--tls-certificate", &path("good.pem"), "--tls-key", &path("good.key")]);
    let serving = Serving::run(command);
    let clients = trusting(directory.path());
    let over = takes_shapes(&serving, (sockets, &SHAPES_OF_TLS), Some(&clients));
    assert!(over.is_empty(), "{over:#?}");
}

#[test]
fn no_shape_of_requests_takes_more_than_the_budget() {
    take_shapes("io_uring");
}

#[test]
fn no_shape_by_tls_takes_more_than_the_budget() {
    take_shapes_of_tls("io_uring");
}

#[test]
#[ignore = "takes a minute, and differs only in how bytes come"]
fn no_shape_takes_more_than_the_budget_by_epoll() {
    take_shapes("epoll");
    take_shapes_of_tls("epoll");
}
