//! A model image with arbitrary changes, as it is, and with correct magics and checksums.
//!
//! The first byte says whether both copies change alike, and selects the part to change: header, catalogue, blocks,
//! protected buffer, or anything. An image that opens is read and written. A page that fails its checksum must not be
//! returned.
#![no_main]

use std::sync::LazyLock;

use larder_blocks::vssd::{VssdArray, VssdBlocks};
use larder_blocks::{BlockStore, Stream};
use larder_device::IoBuffer;
use larder_fuzz::array::{self, FILL, MemoryImage, Sections};
use larder_fuzz::patches;
use libfuzzer_sys::fuzz_target;

static LEFT: LazyLock<(Vec<u8>, Sections)> = LazyLock::new(|| {
    let image = array::used_image();
    let sections = array::sections(&image);
    (image, sections)
});

fuzz_target!(|input: &[u8]| {
    let Some((how, input)) = input.split_first() else { return };
    let (mut image, sections) = LEFT.clone();
    for patch in patches::of(input) {
        match sections.copies.get(usize::from(how >> 1) % 5) {
            None => patch.apply(&mut image),
            Some([one, other]) => {
                patch.apply(&mut image[one.clone()]);
                if how & 1 == 1 {
                    patch.apply(&mut image[other.clone()]);
                }
            }
        }
    }
    open(image.clone(), true);
    open(array::sealed(image, &sections), false);
});

/// `only_ours`: whether the checksums of pages are still the original ones, not corrected after the changes.
fn open(image: Vec<u8>, only_ours: bool) {
    let Ok((array, _)) = VssdArray::open_image(MemoryImage::holding(image)) else { return };
    array.verify().unwrap();
    for tenant in array.list() {
        let store = array.store(tenant.id).unwrap();
        work(&store, only_ours);
    }
    for _ in 0..20 {
        let _ = array.swap_step();
    }
    let _ = array.sync();
    array.power_cycle().unwrap();
}

fn work(store: &VssdBlocks, only_ours: bool) {
    let page_bytes = store.info().page_bytes as usize;
    for state in store.list() {
        for page in 0..state.written_bytes / page_bytes as u64 {
            let read =
                store.read(state.block, page * page_bytes as u64, IoBuffer::zeroed(page_bytes));
            if let Ok(buffer) = read.wait() {
                let ours = buffer.as_slice().iter().all(|byte| *byte == FILL);
                assert!(ours || !only_ours, "page {page} of {state:?} is nobody's");
            }
        }
        let _ = store.append(state.block, state.written_bytes, IoBuffer::zeroed(page_bytes)).wait();
    }
    if let Ok(block) = store.alloc(Stream::DEFAULT, 9).wait() {
        let _ = store.append(block, 0, IoBuffer::zeroed(3 * page_bytes)).wait();
        let _ = store.free(block).wait();
    }
}
