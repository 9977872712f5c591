//! What a client of RESP sends.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder_server::fuzzing::resp(bytes));
