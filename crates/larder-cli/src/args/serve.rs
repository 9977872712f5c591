//! `larder serve`: what can be said on the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{positive_size, size};

/// Serve memcached and Redis clients from DRAM and flash.
///
/// Without arguments: memcached's protocol on 127.0.0.1:11211, Redis' on 127.0.0.1:6379, a flash file in the data
/// directory, and sizes chosen from this machine, which are printed.
///
/// SIGTERM and SIGINT end it: no new connections, what was begun is answered, the cache is closed so that it is found
/// again; a second one ends it at once.
///
/// Sizes take K, M, G, T (powers of 1024).
#[derive(Debug, Clone, Args)]
#[command(after_help = "EXAMPLES:
  larder serve                                        no configuration needed
  larder serve --memory 1G --flash 32G                sizes of DRAM and of the flash file
  larder serve --flash 0                              in DRAM only
  larder serve --memcached 127.0.0.1:22122 --resp none
  larder serve --memcached unix:/run/larder.sock      a Unix socket")]
pub(crate) struct ServeArgs {
    /// Where memcached clients come in: addresses, or unix:PATH; none is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11211", value_delimiter = ',', value_parser = listen)]
    pub(crate) memcached: Vec<ListenArg>,

    /// Where Redis and Valkey clients come in: addresses, or unix:PATH; none is nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6379", value_delimiter = ',', value_parser = listen)]
    pub(crate) resp: Vec<ListenArg>,

    /// Memory of the cache, with everything that it needs for its flash [default: a quarter of the machine's, or of the
    /// control group's limit]
    #[arg(long, value_name = "SIZE", value_parser = positive_size)]
    pub(crate) memory: Option<u64>,

    /// Size of the flash file; 0 is DRAM only [default: that of an earlier run, or 8 times the memory, at most half of
    /// what is free]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) flash: Option<u64>,

    /// Where the flash file is [default: $STATE_DIRECTORY, /var/lib/larder for root, ~/.local/share/larder]
    #[arg(long, value_name = "PATH")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Threads that serve [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) connections: usize,

    /// Longest value
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = positive_size)]
    pub(crate) value_max: u64,

    /// Close connections that ask nothing for so many seconds; 0 never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) idle_timeout: u32,

    /// How many seconds connections may go on with what they have begun when the server is told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) drain: u32,

    /// How many seconds closing the cache may take at the end; what is not on flash by then is lost
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) close: u32,
}

impl ServeArgs {
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        (self.idle_timeout > 0).then(|| Duration::from_secs(self.idle_timeout.into()))
    }
}

/// Where clients come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenArg {
    Nowhere,
    Tcp(SocketAddr),
    Unix(PathBuf),
}

fn listen(text: &str) -> Result<ListenArg, String> {
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
