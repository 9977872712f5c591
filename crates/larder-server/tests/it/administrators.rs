//! Only administrators may see and change what belongs to the process and to other tenants.

use larder_server::{ListenerConfig, ProtocolKind, Server, ServerConfig, User};

use crate::serving::{Client, config, in_memory, local, with_tenants};
use crate::users::user;

/// Ann has the first tenant, Bob the second, and Root is an administrator in the first.
fn users() -> Vec<User> {
    let root = User { is_admin: true, ..user("root", "salt", "photos") };
    vec![user("ann", "rye", "photos"), user("bob", "oat", "pages"), root]
}

fn with_administrator() -> Server {
    with_tenants(&["photos", "pages"], ServerConfig { users: users(), workers: 2, ..config() })
}

fn logged_in(server: &Server, user: &str, password: &str) -> Client {
    let mut client = Client::resp(server);
    client.asks(format!("AUTH {user} {password}\r\n"), "+OK\r\n");
    client
}

const LOGINS: [(&str, &str); 3] = [("ann", "rye"), ("bob", "oat"), ("root", "salt")];

fn all_logged_in(server: &Server) -> [Client; 3] {
    LOGINS.map(|(user, password)| logged_in(server, user, password))
}

/// Everything that comes before the answer to a PING.
fn answer(client: &mut Client, request: &str) -> String {
    client.send(format!("{request}\r\nPING\r\n"));
    let mut answer = String::new();
    loop {
        let line = client.line();
        if line == "+PONG\r\n" {
            return answer;
        }
        answer += &line;
    }
}

/// A setting that only an administrator can change logs every request; each tenant then sees its own requests only.
#[test]
fn a_tenant_sees_and_forgets_only_its_own_slow_requests() {
    let server = with_administrator();
    let [mut ann, mut bob, mut root] = all_logged_in(&server);
    root.asks("CONFIG SET slowlog-log-slower-than 0\r\n", "+OK\r\n");
    ann.asks("SET cardnumber 4111-1111\r\n", "+OK\r\n");
    bob.asks("SET own 1\r\n", "+OK\r\n");
    let of_bob = answer(&mut bob, "SLOWLOG GET -1");
    assert!(of_bob.contains("own") && !of_bob.contains("cardnumber"), "{of_bob}");
    let of_all = answer(&mut root, "SLOWLOG GET -1");
    assert!(of_all.contains("own") && of_all.contains("cardnumber"), "{of_all}");
    // The newest are first, whichever tenant sent them.
    assert!(of_all.find("own") < of_all.find("cardnumber"), "{of_all}");
    bob.asks("SLOWLOG RESET\r\n", "+OK\r\n");
    let left = answer(&mut root, "SLOWLOG GET -1");
    assert!(left.contains("cardnumber") && !left.contains("own"), "{left}");
    root.asks("SLOWLOG RESET\r\n", "+OK\r\n");
    let left = answer(&mut ann, "SLOWLOG GET -1");
    assert!(!left.contains("cardnumber"), "{left}");
}

/// Requests of one tenant do not push out the slow requests of another.
#[test]
fn a_tenant_pushes_out_no_slow_requests_of_others() {
    let server = with_administrator();
    let [mut ann, mut bob, mut root] = all_logged_in(&server);
    root.asks("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 4\r\n", "+OK\r\n");
    ann.asks("SET cake 1\r\n", "+OK\r\n");
    for _ in 0..20 {
        bob.asks("SET own 1\r\n", "+OK\r\n");
    }
    assert!(answer(&mut ann, "SLOWLOG GET").contains("cake"));
    bob.asks("SLOWLOG LEN\r\n", ":4\r\n");
}

