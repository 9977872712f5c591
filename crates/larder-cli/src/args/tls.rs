//! Options for the files of a server that speaks TLS.

use std::path::PathBuf;

use clap::Args;
use larder_net::tls::TlsFile;
use larder_workload::Error;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TlsArgs {
    /// Certificate of the server, in PEM, followed by those between it and one that clients know
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_key: Option<PathBuf>,

    /// CA certificates for clients, in PEM: TLS clients then need a certificate of this issuer
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

/// The name of the option, without `--tls-`.
pub(crate) fn name_of(file: TlsFile) -> &'static str {
    match file {
        TlsFile::Certificate => "certificate",
        TlsFile::Key => "key",
        TlsFile::ClientCa => "client-ca",
    }
}

/// The error if one of the two required files is missing.
pub(crate) fn incomplete() -> Error {
    Error::usage("tls needs both a certificate and its key: --tls-certificate, --tls-key")
}
