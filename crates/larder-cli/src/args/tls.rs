//! The files of a server that speaks TLS.

use std::path::PathBuf;

use clap::Args;
use larder_lab::Error;
use larder_tls::TlsFile;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// The certificate that is shown by TLS, in PEM, with those between it and one that clients know
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Who issues certificates for clients, in PEM: by TLS only who has one comes in
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

/// Behind `--tls-`.
pub(crate) fn name_of(file: TlsFile) -> &'static str {
    match file {
        TlsFile::Certificate => "certificate",
        TlsFile::Key => "key",
        TlsFile::ClientCa => "client-ca",
    }
}

/// Some are told, and not the two that there must be.
pub(crate) fn incomplete() -> Error {
    Error::usage("tls needs both a certificate and its key: --tls-certificate, --tls-key")
}
