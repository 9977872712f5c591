//! What clients of memcached send: lines of text, and binary requests. A parser has no more memory than what came and
//! a little.
#![no_main]

use larder_fuzz::memory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| memory::bounded(bytes, larder_server::fuzzing::memcached));
