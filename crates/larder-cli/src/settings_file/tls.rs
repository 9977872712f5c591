//! TLS settings: the command line overrides `larder.toml`. The files are read to check them.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use larder_server::{Tls, TlsFault, TlsFile, TlsFiles};
use larder_workload::Error;
use serde::Deserialize;
use toml::Spanned;

use super::source::{From, Setting, Source};
use crate::args::ServeArgs;
use crate::args::tls::{incomplete, name_of};

/// We warn about a certificate that expires sooner.
const SOON: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 60 * 60;

/// `[tls]` of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsEntry {
    certificate: Spanned<PathBuf>,
    key: Spanned<PathBuf>,
    client_ca: Option<Spanned<PathBuf>>,
}

/// Files that were checked.
#[derive(Debug)]
pub(crate) struct CheckedTls {
    pub(crate) files: TlsFiles,
    /// Remaining validity of the certificate.
    pub(crate) ends_in: Duration,
}

/// A path, and its place in the file if it comes from there.
type PlacedPath = (PathBuf, Option<Range<usize>>);

/// The TLS settings of `arguments` and the file. Reads the TLS files.
pub(crate) fn told(
    arguments: &ServeArgs,
    file: Option<(&TlsEntry, &Source)>,
) -> Result<Setting<Option<CheckedTls>>, Error> {
    let entry = file.map(|(entry, _)| entry);
    let one = |said: &Option<PathBuf>, filed: Option<&Spanned<PathBuf>>| -> Option<PlacedPath> {
        let said = said.clone().map(|path| (path, None));
        said.or_else(|| filed.map(|it| (it.get_ref().clone(), Some(it.span()))))
    };
    let certificate = one(&arguments.tls.tls_certificate, entry.map(|it| &it.certificate));
    let key = one(&arguments.tls.tls_key, entry.map(|it| &it.key));
    let client_ca = one(&arguments.tls.tls_client_ca, entry.and_then(|it| it.client_ca.as_ref()));
    let ((certificate, at_certificate), (key, at_key)) = match (certificate, key, &client_ca) {
        (Some(certificate), Some(key), _) => (certificate, key),
        (None, None, None) => return Ok(Setting(None, From::Default)),
        _ => return Err(incomplete()),
    };
    let (client_ca, at_client_ca) = client_ca.unzip();
    let places = [at_certificate, at_key, at_client_ca.flatten()];
    let from = match places.iter().flatten().next() {
        Some(_) => From::File,
        None => From::CommandLine,
    };
    let files = TlsFiles { certificate, key, client_ca };
    match Tls::load(&files) {
        Ok(tls) => Ok(Setting(Some(CheckedTls { files, ends_in: tls.ends_in() }), from)),
        Err(fault) => Err(refusal(&fault, places, file.map(|(_, source)| source))),
    }
}

/// The error, with the setting that is wrong and its place.
fn refusal(
    fault: &TlsFault,
    [certificate, key, client_ca]: [Option<Range<usize>>; 3],
    source: Option<&Source>,
) -> Error {
    let place = match fault.file {
        TlsFile::Certificate => certificate,
        TlsFile::Key => key,
        TlsFile::ClientCa => client_ca,
    };
    let name = name_of(fault.file);
    match (source, place) {
        (Some(source), Some(place)) => {
            source.refuse(Some(place), &format!("tls.{}: {fault}", name.replace('-', "_")))
        }
        _ => Error::usage(format!("--tls-{name} {fault}")),
    }
}

impl CheckedTls {
    /// A warning if the certificate expires soon.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.ends_in < SOON).then(|| {
            let (path, days) = (self.files.certificate.display(), self.days());
            format!("the certificate {path} ends in {days} days; SIGHUP has another one read")
        })
    }

    /// Whole days for which the certificate is still valid.
    pub(crate) fn days(&self) -> u64 {
        self.ends_in.as_secs() / DAY
    }
}
