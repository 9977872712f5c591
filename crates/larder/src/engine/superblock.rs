//! The content of a cache's label: the layout of its device, how its last opening ended, and which of its data
//! counts. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  epoch: grows by 1 with each opening and clear
//!       8      8  oldest epoch that is valid
//!      16      4  flags: 1 after a clean shutdown; 2 if the tombstone log says what a crash leaves; 4 if the boot is
//!                 known; 8 if what has been answered outlives a loss of power
//!      20      4  epoch in which the tombstone log began
//!      24      8  boot of the device in which this was written
//!      32      8  latest second that the cache's clock has told
//!      40      8  seed of the hash of keys, random
//!      48      8  capacity of the device
//!      56      8  what the cache uses of it
//!      64      8  where the first section begins: label and snapshot lie before it
//!      72      4  n: number of sections
//!      76      4  reserved, 0
//!      80   32 n  sections, by what is kept there
//!
//!  section
//!       0      4  kind: "TOMB", "LREG", "SLOG", "SBKT"; "ARRY" where there is an array engine; "SPGS" where small
//!                 objects are in pages by set
//!       4      4  bytes of a unit: block, region, segment, bucket
//!       8      8  offset
//!      16      8  number of units
//!      24      4  of "ARRY" the number of tables, of "SPGS" the number of sets; 0 of others
//!      28      4  of "ARRY" the number of groups of times to live; 0 of others
//! ```
//!
//! The label has the version, the checksum and the identity ([`larder_device::label`]).

#![deny(clippy::indexing_slicing)]

use larder_device::label::Uuid;
use larder_log::CacheId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::base::key::KeyHasher;
use crate::base::layout::{Layout, Section};

/// Epochs end here, because sequence numbers of regions are epochs shifted left by 32 bits.
pub(crate) const EPOCH_MAX: u64 = u32::MAX as u64;

const CLEAN: u32 = 1;
const RECOVERABLE: u32 = 2;
const BOOT_KNOWN: u32 = 4;
const POWER: u32 = 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedPart {
    epoch: U64,
    oldest_epoch: U64,
    flags: U32,
    ring: U32,
    boot: U64,
    second: U64,
    seed: U64,
    capacity_bytes: U64,
    usable_bytes: U64,
    metadata_bytes: U64,
    sections: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SectionEntry {
    kind: [u8; 4],
    unit_bytes: U32,
    offset: U64,
    units: U64,
    details: [U32; 2],
}

const _: () = assert!(size_of::<FixedPart>() == 80 && size_of::<SectionEntry>() == 32);

/// The content of a cache's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) clean: bool,
    /// Whether the tombstone log says what content a crash has made void.
    pub(crate) recoverable: bool,
    /// Whether that also holds after a loss of power (`CrashSafety::Power`): the writer ordered its writes for it.
    pub(crate) power: bool,
    pub(crate) epoch: u64,
    pub(crate) oldest_epoch: u64,
    /// Epoch in which the tombstone log began.
    pub(crate) ring: u32,
    /// See [`larder_device::Device::boot`].
    pub(crate) boot: Option<u64>,
    /// The cache's clock had reached this second: see [`crate::base::time`].
    pub(crate) second: u32,
    /// Derived from the UUID of the label.
    pub(crate) cache: CacheId,
    /// The key hash, which determines the place of all content.
    pub(crate) hasher: KeyHasher,
    pub(crate) layout: Layout,
}

