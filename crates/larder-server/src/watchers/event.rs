//! Events, in the words of memcached's logger: its names of fields, in its order.
//!
//! `cfd` is the number of the connection. There are no slab classes: `clsid` is 1 with an item and 0 without, as in
//! `lru_crawler metadump`. What is not known is `na`. Values are never shown.

use std::fmt::{Display, Formatter, Result};

use larder_net::sockets::Peer;

use crate::escaped_key::EscapedKey;

/// What came of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchStatus {
    Found,
    NotFound,
    Expired,
}

/// A key was looked up.
pub(crate) struct Fetch<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) status: FetchStatus,
    pub(crate) cfd: u64,
    pub(crate) size: usize,
}

impl Display for Fetch<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { key, status, cfd, size } = self;
        let (status, clsid) = match status {
            FetchStatus::Found => ("found", 1),
            FetchStatus::NotFound => ("not_found", 0),
            FetchStatus::Expired => ("expired", 0),
        };
        let key = EscapedKey(key);
        write!(f, "type=item_get key={key} status={status} clsid={clsid} cfd={cfd} size={size}")
    }
}

/// A value was stored, or was to be.
pub(crate) struct Mutation<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) status: &'static str,
    pub(crate) command: &'static str,
    /// Seconds; 0 is for ever.
    pub(crate) ttl: u32,
    /// `None`: it was refused before it was an item.
    pub(crate) size: Option<usize>,
    pub(crate) cfd: u64,
}

impl Display for Mutation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { key, status, command, ttl, cfd, size } = self;
        let (key, clsid) = (EscapedKey(key), u8::from(size.is_some()));
        let size = size.unwrap_or(0);
        write!(
            f,
            "type=item_store key={key} status={status} cmd={command} ttl={ttl} clsid={clsid} cfd={cfd} size={size}"
        )
    }
}

/// A client has deleted a value.
pub(crate) struct Deletion<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) command: &'static str,
    pub(crate) size: usize,
}

impl Display for Deletion<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { key, command, size } = self;
        write!(f, "type=deleted key={} cmd={command} clsid=1 size={size}", EscapedKey(key))
    }
}

/// A value has left the caches without a request for it.
pub(crate) struct Eviction<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) size: Option<u64>,
}

impl Display for Eviction<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let key = EscapedKey(self.key);
        // The caches do not report the other facts of the item.
        write!(f, "type=eviction key={key} fetch=na ttl=na la=na clsid=1 size=")?;
        match self.size {
            Some(size) => size.fmt(f),
            None => f.write_str("na"),
        }
    }
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// By the client, or as it has asked for.
    #[default]
    Normal,
    Error,
    IdleTimeout,
    Shutdown,
}

/// A connection was opened or closed.
pub(crate) struct ConnectionEvent {
    pub(crate) peer: Peer,
    /// `None`: it was opened.
    pub(crate) closed: Option<CloseReason>,
    pub(crate) cfd: u64,
}

impl Display for ConnectionEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kind = if self.closed.is_some() { "conn_close" } else { "conn_new" };
        match self.peer {
            Peer::Tcp(address) => {
                let (ip, port) = (address.ip().to_canonical(), address.port());
                write!(f, "type={kind} rip={ip} rport={port} transport=tcp")?;
            }
            Peer::Unix => write!(f, "type={kind} rip=unix rport=0 transport=local")?,
        }
        let reason = match self.closed {
            None => "",
            Some(CloseReason::Normal) => " reason=normal",
            Some(CloseReason::Error) => " reason=error",
            Some(CloseReason::IdleTimeout) => " reason=idle_timeout",
            Some(CloseReason::Shutdown) => " reason=shutdown",
        };
        write!(f, "{reason} cfd={}", self.cfd)
    }
}
