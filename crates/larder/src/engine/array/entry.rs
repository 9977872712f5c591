//! An entry of the index: where the newest record of a key lies, in 16 bytes.
//!
//! ```text
//!  bits    field
//!   0..64  fingerprint of the key, and behind it the number of the filling that the record is of, as far as there are
//!          bits ([`Shape`])
//!  64..104 address, in grains of 1 KiB from the first region on
//! 104..118 length, in grains; 0 is no entry
//! 118..123 group of times to live
//! 123..125 in DRAM: place in the order of use of its set, 0 is the latest
//!     125  in DRAM: its table does not know it yet
//! 126..128 in DRAM: how often it was asked for since it was written, up to 3
//! ```
//!
//! BigKV (EuroSys'23) uses the same 16 bytes, with 64 bits of fingerprint and no filling number: there, an entry of an
//! overwritten record costs a read; here it costs none.

use larder_log::{RecordForm, RegionId};

/// Unit of addresses and lengths.
pub(crate) const GRAIN_BYTES: u32 = RecordForm::STAMPED.align_bytes();
/// Bytes of an entry, in DRAM and on flash.
pub(crate) const ENTRY_BYTES: usize = size_of::<SetEntry>();
/// Upper bound of addresses: 1 PiB.
pub(crate) const ADDRESSES: u64 = 1 << ADDRESS_BITS;

/// Longest object whose length fits into an entry, after subtracting the record's overhead.
pub(crate) const OBJECT_BYTES_MAX: usize =
    ((1 << LENGTH_BITS) - 1) * GRAIN_BYTES as usize - RecordForm::STAMPED.beside_object_bytes();

const ADDRESS_BITS: u32 = 40;
const LENGTH_BITS: u32 = 14;
const GROUP_BITS: u32 = 5;
const ADDRESS_AT: u32 = 64;
const LENGTH_AT: u32 = ADDRESS_AT + ADDRESS_BITS;
const GROUP_AT: u32 = LENGTH_AT + LENGTH_BITS;
const RANK_AT: u32 = GROUP_AT + GROUP_BITS;
const DIRTY_AT: u32 = RANK_AT + 2;
const HIT_AT: u32 = DIRTY_AT + 1;
const HIT_BITS: u32 = 2;
const _: () = assert!(ENTRY_BYTES == 16 && HIT_AT + HIT_BITS == 128);

/// Bits of a fingerprint, if there are enough tables.
const FINGERPRINT_BITS: u32 = 48;
/// The number of the table and the fingerprint together determine at least this number of bits of a hash.
const EFFECTIVE_BITS: u32 = 56;

/// How the first half of an entry is divided: with fewer than 256 tables, the table number determines fewer bits of a
/// hash, and the fingerprint takes bits from the filling number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    fingerprint_bits: u32,
    grains_per_region: u64,
}

/// The part of a key's hash that an entry keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(pub(crate) u64);

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) region: RegionId,
    /// Offset in the region, in bytes.
    pub(crate) offset: u32,
    /// Bytes to read: whole grains.
    pub(crate) span: u32,
}

/// See the [module](self).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub(crate) struct SetEntry(u128);

impl Shape {
    /// The shape for an index of `tables` tables, over regions of this size.
    pub(crate) fn new(tables: u32, region_bytes: u32) -> Self {
        let told_by_table = tables.max(1).ilog2();
        let fingerprint_bits = EFFECTIVE_BITS.saturating_sub(told_by_table).max(FINGERPRINT_BITS);
        Self { fingerprint_bits, grains_per_region: u64::from(region_bytes / GRAIN_BYTES) }
    }

    pub(crate) fn fingerprint(self, hash: u64) -> Fingerprint {
        Fingerprint(hash & self.mask())
    }

    fn mask(self) -> u64 {
        (1 << self.fingerprint_bits) - 1
    }

    /// The lower bits of a filling's number that entries keep, shifted to their position.
    fn filling(self, sequence: u64) -> u64 {
        sequence << self.fingerprint_bits
    }

    /// An entry for a record of this filling.
    pub(crate) fn entry(
        self,
        fingerprint: Fingerprint,
        (place, sequence): (RecordPlace, u64),
        group: u8,
    ) -> SetEntry {
        let region = u64::from(place.region.number()) * self.grains_per_region;
        let address = region + u64::from(place.offset / GRAIN_BYTES);
        let length = place.span.div_ceil(GRAIN_BYTES);
        assert!(address < ADDRESSES && (1..1 << LENGTH_BITS).contains(&length), "{place:?}");
        debug_assert!(group < 1 << GROUP_BITS);
        let first = fingerprint.0 | self.filling(sequence);
        SetEntry(
            u128::from(first)
                | u128::from(address) << ADDRESS_AT
                | u128::from(length) << LENGTH_AT
                | u128::from(group) << GROUP_AT,
        )
    }

    /// The fingerprint of the key. Meaningless for an empty entry.
    pub(crate) fn fingerprint_of(self, entry: SetEntry) -> Fingerprint {
        Fingerprint(low(entry.0) & self.mask())
    }

    /// Whether it is an entry for this key.
    pub(crate) fn is_of(self, entry: SetEntry, fingerprint: Fingerprint) -> bool {
        !entry.is_none() && self.fingerprint_of(entry) == fingerprint
    }

    /// Whether its record is of this filling, as far as the stored bits tell.
    pub(crate) fn is_of_filling(self, entry: SetEntry, sequence: u64) -> bool {
        low(entry.0) & !self.mask() == self.filling(sequence)
    }

