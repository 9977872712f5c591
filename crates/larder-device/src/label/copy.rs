//! One copy of a label. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERLB"
//!       8      2  version of the formats
//!      10      2  reserved, 0
//!      12      4  CRC-32C of bytes 16 to 64 + n
//!      16      2  kind: 1 cache, 2 parts, 3 block cache
//!      18      2  reserved, 0
//!      20      4  n: bytes of the content
//!      24     16  UUID of the content
//!      40      8  generation: grows with each writing
//!      48      8  offset of this copy
//!      56      8  reserved, 0
//!      64      n  the content
//! ```

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{COPY_BYTES, FORMAT_VERSION, Found, Kind, Label, MARK, Uuid, begins_nearly_with};

const CACHE: u16 = 1;
const PARTS: u16 = 2;
const BLOCK_CACHE: u16 = 3;
const CHECKED_FROM: usize = 16;
pub(super) const HEADER_BYTES: usize = size_of::<LabelHeader>();
const _: () = assert!(HEADER_BYTES == 64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LabelHeader {
    magic: [u8; 8],
    version: U16,
    reserved: U16,
    checksum: U32,
    kind: U16,
    reserved_too: U16,
    content_bytes: U32,
    uuid: [u8; 16],
    generation: U64,
    offset: U64,
    reserved_last: U64,
}

/// Encodes the copy to be written at `offset`, in whole blocks.
///
/// # Panics
/// If the content does not fit.
pub(super) fn encode(label: &Label, offset: u64) -> Vec<u8> {
    let total = HEADER_BYTES + label.content.len();
    assert!(total <= COPY_BYTES, "a label of {total} bytes, and a copy has room for {COPY_BYTES}");
    let mut header = LabelHeader {
        magic: MARK,
        version: FORMAT_VERSION.into(),
        reserved: 0.into(),
        checksum: 0.into(),
        kind: match label.kind {
            Kind::Cache => CACHE,
            Kind::Parts => PARTS,
            Kind::BlockCache => BLOCK_CACHE,
        }
        .into(),
        reserved_too: 0.into(),
        content_bytes: u32::try_from(label.content.len()).expect("it fits a copy").into(),
        uuid: label.uuid.bytes(),
        generation: label.generation.into(),
        offset: offset.into(),
        reserved_last: 0.into(),
    };
    let checked = header.as_bytes().get(CHECKED_FROM..).unwrap_or_default();
    header.checksum =
        larder_checksum::crc32c_append(larder_checksum::crc32c(checked), &label.content).into();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&label.content);
    bytes.resize(total.next_multiple_of(4096), 0);
    bytes
}

/// Reads the copy found at `offset`. `None` if there is no copy of ours.
pub(super) fn parse(bytes: &[u8], offset: u64) -> Option<Found> {
    if !begins_nearly_with(bytes, MARK) {
        return None;
    }
    let Some((header, _)) =
        LabelHeader::ref_from_prefix(bytes).ok().filter(|(h, _)| h.magic == MARK)
    else {
        return Some(Found::Damaged);
    };
    match header.version.get() {
        version if version > FORMAT_VERSION => Some(Found::Later(version)),
        FORMAT_VERSION => {
            Some(parse_fields(header, bytes, offset).map_or(Found::Damaged, Found::Label))
        }
        _ => Some(Found::Damaged), // earlier versions had other marks
    }
}

fn parse_fields(header: &LabelHeader, bytes: &[u8], offset: u64) -> Option<Label> {
    let content_bytes = usize::try_from(header.content_bytes.get()).ok()?;
    let end = HEADER_BYTES.checked_add(content_bytes).filter(|&end| end <= COPY_BYTES)?;
    let checked = bytes.get(CHECKED_FROM..end)?;
    let is_whole = header.checksum.get() == larder_checksum::crc32c(checked)
        && header.offset.get() == offset
        && header.reserved.get() == 0;
    let kind = match header.kind.get() {
        CACHE => Kind::Cache,
        PARTS => Kind::Parts,
        BLOCK_CACHE => Kind::BlockCache,
        _ => return None,
    };
    is_whole.then(|| Label {
        kind,
        uuid: Uuid::from_bytes(header.uuid),
        generation: header.generation.get(),
        content: bytes.get(HEADER_BYTES..end).unwrap_or_default().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label::{COPIES, find};

    fn label(generation: u64) -> Label {
        let uuid = Uuid::from_bytes(*b"0123456789abcdef");
        Label { kind: Kind::Parts, uuid, generation, content: b"content".to_vec() }
    }

    fn front(first: u64, second: u64) -> Vec<u8> {
        let mut front = encode(&label(first), 0);
        front.resize(COPY_BYTES, 0);
        front.extend(encode(&label(second), COPIES[1]));
        front
    }

    #[test]
    fn the_newer_whole_copy_counts() {
        assert_eq!(find(&front(3, 4)), Found::Label(label(4)));
        assert_eq!(find(&front(5, 4)), Found::Label(label(5)));
        for damaged in [0, COPY_BYTES] {
            let mut front = front(4, 4);
            *front.get_mut(damaged + 66).unwrap() ^= 1;
            assert_eq!(find(&front), Found::Label(label(4)), "the other copy");
            *front.get_mut(COPY_BYTES - damaged + 66).unwrap() ^= 1;
            assert_eq!(find(&front), Found::Damaged);
        }
    }

    #[test]
    fn a_copy_counts_where_it_was_written_alone() {
        let first = encode(&label(1), 0);
        assert_eq!(parse(&first, COPIES[1]), Some(Found::Damaged));
        let mut later = first;
        later.splice(8..10, (FORMAT_VERSION + 1).to_le_bytes());
        assert_eq!(find(&later), Found::Later(FORMAT_VERSION + 1));
    }

    /// Flips each bit in turn: there are few enough to try all.
    #[test]
    fn no_bit_flip_passes() {
        let whole = encode(&label(1), 0);
        for bit in 0..(HEADER_BYTES + 7) * 8 {
            let mut flipped = whole.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert!(!matches!(find(&flipped), Found::Label(_)), "bit {bit}");
        }
    }

    #[test]
    fn a_length_from_outside_is_not_believed() {
        for bytes in [0_u32, 8, u32::MAX] {
            let mut copy = encode(&label(1), 0);
            copy.splice(20..24, bytes.to_le_bytes());
            assert_eq!(find(&copy), Found::Damaged);
            assert_eq!(find(copy.get(..40).unwrap()), Found::Damaged, "cut short");
        }
    }
}
