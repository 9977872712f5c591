//! Encodes requests and decodes replies.

mod binary;
mod line;
mod memcached;
mod meta;
mod reply;
mod resp;

pub(crate) use reply::{ExpectedReply, Hits, ProtocolViolation, Reply, Step};

use crate::target::Protocol;
use crate::value::Values;
use crate::workload::KeyRequest;

/// Appends the requests that open a connection. Returns how many replies they bring.
pub(crate) fn open(
    protocol: Protocol,
    login: Option<&(String, String)>,
    out: &mut Vec<u8>,
) -> usize {
    match protocol {
        Protocol::Memcached | Protocol::MemcachedMeta => memcached::open(login, out),
        Protocol::MemcachedBinary => binary::open(login, out),
        Protocol::Resp2 => resp::open(2, login, out),
        Protocol::Resp3 => resp::open(3, login, out),
    }
}

/// Appends a request for keys.
pub(crate) fn get(protocol: Protocol, asks: &[KeyRequest], out: &mut Vec<u8>) {
    match protocol {
        Protocol::Memcached => memcached::get(asks, out),
        Protocol::MemcachedMeta => meta::get(asks, out),
        Protocol::MemcachedBinary => binary::get(asks, out),
        Protocol::Resp2 | Protocol::Resp3 => resp::get(asks, out),
    }
}

/// Appends a request that stores a value.
pub(crate) fn set(protocol: Protocol, ask: &KeyRequest, value: (&Values, u32), out: &mut Vec<u8>) {
    match protocol {
        Protocol::Memcached => memcached::set(ask, value, out),
        Protocol::MemcachedMeta => meta::set(ask, value, out),
        Protocol::MemcachedBinary => binary::set(ask, value, out),
        Protocol::Resp2 | Protocol::Resp3 => resp::set(ask, value, out),
    }
}

/// Appends a request that removes a key.
pub(crate) fn delete(protocol: Protocol, ask: &KeyRequest, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Memcached => memcached::delete(ask, out),
        Protocol::MemcachedMeta => meta::delete(ask, out),
        Protocol::MemcachedBinary => binary::delete(ask, out),
        Protocol::Resp2 | Protocol::Resp3 => resp::delete(ask, out),
    }
}

/// Reads the first reply.
pub(crate) fn reply(
    protocol: Protocol,
    bytes: &[u8],
    asked: ExpectedReply,
    hits: &mut Hits<'_>,
) -> Result<Step, ProtocolViolation> {
    match protocol {
        Protocol::Memcached => memcached::reply(bytes, asked, hits),
        Protocol::MemcachedMeta => meta::reply(bytes, asked, hits),
        Protocol::MemcachedBinary => binary::reply(bytes, asked, hits),
        Protocol::Resp2 | Protocol::Resp3 => resp::reply(bytes, asked, hits),
    }
}

#[cfg(test)]
mod tests;
