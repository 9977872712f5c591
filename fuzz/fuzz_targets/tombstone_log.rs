//! The tombstone log: the bytes as they are, and with the right checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder::fuzzing::tombstones(bytes));
