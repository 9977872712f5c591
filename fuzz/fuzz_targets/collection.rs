//! A stored hash, set, sorted set or list, as it is and behind the header of each kind: read, and changed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder_server::fuzzing::collection(bytes);
    for kind in 1..=4 {
        let count = bytes.first().map_or(0, |count| count % 16);
        let header = [1, kind, 0, 0, count, 0, 0, 0];
        larder_server::fuzzing::collection(&[&header, bytes].concat());
    }
});
