//! What clients can cause in memory, shape by shape, as the system counts it of a server process: never more than
//! `memory` and what docs/server.md adds to it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::serve_command::Serving;

const MIB: usize = 1 << 20;
/// `--memory` of these servers.
const MEMORY: usize = 64 * MIB;
/// What docs/server.md adds: for the process, and for each connection.
const PROCESS: usize = 64 * MIB;
const CONNECTION: usize = 8 << 10;

/// What clients do, and what their connections say at first.
struct Shape {
    name: &'static str,
    /// "resp" or "memcached".
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

const SHAPES: [Shape; 13] = [
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

/// Sends what the server takes, and gives up where it takes nothing.
fn pour(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    match stream.write_all(bytes) {
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

fn is_answered(serving: &Serving) -> bool {
    let mut stream = serving.connect("resp");
    stream.write_all(b"PING\r\n").unwrap();
    let mut answer = [0; 7];
    stream.read_exact(&mut answer).is_ok() && &answer == b"+PONG\r\n"
}

/// How long the server keeps connections whose clients have left, the time to ask it included.
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
        // The one that sets the value, and this one.
        if there.unwrap() == "2" || begun.elapsed() > Duration::from_secs(20) {
            return begun.elapsed();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_shape_of_requests_takes_more_than_the_budget() {
    let mut over = Vec::new();
    for sockets in ["epoll", "io_uring"] {
        let directory = tempfile::tempdir().unwrap();
        let words = ["--sockets", sockets];
        let mut command = crate::serve_command::command(directory.path(), &words);
        command.args(crate::serve_command::ANYWHERE);
        let serving = Serving::run(command);
        let mut setting = serving.connect("resp");
        setting.write_all(&request(&[b"SET", b"v", &vec![b'x'; MIB]])).unwrap();
        setting.read_exact(&mut [0; 5]).unwrap();
        for Shape { name, place, connections, bytes } in &SHAPES {
            fs::write(format!("/proc/{}/clear_refs", serving.child.id()), "5").unwrap();
            let mut all = Vec::new();
            for number in 0..*connections {
                let mut stream = serving.connect(place);
                pour(&mut stream, &bytes(number));
                all.push(stream);
            }
            std::thread::sleep(Duration::from_millis(500));
            let peak = status(&serving, "VmHWM:");
            let budget = MEMORY + PROCESS + connections * CONNECTION;
            println!("{sockets}, {place}: {name}: {} MiB of {}", peak / MIB, budget / MIB);
            if peak > budget {
                over.push(format!("{sockets}, {place}: {name}: {peak} of {budget} bytes"));
            }
            assert!(is_answered(&serving), "{name}: others are served meanwhile");
            drop(all);
            let took = ends_in(&serving);
            assert!(
                took < Duration::from_secs(5),
                "{sockets}, {name}: clients that left: {took:?}"
            );
        }
        // All connections have gone, and what they have had goes back to the system: the cache holds 1 MiB.
        let begun = Instant::now();
        while status(&serving, "VmRSS:") > PROCESS {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{} bytes",
                status(&serving, "VmRSS:")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    assert!(over.is_empty(), "{over:#?}");
}
