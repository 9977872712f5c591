//! Clients that use TLS.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_server::{Endpoint, ListenerConfig, ProtocolKind, Server, ServerConfig, TlsFiles, User};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::serving::{Client, config, in_memory_with, local, with_tenants};

const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate authority, and the files that it has issued.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    directory: TempDir,
}

/// A certificate with its key.
pub(crate) type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        let root = certificate.der().clone();
        Self { issuer: Issuer::new(params, key), root, directory }
    }

    /// A client certificate for `name`.
    pub(crate) fn identity(&self, name: &str) -> Identity {
        let (certificate, key) = self.issue(name, |_| {});
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.der().clone(), key)
    }

    fn issue(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// The files of a server, whose certificate `change` adjusts.
    fn files(&self, change: impl FnOnce(&mut CertificateParams)) -> TlsFiles {
        let (certificate, key) = self.issue("localhost", change);
        let path = |name| self.directory.path().join(name);
        fs::write(path("server.pem"), certificate.pem()).unwrap();
        fs::write(path("server.key"), key.serialize_pem()).unwrap();
        TlsFiles { certificate: path("server.pem"), key: path("server.key"), client_ca: None }
    }

    fn files_that_ask(&self) -> TlsFiles {
        TlsFiles { client_ca: Some(self.directory.path().join("ca.pem")), ..self.files(|_| {}) }
    }

    /// The configuration of a client, with a certificate if it has one.
    fn client(&self, identity: Option<Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        })
    }

    fn connect(&self, server: &Server, number: usize, identity: Option<Identity>) -> Secure {
        Secure::connect(server, number, self.client(identity))
    }
}

/// A TLS connection.
struct Secure(StreamOwned<ClientConnection, TcpStream>);

impl Secure {
    fn connect(server: &Server, number: usize, config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(server.addresses()[number]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream))
    }

    #[track_caller]
    fn asks(&mut self, request: impl AsRef<[u8]>, answer: impl AsRef<[u8]>) {
        self.0.write_all(request.as_ref()).unwrap();
        let mut heard = vec![0; answer.as_ref().len()];
        self.0.read_exact(&mut heard).unwrap();
        assert_eq!(heard.escape_ascii().to_string(), answer.as_ref().escape_ascii().to_string());
    }

    /// The error of a connection that the server refuses.
    fn refused(mut self) -> String {
        let mut rest = Vec::new();
        let told = self.0.write_all(b"PING\r\n").and_then(|()| self.0.read_to_end(&mut rest));
        assert_eq!(rest.escape_ascii().to_string(), "");
        told.map_or_else(|error| error.to_string(), |_| "it was closed".to_owned())
    }
}

const MEMCACHED: usize = 0;
const RESP: usize = 1;

/// TLS listeners for each protocol, memcached's first, then one for RESP without TLS.
fn secure(tls: TlsFiles) -> ServerConfig {
    let by_tls = |protocol| ListenerConfig { is_tls: true, ..local(protocol) };
    let listeners = vec![
        by_tls(ProtocolKind::Memcached),
        by_tls(ProtocolKind::Resp),
        local(ProtocolKind::Resp),
    ];
    ServerConfig { listeners, tls: Some(tls), workers: 1, ..config() }
}

fn certified(name: &str, tenant: &str) -> User {
    let (name, certificate) = (name.to_owned(), Some(format!("{name}.example")));
    let tenant = tenant.to_owned();
    User { name, password: None, certificate, tenant, is_admin: false }
}

