//! The catalogue of virtual SSDs and the journal after it, on drives that hold blocks: the bytes as they are, and with
//! correct magics and checksums. An array that opens must agree with its drives, work, and open again.
#![no_main]

use larder_fuzz::array::{self, STRIPE_PAGES};
use larder_fuzz::seal;
use larder_ssd::raw::RawSsd;
use larder_vssd::{MemoryImages, Pages, Swap, Vssds};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (used, _) = array::used();
    let identity = used.identity();
    let (drives, _) = used.into_parts();
    let drives = open(drives, bytes.to_vec());
    open(drives, seal::catalogue(bytes, identity));
});

/// Opens an array with one of its images missing. Returns the drives.
fn open(drives: Vec<RawSsd>, image: Vec<u8>) -> Vec<RawSsd> {
    let mut array = match Vssds::open(drives, MemoryImages([image, Vec::new()])) {
        Ok((array, _)) => array,
        Err(refused) => return refused.into_parts().0,
    };
    array.audit().unwrap();
    work(&mut array);
    array.audit().unwrap();
    let tenants: Vec<_> = array.list().collect();
    let (drives, images) = array.into_parts();
    let (array, _) = Vssds::open(drives, images).unwrap();
    array.audit().unwrap();
    assert!(array.list().eq(tenants));
    array.into_parts().0
}

/// Uses everything in the array. Errors are fine, because the drives may not have what the catalogue promises.
fn work(array: &mut Vssds<MemoryImages>) {
    let stripe = Pages::Count(STRIPE_PAGES);
    for tenant in array.list().collect::<Vec<_>>() {
        for state in array.blocks(tenant.id).unwrap() {
            array.read(tenant.id, state.block, 0, state.written_pages).unwrap();
            let _ = array.append(tenant.id, state.block, state.written_pages, stripe);
        }
        if let Ok(block) = array.alloc_block(tenant.id, 1) {
            assert_eq!(array.written_pages(tenant.id, block), Ok(0));
            let _ = array.append(tenant.id, block, 0, stripe);
            let _ = array.free_block(tenant.id, block);
        }
    }
    for _ in 0..100 {
        if !matches!(array.swap_step(), Ok(Swap::Moved { .. })) {
            break;
        }
    }
}
