//! The HTTP interface for operators.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use larder_server::{PasswordHash, Server, ServerConfig};

use crate::serving::{Client, config, in_memory_with, with_tenants};

/// A tenant name that would do harm if it were read as markup, or if it could end a label.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"\\";

pub(crate) fn admin_config() -> ServerConfig {
    ServerConfig { admin: Some(SocketAddr::from(([127, 0, 0, 1], 0))), workers: 1, ..config() }
}

fn with_admin() -> Server {
    in_memory_with(admin_config())
}

pub(crate) fn json(server: &Server, path: &str) -> serde_json::Value {
    let answer = get(server, path, "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    let value: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(value["api"], 1, "{path}");
    value
}

fn post(server: &Server, path: &str, fields: &str) -> String {
    asks(server, &format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
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
    let older = get(&server, "/metrics", "Accept: text/plain\r\n");
    assert!(older.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{older}");
    assert!(
        older.contains("\n# TYPE larder_server_get_hits_total counter\n")
            && !older.contains("# EOF")
    );
    server.end(Duration::from_secs(5)).unwrap();
}

#[test]
fn it_answers_live_and_ready_and_refuses_requests_from_other_origins() {
    let server = with_admin();
    assert!(get(&server, "/live", "").starts_with("HTTP/1.1 200 "));
    assert!(get(&server, "/ready", "").ends_with("\r\n\r\nready\n"));
    assert!(get(&server, "/etc/passwd", "").starts_with("HTTP/1.1 404 "));
    assert!(get(&server, "/metrics", "Origin: http://evil\r\n").starts_with("HTTP/1.1 403 "));
    assert!(post(&server, "/ready", "").starts_with("HTTP/1.1 405 "));
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
    // Half a request delays the end of the server.
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
    assert!(TcpStream::connect(address).is_err(), "the server no longer listens");
}

#[test]
fn names_of_strangers_that_lead_here_are_refused() {
    let config = ServerConfig { admin_hosts: vec!["cache.example".to_owned()], ..admin_config() };
    let server = in_memory_with(config);
    let ask = |method: &str, path: &str, host: &str| {
        asks(&server, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    for path in ["/", "/page.js", "/metrics", "/live", "/api/stats", "/api/slowlog"] {
        let refused = ask("GET", path, "evil.example:9180");
        assert!(refused.starts_with("HTTP/1.1 421 ") && !refused.contains("larder_"), "{refused}");
        assert!(ask("GET", path, "cache.example").starts_with("HTTP/1.1 200 "), "{path}");
        assert!(ask("GET", path, "127.0.0.1:9180").starts_with("HTTP/1.1 200 "), "{path}");
    }
    assert!(ask("POST", "/api/flush", "evil.example").starts_with("HTTP/1.1 421 "));
}

#[test]
fn the_page_is_there_and_runs_nothing_that_is_not_its_own() {
    let server = with_admin();
    let page = get(&server, "/", "Sec-Fetch-Site: cross-site\r\n");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for field in [
        format!("Content-Security-Policy: {policy}"),
        "X-Content-Type-Options: nosniff".to_owned(),
        "Referrer-Policy: no-referrer".to_owned(),
        "Content-Type: text/html; charset=utf-8".to_owned(),
    ] {
        assert!(page.lines().any(|line| line == field), "{field}\n{page}");
    }
    assert!(get(&server, "/page.js", "").contains("Content-Type: text/javascript"));
    let stats = get(&server, "/api/stats", "Sec-Fetch-Site: cross-site\r\n");
    assert!(stats.starts_with("HTTP/1.1 403 "), "data is not for them: {stats}");
}

#[test]
fn what_is_counted_is_the_same_in_every_form() {
    let server = with_tenants(&[HOSTILE, "pages"], admin_config());
    let mut client = Client::memcached(&server);
    client.asks("set bread 0 0 3\r\nrye\r\n", "STORED\r\n");
    client.asks("get bread cake\r\n", "VALUE bread 0 3\r\nrye\r\nEND\r\n");
    let stats = json(&server, "/api/stats");
    assert_eq!(stats["tenants"][0]["name"], HOSTILE);
    assert_eq!(
        (&stats["tenants"][0]["dram_hits"], &stats["tenants"][0]["sets"]),
        (&1.into(), &1.into())
    );
    assert_eq!(stats["tenants"][0]["misses"].as_u64().unwrap(), 1);
    assert_eq!(stats["requests"]["get_hits"], 1);
    assert_eq!(
        (&stats["tenants"][1]["gets"], &stats["server"]["may_change"]),
        (&0.into(), &false.into())
    );
    let page = get(&server, "/metrics", "");
    let name = "tenant=\"<img src=x onerror=alert(1)>\\\"\\\\\"";
    for line in [
        format!("larder_dram_hits_total{{{name}}} 1"),
        "larder_server_get_hits_total 1".to_owned(),
        "larder_server_ring_pending_pieces{worker=\"0\"} 0".to_owned(),
        "larder_server_slow_requests_total 0".to_owned(),
    ] {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
    for path in ["/api/placement", "/api/regions"] {
        assert_eq!(json(&server, path)["tenants"][0]["name"], HOSTILE, "{path}");
    }
}

#[test]
fn what_takes_long_is_listed_with_its_key_and_without_its_value() {
    let config = ServerConfig { slow_threshold: Some(Duration::ZERO), ..admin_config() };
    let server = in_memory_with(config);
    let mut client = Client::resp(&server);
    client.asks("*3\r\n$3\r\nSET\r\n$5\r\n<b>\r\n\r\n$6\r\nsecret\r\n", "+OK\r\n");
    client.send("AUTH hunter2\r\n");
    assert!(client.line().starts_with("-ERR AUTH"));
    // What needs no wait is never slow: a long value is sent from where it lies.
    let bread = "x".repeat(200_000);
    let mut memcached = Client::memcached(&server);
    memcached.asks(format!("set bread 0 0 200000\r\n{bread}\r\n"), "STORED\r\n");
    memcached.asks("get bread\r\n", format!("VALUE bread 0 200000\r\n{bread}\r\nEND\r\n"));
    let text = get(&server, "/api/slowlog", "");
    assert!(!text.contains("secret") && !text.contains("hunter2"), "{text}");
    let slow = json(&server, "/api/slowlog");
    let (newest, first) = (&slow["entries"][0], &slow["entries"][1]);
    assert_eq!((&newest["command"], &newest["key"]), (&"get".into(), &"bread".into()));
    assert_eq!((&newest["protocol"], &newest["tenant"]), (&"memcached".into(), &"default".into()));
    assert_eq!(first["command"], "set");
    assert!(first["key"].as_str().unwrap().eq("<b>\\r\\n"), "{first}");
    // The threshold can change while the server runs.
    server.reload(&ServerConfig { slow_threshold: None, ..admin_config() }).unwrap();
    client.asks("SET bread secret\r\n", "+OK\r\n");
    let later = json(&server, "/api/slowlog");
    assert_eq!((&later["seen"], &later["threshold_us"]), (&slow["seen"], &serde_json::Value::Null));
}

#[test]
fn only_the_token_changes_something_and_only_for_the_page_itself() {
    let token = Some(PasswordHash::of(b"rye and oat").unwrap());
    let config = ServerConfig { admin_token: token, ..admin_config() };
    let server = with_tenants(&["a b", "pages"], config);
    let mut client = Client::memcached(&server);
    let there = "VALUE bread 0 3\r\nrye\r\nEND\r\n";
    client.asks("set bread 0 0 3\r\nrye\r\n", "STORED\r\n");
    let right = "Authorization: Bearer rye and oat\r\n";
    let flush = "/api/flush?tenant=a%20b";
    for (path, fields, status) in [
        (flush, "", 401),
        (flush, "Authorization: Bearer rye\r\n", 401),
        (flush, "Authorization: Bearer rye and oat\r\nOrigin: http://evil.example\r\n", 403),
        (flush, "Authorization: Bearer rye and oat\r\nSec-Fetch-Site: same-site\r\n", 403),
        ("/api/flush?tenant=nobody", right, 404),
        ("/api/flush", right, 404),
        ("/api/stats", right, 405),
    ] {
        let answer = post(&server, path, fields);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {fields}: {answer}");
        client.asks("get bread\r\n", there);
    }
    assert!(get(&server, flush, right).starts_with("HTTP/1.1 404 "), "a GET changes nothing");
    client.asks("get bread\r\n", there);
    assert!(post(&server, "/api/flush?tenant=pages", right).starts_with("HTTP/1.1 200 "));
    client.asks("get bread\r\n", there);
    assert!(post(&server, flush, right).starts_with("HTTP/1.1 200 "));
    client.asks("get bread\r\n", "END\r\n");
    assert!(post(&server, "/api/slowlog/reset", right).starts_with("HTTP/1.1 200 "));
    assert_eq!(json(&server, "/api/stats")["server"]["may_change"], true);
    let closed = with_admin();
    assert!(post(&closed, "/api/flush?tenant=default", right).starts_with("HTTP/1.1 403 "));
}

/// A server with an admin address and a token.
fn with_token() -> Server {
    let admin_token = Some(PasswordHash::of(b"rye").unwrap());
    in_memory_with(ServerConfig { admin_token, ..admin_config() })
}

#[test]
fn clients_that_send_slowly_or_guess_the_token_do_not_keep_checks_of_health_out() {
    let server = with_token();
    let address = server.admin().unwrap();
    // More connections than heads may be read at a time.
    let mut slow: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut trickle = |byte: &[u8]| slow.iter_mut().for_each(|it| _ = it.write_all(byte));
    trickle(b"GET /live HTTP/1.1\r\n");
    let guess = || post(&server, "/api/flush?tenant=default", "Authorization: Bearer oat\r\n");
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..12).map(|_| scope.spawn(guess)).collect();
        for _ in 0..10 {
            trickle(b"a");
            for path in ["/live", "/ready", "/metrics"] {
                let answer = get(&server, path, "");
                assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let told: Vec<String> = guesses.into_iter().map(|it| it.join().unwrap()).collect();
        let with = |status: &str| told.iter().filter(|it| it.starts_with(status)).count();
        assert!(with("HTTP/1.1 401 ") >= 1, "{told:?}");
        assert_eq!(with("HTTP/1.1 401 ") + with("HTTP/1.1 503 "), 12, "{told:?}");
    });
}

#[test]
fn a_whole_request_has_five_seconds_however_its_bytes_come() {
    let server = with_admin();
    let mut slow = TcpStream::connect(server.admin().unwrap()).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let begun = std::time::Instant::now();
    slow.write_all(b"GET /live HTTP/1.1\r\n").unwrap();
    // The connection ends although each byte comes in time.
    while begun.elapsed() < Duration::from_secs(20) {
        let is_open = slow.write_all(b"a").is_ok();
        let ended = match slow.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        if !is_open || ended {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(4) && took < Duration::from_secs(12), "{took:?}");
}
