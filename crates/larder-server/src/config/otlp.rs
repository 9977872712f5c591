//! Where metrics are pushed to.

use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// An OpenTelemetry collector that metrics are pushed to, over OTLP/HTTP in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// Its address: `http://HOST:PORT`, which means `/v1/metrics` there, or with a path. TLS is not supported: to send
    /// metrics far, run a collector on this machine that forwards them.
    pub endpoint: String,
    /// How often to push; at least one second.
    pub interval: Duration,
}

impl Otlp {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
        if !cfg!(feature = "otlp") {
            return refuse(
                "otlp: this program was built without it; build it with --features otlp".to_owned(),
            );
        }
        let machine = self.endpoint.strip_prefix("http://").unwrap_or_default();
        if machine.is_empty() || machine.contains([' ', '@', '#', '?']) {
            return refuse(format!(
                "otlp: {:?} must be http://HOST:PORT, where a collector takes OTLP over HTTP (its usual port is 4318)",
                self.endpoint
            ));
        }
        if self.interval < Duration::from_secs(1) {
            return refuse(format!(
                "otlp: every {:?} is too often; a second is the least",
                self.interval
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "otlp")]
    fn what_is_no_collector_is_refused() {
        let told = |endpoint: &str, seconds| {
            let endpoint = endpoint.to_owned();
            Otlp { endpoint, interval: Duration::from_secs(seconds) }
                .check()
                .map_err(|error| error.to_string())
        };
        assert_eq!(told("http://127.0.0.1:4318", 1), Ok(()));
        for endpoint in
            ["", "127.0.0.1:4318", "https://a:1", "http://", "http://a b", "http://user:word@a"]
        {
            assert!(told(endpoint, 1).unwrap_err().contains("must be http://"), "{endpoint}");
        }
        assert!(told("http://a", 0).unwrap_err().contains("too often"));
    }

    #[test]
    #[cfg(not(feature = "otlp"))]
    fn a_program_without_it_says_so() {
        let otlp = Otlp { endpoint: "http://a".to_owned(), interval: Duration::from_secs(9) };
        assert!(otlp.check().unwrap_err().to_string().contains("--features otlp"));
    }
}
