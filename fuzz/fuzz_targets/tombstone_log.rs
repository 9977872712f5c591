//! The tombstone log: the bytes as they are, and with correct checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder::fuzzing::tombstones(bytes));
