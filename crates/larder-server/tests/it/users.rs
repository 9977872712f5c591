//! Logins, and the tenant that a user gets.

use std::time::{Duration, Instant};

use larder_server::{ListenerConfig, PasswordHash, ProtocolKind, Server, ServerConfig, User};

use crate::serving::{Client, config, local, with_tenants};

pub(crate) fn user(name: &str, password: &str, tenant: &str) -> User {
    let password = PasswordHash::of(password.as_bytes()).unwrap();
    let (password, certificate) = (Some(password), None);
    let tenant = tenant.to_owned();
    User { name: name.to_owned(), password, certificate, tenant, is_admin: false }
}

fn with_users() -> Server {
    let users = vec![user("ann", "rye", "photos"), user("bob", "oat", "pages")];
    with_tenants(&["photos", "pages"], ServerConfig { users, workers: 1, ..config() })
}

#[test]
fn tenants_have_keys_of_their_own() {
    let server = with_users();
    let (mut ann, mut bob) = (Client::resp(&server), Client::resp(&server));
    ann.asks("GET bread\r\n", "-NOAUTH Authentication required.\r\n");
    ann.asks("AUTH ann rye\r\n", "+OK\r\n");
    bob.asks("AUTH bob oat\r\n", "+OK\r\n");
    ann.asks("SET bread jpeg\r\nDBSIZE\r\n", "+OK\r\n:1\r\n");
    bob.asks("GET bread\r\nDBSIZE\r\nKEYS *\r\n", "$-1\r\n:0\r\n*0\r\n");
    bob.asks("FLUSHALL\r\n", "+OK\r\n");
    ann.asks("GET bread\r\n", "$4\r\njpeg\r\n");
    // The same tenant by another protocol.
    let mut other = Client::memcached(&server);
    other.asks("get bread\r\n", "CLIENT_ERROR unauthenticated\r\n");
    other.asks("set auth 0 0 7\r\nann rye\r\n", "STORED\r\n");
    other.asks("get bread\r\n", "VALUE bread 0 4\r\njpeg\r\nEND\r\n");
}

#[test]
fn a_wrong_password_is_answered_late_and_delays_no_other_client() {
    let server = with_users();
    let mut ann = Client::resp(&server);
    ann.asks("AUTH ann rye\r\n", "+OK\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for request in ["AUTH ann oat\r\n", "AUTH nobody rye\r\n", "AUTH ann ryerye\r\n"] {
        let mut guesser = Client::resp(&server);
        let begun = Instant::now();
        guesser.send(request);
        let mut answered = 0;
        // The same worker serves others while the guesser waits.
        while begun.elapsed() < Duration::from_millis(400) {
            ann.asks("PING\r\n", "+PONG\r\n");
            answered += 1;
        }
        assert!(answered > 10, "{answered} answers");
        guesser.hears(wrong);
        assert!(begun.elapsed() >= Duration::from_millis(500));
        guesser.asks("GET bread\r\n", "-NOAUTH Authentication required.\r\n");
    }
    // A failed login does not change the user.
    ann.asks("AUTH bob rye\r\nDBSIZE\r\n", format!("{wrong}:0\r\n"));
}

