//! Doors for the fuzzer: parsers of what clients send. Not part of the API.

use crate::protocol::memcached;

/// Any bytes as requests of memcached's protocols, one behind the other.
pub fn memcached(bytes: &[u8]) {
    memcached::parse_all(bytes);
}