#[test]
fn both_protocols_are_spoken_by_tls_also_at_length() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    let mut memcached = authority.connect(&server, MEMCACHED, None);
    memcached.asks("set bread 0 0 3\r\nrye\r\n", "STORED\r\n");
    // Longer than a TLS record, than a piece, and than what is encrypted at a time.
    let value: Vec<u8> =
        (0..1_000_000_u32).map(|at| b'a' + u8::try_from(at % 23).unwrap()).collect();
    let head = format!("set long 0 0 {}\r\n", value.len());
    memcached.asks([head.as_bytes(), &value, b"\r\n"].concat(), "STORED\r\n");
    let mut resp = authority.connect(&server, RESP, None);
    let answer = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
    for _ in 0..5 {
        resp.asks("GET long\r\nGET bread\r\n", [&answer[..], b"$3\r\nrye\r\n"].concat());
    }
    // A pipeline that is longer than a buffer, in records that end within requests.
    let many = 5000;
    resp.asks("GET bread\r\n".repeat(many), "$3\r\nrye\r\n".repeat(many));
    resp.asks("QUIT\r\n", "+OK\r\n");
    let ended = resp.0.read(&mut [0]);
    assert!(matches!(ended, Ok(0)), "its end is said: {ended:?}");
}

#[test]
fn keys_are_renewed_amid_a_connection_and_an_older_version_will_do() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    let mut client = authority.connect(&server, RESP, None);
    client.asks("SET bread rye\r\n", "+OK\r\n");
    for _ in 0..3 {
        client.0.conn.refresh_traffic_keys().unwrap();
        client.asks("GET bread\r\n", "$3\r\nrye\r\n");
    }
    let mut roots = RootCertStore::empty();
    roots.add(authority.root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS12]).unwrap();
    let older = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    for _ in 0..2 {
        let mut client = Secure::connect(&server, RESP, Arc::clone(&older));
        client.asks("GET bread\r\n", "$3\r\nrye\r\n");
    }
}

#[test]
fn bytes_may_come_one_by_one() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    /// Sends one byte at a time.
    struct ByteByByte(TcpStream);
    impl Write for ByteByByte {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(&bytes[..1])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Read for ByteByByte {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0.read(bytes)
        }
    }
    let name = ServerName::try_from("localhost").unwrap();
    let tls = ClientConnection::new(authority.client(None), name).unwrap();
    let stream = TcpStream::connect(server.addresses()[RESP]).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(tls, ByteByByte(stream));
    stream.write_all(b"SET bread rye\r\nGET bread\r\n").unwrap();
    let mut heard = [0; 14];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"+OK\r\n$3\r\nrye\r\n");
}

#[test]
fn a_client_without_tls_is_closed_and_a_silent_client_delays_no_other() {
    let authority = Authority::new();
    let idle_timeout = Some(Duration::from_secs(1));
    let server = in_memory_with(ServerConfig { idle_timeout, ..secure(authority.files(|_| {})) });
    for request in
        ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16nonsense of a record"]
    {
        let mut plain = Client::resp(&server);
        plain.send(request);
        let mut rest = Vec::new();
        let _ = plain.0.read_to_end(&mut rest);
        let is_alert = rest.first() == Some(&21) && request.starts_with('\x16');
        assert!(rest.is_empty() || is_alert, "{request:?}: {}", rest.escape_ascii());
    }
    let begun = Instant::now();
    let mut silent = Client::resp(&server);
    let mut half = Client::memcached(&server);
    half.send(b"\x16\x03\x01\x01\x00half a record");
    silent.is_closed();
    half.0.read_to_end(&mut Vec::new()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10));
    authority.connect(&server, RESP, None).asks("PING\r\n", "+PONG\r\n");
}

#[test]
fn an_end_waits_for_no_handshake() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    let mut silent = Client::resp(&server);
    let mut idle = authority.connect(&server, MEMCACHED, None);
    idle.asks("mn\r\n", "MN\r\n");
    let begun = Instant::now();
    server.end(Duration::from_secs(5)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "it did not wait for the drain's end");
    silent.is_closed();
    assert!(matches!(idle.0.read(&mut [0]), Ok(0)));
}

#[test]
fn a_client_that_does_not_read_stops_no_other_and_gets_all_when_it_reads() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    let value = vec![b'x'; 1_000_000];
    let mut slow = authority.connect(&server, MEMCACHED, None);
    let head = format!("set long 0 0 {}\r\n", value.len());
    slow.asks([head.as_bytes(), &value, b"\r\n"].concat(), "STORED\r\n");
    slow.0.write_all("get long\r\n".repeat(20).as_bytes()).unwrap();
    let mut other = authority.connect(&server, RESP, None);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        other.asks("PING\r\n", "+PONG\r\n");
    }
    let head = format!("VALUE long 0 {}\r\n", value.len());
    let answer = [head.as_bytes(), &value, b"\r\nEND\r\n"].concat();
    for _ in 0..20 {
        let mut heard = vec![0; answer.len()];
        slow.0.read_exact(&mut heard).unwrap();
        assert!(heard == answer);
    }
}