#[test]
fn a_tenant_sees_and_ends_only_its_own_clients() {
    let server = with_administrator();
    let mut ann = logged_in(&server, "ann", "rye");
    let id = answer(&mut ann, "CLIENT ID").trim().trim_start_matches(':').to_owned();
    let address = ann.0.local_addr().unwrap();
    // It has sent a request, and has no tenant yet.
    let mut unknown = Client::resp(&server);
    unknown.asks("GET x\r\n", "-NOAUTH Authentication required.\r\n");
    for (user, password) in [("bob", "oat"), ("ann", "rye")] {
        let mut client = logged_in(&server, user, password);
        let list = answer(&mut client, "CLIENT LIST");
        let users: Vec<&str> = list.lines().filter(|line| line.starts_with("id=")).collect();
        assert!(
            !users.is_empty() && users.iter().all(|line| line.contains(&format!("user={user} "))),
            "{list}"
        );
    }
    let mut bob = logged_in(&server, "bob", "oat");
    bob.asks(format!("CLIENT KILL ID {id}\r\n"), ":0\r\n");
    bob.asks(format!("CLIENT KILL {address}\r\n"), "-ERR No such client\r\n");
    ann.asks("GET x\r\n", "$-1\r\n");
    let mut root = logged_in(&server, "root", "salt");
    let list = answer(&mut root, "CLIENT LIST");
    assert!(list.contains("user=ann") && list.contains("user=default"), "{list}");
    root.asks(format!("CLIENT KILL ID {id}\r\n"), ":1\r\n");
    ann.send("GET x\r\n");
    ann.is_closed();
    // A client that logs in as another user is listed under that user.
    root.asks("AUTH bob oat\r\n", "+OK\r\n");
    let list = answer(&mut root, "CLIENT LIST");
    assert!(list.contains("user=bob") && !list.contains("user=default"), "{list}");
}

#[test]
fn what_is_of_the_process_is_refused_and_left_out() {
    let server = with_administrator();
    let mut bob = logged_in(&server, "bob", "oat");
    let refused = [
        ("CONFIG SET slowlog-log-slower-than 0", "config|set"),
        ("CONFIG SET databases 1", "config|set"),
        ("CONFIG RESETSTAT", "config|resetstat"),
        ("CONFIG REWRITE", "config|rewrite"),
        ("LATENCY LATEST", "latency"),
        ("LASTSAVE", "lastsave"),
    ];
    for (request, name) in refused {
        let why = format!("-NOPERM User bob has no permissions to run the '{name}' command\r\n");
        assert_eq!(answer(&mut bob, request), why, "{request}");
    }
    // Between MULTI and EXEC too, where the command runs at EXEC.
    bob.asks("MULTI\r\nCONFIG SET slowlog-log-slower-than 0\r\n", "+OK\r\n+QUEUED\r\n");
    assert!(answer(&mut bob, "EXEC").contains("-NOPERM"));
    let info = answer(&mut bob, "INFO everything");
    for name in [
        "process_id",
        "worker_threads",
        "total_commands_processed",
        "cmdstat_",
        "maxclients",
        "uptime",
    ] {
        assert!(!info.contains(name), "{name}: {info}");
    }
    assert!(
        info.contains("larder_tenant:pages") && info.contains("connected_clients:1\r\n"),
        "{info}"
    );
    let settings = answer(&mut bob, "CONFIG GET *");
    assert!(settings.contains("databases") && !settings.contains("maxclients"), "{settings}");
    let mut root = logged_in(&server, "root", "salt");
    let info = answer(&mut root, "INFO everything");
    assert!(info.contains("process_id") && info.contains("cmdstat_"), "{info}");
    assert!(answer(&mut root, "CONFIG GET *").contains("maxclients"));
    root.asks("CONFIG SET slowlog-max-len 100\r\n", "+OK\r\n");
}

