//! Label, superblock (behind a right checksum) and snapshot header, this with the right checksum too.
#![no_main]

use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder::fuzzing::metadata(bytes);
    larder::fuzzing::metadata(&seal::snapshot(bytes, 1, seal::IDENTITY));
});
