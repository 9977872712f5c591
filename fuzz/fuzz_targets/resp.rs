//! Messages of a RESP client, whole and in pieces. The parser may use only little more memory than the length of the
//! input.
#![no_main]

use larder_fuzz::memory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    memory::bounded(bytes, larder_server::fuzzing::resp_walk);
    larder_server::fuzzing::resp(bytes);
});
