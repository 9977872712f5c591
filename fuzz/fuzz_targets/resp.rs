//! What a client of RESP sends, whole and in pieces. The parser has no more memory than what came and a little.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Beside the input itself.
const BESIDE_BYTES_MAX: u64 = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let had = allocation_counter::measure(|| larder_server::fuzzing::resp_walk(bytes));
    assert!(had.bytes_max <= bytes.len() as u64 + BESIDE_BYTES_MAX, "{} bytes for {}", had.bytes_max, bytes.len());
    larder_server::fuzzing::resp(bytes);
});
