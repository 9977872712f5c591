//! A limit on the memory of a parser.

/// Bytes allowed in addition to the length of the input.
const BESIDE_BYTES_MAX: u64 = 64 << 10;

/// Parses `bytes`, and panics if that takes more memory at a time than their length and 64 KiB.
pub fn bounded(bytes: &[u8], parse: impl FnOnce(&[u8])) {
    let had = allocation_counter::measure(|| parse(bytes)).bytes_max;
    assert!(had <= bytes.len() as u64 + BESIDE_BYTES_MAX, "{had} bytes for {}", bytes.len());
}
