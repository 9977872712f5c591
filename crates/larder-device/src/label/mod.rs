//! The label at the start of our devices: the kind of the content, the version of the formats, and the content's UUID.
//!
//! ```text
//!   0          16 KiB      32 KiB
//!   ├─ label ───┼─ label ───┼─ what the label says …
//! ```
//!
//! There are two copies. They are written one after the other with a flush in between ([`Labeller::write`]). So if
//! writing a label is interrupted, the old copy or the new one is whole. The copy with the higher generation counts.
//! Everything that Larder writes has one [`FORMAT_VERSION`], which is defined only here.
//!
//! Data of earlier Larder versions is distinguished from other programs' data by the marks of the old formats
//! ([`OldFormat`]); nothing else of those formats is known.

mod copy;
mod labeller;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;

pub use labeller::Labeller;

/// The version of everything that Larder writes to a device. A change of any format changes it.
pub const FORMAT_VERSION: u16 = 9;

/// Size of a copy of the label in bytes.
pub const COPY_BYTES: usize = 16 << 10;

/// The snapshot that a cache keeps after its label begins with this.
pub const SNAPSHOT_MARK: [u8; 4] = *b"LSNP";

/// Offsets of the copies.
pub const COPIES: [u64; 2] = [0, COPY_BYTES as u64];

/// Bytes that the label takes at the start of a device.
pub const AREA_BYTES: u64 = 2 * COPY_BYTES as u64;

/// Most bytes of content in a label.
pub const CONTENT_BYTES_MAX: usize = COPY_BYTES - copy::HEADER_BYTES;

/// Bytes at the start of a device that are checked before it counts as blank. File systems and volume managers leave
/// their marks within the first 64 KiB or just after, and often not in the first block.
pub const FRONT_BYTES: u64 = 128 << 10;

const MARK_BYTES: usize = 8;
const MARK: [u8; MARK_BYTES] = *b"LARDERLB";
/// Marks of formats up to version 8, and where they may be: the second offset is that of the table's copy.
const OLD_MARKS: [([u8; MARK_BYTES], OldFormat); 2] =
    [(*b"LARDERSB", OldFormat::Cache), (*b"LARDERPT", OldFormat::Parts)];
const OLD_MARKS_AT: [usize; 2] = [0, 4096];

/// Bits of a mark that may have flipped: fewer than half of the bits in which the marks differ. Bytes of another
/// program come that close to a mark once in 10^16 times.
const FLIPPED_BITS_MAX: u32 = 2;

const _: () =
    assert!(AREA_BYTES <= FRONT_BYTES, "a search for other programs' data covers the label");

/// The kind of a device's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A cache that has the device, or a part of one, for itself.
    Cache,
    /// Parts of the device that belong to tenants, shards or both.
    Parts,
    /// A cache of blocks in front of slower devices.
    BlockCache,
}

/// Content of versions up to 8. Its format is no longer known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OldFormat {
    /// A cache that had the device for itself.
    Cache,
    /// A table of parts.
    Parts,
}

/// Identifies one content of a device. A new one is drawn whenever a content starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// A UUID that no content had before: 122 random bits, version 4 of RFC 9562. It is random even where everything
    /// else follows a seed: the same test run twice on one device makes two contents.
    ///
    /// ```
    /// use larder_device::label::Uuid;
    ///
    /// assert_ne!(Uuid::draw(), Uuid::draw());
    /// let uuid = Uuid::draw();
    /// assert_eq!(uuid.to_string().parse(), Ok(uuid));
    /// assert!("2f1c".parse::<Uuid>().is_err());
    /// ```
    pub fn draw() -> Self {
        let half = || RandomState::new().build_hasher().finish().to_le_bytes();
        let mut bytes = [0; 16];
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&half());
        high.copy_from_slice(&half());
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// The UUID with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = String;

    /// Parses the displayed form; capital letters and missing hyphens are fine too.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: String = text.chars().filter(|letter| *letter != '-').collect();
        let fix = || format!("UUID {text:?}: give the 32 hexadecimal digits that it is shown with");
        if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(fix());
        }
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| fix())?;
        }
        Ok(Self(bytes))
    }
}

