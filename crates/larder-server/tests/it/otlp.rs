//! Pushed metrics: a collector gets what `/metrics` says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use larder_server::{Otlp, ServerConfig};
use serde_json::Value;

use crate::serving::{Client, config, in_memory_with};

/// Receives the next push: its head and its body.
fn pushed(collector: &TcpListener) -> (String, Value) {
    let (mut stream, _) = collector.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length = head.to_lowercase().split("content-length: ").nth(1).unwrap().to_owned();
    let mut body = vec![0; length.split("\r\n").next().unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        .unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

fn configured(endpoint: String) -> ServerConfig {
    ServerConfig { otlp: Some(Otlp { endpoint, interval: Duration::from_secs(1) }), ..config() }
}

/// The number of a family's first point, which must be that of the tenant "default".
fn number(request: &Value, family: &str) -> String {
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|metric| metric["name"] == family);
    let points = &found.unwrap_or_else(|| panic!("no {family}"))["sum"]["dataPoints"];
    assert_eq!(points[0]["attributes"][0]["value"]["stringValue"], "default");
    points[0]["asInt"].as_str().unwrap().to_owned()
}

#[test]
fn a_collector_gets_what_the_metrics_say_and_a_last_push_at_the_end() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let server = in_memory_with(configured(endpoint));
    let mut client = Client::memcached(&server);
    client.asks("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.asks("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    let (head, request) = pushed(&collector);
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/json\r\n"), "{head}");
    assert_eq!(
        (number(&request, "larder_gets"), number(&request, "larder_sets")),
        ("1".into(), "1".into())
    );
    let resource = &request["resourceMetrics"][0]["resource"]["attributes"];
    assert_eq!(resource[0]["value"]["stringValue"], "larder");
    client.asks("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    let ending = std::thread::spawn(move || server.end(Duration::from_secs(5)));
    let mut gets = String::new();
    while gets != "2" {
        gets = number(&pushed(&collector).1, "larder_gets");
    }
    // The server may push once more while it ends; do not wait for that.
    collector.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    while !ending.is_finished() && begun.elapsed() < Duration::from_secs(20) {
        if let Ok((stream, _)) = collector.accept() {
            drop(stream);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    ending.join().unwrap().unwrap();
}

#[test]
fn a_collector_that_is_not_there_costs_nothing() {
    let endpoint = {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", nobody.local_addr().unwrap())
    };
    let server = in_memory_with(configured(endpoint));
    std::thread::sleep(Duration::from_millis(1200));
    Client::memcached(&server).asks("get a\r\n", "END\r\n");
    let begun = Instant::now();
    server.end(Duration::from_secs(5)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
