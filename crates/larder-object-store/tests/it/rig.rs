//! Caches for the tests, and bytes that tell where they are from.

use std::sync::Arc;
use std::time::Duration;

use larder::{Config, Larder, RealClock, VirtualClock, block_on};
use larder_object_store::{Options, PathRule};

/// Bytes of a part in these tests.
pub(crate) const PART: u64 = 64 << 10;

/// Small parts, requests of 8 of them, and no merging over gaps.
pub(crate) fn options() -> Options {
    Options {
        part_size: PART,
        request_bytes: 8 * PART,
        merge_gap: 0,
        prefetch_footer: 0,
        ..Options::default()
    }
}

/// The same, with heads that are trusted for ever.
pub(crate) fn immutable() -> Options {
    Options { immutable: vec![PathRule::suffix("o"), PathRule::prefix("f")], ..options() }
}

/// The same, with heads that are trusted for some seconds.
pub(crate) fn trusting(seconds: u64) -> Options {
    Options { head_ttl: Duration::from_secs(seconds), ..options() }
}

pub(crate) fn cache() -> Arc<Larder> {
    let config = Config { dram_bytes: 64 << 20, ..Config::default() };
    Arc::new(block_on(Larder::open(config, None, Arc::new(RealClock))).unwrap())
}

pub(crate) fn cache_by(clock: &Arc<VirtualClock>) -> Arc<Larder> {
    let config = Config { dram_bytes: 64 << 20, ..Config::default() };
    Arc::new(block_on(Larder::open(config, None, Arc::clone(clock) as _)).unwrap())
}

/// Bytes that depend on the version and on their place.
pub(crate) fn bytes_of(version: u32, length: u64) -> Vec<u8> {
    (0..length).map(|at| byte_of(version, at)).collect()
}

/// A byte of `bytes_of`.
pub(crate) fn byte_of(version: u32, at: u64) -> u8 {
    let mixed = (at / 7).wrapping_mul(31).wrapping_add(u64::from(version).wrapping_mul(101));
    u8::try_from((mixed ^ at) % 251).unwrap()
}

/// Whether bytes are those of a version.
pub(crate) fn is_of(bytes: &[u8], at: u64, version: u32) -> bool {
    bytes.iter().zip(at..).all(|(byte, at)| *byte == byte_of(version, at))
}

/// The version of some bytes, after checking that all of them are of one.
pub(crate) fn version_of(bytes: &[u8], at: u64, versions: u32) -> u32 {
    (0..versions).find(|version| is_of(bytes, at, *version)).expect("bytes of one version")
}
