//! Block stores through their public interface: what every store guarantees, and what each adds.

mod crash;
mod on_device;
mod promises;
mod vssd;
mod zoned;

use std::sync::Arc;

use larder_blocks::{BlockStore, IsolationLevel, MemoryBlocks, StoreInfo};

use promises::a_block_store_keeps_its_promises;

#[test]
fn memory_keeps_the_promises() {
    for seed in 0..40 {
        let store = MemoryBlocks::new(12, 64 << 10, 4096).unwrap();
        a_block_store_keeps_its_promises(seed, Arc::new(store), |same| same);
    }
}

#[test]
fn no_more_blocks_are_open_than_may_be() {
    let info = StoreInfo {
        open_blocks_max: Some(2),
        isolation: IsolationLevel::Unknown,
        ..MemoryBlocks::new(12, 8192, 4096).unwrap().info().clone()
    };
    let store = MemoryBlocks::with_info(info).unwrap();
    promises::open_blocks_are_limited(&store);
}

#[test]
fn impossible_stores_are_refused() {
    for (block_bytes, page_bytes, what) in [
        (8192, 4095, "page_bytes of 4095"),
        (8192, 256, "page_bytes of 256"),
        (0, 512, "of 0"),
        (8191, 512, "of 8191"),
    ] {
        let error = MemoryBlocks::new(1, block_bytes, page_bytes).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}
