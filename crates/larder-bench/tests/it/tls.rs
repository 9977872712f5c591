//! Servers with TLS. A wait that does not end fails the test after `PATIENCE`.

use std::fs;
use std::sync::mpsc;
use std::time::Duration;

use larder_bench::run::{Measurement, Progress, fill, measure};
use larder_bench::{Error, Load, Target, Tls, Workload};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;

use crate::load;
use crate::server::Server;

const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate authority, and the file of its certificate.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(directory.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// A server with a certificate of this authority for `name`.
    fn server(&self, name: &str) -> Server {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = std::sync::Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Server::start_tls(config)
    }

    fn trusted(&self) -> Tls {
        Tls::new(Some(&self.directory.path().join("ca.pem")), None).unwrap()
    }
}

/// Stores all keys and requests them, with values of this length.
fn loaded(target: Target, tls: Option<Tls>, value_bytes: u32) -> Result<Measurement, Error> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let workload =
            Workload { keys: Some(100), value_bytes, sets_percent: 10.0, ..load().workload };
        let load = Load { workload, tls, ..load() };
        let progress = Progress::default();
        let done =
            fill(&target, &load, &progress).and_then(|()| measure(&target, &load, &progress));
        let _ = tell.send(done);
    });
    told.recv_timeout(PATIENCE).expect("it does not hang")
}

/// The pipeline that stores keys first is longer than what TLS buffers before its handshake is done.
#[test]
fn long_values_are_stored_and_hit_behind_a_certificate_that_is_trusted() {
    let authority = Authority::new();
    let server = authority.server("localhost");
    for scheme in ["memcached+tls", "binary+tls"] {
        let target = server.target_by(scheme);
        let measured = loaded(target, Some(authority.trusted()), 200_000).unwrap();
        assert!(measured.hits > 0 && measured.sets > 0, "{measured:?}");
        assert_eq!((measured.hits, measured.wrong, measured.refused), (measured.keys, 0, 0));
    }
    assert_eq!(server.stored(), 100);
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_error_before_anything_is_stored() {
    let (authority, other) = (Authority::new(), Authority::new());
    for (server, tls) in [
        // A certificate of another authority, and that of another host.
        (authority.server("localhost"), other.trusted()),
        (authority.server("elsewhere"), authority.trusted()),
    ] {
        let target = server.target_by("memcached+tls");
        let error = loaded(target, Some(tls), 200_000).unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
        assert_eq!(server.stored(), 0);
    }
}

#[test]
fn any_certificate_is_accepted_without_a_trusted_authority() {
    let server = Authority::new().server("elsewhere");
    let measured = loaded(server.target_by("memcached+tls"), None, 100).unwrap();
    assert!(measured.hits > 0 && measured.wrong == 0, "{measured:?}");
}

#[test]
fn a_server_without_tls_is_an_error() {
    let server = Server::start();
    server.be_rude();
    let error = loaded(server.target_by("memcached+tls"), None, 100).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1") || error.contains("localhost"), "{error}");
}
