//! A server's certificate with its key, and the issuers of client certificates: reads and checks the PEM files.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::Validity;

/// The files of a server that speaks TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// The certificate of the server, and the intermediate certificates up to one that clients know.
    pub certificate: PathBuf,
    /// Its private key, not encrypted.
    pub key: PathBuf,
    /// The issuers of client certificates. If given, each client must have a certificate.
    pub client_ca: Option<PathBuf>,
}

/// One of [`TlsFiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsFile {
    /// The certificate.
    Certificate,
    /// Its private key.
    Key,
    /// The issuers of client certificates.
    ClientCa,
}

/// Why files are of no use, and which one is the cause.
#[derive(Debug)]
pub struct TlsFault {
    /// Which file.
    pub file: TlsFile,
    /// Its path.
    pub path: PathBuf,
    why: String,
}

/// The TLS configuration of a server: [`TlsFiles`] that were read and checked.
///
/// # Examples
/// ```
/// use larder_net::tls::{Tls, TlsFiles};
///
/// let files = TlsFiles { certificate: "/none".into(), key: "/none".into(), client_ca: None };
/// let fault = Tls::load(&files).err().expect("there is no such file");
/// assert!(fault.to_string().starts_with("/none: "));
/// ```
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    ends: SystemTime,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A [`TlsFault`] if a file cannot be read or has the wrong content, a certificate is not valid today, or the key
    /// belongs to another certificate.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsFault> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(&files.certificate)
            .map_err(|why| files.wrong(TlsFile::Certificate, why))?;
        let ends = common_end(&chain, SystemTime::now())
            .map_err(|why| files.wrong(TlsFile::Certificate, why))?;
        let wrong_key = |why| files.wrong(TlsFile::Key, why);
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| wrong_key(explain(&error, "private key that is not encrypted")))?;
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| {
            wrong_key(match error {
                rustls::Error::InconsistentKeys(_) => {
                    format!("not the key of the certificate {}", files.certificate.display())
                }
                error => error.to_string(),
            })
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong_key(error.to_string()))?;
        let Some(client_ca) = &files.client_ca else {
            let resolver = Arc::new(SingleCertAndKey::from(key));
            let config = builder.with_no_client_auth().with_cert_resolver(resolver);
            return Ok(Self { config: Arc::new(config), ends });
        };
        let verifier =
            verifier(client_ca, provider).map_err(|why| files.wrong(TlsFile::ClientCa, why))?;
        let resolver = Arc::new(SingleCertAndKey::from(key));
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
        // No resumption: a resumed connection would not be asked for its certificate again, which may have
        // expired in between.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), ends })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// How long all certificates in the certificate file are still valid.
    pub fn ends_in(&self) -> Duration {
        self.ends.duration_since(SystemTime::now()).unwrap_or_default()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl TlsFiles {
    fn wrong(&self, file: TlsFile, why: String) -> TlsFault {
        let path = match file {
            TlsFile::Certificate => &self.certificate,
            TlsFile::Key => &self.key,
            TlsFile::ClientCa => self.client_ca.as_ref().unwrap_or(&self.certificate),
        };
        TlsFault { file, path: path.clone(), why }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for TlsFault {}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let explain = |error: pem::Error| explain(&error, "certificate");
    let all = CertificateDer::pem_file_iter(path).map_err(explain)?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(explain)?;
    if all.is_empty() { Err(explain(pem::Error::NoItemsFound)) } else { Ok(all) }
}

/// The time at which the first of them expires. Fails if one is not valid at `now`.
fn common_end(chain: &[CertificateDer<'_>], now: SystemTime) -> Result<SystemTime, String> {
    let mut end = None;
    for certificate in chain {
        let validity = Validity::of(certificate)
            .map_err(|why| format!("a certificate in it cannot be understood ({why})"))?;
        if let Some(why) = validity.why_not(now) {
            return Err(why);
        }
        end = end.into_iter().chain([validity.ends()]).min();
    }
    end.ok_or_else(|| "no certificate is in it".to_owned())
}

fn verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|error| format!("a certificate in it cannot be understood ({error})"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())
}

/// What is wrong with a file that should have a `thing`.
fn explain(error: &pem::Error, thing: &str) -> String {
    match error {
        pem::Error::Io(error) => format!("cannot be read ({error})"),
        pem::Error::NoItemsFound => format!("no {thing} is in it; it must be in PEM"),
        _ => "is no PEM".to_owned(),
    }
}
