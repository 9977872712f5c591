//! What clients of memcached send: lines of text, and binary requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder_server::fuzzing::memcached(bytes));
