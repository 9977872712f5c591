//! What a layout of small objects on flash does, and what is counted of it.

use super::admission::Admission;
use super::dram::Dram;
use super::objects::{Key, Objects};

/// Bytes of a page of flash: the least that is read or written.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of a bucket or page for its objects: the product's header has 32 bytes.
pub(super) const PAYLOAD_BYTES: u32 = 4096 - 32;
/// Bytes in front of each object on flash, as in the product's buckets.
pub(super) const ENTRY_BYTES: u32 = 10;

/// RRIP's prediction for a new object: "long".
pub(super) const LONG: u8 = 6;

/// An object as it was written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) version: u32,
    pub(super) bytes: u16,
    /// RRIP's prediction, 0 (soon) to 7 (not for long). Only buckets with RRIP use it.
    pub(super) rank: u8,
}

impl Entry {
    /// The last version of the object.
    pub(super) fn of(key: Key, objects: &Objects) -> Self {
        let (version, bytes) = (objects.version(key), objects.bytes(key));
        Self { key, version, bytes, rank: LONG }
    }

    /// Bytes that it takes on flash.
    pub(super) fn flash_bytes(&self) -> u32 {
        u32::from(self.bytes) + ENTRY_BYTES
    }
}

/// Bytes that these entries take on flash.
pub(super) fn flash_bytes(entries: &[Entry]) -> u32 {
    entries.iter().map(Entry::flash_bytes).sum()
}

/// The set of a key, of `sets`.
pub(super) fn set_of(key: Key, sets: u32) -> u32 {
    let mixed = u64::from(key).wrapping_add(77).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    #[allow(clippy::cast_possible_truncation)] // below `sets`
    let set = ((((mixed ^ (mixed >> 32)) & 0xffff_ffff) * u64::from(sets)) >> 32) as u32;
    set
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LookUp {
    /// The version that it found.
    pub(super) version: Option<u32>,
    /// Reads of flash that end with a hit or find nothing: the latter are an expected number.
    pub(super) reads: f64,
    /// Whether it read an old or expired version.
    pub(super) is_old: bool,
    /// Whether the version was in memory, in a page or group that is not written yet.
    pub(super) is_in_memory: bool,
}

/// What DRAM and the client have, while an object moves to flash.
pub(super) struct World<'a> {
    pub(super) objects: &'a Objects,
    pub(super) dram: &'a mut Dram,
    pub(super) admission: &'a Admission,
    pub(super) written: &'a mut Written,
}

/// What was written to flash. Counted from the beginning of the measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Payload (key and value) of the objects that left DRAM for flash.
    pub(super) admitted_bytes: u64,
    pub(super) admitted: u64,
    /// All bytes written to flash.
    pub(super) flash_bytes: u64,
    /// Pages or buckets written.
    pub(super) pages: u64,
    /// Objects that were copied from flash to flash.
    pub(super) carried: u64,
    /// Reads of flash that a write needs.
    pub(super) reads: u64,
    /// Objects that were admitted and dropped before they reached a bucket, a set or a page.
    pub(super) dropped: u64,
    /// Pages written with less than nine tenths of their bytes.
    pub(super) part_filled: u64,
}

impl Written {
    pub(super) fn admit(&mut self, bytes: u16) {
        self.admitted_bytes += u64::from(bytes);
        self.admitted += 1;
    }

    pub(super) fn page(&mut self) {
        self.flash_bytes += PAGE_BYTES;
        self.pages += 1;
    }
}

/// What is on flash, and what DRAM needs for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Objects with their last version.
    pub(super) objects: u64,
    /// Their bytes on flash.
    pub(super) bytes: u64,
    /// Entries on flash, old versions included.
    pub(super) entries: u64,
    /// Objects in pages in memory, if they take their bytes from DRAM.
    pub(super) in_memory: u64,
    /// Objects that have a place. Each of them must be there.
    pub(super) placed: u64,
    /// Bits of DRAM.
    pub(super) dram_bits: f64,
}

/// A layout of small objects on flash. It counts bytes and does no I/O.
pub(super) trait Layout {
    /// Looks an object up that DRAM does not have, and counts the hit.
    fn look_up(&mut self, key: Key, objects: &Objects) -> LookUp;

    /// Whether the last version is on flash. Costs nothing.
    fn holds(&self, key: Key) -> bool;

    /// The version on flash is old: the client has stored or deleted the object, it has expired, or a newer version was
    /// refused. With `is_known` the cache knows where it is: DRAM had the item clean, or the version was just read.
    fn forget(&mut self, key: Key, is_known: bool);

    /// DRAM has a version that is not on flash.
    fn dirtied(&mut self, _key: Key) {}

    /// Writes an object that leaves DRAM. It is admitted, and its last version is not on flash.
    fn write(&mut self, key: Key, world: &mut World<'_>);

    /// Bytes that the layout takes from DRAM for objects that are not on flash yet.
    fn memory_bytes(&self) -> u64 {
        0
    }

    /// What is on flash now.
    fn held(&self, objects: &Objects) -> Held;
}

/// Where the last version of each object is, and how often it was hit there.
pub(super) struct Places {
    at: Vec<u32>,
    hits: Vec<u8>,
}

const NOWHERE: u32 = u32::MAX;

impl Places {
    pub(super) fn new(keys: usize) -> Self {
        Self { at: vec![NOWHERE; keys], hits: vec![0; keys] }
    }

    pub(super) fn get(&self, key: Key) -> Option<u32> {
        let at = self.at[key as usize];
        (at != NOWHERE).then_some(at)
    }

    /// Objects that have a place and have not expired.
    pub(super) fn count(&self, objects: &Objects) -> u64 {
        let placed = (0..).zip(&self.at).filter(|(_, at)| **at != NOWHERE);
        placed.filter(|(key, _)| !objects.is_expired(*key)).count() as u64
    }

    /// The object is at `place` now, and was not hit there yet.
    pub(super) fn put(&mut self, key: Key, place: u32) {
        self.at[key as usize] = place;
        self.hits[key as usize] = 0;
    }

    pub(super) fn clear(&mut self, key: Key) {
        self.at[key as usize] = NOWHERE;
        self.hits[key as usize] = 0;
    }

    pub(super) fn hit(&mut self, key: Key) {
        let hits = &mut self.hits[key as usize];
        *hits = hits.saturating_add(1);
    }

    pub(super) fn hits(&self, key: Key) -> u8 {
        self.hits[key as usize]
    }

    pub(super) fn set_hits(&mut self, key: Key, hits: u8) {
        self.hits[key as usize] = hits;
    }

    /// Whether this entry at `place` is the last version of its object and has not expired.
    pub(super) fn is_live(&self, entry: &Entry, place: u32, objects: &Objects) -> bool {
        self.at[entry.key as usize] == place
            && objects.version(entry.key) == entry.version
            && !objects.is_expired(entry.key)
    }
}
