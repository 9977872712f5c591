//! The log's part of the label: how the device is divided, and which start wrote last. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      4  layout: "LOG1"
//!       4      4  epoch: grows by 1 with each start, from 1
//!       8      8  where the first segment begins
//!      16      4  segments
//!      20      4  bytes of a segment
//!      24      4  bytes of a block: headers begin and end with one
//!      28      4  bytes of a line
//!      32      8  clean up to: the cores have durably what all batches up to this sequence say
//!      40      8  settled up to: what is unsettled by batches up to this sequence is clean
//!      48      8  lowest generation that counts after an orderly stop; 0: there was none
//!      56      8  sequence of the last batch then
//!      64      4  checksum of the segments then
//!      68      4  reserved, 0
//!      72      2  only where headers travel in metadata: bytes of metadata beside each block, 64 or more
//! ```
//!
//! The label also has the version, the checksum and the UUID ([`larder_device::label`]).

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::geometry::Geometry;
use crate::layout::ShutdownState;
use crate::{Error, ErrorKind};

const LAYOUT: [u8; 4] = *b"LOG1";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct LogFixed {
    layout: [u8; 4],
    epoch: U32,
    offset: U64,
    segments: U32,
    segment_bytes: U32,
    block_bytes: U32,
    line_bytes: U32,
    clean_up_to: U64,
    settled_up_to: U64,
    lowest: U64,
    last: U64,
    checksum: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<LogFixed>() == 72);

/// What is fixed at format, and the state of the last start and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSuperblock {
    /// How the device is divided.
    pub geometry: Geometry,
    /// The start of the cache that wrote last; the next one has a higher epoch.
    pub epoch: u32,
    /// The cores durably have the data of all batches up to this sequence. A writer of a value other than 0 must have
    /// seen that nothing is dirty.
    pub clean_up_to: u64,
    /// Unsettled data in batches up to this sequence is clean: the cores had it durably when this was
    /// written.
    pub settled_up_to: u64,
    /// How an orderly stop has left it. A start clears this before it writes anything else.
    pub left: Option<ShutdownState>,
}

impl LogSuperblock {
    /// The superblock of an empty log.
    pub fn blank(geometry: Geometry) -> Self {
        Self { geometry, epoch: 0, clean_up_to: 0, settled_up_to: 0, left: None }
    }

    /// Encodes the content of a label.
    pub fn encode(&self) -> Vec<u8> {
        let Geometry { offset, segments, segment_bytes, block_bytes, line_bytes, metadata_bytes } =
            self.geometry;
        let left = self.left.unwrap_or_default();
        let fixed = LogFixed {
            layout: LAYOUT,
            epoch: self.epoch.into(),
            offset: offset.into(),
            segments: segments.into(),
            segment_bytes: segment_bytes.into(),
            block_bytes: block_bytes.into(),
            line_bytes: line_bytes.into(),
            clean_up_to: self.clean_up_to.into(),
            settled_up_to: self.settled_up_to.into(),
            lowest: left.lowest.into(),
            last: left.last.into(),
            checksum: left.checksum.into(),
            reserved: 0.into(),
        };
        let mut content = fixed.as_bytes().to_vec();
        if metadata_bytes > 0 {
            content.extend_from_slice(U16::new(metadata_bytes).as_bytes());
        }
        content
    }

    /// Parses the content of the label of a device of `capacity_bytes`.
    ///
    /// # Errors
    /// [`ErrorKind::Format`], naming the field, if the content is invalid.
    pub fn parse(content: &[u8], capacity_bytes: u64) -> Result<Self, Error> {
        let wrong =
            |what: String| Error::new(ErrorKind::Format, format!("superblock of a log: {what}"));
        let cut = || wrong(format!("it has {} bytes and must have 72 or 74", content.len()));
        let (fixed, rest) = LogFixed::ref_from_prefix(content).map_err(|_| cut())?;
        let metadata_bytes = match rest {
            [] => 0,
            rest => U16::read_from_bytes(rest).map_err(|_| cut())?.get(),
        };
        if metadata_bytes == 0 && !rest.is_empty() {
            return Err(wrong("metadata_bytes of 0: it must be left out then".to_owned()));
        }
        if fixed.layout != LAYOUT {
            return Err(wrong(format!(
                "layout {:?}: this is no log of this version",
                fixed.layout
            )));
        }
        if fixed.reserved.get() != 0 {
            return Err(wrong("its reserved bytes are not 0".to_owned()));
        }
        let geometry = Geometry {
            offset: fixed.offset.get(),
            segments: fixed.segments.get(),
            segment_bytes: fixed.segment_bytes.get(),
            block_bytes: fixed.block_bytes.get(),
            line_bytes: fixed.line_bytes.get(),
            metadata_bytes,
        };
        match geometry.complaint(capacity_bytes) {
            None => {
                let (lowest, last) = (fixed.lowest.get(), fixed.last.get());
                let left = ShutdownState { lowest, last, checksum: fixed.checksum.get() };
                Ok(Self {
                    geometry,
                    epoch: fixed.epoch.get(),
                    clean_up_to: fixed.clean_up_to.get(),
                    settled_up_to: fixed.settled_up_to.get(),
                    left: (lowest > 0).then_some(left),
                })
            }
            Some(complaint) => Err(wrong(complaint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        offset: 32768,
        segments: 16,
        segment_bytes: 1 << 20,
        block_bytes: 512,
        line_bytes: 4096,
        metadata_bytes: 0,
    };

    fn sample() -> LogSuperblock {
        let left = Some(ShutdownState { last: 11, lowest: 3, checksum: 5 });
        LogSuperblock { geometry: GEOMETRY, epoch: 7, clean_up_to: 9, settled_up_to: 10, left }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = sample();
        assert_eq!(LogSuperblock::parse(&written.encode(), 17 << 20), Ok(written));
        assert_eq!(written.encode().len(), 72);
        let running = LogSuperblock { left: None, ..written };
        assert_eq!(LogSuperblock::parse(&running.encode(), 17 << 20), Ok(running));
        let geometry = Geometry { metadata_bytes: 64, ..GEOMETRY };
        let written = LogSuperblock { geometry, ..written };
        assert_eq!(LogSuperblock::parse(&written.encode(), 17 << 20), Ok(written));
        for (metadata, named) in
            [(&[0, 0][..], "must be left out"), (&[63, 0], "of 63 beside"), (&[64], "it has 73")]
        {
            let content = [written.encode().get(..72).unwrap(), metadata].concat();
            let refused = LogSuperblock::parse(&content, 17 << 20).unwrap_err().to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_field() {
        let content = sample().encode();
        let complaint = |content: &[u8], capacity| {
            LogSuperblock::parse(content, capacity).unwrap_err().to_string()
        };
        assert!(complaint(&content, 16 << 20).contains("end beyond its 16777216 bytes"));
        assert!(complaint(content.get(..31).unwrap(), 17 << 20).contains("it has 31 bytes"));
        for (at, named) in [
            (0, "layout"),
            (8, "offset"),
            (16, "segments"),
            (20, "segment_bytes"),
            (28, "line_bytes"),
        ] {
            let mut damaged = content.clone();
            damaged.splice(at..at + 2, [3, 7]);
            assert!(
                complaint(&damaged, 17 << 20).contains(named),
                "{named}: {}",
                complaint(&damaged, 17 << 20)
            );
        }
    }
}
