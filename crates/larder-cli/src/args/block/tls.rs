//! TLS of an export.

use std::path::PathBuf;

use clap::Args;

/// With a certificate, clients have to speak TLS, at every address.
#[derive(Debug, Clone, Args)]
pub(crate) struct BlockTlsArgs {
    /// Speak TLS: the certificate that is shown, in PEM, with those between it and one that clients know
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Who issues certificates for clients, in PEM: only who has one comes in
    #[arg(long, value_name = "PATH")]
    pub(crate) tls_client_ca: Option<PathBuf>,
}
