//! Entry points for the fuzzer: every decoder of bytes that come from flash. Not part of the API.

use larder_device::IoBuffer;
use larder_device::label::{self, Uuid};
use larder_log::CacheId;
use larder_log::{RecordForm, RecordIdentity, RegionId, footer, record};

use crate::engine::soc::bucket::{AcceptedWrites, BUCKET_BYTES, Bucket};
use crate::engine::soc::log::page::{self as log, PAGE_BYTES, PageIdentity};
use crate::engine::superblock::Superblock;

/// Parses any bytes as a bucket of the small-object engine. If the checksum is wrong, sets the right one and tries
/// again, so that the fuzzer gets past it.
pub fn bucket(bytes: &[u8]) {
    let identity = AcceptedWrites {
        cache: CacheId::ZERO,
        number: 0,
        oldest_epoch: 0,
        latest_epoch: 0,
        generation: Some(0),
    };
    let mut buffer = IoBuffer::zeroed(BUCKET_BYTES);
    let length = bytes.len().min(BUCKET_BYTES);
    buffer.as_mut_slice()[..length].copy_from_slice(&bytes[..length]);
    let buffer = match Bucket::parse(buffer, identity) {
        Ok(bucket) => return walk(&bucket),
        Err((_, buffer)) => buffer,
    };
    if let Ok(bucket) = Bucket::parse(crate::engine::soc::bucket::forge(buffer), identity) {
        walk(&bucket);
    }
}

fn walk(bucket: &Bucket) {
    let bytes: usize = bucket.entries().map(|entry| entry.key.len() + entry.value.len()).sum();
    assert!(bytes <= BUCKET_BYTES);
}

/// Parses any bytes as a page of the small-object log. A wrong checksum is replaced, as with buckets.
pub fn log_page(bytes: &[u8]) {
    let identity = PageIdentity { cache: CacheId::ZERO, sequence: 0, segment: 0, page: 0 };
    let mut page = vec![0; PAGE_BYTES];
    let length = bytes.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&bytes[..length]);
    if !log::is_valid(&page, identity) {
        log::forge(&mut page);
    }
    let lengths = log::records(&page).map(|record| record.key.len() + record.value.len());
    let bytes: usize = lengths.sum();
    assert!(bytes <= PAGE_BYTES || !log::is_valid(&page, identity));
}

/// Parses any bytes as what pages by set have on flash: the first byte is a number of pages, the others are the value
/// of a page, and the directory of a region with that number.
pub fn pages(bytes: &[u8]) {
    if let Some((&pages, bytes)) = bytes.split_first() {
        crate::engine::pages::fuzz_parts(bytes, pages);
    }
}

/// Parses any bytes as a record of the large-object engine.
pub fn record(bytes: &[u8]) {
    let identity = RecordIdentity { cache: CacheId::ZERO, sequence: 0, offset: 0 };
    if let Some(record) = record::parse(bytes, identity) {
        assert!(record.key().len() <= record.body.len());
    }
}

/// Parses any bytes as the tail of a region.
pub fn footer(bytes: &[u8]) {
    const REGION_BYTES: usize = 1 << 20;
    for form in [RecordForm::PLAIN, RecordForm::STAMPED] {
        let footer = footer::parse(bytes, (CacheId::ZERO, form), RegionId::new(0), REGION_BYTES);
        for entry in footer.map(|footer| footer.entries).unwrap_or_default() {
            assert!(entry.offset as usize + entry.length as usize <= REGION_BYTES);
        }
    }
}

/// Parses any bytes as a page of a table of the array's index.
pub fn array_table(bytes: &[u8]) {
    crate::engine::array::table::fuzz_page(bytes);
}

/// Parses any bytes as the front of a device, as a superblock behind a right checksum, and as a snapshot.
pub fn metadata(bytes: &[u8]) {
    let _ = label::find(bytes);
    let uuid = Uuid::from_bytes([0; 16]);
    if let Some(superblock) = Superblock::parse(bytes, uuid) {
        assert_eq!(Superblock::parse(&superblock.encode(), uuid), Some(superblock));
    }
    crate::flash::fuzz_snapshot(bytes);
}

/// Parses any bytes as a tombstone log.
pub fn tombstones(bytes: &[u8]) {
    crate::engine::tombstones::fuzz_log(bytes);
}

/// Parses any bytes as a partition table.
pub fn partition_table(bytes: &[u8]) {
    crate::fleet::partition::fuzz_table(bytes);
}