#[test]
fn memcached_too_keeps_what_is_of_the_process() {
    let server = with_administrator();
    let log_in = |login: &str| {
        let mut client = Client::memcached(&server);
        client.asks(format!("set auth 0 0 {}\r\n{login}\r\n", login.len()), "STORED\r\n");
        client
    };
    let stats = |client: &mut Client, what: &str| {
        client.send(format!("{what}\r\nversion\r\n"));
        let mut answer = String::new();
        loop {
            let line = client.line();
            if line.starts_with("VERSION") {
                return answer;
            }
            answer += &line;
        }
    };
    let (mut bob, mut root) = (log_in("bob oat"), log_in("root salt"));
    let forbidden = "CLIENT_ERROR this command is for administrators\r\n";
    for request in ["stats reset", "cache_memlimit 100", "debugtime 5"] {
        assert_eq!(stats(&mut bob, request), forbidden, "{request}");
        assert_ne!(stats(&mut root, request), forbidden, "{request}");
    }
    let of_bob = stats(&mut bob, "stats");
    assert!(
        of_bob.contains("STAT tenant pages") && of_bob.contains("STAT curr_items 0"),
        "{of_bob}"
    );
    for name in ["pid", "curr_connections", "cmd_set", "auth_errors", "threads"] {
        assert!(!of_bob.contains(&format!("STAT {name} ")), "{name}: {of_bob}");
        assert!(stats(&mut root, "stats").contains(&format!("STAT {name} ")), "{name}");
    }
    assert!(!stats(&mut bob, "stats settings").contains("num_threads"));
    assert!(!stats(&mut bob, "stats conns").contains("conn_listening"));
    assert!(stats(&mut root, "stats conns").contains("conn_listening"));
}

/// Without users, clients of this machine are administrators, except those of a tenant's own listener.
#[test]
fn without_users_local_clients_are_administrators() {
    let server = in_memory();
    Client::resp(&server).asks("CONFIG SET slowlog-max-len 100\r\n", "+OK\r\n");
    let of_pages = ListenerConfig { tenant: Some("pages".to_owned()), ..local(ProtocolKind::Resp) };
    let listeners = vec![of_pages, local(ProtocolKind::Resp)];
    let server = with_tenants(&["photos", "pages"], ServerConfig { listeners, ..config() });
    let refused = "-NOPERM User default has no permissions to run the 'config|set' command\r\n";
    Client::to(server.addresses()[0]).asks("CONFIG SET slowlog-max-len 100\r\n", refused);
    Client::to(server.addresses()[1]).asks("CONFIG SET slowlog-max-len 100\r\n", "+OK\r\n");
}

/// A reload that removes or changes users closes their connections, idle or not; the others stay open.
#[test]
fn connections_of_users_that_change_are_closed() {
    let server = with_administrator();
    let mut all = all_logged_in(&server);
    let mut memcached = Client::memcached(&server);
    memcached.asks("set auth 0 0 7\r\nbob oat\r\n", "STORED\r\n");
    let config = |users| ServerConfig { users, workers: 2, ..config() };
    // Each hash has a new salt, so these count as different users.
    let same = users();
    server.reload(&config(same.clone())).unwrap();
    memcached.is_closed();
    for ((user, password), client) in LOGINS.into_iter().zip(&mut all) {
        client.is_closed();
        *client = logged_in(&server, user, password);
    }
    server.reload(&config(same.clone())).unwrap();
    all.iter_mut().for_each(|client| client.asks("GET x\r\n", "$-1\r\n"));
    let [ann, bob, root] = same.try_into().unwrap();
    let changed = vec![
        User { tenant: "pages".to_owned(), ..ann.clone() },
        bob.clone(),
        User { is_admin: false, ..root },
    ];
    // Half a request has come already.
    all[0].send("GET");
    server.reload(&config(changed)).unwrap();
    all[1].asks("GET x\r\n", "$-1\r\n");
    all[2].is_closed();
    all[0].send(" x\r\n");
    all[0].is_closed();
    server.reload(&config(vec![ann])).unwrap();
    all[1].is_closed();
}

/// When users are configured, connections without a login are closed.
#[test]
fn connections_without_a_user_end_when_users_come() {
    let server = in_memory();
    let mut client = Client::resp(&server);
    client.asks("GET x\r\n", "$-1\r\n");
    let users = vec![user("ann", "rye", "default")];
    server.reload(&ServerConfig { users, ..config() }).unwrap();
    client.is_closed();
    let mut client = Client::resp(&server);
    client.asks("GET x\r\n", "-NOAUTH Authentication required.\r\n");
    client.asks("AUTH ann rye\r\nGET x\r\n", "+OK\r\n$-1\r\n");
    server.reload(&config()).unwrap();
    client.is_closed();
    Client::resp(&server).asks("GET x\r\n", "$-1\r\n");
}
