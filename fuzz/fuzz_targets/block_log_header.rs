//! The metadata on the cache device of a block cache: header of a batch, footer of a segment, content of the label.
//! Each is parsed alone, as it is and with correct magic and checksum, and then by a start over all of them. The last 1
//! KiB is the footer.
#![no_main]

use larder_block::layout::log::fuzzing;
use larder_block::manage::StoredCache;
use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (first, last) = bytes.split_at(bytes.len().saturating_sub(1024));
    let (header, footer) = (seal::block_log_header(first), seal::block_log_footer(last));
    fuzzing::superblock(bytes);
    if let Ok(stored) = StoredCache::parse(bytes, 16 << 20) {
        assert_eq!(stored.encode().unwrap(), bytes, "what is believed is what would be written");
    }
    fuzzing::header(first);
    fuzzing::header(&header);
    fuzzing::short_header(first);
    fuzzing::short_header(&seal::block_log_short_header(first));
    fuzzing::metadata_header(first, last);
    fuzzing::metadata_header(&seal::block_log_metadata_header(first), last);
    fuzzing::metadata_header(last, &header);
    fuzzing::footer(last);
    fuzzing::footer(&footer);
    fuzzing::start(first, last);
    fuzzing::start(&header, &footer);
});
