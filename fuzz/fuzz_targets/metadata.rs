//! Label, superblock (behind a correct checksum) and snapshot header, the last also with a correct checksum.
#![no_main]

use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder::fuzzing::metadata(bytes);
    larder::fuzzing::metadata(&seal::snapshot(bytes, 1, seal::IDENTITY));
});