/// The label of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The kind of the content.
    pub kind: Kind,
    /// The UUID of the content.
    pub uuid: Uuid,
    /// Increases with each write of the label.
    pub generation: u64,
    /// Data of the kind's own, at most [`CONTENT_BYTES_MAX`] bytes.
    pub content: Vec<u8>,
}

/// What was found at the start of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// All zeros, up to [`FRONT_BYTES`]; or a zeroed label area followed by the snapshot of a cache, whose label the
    /// user has erased.
    Blank,
    /// A label.
    Label(Label),
    /// A label of ours, but no copy of it passes its checks.
    Damaged,
    /// A label of a later version of the formats.
    Later(u16),
    /// Content of a version up to 8.
    Old(OldFormat),
    /// Anything else.
    Foreign,
}

/// Says what the first bytes of a device are. `front` has [`FRONT_BYTES`] of them, or all if there are fewer.
///
/// ```
/// use larder_device::label::{self, Found};
///
/// assert_eq!(label::find(&[0; 4096]), Found::Blank);
/// assert_eq!(label::find(b"\x7fELF"), Found::Foreign);
/// ```
pub fn find(front: &[u8]) -> Found {
    let mut newest: Option<Label> = None;
    let mut other = None;
    for offset in COPIES {
        let copy = usize::try_from(offset).ok().and_then(|at| front.get(at..)).unwrap_or_default();
        match copy::parse(copy, offset) {
            Some(Found::Label(label))
                if newest.as_ref().is_none_or(|newest| newest.generation < label.generation) =>
            {
                newest = Some(label);
            }
            Some(Found::Label(_)) => {}
            Some(found) => other = other.or(Some(found)),
            None => {}
        }
    }
    if let Some(label) = newest {
        return Found::Label(label);
    }
    let old = || {
        OLD_MARKS_AT.iter().find_map(|&at| {
            let block = front.get(at..).unwrap_or_default();
            let old = OLD_MARKS.iter().find(|(mark, _)| begins_nearly_with(block, *mark))?;
            Some(Found::Old(old.1))
        })
    };
    other.or_else(old).unwrap_or_else(|| {
        let area = usize::try_from(AREA_BYTES).unwrap_or(usize::MAX).min(front.len());
        let (area, behind) = front.split_at(area);
        let is_blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        if is_blank(area) && (is_blank(behind) || behind.starts_with(&SNAPSHOT_MARK)) {
            Found::Blank
        } else {
            Found::Foreign
        }
    })
}

/// Whether `block` begins with `mark`, apart from at most [`FLIPPED_BITS_MAX`] flipped bits.
fn begins_nearly_with(block: &[u8], mark: [u8; MARK_BYTES]) -> bool {
    let Some(found) = block.first_chunk::<MARK_BYTES>() else { return false };
    let flipped: u32 = found.iter().zip(mark).map(|(a, b)| (a ^ b).count_ones()).sum();
    flipped <= FLIPPED_BITS_MAX
}

/// Whether the start of a device shows no other program's data: it is all zeros, or has a mark of ours, even a damaged
/// one.
pub fn is_blank_or_ours(front: &[u8]) -> bool {
    find(front) != Found::Foreign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_told_from_others() {
        assert!(is_blank_or_ours(&[]) && is_blank_or_ours(&[0; 10_000]));
        assert!(!is_blank_or_ours(b"\x7fELF") && !is_blank_or_ours(&[7; 10_000]));
        assert!(is_blank_or_ours(b"LARDERLB and more") && !is_blank_or_ours(b"LARDER"));
        assert_eq!(find(b"LARDERSB and more"), Found::Old(OldFormat::Cache));
        let mut second = vec![7; 8192];
        second[4096..4104].copy_from_slice(b"LARDERPT");
        assert_eq!(find(&second), Found::Old(OldFormat::Parts), "the copy of a table");
    }

    #[test]
    fn flipped_bits_do_not_make_a_mark_another_programs() {
        for bit in 0..64 {
            let mut mark = MARK;
            mark[bit / 8] ^= 1 << (bit % 8);
            assert!(begins_nearly_with(&mark, MARK));
            assert!(OLD_MARKS.iter().all(|(old, _)| !begins_nearly_with(&mark, *old)));
        }
        assert!(!begins_nearly_with(b"LARDERXX", MARK), "several bits");
    }
}