#[test]
fn users_change_while_it_runs_and_other_settings_are_named() {
    let server = with_users();
    let users = vec![user("ann", "spelt", "pages")];
    let changed = ServerConfig { users, workers: 2, connections_max: 7, ..config() };
    let needs_restart = server.reload(&changed).unwrap();
    assert!(needs_restart.contains(&"workers") && !needs_restart.contains(&"idle_timeout"));
    let mut again = Client::resp(&server);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    again.asks("AUTH ann rye\r\n", wrong);
    again.asks("AUTH ann spelt\r\n", "+OK\r\n");
    let unknown = ServerConfig { users: vec![user("ann", "x", "music")], ..config() };
    let refused = server.reload(&unknown).unwrap_err().to_string();
    assert!(refused.contains("no tenant \"music\": there are photos, pages"), "{refused}");
    again.asks("AUTH ann spelt\r\n", "+OK\r\n");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let of = |users| {
        let config = ServerConfig { users, ..config() };
        crate::serving::try_with_tenants(&["photos"], config).err().map(|error| error.to_string())
    };
    let twice = of(vec![user("ann", "a", "photos"), user("ann", "b", "photos")]).unwrap();
    assert!(twice.contains("user \"ann\": there are two"), "{twice}");
    assert!(of(vec![user("a b", "a", "photos")]).unwrap().contains("none of them a space"));
    let open = ServerConfig {
        listeners: vec![larder_server::ListenerConfig::new(
            larder_server::Endpoint::Tcp(([0, 0, 0, 0], 0).into()),
            larder_server::ProtocolKind::Resp,
        )],
        ..ServerConfig::default()
    };
    let refused = crate::serving::try_with_tenants(&["photos"], open.clone()).err().unwrap();
    assert!(
        refused.to_string().starts_with("address 0.0.0.0:0: any client that reaches it"),
        "{refused}"
    );
    let allowed = ServerConfig { allow_unprotected: true, ..open };
    assert!(crate::serving::try_with_tenants(&["photos"], allowed).is_ok());
}

#[test]
fn where_a_tenant_listens_its_keys_are_whoevers_come_there() {
    let of = |tenant: &str| {
        let tenant = Some(tenant.to_owned());
        ListenerConfig { tenant, ..local(ProtocolKind::Resp) }
    };
    let users = vec![user("ann", "rye", "photos")];
    let listeners = vec![local(ProtocolKind::Resp), of("photos"), of("pages")];
    let config = ServerConfig { listeners, users, ..config() };
    let server = with_tenants(&["photos", "pages"], config.clone());
    let connect = |number: usize| Client::to(server.addresses()[number]);
    connect(0).asks("GET bread\r\n", "-NOAUTH Authentication required.\r\n");
    let (mut photos, mut pages) = (connect(1), connect(2));
    photos.asks("SET bread jpeg\r\n", "+OK\r\n");
    pages.asks("GET bread\r\n", "$-1\r\n");
    // A client that logs in there uses its user's tenant, until it resets.
    pages.asks("AUTH ann rye\r\nGET bread\r\n", "+OK\r\n$4\r\njpeg\r\n");
    pages.asks("RESET\r\nGET bread\r\n", "+RESET\r\n$-1\r\n");
    let unknown = ServerConfig { listeners: vec![of("music")], ..config };
    let refused = crate::serving::try_with_tenants(&["photos"], unknown).err().unwrap();
    assert!(refused.to_string().contains("tenant \"music\", which there is not"), "{refused}");
}

#[test]
fn a_client_that_knows_its_password_hears_no_wrong_password_however_many_guess() {
    let server = with_users();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let busy =
        "-ERR busy comparing other passwords, this one was not compared; try again later\r\n";
    let mut guessers: Vec<Client> = (0..150).map(|_| Client::resp(&server)).collect();
    guessers.iter_mut().for_each(|it| it.send("AUTH ann oat\r\n"));
    // It has not logged in since the start, so its password has to be compared.
    let mut tries = 0;
    loop {
        let mut bob = Client::resp(&server);
        bob.send("AUTH bob oat\r\n");
        tries += 1;
        match &*bob.line() {
            "+OK\r\n" => break,
            answer => assert_eq!(answer, busy),
        }
        assert!(tries < 500, "it never comes in");
        std::thread::sleep(Duration::from_millis(100));
    }
    let told: Vec<String> = guessers.iter_mut().map(Client::line).collect();
    assert!(told.iter().all(|it| it == wrong || it == busy), "{told:?}");
    assert!(told.iter().any(|it| it == busy), "an address has some places");
}
