//! What the index stores for consecutive sectors of a core: 8 bytes.

use crate::layout::{ClassId, SECTOR_BYTES};

/// The location of sectors on the cache device, and their state. The first sector is the key, and not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset on the cache device, in bytes: a multiple of 64 below 2^49.
    pub(crate) location: u64,
    /// Number of sectors, 1 to 128.
    pub(crate) sectors: u32,
    pub(crate) is_dirty: bool,
    /// Its record says dirty, and says that the data may be younger than the checksum in the record.
    pub(crate) is_overwritable: bool,
    /// It is in flight to the core. It is not overwritten in place, because the data that arrives counts as the data
    /// here.
    pub(crate) is_busy: bool,
    /// Accesses since it was written to this location, at most [`HITS_MAX`].
    pub(crate) hits: u8,
    /// The class for which it is cached. Only in memory: a start knows no classes.
    pub(crate) class: ClassId,
    /// Its class has evicted it. It is not read, and counts as absent, but its record is on the device until its
    /// segment is filled again. A write past it to the core must make the record void first.
    pub(crate) is_evicted: bool,
    /// It is clean because it was destaged, but its record still says dirty: a start after a crash takes it for dirty,
    /// until a [marker](super::super::record) says otherwise. Meaningless if it is dirty.
    pub(crate) was_dirty: bool,
}

/// The highest number of hits that is counted.
pub(crate) const HITS_MAX: u8 = 7;

/// Locations are stored in units of 64 bytes: no device has smaller blocks.
const LOCATION_SHIFT: u32 = 6;
const LOCATION_BITS: u32 = 43;
const SECTORS_BITS: u32 = 7;
const DIRTY: u64 = 1 << 50;
const OVERWRITABLE: u64 = 1 << 51;
const BUSY: u64 = 1 << 52;
const HITS_SHIFT: u32 = 53;
const CLASS_SHIFT: u32 = 56;
const CLASS_BITS: u32 = 6;
const EVICTED: u64 = 1 << 62;
const WAS_DIRTY: u64 = 1 << 63;
const _: () = assert!(ClassId::COUNT <= 1 << CLASS_BITS && CLASS_SHIFT + CLASS_BITS <= 62);

/// Most sectors of an extent.
pub(crate) const EXTENT_SECTORS_MAX: u32 = 1 << SECTORS_BITS;

/// Most bytes of a cache device.
pub(crate) const LOCATION_END: u64 = 1 << (LOCATION_BITS + LOCATION_SHIFT);

impl Extent {
    /// An extent of no class, without hits or other state.
    pub(crate) fn new(location: u64, sectors: u32, is_dirty: bool) -> Self {
        Self {
            location,
            sectors,
            is_dirty,
            is_overwritable: false,
            is_busy: false,
            hits: 0,
            class: ClassId::UNCLASSIFIED,
            is_evicted: false,
            was_dirty: false,
        }
    }

    pub(in crate::layout::log) fn pack(self) -> u64 {
        debug_assert!(self.location < LOCATION_END && self.hits <= HITS_MAX);
        debug_assert!(self.location.is_multiple_of(1 << LOCATION_SHIFT), "whole blocks");
        debug_assert!((1..=EXTENT_SECTORS_MAX).contains(&self.sectors));
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        self.location >> LOCATION_SHIFT
            | u64::from(self.sectors - 1) << LOCATION_BITS
            | flag(self.is_dirty, DIRTY)
            | flag(self.is_overwritable, OVERWRITABLE)
            | flag(self.is_busy, BUSY)
            | u64::from(self.hits) << HITS_SHIFT
            | u64::from(self.class.get()) << CLASS_SHIFT
            | flag(self.is_evicted, EVICTED)
            | flag(self.was_dirty, WAS_DIRTY)
    }

    pub(in crate::layout::log) fn unpack(packed: u64) -> Self {
        let bits = |shift: u32, count: u32| (packed >> shift) & ((1 << count) - 1);
        Self {
            location: bits(0, LOCATION_BITS) << LOCATION_SHIFT,
            sectors: u32::try_from(bits(LOCATION_BITS, SECTORS_BITS)).expect("7 bits") + 1,
            is_dirty: packed & DIRTY != 0,
            is_overwritable: packed & OVERWRITABLE != 0,
            is_busy: packed & BUSY != 0,
            hits: u8::try_from(bits(HITS_SHIFT, 3)).expect("3 bits"),
            class: u8::try_from(bits(CLASS_SHIFT, CLASS_BITS))
                .ok()
                .and_then(ClassId::new)
                .expect("one that was packed"),
            is_evicted: packed & EVICTED != 0,
            was_dirty: packed & WAS_DIRTY != 0,
        }
    }

    /// Whether a start after a crash considers it dirty.
    pub(in crate::layout::log) fn looks_dirty(self) -> bool {
        self.is_dirty || self.was_dirty
    }

    /// The part of it from its sector `from` to its sector `to`.
    pub(super) fn part(self, from: u32, to: u32) -> Self {
        debug_assert!(from < to && to <= self.sectors);
        let location = self.location + u64::from(from) * SECTOR_BYTES as u64;
        Self { location, sectors: to - from, ..self }
    }

    /// Its end on the cache device, in bytes.
    pub(crate) fn end(self) -> u64 {
        self.location + u64::from(self.sectors) * SECTOR_BYTES as u64
    }
}
