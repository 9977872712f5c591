//! Keys on connections of the first tenant that belong to another tenant by their prefix.

use larder_server::{Server, ServerConfig, TenantPolicy};

use crate::serving::{Client, config, with_tenants};
use crate::users::user;

fn policies() -> Vec<TenantPolicy> {
    let with = |tenant, prefix: &[u8]| TenantPolicy {
        prefix: prefix.to_vec(),
        ..TenantPolicy::new(tenant)
    };
    vec![with("app1", b"app1:"), with("images", b"app1:img:")]
}

const TENANTS: [&str; 3] = ["default", "app1", "images"];

fn serve() -> Server {
    with_tenants(&TENANTS, ServerConfig { tenants: policies(), workers: 2, ..config() })
}

#[test]
fn the_longest_prefix_says_whose_key_it_is() {
    let users = TENANTS.map(|tenant| user(&tenant[..3], "rye", tenant)).to_vec();
    let config = ServerConfig { tenants: policies(), users, workers: 2, ..config() };
    let server = with_tenants(&TENANTS, config);
    let [mut def, mut app, mut ima] = TENANTS.map(|tenant| {
        let mut client = Client::resp(&server);
        client.says(&format!("AUTH {} rye", &tenant[..3]), "+OK");
        client
    });
    for (key, value) in [("x", "1"), ("app1:x", "2"), ("app1:img:x", "3"), ("app2:x", "4")] {
        def.says(&format!("SET {key} {value}"), "+OK");
        def.gives(&format!("GET {key}"), value);
    }
    // Each tenant has its own keys and no others.
    app.says("DBSIZE", ":1");
    app.gives("GET app1:x", "2");
    app.says("GET app1:img:x", "$-1");
    ima.says("DBSIZE", ":1");
    ima.gives("GET app1:img:x", "3");
    // A user of another tenant uses its own tenant, whatever prefix a key has.
    app.says("SET app1:img:x 5", "+OK");
    def.gives("GET app1:img:x", "3");
    // Memcached clients see the same, in all dialects.
    let mut text = Client::memcached(&server);
    text.asks("set auth 0 0 7\r\ndef rye\r\n", "STORED\r\n");
    text.asks(
        "get x app1:x app1:img:x app2:x\r\n",
        "VALUE x 0 1\r\n1\r\nVALUE app1:x 0 1\r\n2\r\nVALUE app1:img:x 0 1\r\n3\r\n\
         VALUE app2:x 0 1\r\n4\r\nEND\r\n",
    );
    text.asks("mg app1:x v\r\n", "VA 1\r\n2\r\n");
    text.asks("incr app1:x 5\r\n", "7\r\n");
    app.gives("GET app1:x", "7");
    text.asks("delete app1:x\r\n", "DELETED\r\n");
    app.says("GET app1:x", "$-1");
}

#[test]
fn what_is_asked_of_all_keys_is_about_the_connections_own() {
    let server = serve();
    let mut client = Client::resp(&server);
    client.says("MSET a 1 app1:b 2 app1:img:c 3", "+OK");
    client.says("DBSIZE", ":1");
    client.says("KEYS *", "*1\r\n$1\r\na");
    client.says("SCAN 0 COUNT 100", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na");
    for _ in 0..5 {
        client.gives("RANDOMKEY", "a");
    }
    client.says("FLUSHALL", "+OK");
    client.says("MGET a app1:b app1:img:c", "*3\r\n$-1\r\n$1\r\n2\r\n$1\r\n3");
    let mut text = Client::memcached(&server);
    text.asks("flush_all\r\n", "OK\r\n");
    client.says("EXISTS a app1:b app1:img:c", ":2");
    client.says("DEL a app1:b app1:img:c", ":2");
}

#[test]
fn requests_of_many_keys_may_span_tenants() {
    let server = serve();
    let mut client = Client::resp(&server);
    client.says("SET a 1", "+OK");
    client.says("RENAME a app1:a", "+OK");
    client.says("MGET a app1:a", "*2\r\n$-1\r\n$1\r\n1");
    client.says("COPY app1:a app1:img:a", ":1");
    client.says("MSETNX b 1 app1:a 2", ":0");
    client.says("MSETNX b 1 app1:b 2", ":1");
    client.says("WATCH app1:b", "+OK");
    client.says("MULTI", "+OK");
    client.says("INCR app1:b", "+QUEUED");
    client.says("INCR app1:img:a", "+QUEUED");
    client.says("INCR b", "+QUEUED");
    client.says("EXEC", "*3\r\n:3\r\n:2\r\n:2");
    client.says("WATCH app1:b", "+OK");
    Client::resp(&server).says("SET app1:b 0", "+OK");
    client.says("MULTI", "+OK");
    client.says("INCR app1:b", "+QUEUED");
    client.says("EXEC", "*-1");
}

/// A counter moves from one tenant's keys to another's and back, from connections of both. It never exists twice and is
/// never lost: transactions on the same tenant's keys wait for each other, whichever connection runs them.
#[test]
fn transactions_over_tenants_wait_for_each_other() {
    let users = vec![user("def", "rye", "default"), user("app", "rye", "app1")];
    let config = ServerConfig { tenants: policies(), users, workers: 2, ..config() };
    let server = with_tenants(&TENANTS, config);
    let client = |login: &str| {
        let mut client = Client::resp(&server);
        client.says(&format!("AUTH {login} rye"), "+OK");
        client
    };
    client("app").says("MSET app1:x 0 app1:y 0", "+OK");
    let both = |login: &'static str| {
        let mut client = client(login);
        move || {
            // Long, so that others could come in between.
            let reads = "GET app1:x\r\n".repeat(50);
            for _ in 0..100 {
                client
                    .send(format!("MULTI\r\n{reads}INCR app1:x\r\n{reads}GET app1:x\r\nEXEC\r\n"));
                client.hears(format!("+OK\r\n{}", "+QUEUED\r\n".repeat(102)));
                assert_eq!(client.line(), "*102\r\n");
                let mut seen = Vec::new();
                for number in 0..102 {
                    let line = client.line();
                    let value = if number == 50 { line[1..].to_owned() } else { client.line() };
                    seen.push(value.trim().parse::<u64>().unwrap());
                }
                assert!(seen[..50].iter().all(|it| *it == seen[0]), "{seen:?}");
                assert!(seen[50..].iter().all(|it| *it == seen[0] + 1), "{seen:?}");
            }
        }
    };
    let (one, other) = (both("def"), both("app"));
    std::thread::scope(|scope| {
        scope.spawn(one);
        scope.spawn(other);
    });
    client("app").gives("GET app1:x", "200");
}

#[test]
fn prefixes_need_another_start() {
    let server = serve();
    let changed = server.reload(&ServerConfig { tenants: Vec::new(), ..config() }).unwrap();
    assert!(changed.contains(&"prefixes of tenants"), "{changed:?}");
    let same = server.reload(&ServerConfig { tenants: policies(), ..config() }).unwrap();
    assert!(!same.contains(&"prefixes of tenants"), "{same:?}");
}
