//! Values on flash: read in parallel, answered in order, and kept over a restart.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder::{FileDevice, RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_device::{Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice};
use larder_server::{Server, ServerConfig};

use crate::serving::{Client, config};

const KEYS: usize = 3000;

/// Some values are long enough to be sent in pieces.
fn value(key: usize) -> Vec<u8> {
    let bytes = if key.is_multiple_of(50) { 100_000 } else { 1000 + key % 3000 };
    (0..bytes).map(|at| b'a' + u8::try_from((key + at) % 26).unwrap()).collect()
}

fn over(path: &Path) -> Server {
    over_with(path, config())
}

fn over_with(path: &Path, config: ServerConfig) -> Server {
    let device = Arc::new(FileDevice::create(path, 256 << 20).unwrap());
    let tenants = TenantsConfig {
        dram_bytes: 2 << 20,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    let tenants = block_on(Tenants::open(tenants, Some(device), Arc::new(RealClock))).unwrap();
    Server::start(ServerConfig { workers: 2, ..config }, tenants).unwrap()
}

fn fill(server: &Server) {
    let mut client = Client::memcached(server);
    for key in 0..KEYS {
        let value = value(key);
        let head = format!("set key{key} {key} 0 {}\r\n", value.len());
        client.asks([head.as_bytes(), &value, b"\r\n"].concat(), "STORED\r\n");
    }
}

/// Gets all keys, `pipeline` of them in each write, and returns how many were found. Checks the values and their order.
fn count(client: &mut Client, pipeline: usize) -> usize {
    let mut found = 0;
    for first in (0..KEYS).step_by(pipeline) {
        let keys = first..KEYS.min(first + pipeline);
        client.send(keys.clone().map(|key| format!("get key{key}\r\n")).collect::<String>());
        for key in keys {
            let line = client.line();
            if line == "END\r\n" {
                continue;
            }
            let value = value(key);
            assert_eq!(line, format!("VALUE key{key} {key} {}\r\n", value.len()));
            let mut heard = vec![0; value.len() + 7];
            client.0.read_exact(&mut heard).unwrap();
            assert!(heard == [&value[..], b"\r\nEND\r\n"].concat(), "key {key}");
            found += 1;
        }
    }
    found
}

#[test]
fn pipelines_of_flash_hits_are_answered_in_order_and_a_restart_finds_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flash");
    let server = over(&path);
    fill(&server);
    let mut client = Client::memcached(&server);
    for pipeline in [1, 16, 500] {
        let found = count(&mut client, pipeline);
        assert!(found > KEYS * 9 / 10, "{found} of {KEYS} with {pipeline} at a time");
    }
    server.end(Duration::from_secs(60)).unwrap();
    let server = over(&path);
    let found = count(&mut Client::memcached(&server), 100);
    assert!(found > KEYS * 9 / 10, "{found} of {KEYS} after a restart");
    // A RESP client finds the same.
    let mut resp = Client::resp(&server);
    let expected = value(1);
    let answer = [format!("${}\r\n", expected.len()).as_bytes(), &expected, b"\r\n"].concat();
    resp.asks("GET key1\r\n", answer);
}

#[test]
fn what_was_flushed_is_gone_in_both_tiers_and_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flash");
    let server = over(&path);
    fill(&server);
    Client::memcached(&server).asks("flush_all\r\n", "OK\r\n");
    assert_eq!(count(&mut Client::memcached(&server), 100), 0);
    server.end(Duration::from_secs(60)).unwrap();
    let server = over(&path);
    assert_eq!(count(&mut Client::memcached(&server), 100), 0);
}

