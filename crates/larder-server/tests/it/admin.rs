//! What operators ask by HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use larder_server::{Server, ServerConfig};

use crate::serving::{Client, config, in_memory_with};

fn with_admin() -> Server {
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    in_memory_with(ServerConfig { admin, ..config() })
}

pub(crate) fn get(server: &Server, path: &str, fields: &str) -> String {
    asks(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
}

fn asks(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.admin().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_count_what_clients_do() {
    let server = with_admin();
    let mut client = Client::memcached(&server);
    client.asks(
        "set bread 0 0 3\r\nrye\r\nget bread cake\r\n",
        "STORED\r\nVALUE bread 0 3\r\nrye\r\nEND\r\n",
    );
    let page = get(&server, "/metrics", "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    for line in [
        "larder_sets_total{tenant=\"default\"} 1",
        "larder_server_get_hits_total 1",
        "larder_server_get_misses_total 1",
        "larder_server_connections 1",
        "larder_server_ready 1",
    ] {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
    assert!(page.ends_with("# EOF\n") && page.matches("# EOF").count() == 1);
    server.end(Duration::from_secs(5)).unwrap();
}

#[test]
fn it_lives_and_is_ready_and_answers_nobody_elses_pages() {
    let server = with_admin();
    assert!(get(&server, "/live", "").starts_with("HTTP/1.1 200 "));
    assert!(get(&server, "/ready", "").ends_with("\r\n\r\nready\n"));
    assert!(get(&server, "/etc/passwd", "").starts_with("HTTP/1.1 404 "));
    assert!(get(&server, "/metrics", "Origin: http://evil\r\n").starts_with("HTTP/1.1 403 "));
    assert!(asks(&server, "POST /ready HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(20_000));
    assert!(asks(&server, &long).starts_with("HTTP/1.1 431 "));
}

#[test]
fn while_it_ends_it_is_not_ready() {
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let drain_time = Duration::from_secs(2);
    let server = in_memory_with(ServerConfig { admin, drain_time, ..config() });
    let mut client = Client::memcached(&server);
    client.asks("mn\r\n", "MN\r\n");
    // Half a request holds the end up.
    client.send("set bread 0 0 3\r\nr");
    std::thread::sleep(Duration::from_millis(100));
    let address = server.admin().unwrap();
    let ending = std::thread::spawn(move || server.end(Duration::from_secs(5)));
    std::thread::sleep(Duration::from_millis(200));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("not ready: it is ending\n"),
        "{answer}"
    );
    ending.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nobody listens");
}
