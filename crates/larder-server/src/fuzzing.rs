//! Doors for the fuzzer: what takes bytes of clients apart. Not part of the API.

use crate::protocol::resp::parse;

/// Any bytes as requests of RESP, whole and in two pieces: they ask the same.
pub fn resp(bytes: &[u8]) {
    let whole = parse::asked(&[bytes]);
    let half = bytes.len() / 2;
    let (head, tail) = bytes.split_at(half);
    assert_eq!(parse::asked(&[head, tail]), whole, "pieces ask what the whole asks");
}
