//! Doors for the fuzzer: parsers of what clients send. Not part of the API.

use crate::protocol::memcached;
use crate::protocol::resp::parse;

/// Any bytes as requests of memcached's protocols, one behind the other.
pub fn memcached(bytes: &[u8]) {
    memcached::parse_all(bytes);
}

/// Any bytes as requests of RESP, whole and in two pieces: they ask the same.
pub fn resp(bytes: &[u8]) {
    let whole = parse::asked(&[bytes]);
    let half = bytes.len() / 2;
    let (head, tail) = bytes.split_at(half);
    assert_eq!(parse::asked(&[head, tail]), whole, "pieces ask what the whole asks");
}

/// Any bytes as requests of RESP, of which nothing is kept.
pub fn resp_walk(bytes: &[u8]) {
    parse::walk(bytes);
}
