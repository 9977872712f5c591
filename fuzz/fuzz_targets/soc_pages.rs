//! Pages by set: the value of a page, and the directory of a region. Records of the log have checksums; `loc_record`
//! and `loc_footer` are about these.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| larder::fuzzing::pages(bytes));
