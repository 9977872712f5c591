//! Clients that do not read answers, do not finish requests, or send none.

use std::io::Read;
use std::time::{Duration, Instant};

use larder_server::ServerConfig;

use crate::serving::{Client, config, in_memory_with};

const MIB: usize = 1 << 20;

#[test]
fn a_client_that_does_not_read_stops_no_other_and_gets_all_when_it_reads() {
    let server = in_memory_with(ServerConfig { workers: 1, ..config() });
    let value = vec![b'x'; MIB - 1000];
    let mut slow = Client::memcached(&server);
    let head = format!("set long 0 0 {}\r\n", value.len());
    slow.asks([head.as_bytes(), &value, b"\r\n"].concat(), "STORED\r\n");
    const ASKED: usize = 30;
    slow.send("get long\r\n".repeat(ASKED));
    let mut other = Client::memcached(&server);
    let begun = Instant::now();
    let mut answered = 0;
    while begun.elapsed() < Duration::from_millis(500) {
        other.asks(
            "set bread 0 0 3\r\nrye\r\nget bread\r\n",
            "STORED\r\nVALUE bread 0 3\r\nrye\r\nEND\r\n",
        );
        answered += 1;
    }
    assert!(answered > 50, "{answered} answers");
    // Its pending answers pin no memory of the cache: these values take its place.
    let filler = vec![b'y'; 500_000];
    for number in 0..60 {
        let head = format!("set filler{number} 0 0 {}\r\n", filler.len());
        other.asks([head.as_bytes(), &filler, b"\r\n"].concat(), "STORED\r\n");
    }
    let answer =
        [b"VALUE long 0 ", value.len().to_string().as_bytes(), b"\r\n", &value, b"\r\nEND\r\n"]
            .concat();
    let mut heard = vec![0; answer.len()];
    slow.0.read_exact(&mut heard).unwrap();
    assert!(heard == answer, "the first is whole");
    // The others are whole too, or misses.
    for _ in 1..ASKED {
        let mut begin = [0; 5];
        slow.0.read_exact(&mut begin).unwrap();
        if &begin == b"END\r\n" {
            continue;
        }
        let mut heard = vec![0; answer.len() - begin.len()];
        slow.0.read_exact(&mut heard).unwrap();
        assert!([&begin[..], &heard].concat() == answer);
    }
}

#[test]
fn idle_connections_end_and_so_do_those_that_stop_amid_a_request() {
    let idle_timeout = Some(Duration::from_secs(1));
    let server = in_memory_with(ServerConfig { idle_timeout, ..config() });
    let (mut idle, mut half, mut busy) =
        (Client::memcached(&server), Client::memcached(&server), Client::memcached(&server));
    idle.asks("mn\r\n", "MN\r\n");
    half.asks("mn\r\n", "MN\r\n");
    half.send("set bread 0 0 10\r\nry");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3500) {
        busy.asks("mn\r\n", "MN\r\n");
        std::thread::sleep(Duration::from_millis(100));
    }
    idle.0.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    half.0.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    idle.is_closed();
    half.is_closed();
    busy.asks("mn\r\n", "MN\r\n");
}

#[test]
fn only_what_has_come_is_counted_and_where_it_is_too_much_requests_are_refused() {
    let few = ServerConfig { workers: 1, client_bytes_max: 4 * MIB, ..config() };
    let server = in_memory_with(ServerConfig { value_bytes_max: MIB, ..few });
    // Each announces a long value, and sends it slowly.
    let mut slow: Vec<Client> = (0..10).map(|_| Client::memcached(&server)).collect();
    for (number, client) in slow.iter_mut().enumerate() {
        client.send(format!("set k{number} 0 0 {}\r\nx", MIB - 1000));
    }
    std::thread::sleep(Duration::from_millis(200));
    let mut other = Client::resp(&server);
    let value = "r".repeat(MIB - 1000);
    other.asks(format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${}\r\n{value}\r\n", value.len()), "+OK\r\n");
    // The halves together exceed the room.
    for client in &mut slow {
        client.send(vec![b'x'; MIB / 2]);
    }
    std::thread::sleep(Duration::from_millis(200));
    other.asks("SET bread rye\r\nGET bread\r\n", "+OK\r\n$3\r\nrye\r\n");
    let (mut stored, mut refused) = (0, 0);
    for client in &mut slow {
        client.send([&vec![b'x'; MIB - 1001 - MIB / 2][..], b"\r\n"].concat());
        let mut answer = [0; 8];
        client.0.read_exact(&mut answer).unwrap();
        match &answer {
            b"STORED\r\n" => stored += 1,
            b"SERVER_E" => refused += 1,
            other => panic!("{}", other.escape_ascii()),
        }
    }
    assert!(stored >= 1 && refused >= 1, "{stored} stored, {refused} refused");
}
