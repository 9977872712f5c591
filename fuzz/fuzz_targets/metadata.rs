//! Superblock and snapshot header: the bytes as they are, and with the right checksum of either.
#![no_main]

use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder::fuzzing::metadata(bytes);
    larder::fuzzing::metadata(&seal::superblock(bytes));
    larder::fuzzing::metadata(&seal::snapshot(bytes, 1));
});
