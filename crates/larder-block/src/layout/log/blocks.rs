//! Blocks of the cache device as they were read.

use super::geometry::Geometry;

/// Bytes of whole blocks from one on, and their metadata, in the same order. There are none where the device keeps none
/// for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) metadata: &'a [u8],
}

impl Blocks<'_> {
    /// Without so many bytes at the beginning; `None` if there are not so many.
    pub(super) fn from(self, bytes: u32, geometry: &Geometry) -> Option<Self> {
        let rest = self.bytes.get(bytes as usize..)?;
        let metadata = self.metadata.get(geometry.metadata_of(bytes as usize)..);
        Some(Self { bytes: rest, metadata: metadata.unwrap_or_default() })
    }

    /// Whether the first block, of which there is something, has metadata that say nothing.
    pub(super) fn has_blank_metadata(self, geometry: &Geometry) -> bool {
        let bytes = usize::from(geometry.metadata_bytes);
        self.metadata.get(..bytes).is_some_and(|own| own.iter().all(|byte| *byte == 0))
    }
}
