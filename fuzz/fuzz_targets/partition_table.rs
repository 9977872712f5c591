//! The partition table: the bytes as they are, and with a correct checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder::fuzzing::partition_table(bytes));
