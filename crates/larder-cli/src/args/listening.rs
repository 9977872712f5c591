//! How settings of listeners and of the log are written, on the command line and in `larder.toml`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use larder_server::{PasswordHash, SocketBackend};
use tracing::level_filters::LevelFilter;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenArg {
    Nowhere,
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for ListenArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Parses how threads wait for sockets.
pub(crate) fn sockets(text: &str) -> Result<SocketBackend, String> {
    match text {
        "epoll" => Ok(SocketBackend::Epoll),
        "io_uring" => Ok(SocketBackend::IoUring),
        _ => Err("must be epoll or io_uring".to_owned()),
    }
}

/// Parses a log level.
pub(crate) fn log_level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err("must be off, error, warn, info or debug".to_owned()),
    }
}

/// Parses a hash as `larder password` prints it.
pub(crate) fn hash(text: &str) -> Result<PasswordHash, String> {
    PasswordHash::parse(text).map_err(|error| format!("{error}; `larder password` makes one"))
}

/// Parses an address to listen on.
pub(crate) fn listen(text: &str) -> Result<ListenArg, String> {
    if text == "none" {
        return Ok(ListenArg::Nowhere);
    }
    if let Some(path) = text.strip_prefix("unix:") {
        if path.is_empty() {
            return Err("unix: needs the path of a socket behind it".to_owned());
        }
        return Ok(ListenArg::Unix(path.into()));
    }
    text.parse().map(ListenArg::Tcp).map_err(|_| {
        "must be an address with a port such as 127.0.0.1:11211 or [::1]:11211, unix:PATH, or none".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_listen() {
        assert_eq!(listen("none"), Ok(ListenArg::Nowhere));
        assert_eq!(listen("unix:/run/x"), Ok(ListenArg::Unix("/run/x".into())));
        assert_eq!(listen("[::1]:7"), Ok(ListenArg::Tcp("[::1]:7".parse().unwrap())));
        for wrong in ["unix:", "localhost", "127.0.0.1", ":11211", ""] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }
}
