//! Entry points for the fuzzer: the parsers of client input, and of stored collections. Not part of the API.

use crate::collections;
use crate::dumps::{self, Longest};
use crate::protocol::memcached;
use crate::protocol::resp::parse;

/// Parses any bytes as a sequence of requests of memcached's protocols.
pub fn memcached(bytes: &[u8]) {
    memcached::parse_all(bytes);
}

/// Parses any bytes as RESP requests, whole and in two pieces: both must give the same requests.
pub fn resp(bytes: &[u8]) {
    let whole = parse::asked(&[bytes]);
    let half = bytes.len() / 2;
    let (head, tail) = bytes.split_at(half);
    assert_eq!(parse::asked(&[head, tail]), whole, "pieces ask what the whole asks");
}

/// Reads any bytes as a collection of each kind, and changes it: what is written reads as a collection. Reads them as a
/// dump too.
pub fn collection(bytes: &[u8]) {
    collections::use_all(bytes);
    // Of version 9, without a checksum.
    let dump = [bytes, &[9, 0], &[0; 8]].concat();
    if let Ok((kind, value)) =
        dumps::restore(&dump, Longest { string: 64 << 10, collection: 64 << 10 })
    {
        assert!(dumps::dump(kind, &value).is_ok(), "what is restored is dumped");
    }
}

/// Walks over any bytes as RESP requests, without keeping any.
pub fn resp_walk(bytes: &[u8]) {
    parse::walk(bytes);
}