impl Superblock {
    /// Encodes the content of a label.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let sections = self.layout.sections();
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let fixed = FixedPart {
            epoch: self.epoch.into(),
            oldest_epoch: self.oldest_epoch.into(),
            flags: (flag(self.clean, CLEAN)
                | flag(self.recoverable, RECOVERABLE)
                | flag(self.power, POWER)
                | flag(self.boot.is_some(), BOOT_KNOWN))
            .into(),
            ring: self.ring.into(),
            boot: self.boot.unwrap_or(0).into(),
            second: u64::from(self.second).into(),
            seed: self.hasher.seed().into(),
            capacity_bytes: self.layout.capacity_bytes.into(),
            usable_bytes: self.layout.usable_bytes.into(),
            metadata_bytes: self.layout.metadata_bytes.into(),
            sections: u32::try_from(sections.len()).expect("a few").into(),
            reserved: 0.into(),
        };
        let mut content = fixed.as_bytes().to_vec();
        for Section { kind, offset, units, unit_bytes, details } in sections {
            let entry = SectionEntry {
                kind,
                unit_bytes: unit_bytes.into(),
                offset: offset.into(),
                units: units.into(),
                details: details.map(U32::new),
            };
            content.extend_from_slice(entry.as_bytes());
        }
        content
    }

    /// Parses the content of the label with this UUID. `None` if it cannot belong to a cache.
    pub(crate) fn parse(content: &[u8], uuid: Uuid) -> Option<Self> {
        let (fixed, rest) = FixedPart::ref_from_prefix(content).ok()?;
        let count = usize::try_from(fixed.sections.get()).ok()?;
        let entries = <[SectionEntry]>::ref_from_bytes_with_elems(rest, count).ok()?;
        let sections: Vec<Section> = entries
            .iter()
            .map(|entry| Section {
                kind: entry.kind,
                offset: entry.offset.get(),
                units: entry.units.get(),
                unit_bytes: entry.unit_bytes.get(),
                details: entry.details.map(U32::get),
            })
            .collect();
        let has = |flag: u32| fixed.flags.get() & flag != 0;
        let layout = Layout {
            capacity_bytes: fixed.capacity_bytes.get(),
            usable_bytes: fixed.usable_bytes.get(),
            metadata_bytes: fixed.metadata_bytes.get(),
            ..Layout::default()
        };
        // The next opening adds 1.
        let epoch = Some(fixed.epoch.get()).filter(|&epoch| epoch < EPOCH_MAX)?;
        // Engines rely on this order, and a valid checksum does not prove it.
        let oldest_epoch = Some(fixed.oldest_epoch.get()).filter(|&oldest| oldest <= epoch)?;
        Some(Self {
            clean: has(CLEAN),
            recoverable: has(RECOVERABLE),
            power: has(POWER),
            epoch,
            oldest_epoch,
            ring: fixed.ring.get(),
            boot: has(BOOT_KNOWN).then_some(fixed.boot.get()),
            second: u32::try_from(fixed.second.get()).ok()?,
            cache: CacheId::of(uuid),
            hasher: KeyHasher::from_seed(fixed.seed.get()),
            layout: layout.with_sections(&sections)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UUID: Uuid = Uuid::from_bytes(*b"0123456789abcdef");

    fn superblock() -> Superblock {
        let layout = Layout {
            capacity_bytes: 1,
            usable_bytes: 2,
            metadata_bytes: 3,
            tombstone_log_bytes: 9 * 4096,
            loc_offset: 3 + 9 * 4096,
            loc_regions: 5,
            region_bytes: 6,
            array_offset: 5 << 20,
            array_regions: 12,
            array_region_bytes: 1 << 16,
            array_tables: 13,
            array_ttl_groups: 32,
            soc_offset: 7 << 20,
            soc_buckets: 8,
            soc_page_regions: 0,
            soc_page_region_bytes: 0,
            soc_sets: 0,
            soc_log_offset: (7 << 20) - 5 * 8192,
            soc_log_segments: 5,
            soc_log_segment_bytes: 8192,
            plain_offset: 10,
            plain_blocks: 11,
        };
        Superblock {
            clean: true,
            recoverable: true,
            power: true,
            epoch: 9,
            oldest_epoch: 7,
            ring: 6,
            boot: Some(5),
            second: 1000,
            cache: CacheId::of(UUID),
            hasher: KeyHasher::from_seed(0x1122_3344_5566_7788),
            layout,
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let all = superblock();
        let none = Superblock { clean: false, recoverable: false, boot: None, ..all };
        for superblock in [all, none] {
            assert_eq!(Superblock::parse(&superblock.encode(), UUID), Some(superblock));
        }
        let content = all.encode();
        assert_eq!(Superblock::parse(content.get(..content.len() - 1).unwrap(), UUID), None);
        // The array is the last section, in 32 bytes, if there is one.
        let front = content.get(..content.len() - 32).unwrap();
        let mut without = front.to_vec();
        let count = without.get_mut(72..73).and_then(|it| it.first_mut()).unwrap();
        *count -= 1;
        let read = Superblock::parse(&without, UUID).unwrap();
        assert_eq!((read.layout.array_regions, read.layout.regions()), (0, 5));
        assert_eq!(read.encode(), without, "as it was before there was an array");
        let section = content.get(front.len()..).unwrap();
        let expected = [
            b"ARRY\0\0\x01\0",
            &(5_u64 << 20).to_le_bytes()[..],
            &[12, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 32, 0, 0, 0],
        ];
        assert_eq!(section, expected.concat());
        let late = Superblock { epoch: EPOCH_MAX, ..all };
        assert_eq!(Superblock::parse(&late.encode(), UUID), None, "there is no epoch after it");
        let ahead = Superblock { oldest_epoch: superblock().epoch + 1, ..superblock() };
        assert_eq!(
            Superblock::parse(&ahead.encode(), UUID),
            None,
            "it would believe nothing of its own"
        );
    }

    #[test]
    fn pages_by_set_are_a_section_in_place_of_buckets() {
        let of = superblock();
        let layout = Layout {
            soc_buckets: 0,
            soc_page_regions: 7,
            soc_page_region_bytes: 65_536,
            soc_sets: 11,
            ..of.layout
        };
        let with = Superblock { layout, ..of };
        let content = with.encode();
        assert_eq!(Superblock::parse(&content, UUID), Some(with));
        let expected = [
            b"SPGS\0\0\x01\0",
            &(7_u64 << 20).to_le_bytes()[..],
            &[7, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(content.get(content.len() - 32..), Some(&expected.concat()[..]));
        let both = Superblock { layout: Layout { soc_buckets: 8, ..layout }, ..of };
        assert_eq!(Superblock::parse(&both.encode(), UUID), None, "buckets and pages");
    }

    proptest! {
        /// Also with a valid checksum in front of it.
        #[test]
        fn arbitrary_content_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            sections in any::<u32>(),
        ) {
            let mut content = bytes;
            if let Some(count) = content.get_mut(72..76) {
                count.copy_from_slice(&sections.to_le_bytes());
            }
            if let Some(read) = Superblock::parse(&content, UUID) {
                prop_assert_eq!(Superblock::parse(&read.encode(), UUID), Some(read));
            }
        }
    }
}
