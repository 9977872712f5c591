//! A slot of the fingerprint of a core. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERFP"
//!       8      2  version: 1
//!      10      2  number of the core
//!      12      4  CRC-32C of bytes 16 to 4096
//!      16     16  UUID of the cache
//!      32      8  sequence: grows with each writing
//!      40      8  offset of this slot on the cache device
//!      48      8  bytes of the core
//!      56      2  n: number of entries, at most 298
//!      58      2  m: bytes of the identity, at most 448
//!      60      4  reserved, 0
//!      64      m  identity: a line `kind=value` for each identifier, UTF-8; zeros up to 512
//!     512   12 n  entries; zeros up to 4096
//!
//!  entry
//!       0      7  number of the block, of 4096 bytes; each once
//!       7      1  1 its checksum is known; + 2 it was destaged lately, or dirty data are waiting for it;
//!                 + 4 all its bytes are alike; + 8 it was trimmed, and is not read before it is written
//!       8      4  CRC-32C of the block on the core; 0 if it is not known
//! ```

#![deny(clippy::indexing_slicing)]

use larder_device::Identity;
use larder_device::label::Uuid;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::CoreId;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4096;

const MAGIC: [u8; 8] = *b"LARDERFP";
const VERSION: u16 = 1;
const CHECKED_FROM: usize = 16;
const IDENTITY_AT: usize = 64;
const ENTRIES_AT: usize = 512;
/// Most entries of a slot.
pub(super) const ENTRIES_MAX: usize = (SLOT_BYTES - ENTRIES_AT) / size_of::<FixedEntry>();

const KNOWN: u8 = 1;
const RECENT: u8 = 2;
const UNIFORM: u8 = 4;
const TRIMMED: u8 = 8;
const BLOCK_BITS: u32 = 56;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SlotHeader {
    magic: [u8; 8],
    version: U16,
    core: U16,
    checksum: U32,
    uuid: [u8; 16],
    sequence: U64,
    offset: U64,
    core_bytes: U64,
    entries: U16,
    identity_bytes: U16,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FixedEntry {
    block_and_flags: U64,
    checksum: U32,
}

const _: () = assert!(size_of::<SlotHeader>() == IDENTITY_AT && ENTRIES_MAX == 298);

/// The known content of a block on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing: the cache has changed it, or has not read it yet.
    Void,
    /// Nothing: it was trimmed, so a read may return anything.
    Trimmed,
    /// Its content at the last read.
    Known {
        /// CRC-32C of the block.
        checksum: u32,
        /// Whether all its bytes are the same, so that it does not distinguish cores.
        is_uniform: bool,
    },
}

/// Why a block is in the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was selected at random: blocks are spread over the core.
    Spread,
    /// It was destaged recently, or the cache has dirty data for it.
    Recent,
}

/// A block of a core, and its content when the cache last read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the block.
    pub block: u64,
    /// Why it is in the fingerprint.
    pub origin: Origin,
    /// Its content.
    pub content: Content,
}

/// The stored fingerprint of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The core.
    pub core: CoreId,
    /// The UUID of the cache.
    pub uuid: Uuid,
    /// The later one of two slots counts.
    pub sequence: u64,
    /// Size of the core in bytes.
    pub core_bytes: u64,
    /// The identity of the core.
    pub identity: Identity,
    /// The blocks of the fingerprint.
    pub entries: Vec<Entry>,
}

