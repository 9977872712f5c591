//! NBD over TLS (`NBD_OPT_STARTTLS`): the server reveals nothing before TLS, and input from before TLS does not count
//! after it.

use std::fs;
use std::sync::Arc;

use larder_net::sockets::SocketBackend;
use larder_net::tls::{Tls, TlsFiles};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tempfile::TempDir;

use super::{BACKENDS, Served, export, memory};
use crate::client::{ACK, Bytes, Client, FLUSH, OPTION_MAGIC, READ};

const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const STRUCTURED_REPLY: u32 = 8;
const ERR_UNSUP: u32 = 1;
const ERR_INVALID: u32 = 3;
const ERR_TLS_REQD: u32 = 5;

/// Issues the certificates of the server and of clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        let root = certificate.der().clone();
        Self { issuer: Issuer::new(params, key), root, directory }
    }

    fn issue(&self) -> (Certificate, KeyPair) {
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// The TLS settings of a server. With `asks` it demands a certificate of each client.
    fn server(&self, asks: bool) -> Tls {
        let (certificate, key) = self.issue();
        let at = |name| self.directory.path().join(name);
        fs::write(at("server.pem"), certificate.pem()).unwrap();
        fs::write(at("server.key"), key.serialize_pem()).unwrap();
        let client_ca = asks.then(|| at("ca.pem"));
        let files = TlsFiles { certificate: at("server.pem"), key: at("server.key"), client_ca };
        Tls::load(&files).unwrap()
    }

    /// The TLS connection of a client. With `shows` it presents a certificate.
    fn client(&self, shows: bool) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if shows {
            let (certificate, key) = self.issue();
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }
}

fn served(tls: Tls, sockets: SocketBackend) -> Served {
    Served::start_with(vec![export("pantry", memory(1 << 20))], |config| {
        config.sockets = sockets;
        config.tls = Some(tls);
    })
}

/// A client that has asked for TLS and got the permission.
fn asking(served: &Served) -> Client {
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    client.option(STARTTLS, &[]);
    assert_eq!(client.option_reply(STARTTLS), (ACK, vec![]));
    client
}

#[test]
fn requests_are_answered_in_tls() {
    let authority = Authority::new();
    for sockets in BACKENDS {
        let served = served(authority.server(false), sockets);
        let mut client = asking(&served);
        client.encrypt(authority.client(false)).unwrap();
        client.option(LIST, &[]);
        assert_eq!(client.replies(LIST).unwrap().len(), 1);
        client.structured();
        client.go("pantry").unwrap();
        // Longer than any buffer between client and server, in both directions.
        let data: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).take(1 << 20).collect();
        client.write(0, &data);
        assert_eq!(client.reply(|_| 0).error, 0);
        assert_eq!(client.call(FLUSH, 0, 0, 0).error, 0);
        assert!(client.call(READ, 0, 0, 1 << 20).data == data);
        // 64 requests at once.
        let cookies: Vec<u64> =
            (0..64).map(|at| client.ask(READ, 0, at * 4096, 4096, &[])).collect();
        let mut answered: Vec<u64> =
            cookies.iter().map(|_| client.reply(|_| 4096).cookie).collect();
        answered.sort_unstable();
        assert_eq!(answered, cookies);
        served.end();
    }
}

#[test]
fn nothing_is_told_before_tls() {
    let authority = Authority::new();
    let served = served(authority.server(false), SocketBackend::Epoll);
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    for option in [LIST, STRUCTURED_REPLY, 6, 7, 9, 10, 77] {
        client.option(option, &Bytes::default().string("pantry").u16(0).0);
        assert_eq!(client.replies(option), Err(ERR_TLS_REQD), "option {option}");
    }
    client.option(STARTTLS, b"now");
    assert_eq!(client.replies(STARTTLS), Err(ERR_INVALID));
    client.option(1, b"pantry");
    client.expect_end();
}

#[test]
fn what_comes_before_tls_does_not_count_behind_it() {
    let authority = Authority::new();
    let served = served(authority.server(false), SocketBackend::Epoll);
    // As by an attacker between client and server, whose bytes must not count as the client's.
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    let option = |number| Bytes::default().u64(OPTION_MAGIC).u32(number).u32(0);
    client.send(&option(STARTTLS).raw(&option(STRUCTURED_REPLY).0).0);
    assert_eq!(client.option_reply(STARTTLS), (ACK, vec![]));
    client.expect_end();

    let mut client = asking(&served);
    client.encrypt(authority.client(false)).unwrap();
    client.option(STARTTLS, &[]);
    assert_eq!(client.replies(STARTTLS), Err(ERR_INVALID), "it is TLS already");
    client.option(10, &Bytes::default().string("pantry").u32(0).0);
    assert_eq!(client.replies(10), Err(ERR_INVALID), "structured replies have to be asked for");
}

#[test]
fn a_client_without_a_required_certificate_is_refused() {
    let authority = Authority::new();
    let served = served(authority.server(true), SocketBackend::Epoll);
    let mut client = asking(&served);
    // In TLS 1.3 the handshake of a client ends before the client learns of the refusal.
    let _ = client.encrypt(authority.client(false));
    let mut heard = Vec::new();
    let _ = std::io::Read::read_to_end(&mut client.stream, &mut heard);
    let mut client = asking(&served);
    client.encrypt(authority.client(true)).unwrap();
    client.go("").unwrap();
    assert_eq!(client.call(READ, 0, 0, 4096).data, [0; 4096]);
    served.end();
}

#[test]
fn without_a_certificate_there_is_no_tls() {
    let served = Served::device(memory(1 << 20), SocketBackend::Epoll);
    let mut client = Client::connect(&served.socket());
    client.flags(3);
    client.option(STARTTLS, &[]);
    assert_eq!(client.replies(STARTTLS), Err(ERR_UNSUP));
    client.go("").unwrap();
}

#[test]
fn garbage_in_place_of_tls_ends_the_connection_alone() {
    let authority = Authority::new();
    let served = served(authority.server(false), SocketBackend::Epoll);
    let mut honest = asking(&served);
    let mut client = asking(&served);
    client.send(&[0x55; 4096]);
    let mut heard = Vec::new();
    let _ = std::io::Read::read_to_end(&mut client.stream, &mut heard);
    honest.encrypt(authority.client(false)).unwrap();
    honest.go("").unwrap();
}