#[test]
fn many_handshakes_at_once_delay_no_other_client() {
    let authority = Authority::new();
    let server = in_memory_with(secure(authority.files(|_| {})));
    let mut other = authority.connect(&server, RESP, None);
    other.asks("PING\r\n", "+PONG\r\n");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    authority.connect(&server, RESP, None).asks("PING\r\n", "+PONG\r\n");
                }
            });
        }
        for _ in 0..50 {
            other.asks("PING\r\n", "+PONG\r\n");
        }
    });
}

#[test]
fn certificates_of_clients_name_users() {
    let authority = Authority::new();
    let users = vec![certified("ann", "photos"), certified("bob", "pages")];
    let server = with_tenants(
        &["photos", "pages"],
        ServerConfig { users, ..secure(authority.files_that_ask()) },
    );
    let connect = |number, name| authority.connect(&server, number, Some(authority.identity(name)));
    let mut ann = connect(RESP, "ann.example");
    ann.asks("SET bread jpeg\r\n", "+OK\r\n");
    connect(MEMCACHED, "ann.example").asks("get bread\r\n", "VALUE bread 0 4\r\njpeg\r\nEND\r\n");
    let mut bob = connect(RESP, "bob.example");
    bob.asks("GET bread\r\n", "$-1\r\n");
    // A reset does not change the user.
    bob.asks("RESET\r\nGET bread\r\n", "+RESET\r\n$-1\r\n");
    bob.0.write_all(b"CLIENT INFO\r\n").unwrap();
    let mut told = [0; 512];
    let count = bob.0.read(&mut told).unwrap();
    let told = told[..count].escape_ascii().to_string();
    assert!(told.contains(" user=bob "), "{told}");
    let told = connect(RESP, "eve.example").refused();
    assert_eq!(told, "it was closed", "no user has a password");
    let told = authority.connect(&server, RESP, None).refused();
    assert!(told.contains("CertificateRequired") || told.contains("reset"), "{told}");
    let others = Authority::new().identity("ann.example");
    let told = authority.connect(&server, RESP, Some(others)).refused();
    assert!(
        told.contains("UnknownCA") || told.contains("DecryptError") || told.contains("reset"),
        "{told}"
    );
    // Without TLS there is no certificate, so it needs a login.
    let mut plain = Client::to(server.addresses()[2]);
    plain.asks("GET bread\r\n", "-NOAUTH Authentication required.\r\n");
    ann.asks("GET bread\r\n", "$4\r\njpeg\r\n");
}

#[test]
fn a_client_whose_certificate_names_no_user_may_give_a_password() {
    let authority = Authority::new();
    let password = Some(larder_server::PasswordHash::of(b"rye").unwrap());
    let users = vec![User { password, ..certified("ann", "default") }];
    let server = in_memory_with(ServerConfig { users, ..secure(authority.files_that_ask()) });
    let mut eve = authority.connect(&server, RESP, Some(authority.identity("eve")));
    eve.asks("GET bread\r\n", "-NOAUTH Authentication required.\r\n");
    eve.asks("AUTH ann rye\r\nGET bread\r\n", "+OK\r\n$-1\r\n");
    let mut ann = authority.connect(&server, RESP, Some(authority.identity("ann.example")));
    ann.asks("GET bread\r\n", "$-1\r\n");
}