impl Slot {
    /// Encodes the slot for writing at `offset`.
    ///
    /// # Panics
    /// If there are more than 298 entries.
    pub fn encode(&self, offset: u64) -> Vec<u8> {
        assert!(self.entries.len() <= ENTRIES_MAX, "{} entries", self.entries.len());
        let mut identity = self.identity.to_lines();
        // Keep only whole lines, the strong identifiers first: a truncated value would be another identifier.
        while identity.len() > ENTRIES_AT - IDENTITY_AT {
            let lines = identity.trim_end_matches('\n');
            identity.truncate(lines.rfind('\n').map_or(0, |end| end + 1));
        }
        let mut header = SlotHeader {
            magic: MAGIC,
            version: VERSION.into(),
            core: self.core.get().into(),
            checksum: 0.into(),
            uuid: self.uuid.bytes(),
            sequence: self.sequence.into(),
            offset: offset.into(),
            core_bytes: self.core_bytes.into(),
            entries: u16::try_from(self.entries.len()).unwrap_or_default().into(),
            identity_bytes: u16::try_from(identity.len()).unwrap_or_default().into(),
            reserved: 0.into(),
        };
        let mut behind = identity.into_bytes();
        behind.resize(ENTRIES_AT - IDENTITY_AT, 0);
        for entry in &self.entries {
            behind.extend_from_slice(entry.fixed().as_bytes());
        }
        behind.resize(SLOT_BYTES - IDENTITY_AT, 0);
        let checked = header.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
        header.checksum =
            larder_checksum::crc32c_append(larder_checksum::crc32c(checked), &behind).into();
        [header.as_bytes(), &behind].concat()
    }

    /// Parses a slot read at `offset`. `None` if it is not a slot of this core of this cache, or is damaged.
    pub fn parse(bytes: &[u8], offset: u64, (uuid, core): (Uuid, CoreId)) -> Option<Self> {
        let bytes = bytes.get(..SLOT_BYTES)?;
        let (header, _) = SlotHeader::ref_from_prefix(bytes).ok()?;
        let is_ours = header.magic == MAGIC
            && header.version.get() == VERSION
            && header.checksum.get() == larder_checksum::crc32c(bytes.get(CHECKED_FROM..)?)
            && header.offset.get() == offset
            && header.uuid == uuid.bytes()
            && header.core.get() == core.get()
            && header.reserved.get() == 0;
        if !is_ours {
            return None;
        }
        let text = bytes.get(IDENTITY_AT..ENTRIES_AT)?.get(..header.identity_bytes.get().into())?;
        let identity = Identity::from_lines(std::str::from_utf8(text).ok()?);
        let count = usize::from(header.entries.get());
        let core_bytes = header.core_bytes.get();
        let fixed = bytes.get(ENTRIES_AT..)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(count.min(ENTRIES_MAX));
        for fixed in fixed.chunks_exact(size_of::<FixedEntry>()).take(count) {
            let entry = Entry::of(FixedEntry::ref_from_bytes(fixed).ok()?)?;
            let ends = entry.block.checked_add(1)?.checked_mul(super::BLOCK_BYTES)?;
            if ends > core_bytes || entries.iter().any(|known| known.block == entry.block) {
                return None;
            }
            entries.push(entry);
        }
        let sequence = header.sequence.get();
        let is_complete = entries.len() == count;
        is_complete.then_some(Self { core, uuid, sequence, core_bytes, identity, entries })
    }
}

impl Entry {
    fn fixed(&self) -> FixedEntry {
        let (checksum, flags) = match self.content {
            Content::Void => (0, 0),
            Content::Trimmed => (0, TRIMMED),
            Content::Known { checksum, is_uniform: false } => (checksum, KNOWN),
            Content::Known { checksum, is_uniform: true } => (checksum, KNOWN | UNIFORM),
        };
        let flags = flags | if self.origin == Origin::Recent { RECENT } else { 0 };
        let block_and_flags = self.block | u64::from(flags) << BLOCK_BITS;
        FixedEntry { block_and_flags: block_and_flags.into(), checksum: checksum.into() }
    }

    fn of(fixed: &FixedEntry) -> Option<Self> {
        let both = fixed.block_and_flags.get();
        let flags = u8::try_from(both >> BLOCK_BITS).ok()?;
        let checksum = fixed.checksum.get();
        let content = match flags & !RECENT {
            0 if checksum == 0 => Content::Void,
            TRIMMED if checksum == 0 => Content::Trimmed,
            known if known & !UNIFORM == KNOWN => {
                Content::Known { checksum, is_uniform: known & UNIFORM != 0 }
            }
            _ => return None,
        };
        let origin = if flags & RECENT != 0 { Origin::Recent } else { Origin::Spread };
        Some(Self { block: both & ((1 << BLOCK_BITS) - 1), origin, content })
    }
}

