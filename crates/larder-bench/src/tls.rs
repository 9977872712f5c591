//! TLS to a server: which certificates are trusted, and which client certificate is sent.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use crate::Error;

/// The TLS configuration that all connections share.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ClientConfig>);

/// The TLS configuration for one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// `ca` is a PEM file with the issuers of servers' certificates. Without it any certificate is accepted, which is
    /// good enough to measure, and for nothing else. `own` are the files of a client certificate and its key.
    ///
    /// # Errors
    /// If a file cannot be read, or does not have the right content.
    ///
    /// ```
    /// let error = larder_bench::Tls::new(Some("/none".as_ref()), None).expect_err("there is no such file");
    /// assert!(error.to_string().starts_with("/none: "));
    /// ```
    pub fn new(ca: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::run(format!("TLS: {error}")))?;
        let builder = match ca {
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| wrong(path, error))?;
                }
                builder.with_root_certificates(roots)
            }
            None => {
                let anybody = Arc::new(AnyCertificate(provider));
                builder.dangerous().with_custom_certificate_verifier(anybody)
            }
        };
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let key_of =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                builder
                    .with_client_auth_cert(chain, key_of)
                    .map_err(|error| wrong(certificate, error))?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// The configuration for a server of this name.
    pub(crate) fn to(&self, host: &str) -> Result<ServerTls, Error> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| Error::usage(format!("{host}: {error}")))?;
        Ok(ServerTls { config: Arc::clone(&self.0), name })
    }
}

impl ServerTls {
    pub(crate) fn connection(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    all.collect::<Result<_, _>>().map_err(|error| wrong(path, error))
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::usage(format!("{}: {error}", path.display()))
}

/// Accepts any certificate whose key the server has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