#[test]
fn a_listener_for_other_machines_needs_tls_and_users() {
    let authority = Authority::new();
    let check = |is_tls, tls: Option<TlsFiles>, users: Vec<User>, tenant: Option<&str>| {
        let endpoint = Endpoint::Tcp(([0, 0, 0, 0], 0).into());
        let tenant = tenant.map(str::to_owned);
        let listeners = vec![
            ListenerConfig { is_tls, tenant, ..ListenerConfig::new(endpoint, ProtocolKind::Resp) },
            ListenerConfig { is_tls: tls.is_some(), ..local(ProtocolKind::Resp) },
        ];
        ServerConfig { listeners, tls, users, ..ServerConfig::default() }.check()
    };
    let (files, asking) = (|| Some(authority.files(|_| {})), || Some(authority.files_that_ask()));
    let password = Some(larder_server::PasswordHash::of(b"rye").unwrap());
    let ann =
        || User { password: password.clone(), certificate: None, ..certified("ann", "default") };
    assert!(check(true, files(), vec![ann()], None).is_ok());
    assert!(check(true, asking(), vec![], None).is_ok(), "its certificate names the user");
    for refused in [
        check(false, files(), vec![ann()], None),
        check(false, None, vec![ann()], None),
        check(true, files(), vec![], None),
        check(true, files(), vec![ann()], Some("default")),
    ] {
        let why = refused.unwrap_err().to_string();
        assert!(why.starts_with("address 0.0.0.0:0: any client that reaches it"), "{why}");
    }
    let why = check(true, None, vec![ann()], None).unwrap_err().to_string();
    assert!(why.starts_with("tls: an address speaks it"), "{why}");
    let why = check(true, files(), vec![certified("ann", "default")], None).unwrap_err();
    assert!(why.to_string().contains("tls needs client_ca"), "{why}");
}

#[test]
fn certificates_that_are_no_use_are_refused_and_keep_the_old_ones_when_read_again() {
    let authority = Authority::new();
    let good = authority.files(|_| {});
    let server = in_memory_with(secure(good.clone()));
    let refused = |files: &TlsFiles| {
        let why = server.reload(&secure(files.clone())).unwrap_err().to_string();
        // New connections still get the old certificate.
        authority.connect(&server, RESP, None).asks("PING\r\n", "+PONG\r\n");
        why
    };
    let none = authority.directory.path().join("none.pem");
    let why = refused(&TlsFiles { certificate: none.clone(), ..good.clone() });
    assert!(why.starts_with(&format!("TLS: {}: cannot be read (", none.display())), "{why}");
    let why = refused(&TlsFiles { certificate: good.key.clone(), ..good.clone() });
    assert!(why.contains("server.key: no certificate is in it; it must be in PEM"), "{why}");
    let why = refused(&TlsFiles { key: good.certificate.clone(), ..good.clone() });
    assert!(why.contains("server.pem: no private key that is not encrypted is in it"), "{why}");
    let why = refused(&TlsFiles { client_ca: Some(none), ..good.clone() });
    assert!(why.contains("none.pem: cannot be read"), "{why}");
    let stray = authority.directory.path().join("stray.key");
    fs::write(&stray, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let why = refused(&TlsFiles { key: stray, ..good.clone() });
    assert!(why.contains("stray.key: not the key of the certificate"), "{why}");
    let ended = authority.files(|it| it.not_after = rcgen::date_time_ymd(2020, 1, 1));
    assert!(refused(&ended).contains("server.pem: the certificate ended on 2020-01-01"));
    let early = authority.files(|it| it.not_before = rcgen::date_time_ymd(2090, 1, 1));
    assert!(refused(&early).contains("the certificate holds from 2090-01-01"));
}

#[test]
fn another_certificate_is_shown_when_the_files_are_read_again() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = in_memory_with(secure(authority.files(|_| {})));
    let mut early = authority.connect(&server, RESP, None);
    early.asks("PING\r\n", "+PONG\r\n");
    assert!(!server.reload(&secure(other.files(|_| {}))).unwrap().contains(&"listeners"));
    let told = authority.connect(&server, RESP, None).refused();
    assert!(told.contains("invalid peer certificate"), "{told}");
    other.connect(&server, RESP, None).asks("PING\r\n", "+PONG\r\n");
    early.asks("PING\r\n", "+PONG\r\n");
}
