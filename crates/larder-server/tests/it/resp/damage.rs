//! Collections whose bytes are damaged, and collections on flash.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder::{FileDevice, RealClock, SetOptions, Tenant, Tenants, TenantsConfig, block_on};
use larder_server::{Server, ServerConfig};

use super::{array, client};
use crate::serving::config;

const DAMAGED: &str = "-ERR the value of this key is damaged";

fn tenants(flash: Option<&Path>) -> Tenants {
    let device = flash.map(|path| Arc::new(FileDevice::create(path, 64 << 20).unwrap()) as _);
    let config = TenantsConfig {
        dram_bytes: 2 << 20,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    block_on(Tenants::open(config, device, Arc::new(RealClock))).unwrap()
}

fn serve(tenants: Tenants) -> Server {
    Server::start(ServerConfig { workers: 2, ..config() }, tenants).unwrap()
}

#[test]
fn damaged_collections_are_refused_and_can_be_replaced() {
    let tenants = tenants(None);
    let cache = tenants.tenant("default").unwrap();
    let commands = [
        ["HGETALL k", "HSET k a 1", "HRANDFIELD k 2", "HSCAN k 0"],
        ["SMEMBERS k", "SADD k a", "SUNION k other", "SPOP k"],
        ["ZRANGE k 0 -1", "ZADD k 1 a", "ZUNION 1 k", "ZPOPMIN k"],
        ["LRANGE k 0 -1", "LPUSH k a", "LMOVE k other LEFT LEFT", "BLPOP k 1"],
    ];
    let bytes: [&[u8]; 4] =
        [b"", b"1 2 3", &[1, 1, 0, 0, 255, 255, 255, 255], &[2, 4, 0, 0, 0, 0, 0, 0]];
    for kind in 1_u32..=4 {
        for (number, bytes) in bytes.iter().enumerate() {
            let options = SetOptions { flags: 0x4c61_7200 + kind, ..SetOptions::default() };
            let key = format!("k{kind}{number}");
            block_on(cache.set_with(key.as_bytes(), bytes, options)).unwrap();
        }
    }
    let unknown = SetOptions { flags: 0x4c61_72ff, ..SetOptions::default() };
    block_on(cache.set_with(b"unknown", b"x", unknown)).unwrap();
    let server = serve(tenants);
    let mut it = client(&server);
    for (kind, commands) in (1..).zip(commands) {
        for number in 0..bytes.len() {
            let key = format!("k{kind}{number}");
            for command in commands {
                it.tells(&command.replacen("k", &key, 1), DAMAGED);
            }
            it.tells(&format!("OBJECT ENCODING {key}"), DAMAGED);
            assert!(it.asked(&format!("GET {key}")).starts_with("-WRONGTYPE"));
            it.tells(&format!("SET {key} x"), "OK");
            it.tells(&format!("GET {key}"), "x");
        }
    }
    it.tells("TYPE unknown", "unknown");
    assert!(it.asked("HGET unknown a").starts_with("-WRONGTYPE"));
    assert!(it.asked("GET unknown").starts_with("-WRONGTYPE"));
    it.tells("DEL unknown", ":1");
}

#[test]
fn collections_come_back_from_flash_and_after_a_restart() {
    const KEYS: usize = 400;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flash");
    let server = serve(tenants(Some(&path)));
    let mut it = client(&server);
    let long = "v".repeat(15_000);
    for key in 0..KEYS {
        it.tells(&format!("HSET h{key} n {key} long {long}"), ":2");
        it.tells(&format!("PEXPIREAT h{key} 3317711742000"), ":1");
    }
    // Three times more than DRAM has room for: a change finds its collection on flash.
    let found = (0..KEYS).filter(|key| {
        let counted = it.asked(&format!("HINCRBY h{key} n 1000"));
        counted == format!(":{}", key + 1000)
    });
    let found = found.count();
    assert!(found > KEYS * 8 / 10, "{found} of {KEYS} were still there");
    // In pipelines some changes are made at once, and the others when flash has been read: each once, in order.
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(8) {
        let change = |key: &usize| array(&[b"HINCRBY", format!("h{key}").as_bytes(), b"m", b"1"]);
        it.send(
            keys.iter().flat_map(|key| [change(key), change(key)].concat()).collect::<Vec<_>>(),
        );
        let answers: Vec<_> = (0..2 * keys.len()).map(|_| it.told()).collect();
        assert!(answers.chunks(2).all(|two| two == [":1", ":2"]), "{answers:?}");
    }
    let again = (0..KEYS).filter(|key| it.asked(&format!("HGET h{key} m")) == "2").count();
    assert!(again > KEYS * 7 / 10, "{again} of {KEYS} were still there");
    server.end(Duration::from_secs(60)).unwrap();
    let server = serve(tenants(Some(&path)));
    let mut it = client(&server);
    let found = (0..KEYS).filter(|key| {
        let is_there = it.asked(&format!("HMGET h{key} n")) == format!("[{}]", key + 1000);
        if is_there {
            it.tells(&format!("TYPE h{key}"), "hash");
            it.tells(&format!("PEXPIRETIME h{key}"), ":3317711742000");
            it.tells(&format!("HSTRLEN h{key} long"), ":15000");
        }
        is_there
    });
    let found = found.count();
    assert!(found > KEYS * 7 / 10, "{found} of {KEYS} after a restart");
}
