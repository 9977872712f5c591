//! Values that lie on flash: read beside each other, answered in order, and there after a restart.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder::{FileDevice, RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_server::{Server, ServerConfig};

use crate::serving::{Client, config};

const KEYS: usize = 3000;

/// Some values are long enough to go out in pieces.
fn value(key: usize) -> Vec<u8> {
    let bytes = if key.is_multiple_of(50) { 100_000 } else { 1000 + key % 3000 };
    (0..bytes).map(|at| b'a' + u8::try_from((key + at) % 26).unwrap()).collect()
}

fn over(path: &Path) -> Server {
    let device = Arc::new(FileDevice::create(path, 256 << 20).unwrap());
    let tenants = TenantsConfig {
        dram_bytes: 2 << 20,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    let tenants = block_on(Tenants::open(tenants, Some(device), Arc::new(RealClock))).unwrap();
    Server::start(ServerConfig { workers: 2, ..config() }, tenants).unwrap()
}

fn fill(server: &Server) {
    let mut client = Client::memcached(server);
    for key in 0..KEYS {
        let value = value(key);
        let head = format!("set key{key} {key} 0 {}\r\n", value.len());
        client.asks([head.as_bytes(), &value, b"\r\n"].concat(), "STORED\r\n");
    }
}

/// Asks for all keys, so many with one write, and says how many are there. What is there is right, and in order.
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
    // And Redis' clients find the same.
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
