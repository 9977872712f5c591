//! A server starts, accepts connections, and ends.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::serving::{Client, config, in_memory, in_memory_with};

#[test]
fn requests_of_both_protocols_are_answered() {
    let server = in_memory();
    Client::memcached(&server).asks("nonsense\r\n", "ERROR\r\n");
    Client::resp(&server).asks("PING\r\n", "+PONG\r\n");
    server.end(Duration::from_secs(5)).unwrap();
}

#[test]
fn an_end_closes_connections_that_wait_and_is_quick() {
    let server = in_memory();
    let mut idle = Client::memcached(&server);
    idle.asks("nonsense\r\n", "ERROR\r\n");
    let mut never_asked = Client::memcached(&server);
    let begun = Instant::now();
    let address = server.addresses()[0];
    server.end(Duration::from_secs(5)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "it did not wait for the drain's end");
    idle.is_closed();
    never_asked.is_closed();
    assert!(TcpStream::connect(address).is_err(), "the server no longer listens");
}

#[test]
fn half_a_request_holds_the_end_up_no_longer_than_the_drain() {
    let mut half = config();
    half.drain_time = Duration::from_millis(200);
    let server = in_memory_with(half);
    let mut client = Client::memcached(&server);
    client.asks("nonsense\r\n", "ERROR\r\n");
    client.send("half");
    std::thread::sleep(Duration::from_millis(50));
    server.end(Duration::from_secs(5)).unwrap();
    client.is_closed();
}

#[test]
fn a_client_above_the_connection_limit_gets_an_error() {
    let mut few = config();
    few.connections_max = 2;
    let server = in_memory_with(few);
    let mut first = Client::memcached(&server);
    let mut second = Client::memcached(&server);
    first.asks("nonsense\r\n", "ERROR\r\n");
    second.asks("nonsense\r\n", "ERROR\r\n");
    let mut third = Client::memcached(&server);
    third.hears("ERROR Too many open connections\r\n");
    third.is_closed();
    drop(second);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut next = Client::memcached(&server);
        next.send("nonsense\r\n");
        let mut heard = [0; 7];
        if std::io::Read::read_exact(&mut next.0, &mut heard).is_ok() && heard == *b"ERROR\r\n" {
            break;
        }
        assert!(Instant::now() < deadline, "a place that was left is given away");
    }
    first.asks("nonsense\r\n", "ERROR\r\n");
}