#[cfg(test)]
mod tests {
    use larder_device::{Identifier, IdentifierKind};

    use super::*;

    fn slot(entries: usize) -> Slot {
        let contents = [
            Content::Void,
            Content::Trimmed,
            Content::Known { checksum: 7, is_uniform: false },
            Content::Known { checksum: 0, is_uniform: true },
        ];
        let origins = [Origin::Spread, Origin::Recent];
        let mixed = contents.into_iter().cycle().zip(origins.into_iter().cycle());
        let entry = |(block, (content, origin))| Entry { block, origin, content };
        let value = "naa.50".to_owned();
        Slot {
            core: CoreId::new(5).unwrap(),
            uuid: Uuid::from_bytes([3; 16]),
            sequence: 9,
            core_bytes: 1 << 40,
            identity: Identity::new([Identifier { kind: IdentifierKind::Wwn, value }]),
            entries: (0..).map(|block| block * 1000).zip(mixed).map(entry).take(entries).collect(),
        }
    }

    fn parse(bytes: &[u8]) -> Option<Slot> {
        Slot::parse(bytes, 8192, (slot(0).uuid, slot(0).core))
    }

    #[test]
    fn what_is_written_is_read_by_its_owner_at_its_place() {
        for entries in [0, 1, 100, ENTRIES_MAX] {
            let written = slot(entries);
            let bytes = written.encode(8192);
            assert_eq!(bytes.len(), SLOT_BYTES);
            assert_eq!(parse(&bytes), Some(written));
        }
        let bytes = slot(3).encode(8192);
        let core = slot(0).core;
        assert_eq!(Slot::parse(&bytes, 4096, (slot(0).uuid, core)), None);
        assert_eq!(Slot::parse(&bytes, 8192, (Uuid::from_bytes([4; 16]), core)), None);
        assert_eq!(Slot::parse(&bytes, 8192, (slot(0).uuid, CoreId::new(6).unwrap())), None);
    }

    #[test]
    fn an_identity_that_is_too_long_loses_whole_identifiers() {
        let kinds = [
            IdentifierKind::Wwn,
            IdentifierKind::Serial,
            IdentifierKind::Partition,
            IdentifierKind::Volume,
            IdentifierKind::ById,
        ];
        let identifier = |kind| Identifier { kind, value: "9".repeat(96) };
        let written = Slot { identity: Identity::new(kinds.map(identifier)), ..slot(1) };
        let read = parse(&written.encode(8192)).unwrap();
        assert_eq!(read.identity, Identity::new(kinds.into_iter().take(4).map(identifier)));
        assert_eq!(read.entries, written.entries);
    }

    #[test]
    fn no_cut_and_no_bit_flip_passes() {
        let bytes = slot(5).encode(8192);
        assert_eq!(parse(bytes.get(..SLOT_BYTES - 1).unwrap()), None);
        for bit in 0..(ENTRIES_AT + 12 * 6) * 8 {
            let mut flipped = bytes.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped), None, "bit {bit}");
        }
    }

    /// All with a correct checksum.
    #[test]
    fn no_number_from_outside_is_believed() {
        let sealed = |at: usize, with: &[u8]| {
            let mut bytes = slot(3).encode(8192);
            bytes.splice(at..at + with.len(), with.iter().copied());
            let checksum = larder_checksum::crc32c(bytes.get(CHECKED_FROM..).unwrap());
            bytes.splice(12..16, checksum.to_le_bytes());
            parse(&bytes)
        };
        assert!(sealed(32, &[1]).is_some());
        assert_eq!(sealed(56, &[0xff, 0xff]), None, "more entries than fit");
        assert_eq!(sealed(58, &[0xff, 0xff]), None, "an identity beyond its place");
        assert_eq!(sealed(48, &4096_u64.to_le_bytes()), None, "blocks behind the core's end");
        assert_eq!(sealed(ENTRIES_AT + 7, &[0x40]), None, "an unknown flag");
        assert_eq!(sealed(ENTRIES_AT + 12, &[0; 12]), None, "a block twice");
    }
}
