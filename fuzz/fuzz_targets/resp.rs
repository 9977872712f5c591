//! What a client of RESP sends, whole and in pieces. The parser has no more memory than what came and a little.
#![no_main]

use larder_fuzz::memory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    memory::bounded(bytes, larder_server::fuzzing::resp_walk);
    larder_server::fuzzing::resp(bytes);
});
