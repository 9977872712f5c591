//! A bucket of the small-object engine. The fuzzing entry point itself corrects the checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder::fuzzing::bucket(bytes));
