//! The server to measure.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use crate::Error;

/// For addresses without a scheme, this port means Redis.
const RESP_PORT: u16 = 6379;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// memcached's classic text protocol.
    Memcached,
    /// memcached's meta commands.
    MemcachedMeta,
    /// memcached's binary protocol.
    MemcachedBinary,
    /// Redis' protocol, version 2.
    Resp2,
    /// Redis' protocol, version 3.
    Resp3,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// A server to measure: `[NAME=]SCHEME://[USER:PASSWORD@]HOST:PORT`, or a path instead of host and port. `+tls` after
/// the scheme selects TLS.
///
/// ```
/// use larder_bench::{Protocol, Target};
///
/// let target: Target = "ours=meta://127.0.0.1:11211".parse()?;
/// assert_eq!((target.name.as_str(), target.protocol), ("ours", Protocol::MemcachedMeta));
/// let bare: Target = "127.0.0.1:6379".parse()?;
/// assert_eq!(bare.protocol, Protocol::Resp2, "the port tells");
/// # Ok::<(), larder_bench::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name in results; by default its text.
    pub name: String,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its address.
    pub address: Address,
    /// With TLS: the name that its certificate must have.
    pub tls_name: Option<String>,
    /// User and password.
    pub credentials: Option<(String, String)>,
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(':') => (Some(name), rest),
            _ => (None, text),
        };
        let (scheme, rest) = match rest.split_once("://") {
            Some((scheme, rest)) => (Some(self::scheme(scheme)?), rest),
            None => (None, rest),
        };
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((pair, place)) => (Some(credentials(pair)?), place),
            None => (None, rest),
        };
        let address = address(place)?;
        let by_port = match &address {
            Address::Tcp(at) if at.port() == RESP_PORT => Protocol::Resp2,
            _ => Protocol::Memcached,
        };
        // Do not print the password.
        let shown = text.replace(rest, place);
        let name = name.map_or(shown, str::to_owned);
        let (protocol, is_tls) = scheme.unwrap_or((by_port, false));
        let host = place.rsplit_once(':').map_or("localhost", |(host, _)| host);
        let tls_name = is_tls.then(|| host.trim_matches(['[', ']']).to_owned());
        Ok(Self { name, protocol, address, tls_name, credentials })
    }
}

/// The protocol, and whether it runs over TLS.
fn scheme(scheme: &str) -> Result<(Protocol, bool), Error> {
    let (plain, is_tls) = match scheme {
        "rediss" => ("redis", true),
        other => match other.strip_suffix("+tls") {
            Some(plain) => (plain, true),
            None => (other, false),
        },
    };
    let protocol = match plain {
        "memcached" => Protocol::Memcached,
        "meta" => Protocol::MemcachedMeta,
        "binary" => Protocol::MemcachedBinary,
        "redis" | "resp" | "resp2" => Protocol::Resp2,
        "resp3" => Protocol::Resp3,
        other => {
            return Err(Error::usage(format!(
                "{other}://: no such scheme; there are memcached, meta, binary, redis (resp2) and resp3, each with \
                 +tls behind it or without"
            )));
        }
    };
    Ok((protocol, is_tls))
}

fn credentials(pair: &str) -> Result<(String, String), Error> {
    match pair.split_once(':') {
        Some((user, password)) => Ok((user.to_owned(), password.to_owned())),
        None => Err(Error::usage("before @ in an address: USER:PASSWORD, and there is no colon")),
    }
}

fn address(place: &str) -> Result<Address, Error> {
    if place.starts_with('/') {
        return Ok(Address::Unix(PathBuf::from(place)));
    }
    let found = place.to_socket_addrs().map(|mut all| all.next());
    match found {
        Ok(Some(address)) => Ok(Address::Tcp(address)),
        Ok(None) => Err(Error::usage(format!("{place}: that name has no address"))),
        Err(cause) => Err(Error::usage(format!("{place}: {cause}; HOST:PORT or a path is wanted"))),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_may_be_left_out() {
        let target: Target = "a=resp3://u:p@127.0.0.1:7000".parse().unwrap();
        assert_eq!((target.name.as_str(), target.protocol), ("a", Protocol::Resp3));
        assert_eq!(target.credentials, Some(("u".to_owned(), "p".to_owned())));
        let target: Target = "memcached://u:secret@127.0.0.1:11211".parse().unwrap();
        assert_eq!(target.name, "memcached://127.0.0.1:11211");
        let target: Target = "meta+tls://[::1]:11211".parse().unwrap();
        assert_eq!(
            (target.tls_name.as_deref(), target.protocol),
            (Some("::1"), Protocol::MemcachedMeta)
        );
        let target: Target = "binary://127.0.0.1:11211".parse().unwrap();
        assert_eq!(target.protocol, Protocol::MemcachedBinary);
        let target: Target = "rediss://localhost:1".parse().unwrap();
        assert_eq!(
            (target.tls_name.as_deref(), target.protocol),
            (Some("localhost"), Protocol::Resp2)
        );
        let target: Target = "/run/larder.sock".parse().unwrap();
        assert_eq!(target.address, Address::Unix("/run/larder.sock".into()));
        assert_eq!(target.protocol, Protocol::Memcached);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("http://127.0.0.1:80", "binary"),
            ("http://127.0.0.1:80", "http"),
            ("127.0.0.1", "PORT"),
            ("a@127.0.0.1:1", "PASSWORD"),
        ] {
            let said = text.parse::<Target>().unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