#[test]
fn operators_see_how_flash_is_divided_and_what_waits_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let admin = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    let slow_threshold = Some(Duration::ZERO);
    let server = over_with(
        &directory.path().join("flash"),
        ServerConfig { admin, slow_threshold, ..config() },
    );
    fill(&server);
    let mut client = Client::memcached(&server);
    count(&mut client, 10);
    let ask = |path: &str| -> serde_json::Value {
        let mut stream = std::net::TcpStream::connect(server.admin().unwrap()).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    let regions = ask("/api/regions");
    let shard = &regions["tenants"][0]["shards"][0];
    let cells = shard["cells"].as_array().unwrap();
    assert_eq!(cells.len() as u64, shard["regions"].as_u64().unwrap());
    let filled = cells.iter().filter(|cell| cell["stream"] == "LOC" && cell["handle"] == 0).count();
    assert!(filled > 0, "{shard}");
    // Exactly one filled cell is the newest.
    let behind: Vec<u64> = cells.iter().filter_map(|cell| cell["behind"].as_u64()).collect();
    assert!(
        behind.len() >= filled && behind.iter().filter(|it| **it == 0).count() == 1,
        "{behind:?}"
    );
    assert!(behind.iter().all(|it| *it < 1 << 20), "{behind:?}");
    let parts: Vec<_> = shard["parts"].as_array().unwrap().iter().map(|it| &it["part"]).collect();
    assert!(parts.contains(&&"LOC".into()) && parts.contains(&&"SOC".into()), "{parts:?}");
    let streams = ask("/api/placement");
    let streams = streams["tenants"][0]["shards"][0]["streams"].as_array().unwrap();
    assert!(streams.iter().any(|it| it["why"] == "the device has the default handle only"));
    let stats = ask("/api/stats");
    let tenant = &stats["tenants"][0];
    assert!(
        tenant["alwa"].as_f64().unwrap() > 0.5 && tenant["flash_bytes"].as_u64() > Some(1 << 27)
    );
    let hits = tenant["soc_hits"].as_u64().unwrap() + tenant["loc_hits"].as_u64().unwrap();
    // Requests that change a value wait for flash too.
    for key in 0..KEYS / 10 {
        client.send(format!("incr key{key} 1\r\n"));
        client.line();
    }
    let slow = ask("/api/slowlog");
    let entries = slow["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["command"] == "incr"), "{slow}");
    assert!(hits > 0 && slow["seen"].as_u64().unwrap() >= hits, "{slow}");
    assert!(slow["entries"][0]["key"].as_str().unwrap().starts_with("key"));
}

/// A server on a device that can be told to complete no reads.
fn over_faults() -> (Server, Arc<FaultDevice<MemoryDevice>>) {
    let device =
        Arc::new(FaultDevice::new(MemoryDevice::holding(vec![0; 256 << 20]), &FaultPlan::new(1)));
    let tenants = TenantsConfig {
        dram_bytes: 2 << 20,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    let flash = Arc::clone(&device) as Arc<dyn larder::Device>;
    let tenants = block_on(Tenants::open(tenants, Some(flash), Arc::new(RealClock))).unwrap();
    let request_deadline = Some(Duration::from_millis(100));
    let config = ServerConfig { workers: 1, request_deadline, ..config() };
    (Server::start(config, tenants).unwrap(), device)
}

#[test]
fn a_client_that_waits_too_long_for_flash_gets_an_error_in_order() {
    let (server, device) = over_faults();
    fill(&server);
    let (mut memcached, mut resp) = (Client::memcached(&server), Client::resp(&server));
    resp.asks("SET bread rye\r\n", "+OK\r\n");
    // The oldest values are on flash only.
    let expected = value(1);
    let whole = [format!("${}\r\n", expected.len()).as_bytes(), &expected, b"\r\n"].concat();
    resp.asks("GET key1\r\n", &whole);
    device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Stall).on_reads()));
    let late = "SERVER_ERROR not read from flash in time\r\n";
    memcached.asks(
        "get key2 bread\r\nmn\r\nget bread\r\n",
        format!("VALUE bread 0 3\r\nrye\r\n{late}MN\r\nVALUE bread 0 3\r\nrye\r\nEND\r\n"),
    );
    memcached.asks("mg key3 v\r\nmg key4 s v q\r\nmn\r\n", format!("{late}{late}MN\r\n"));
    let error = "-ERR not read from flash in time\r\n";
    resp.asks(
        "MGET key5 bread\r\nGET bread\r\n",
        format!("*2\r\n{error}$3\r\nrye\r\n$3\r\nrye\r\n"),
    );
    let mut binary = Client::memcached(&server);
    let mut packet = vec![0x80, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4];
    packet.resize(24, 0);
    packet.extend_from_slice(b"key6");
    binary.send(packet);
    let mut head = [0; 24];
    binary.0.read_exact(&mut head).unwrap();
    assert_eq!(head[6..8], [0, 0x86], "a failure that may pass");
    // When the drive works again, answers come again.
    device.set_plan(&FaultPlan::new(1));
    device.release_delayed();
    resp.asks("GET key1\r\n", whole);
}
