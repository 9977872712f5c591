//! What the label of a cache says of its lines: how the device is divided. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  layout: "OC22", "OC26" or "OCWL"
//!       4      4  lines
//!       8      8  where the collision table begins; it is zeros at format
//!      16      4  bytes of a line
//!      20      4  bytes of a block of the device
//! ```
//!
//! The label has the version, the checksum and the UUID ([`larder_device::label`]).

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
struct Fixed {
    layout: [u8; 4],
    lines: U32,
    offset: U64,
    line_bytes: U32,
    block_bytes: U32,
}

const _: () = assert!(size_of::<Fixed>() == 24);

/// What is fixed at format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OcfSuperblock {
    /// How the device is divided.
    pub geometry: Geometry,
}

impl OcfSuperblock {
    /// The content of a label.
    pub fn encode(&self) -> Vec<u8> {
        let Geometry { version, offset, lines, line_bytes, block_bytes } = self.geometry;
        let fixed = Fixed {
            layout: match version {
                OcfVersion::V22 => V22,
                OcfVersion::V26 => V26,
                OcfVersion::Wal => WAL,
            },
            lines: lines.into(),
            offset: offset.into(),
            line_bytes: line_bytes.into(),
            block_bytes: block_bytes.into(),
        };
        fixed.as_bytes().to_vec()
    }

    /// Reads the content of the label of a device of `capacity_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`], naming the field, if no cache of lines can be as it says.
    pub fn parse(content: &[u8], capacity_bytes: u64) -> Result<Self, Error> {
        let wrong = |what: String| {
            Error::new(ErrorKind::Format, format!("superblock of a cache of lines: {what}"))
        };
        let fixed = Fixed::ref_from_bytes(content)
            .map_err(|_| wrong(format!("it has {} bytes and must have 24", content.len())))?;
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
        let geometry = Geometry {
            version,
            offset: fixed.offset.get(),
            lines: fixed.lines.get(),
            line_bytes: fixed.line_bytes.get(),
            block_bytes: fixed.block_bytes.get(),
        };
        match geometry.complaint(capacity_bytes) {
            None => Ok(Self { geometry }),
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
            let written = OcfSuperblock { geometry: Geometry { version, ..GEOMETRY } };
            assert_eq!(OcfSuperblock::parse(&written.encode(), 17 << 20), Ok(written));
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_field() {
        let content = OcfSuperblock { geometry: GEOMETRY }.encode();
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
