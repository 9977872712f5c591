//! A slot of a core's fingerprint: as it is, and with correct magic and checksum. A slot that is accepted must be the
//! same after it is written and read again.
#![no_main]

use std::collections::BTreeSet;

use larder_block::fingerprint::{BLOCK_BYTES, SLOT_BYTES, Slot};
use larder_block::layout::CoreId;
use larder_device::label::Uuid;
use larder_fuzz::seal;
use libfuzzer_sys::fuzz_target;

/// Offset of the slot on its device.
const OFFSET: u64 = 8192;

fn parse(bytes: &[u8]) -> Option<Slot> {
    Slot::parse(bytes, OFFSET, (Uuid::from_bytes([0; 16]), CoreId::new(0)?))
}

fuzz_target!(|bytes: &[u8]| {
    let _ = parse(bytes);
    let mut whole = bytes.to_vec();
    whole.resize(SLOT_BYTES, 0);
    let Some(slot) = parse(&seal::block_fingerprint(&whole, OFFSET)) else { return };
    assert!(slot.entries.len() <= 298, "{} entries", slot.entries.len());
    let blocks: BTreeSet<u64> = slot.entries.iter().map(|entry| entry.block).collect();
    assert_eq!(blocks.len(), slot.entries.len(), "each block once");
    assert!(blocks.last().is_none_or(|last| (last + 1) * BLOCK_BYTES <= slot.core_bytes));
    assert_eq!(parse(&slot.encode(OFFSET)), Some(slot));
});
