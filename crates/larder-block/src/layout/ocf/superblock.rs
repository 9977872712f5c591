//! The part of the label for a cache of lines: how the device is divided. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  layout: "OC22", "OC26" or "OCWL"
//!       4      4  lines
//!       8      8  where the collision table begins; it is zeros at format
//!      16      4  bytes of a line
//!      20      4  bytes of a block of the device
//!      24      8  what the log says up to this sequence is in the table
//!      32      4  1: it was stopped in order, and the table has all; else 0
//!      36      4  reserved, 0
//! ```
//!
//! The label also has the version, the checksum and the UUID ([`larder_device::label`]).

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::geometry::Geometry;
use super::version::OcfVersion;
use crate::{Error, ErrorKind};

const V22: [u8; 4] = *b"OC22";
const V26: [u8; 4] = *b"OC26";
const WAL: [u8; 4] = *b"OCWL";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OcfFixed {
    layout: [u8; 4],
    lines: U32,
    offset: U64,
    line_bytes: U32,
    block_bytes: U32,
    told_up_to: U64,
    is_left: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<OcfFixed>() == 40);

/// What is fixed at format, and the state of the last stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcfSuperblock {
    /// How the device is divided.
    pub geometry: Geometry,
    /// Entries of the log up to this sequence are in the table, and can be ignored.
    pub told_up_to: u64,
    /// Whether an orderly stop has left it, so that the table contains everything that was cached. A start clears this
    /// before it writes anything else.
    pub is_left: bool,
}

impl OcfSuperblock {
    /// The superblock of an empty cache.
    pub fn blank(geometry: Geometry) -> Self {
        Self { geometry, told_up_to: 0, is_left: false }
    }

    /// Encodes the content of a label.
    pub fn encode(&self) -> Vec<u8> {
        let Geometry { version, offset, lines, line_bytes, block_bytes } = self.geometry;
        let fixed = OcfFixed {
            layout: match version {
                OcfVersion::V22 => V22,
                OcfVersion::V26 => V26,
                OcfVersion::Wal => WAL,
            },
            lines: lines.into(),
            offset: offset.into(),
            line_bytes: line_bytes.into(),
            block_bytes: block_bytes.into(),
            told_up_to: self.told_up_to.into(),
            is_left: u32::from(self.is_left).into(),
            reserved: 0.into(),
        };
        fixed.as_bytes().to_vec()
    }

    /// Parses the content of the label of a device of `capacity_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`], naming the field, if the content is invalid.
    pub fn parse(content: &[u8], capacity_bytes: u64) -> Result<Self, Error> {
        let wrong = |what: String| {
            Error::new(ErrorKind::Format, format!("superblock of a cache of lines: {what}"))
        };
        let fixed = OcfFixed::ref_from_bytes(content)
            .map_err(|_| wrong(format!("it has {} bytes and must have 40", content.len())))?;
        let version = match fixed.layout {
            V22 => OcfVersion::V22,
            V26 => OcfVersion::V26,
            WAL => OcfVersion::Wal,
            other => {
                return Err(wrong(format!(
                    "layout {other:?}: this is no cache of lines of this version"
                )));
            }
        };
        let is_left = match (fixed.is_left.get(), fixed.reserved.get()) {
            (0, 0) => false,
            (1, 0) => true,
            (state, _) => return Err(wrong(format!("state {state}: unknown"))),
        };
        let geometry = Geometry {
            version,
            offset: fixed.offset.get(),
            lines: fixed.lines.get(),
            line_bytes: fixed.line_bytes.get(),
            block_bytes: fixed.block_bytes.get(),
        };
        match geometry.complaint(capacity_bytes) {
            None => Ok(Self { geometry, told_up_to: fixed.told_up_to.get(), is_left }),
            Some(complaint) => Err(wrong(complaint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        version: OcfVersion::V22,
        offset: 32768,
        lines: 4096,
        line_bytes: 4096,
        block_bytes: 512,
    };

    #[test]
    fn what_is_written_is_read() {
        for version in OcfVersion::ALL {
            let written = OcfSuperblock {
                geometry: Geometry { version, ..GEOMETRY },
                told_up_to: 7,
                is_left: version == OcfVersion::V22,
            };
            assert_eq!(OcfSuperblock::parse(&written.encode(), 17 << 20), Ok(written));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_field() {
        let content = OcfSuperblock { geometry: GEOMETRY, told_up_to: 0, is_left: false }.encode();
        let complaint = |content: &[u8], capacity| {
            OcfSuperblock::parse(content, capacity).unwrap_err().to_string()
        };
        assert!(complaint(&content, 16 << 20).contains("end beyond its 16777216 bytes"));
        assert!(complaint(content.get(..23).unwrap(), 17 << 20).contains("it has 23 bytes"));
        for (at, named) in [
            (0, "layout"),
            (4, "lines"),
            (8, "offset"),
            (14, "offset"),
            (16, "line_bytes"),
            (20, "blocks"),
            (32, "state"),
        ] {
            let mut damaged = content.clone();
            damaged.splice(at..at + 2, [3, 0xF7]);
            assert!(
                complaint(&damaged, 17 << 20).contains(named),
                "{named}: {}",
                complaint(&damaged, 17 << 20)
            );
        }
    }
}
