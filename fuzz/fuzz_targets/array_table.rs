//! A page of a table of the array's index: the bytes as they are, and with the right checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder::fuzzing::array_table(bytes);
});