    /// Where its record lies. For an entry that was read from flash, the region number may be out of range.
    pub(crate) fn place_of(self, entry: SetEntry) -> RecordPlace {
        self.place_at(entry.position())
    }

    /// The place that a position denotes.
    pub(crate) fn place_at(self, position: u64) -> RecordPlace {
        let address = position & (ADDRESSES - 1);
        let grains = u32::try_from(position >> ADDRESS_BITS).expect("14 bits");
        let region = u32::try_from(address / self.grains_per_region).unwrap_or(u32::MAX);
        let grain = u32::try_from(address % self.grains_per_region).expect("a region is < 4 GiB");
        RecordPlace {
            region: RegionId::new(region),
            offset: grain * GRAIN_BYTES,
            span: grains * GRAIN_BYTES,
        }
    }
}

/// The lower half.
fn low(bits: u128) -> u64 {
    #[allow(clippy::cast_possible_truncation)] // truncation is intended
    let low = bits as u64;
    low
}

impl SetEntry {
    /// Whether both are for the same key and record.
    pub(crate) fn is_same(self, other: Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }

    pub(crate) fn is_none(self) -> bool {
        self.grains() == 0
    }

    /// Address and length in one word.
    pub(crate) fn position(self) -> u64 {
        low(self.0 >> ADDRESS_AT) & ((1 << (ADDRESS_BITS + LENGTH_BITS)) - 1)
    }

    fn grains(self) -> u32 {
        self.bits(LENGTH_AT, LENGTH_BITS)
    }

    fn bits(self, at: u32, bits: u32) -> u32 {
        let mask = (1_u64 << bits) - 1;
        u32::try_from(low(self.0 >> at) & mask).expect("fields have less than 32 bits")
    }

    fn with_bits(self, at: u32, bits: u32, value: u32) -> Self {
        debug_assert!(u64::from(value) < 1 << bits);
        let mask = ((1_u128 << bits) - 1) << at;
        Self(self.0 & !mask | u128::from(value) << at)
    }

    /// TTL group in which its record was written.
    #[cfg(test)]
    pub(crate) fn group(self) -> u8 {
        u8::try_from(self.bits(GROUP_AT, GROUP_BITS)).expect("5 bits")
    }

    pub(super) fn rank(self) -> u32 {
        self.bits(RANK_AT, 2)
    }

    pub(super) fn with_rank(self, rank: u32) -> Self {
        self.with_bits(RANK_AT, 2, rank)
    }

    /// Whether its table does not know it yet.
    pub(crate) fn is_dirty(self) -> bool {
        self.bits(DIRTY_AT, 1) == 1
    }

    pub(crate) fn with_dirty(self, dirty: bool) -> Self {
        self.with_bits(DIRTY_AT, 1, dirty.into())
    }

    /// How often it was requested since it was written, up to 3.
    pub(crate) fn hits(self) -> u32 {
        self.bits(HIT_AT, HIT_BITS)
    }

    /// Counts a request.
    pub(crate) fn with_hit(self) -> Self {
        self.with_bits(HIT_AT, HIT_BITS, (self.hits() + 1).min((1 << HIT_BITS) - 1))
    }

    /// The form on flash: without the bits that exist only in DRAM.
    pub(crate) fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        (self.0 & ((1 << RANK_AT) - 1)).to_le_bytes()
    }

    /// Parses the form on flash.
    pub(crate) fn from_bytes(bytes: [u8; ENTRY_BYTES]) -> Self {
        Self(u128::from_le_bytes(bytes) & ((1 << RANK_AT) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn number_of_the_table_and_fingerprint_tell_56_bits() {
        for (tables, bits) in [(1, 56), (2, 55), (200, 49), (256, 48), (1 << 18, 48)] {
            let shape = Shape::new(tables, 1 << 20);
            assert_eq!(shape.fingerprint_bits, bits, "{tables} tables");
            assert!(shape.fingerprint_bits + tables.ilog2() >= 56);
        }
    }

    proptest! {
        #[test]
        fn an_entry_says_what_was_put_in(
            tables in 1_u32..10_000,
            hash in any::<u64>(),
            sequence in any::<u64>(),
            (region, grain) in (0..1_u32 << 20, 0..1024_u32),
            grains in 1..1_u32 << 14,
            (group, rank) in (0..32_u8, 0..4_u32),
        ) {
            let shape = Shape::new(tables, 1 << 20);
            let fingerprint = shape.fingerprint(hash);
            let place = RecordPlace {
                region: RegionId::new(region),
                offset: grain * 1024,
                span: grains * 1024,
            };
            let entry = shape.entry(fingerprint, (place, sequence), group);
            prop_assert!(shape.is_of(entry, fingerprint));
            prop_assert!(!shape.is_of(entry, shape.fingerprint(!hash)));
            prop_assert!(shape.is_of_filling(entry, sequence));
            prop_assert!(!shape.is_of_filling(entry, sequence.wrapping_add(1)));
            prop_assert!(!shape.is_of_filling(entry, sequence.wrapping_add(255)));
            prop_assert_eq!((shape.place_of(entry), entry.group()), (place, group));
            let used = entry.with_rank(rank).with_dirty(true).with_hit();
            prop_assert_eq!((used.rank(), used.is_dirty(), used.hits()), (rank, true, 1));
            let often = (0..5).fold(used, |entry, _| entry.with_hit());
            prop_assert_eq!((often.rank(), often.is_dirty(), often.hits()), (rank, true, 3));
            prop_assert_eq!(SetEntry::from_bytes(used.to_bytes()), entry);
            prop_assert!(SetEntry::default().is_none() && !entry.is_none());
        }
    }
}
