//! The footer of a region: the bytes as they are, and with a correct checksum.
#![no_main]

use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder::fuzzing::footer(bytes);
    larder::fuzzing::footer(&seal::footer(bytes));
});
