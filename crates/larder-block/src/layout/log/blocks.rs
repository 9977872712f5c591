//! Blocks of the cache device as they were read.

use super::geometry::Geometry;

/// The bytes of consecutive whole blocks, and their metadata in the same order. The metadata is empty if the device
/// keeps none for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) metadata: &'a [u8],
}

impl Blocks<'_> {
    /// The rest after the first `bytes` bytes; `None` if there are fewer.
    pub(super) fn from(self, bytes: u32, geometry: &Geometry) -> Option<Self> {
        let rest = self.bytes.get(bytes as usize..)?;
        let metadata = self.metadata.get(geometry.metadata_of(bytes as usize)..);
        Some(Self { bytes: rest, metadata: metadata.unwrap_or_default() })
    }

    /// Whether the metadata of the first block is present and all zeros.
    pub(super) fn has_blank_metadata(self, geometry: &Geometry) -> bool {
        let bytes = usize::from(geometry.metadata_bytes);
        self.metadata.get(..bytes).is_some_and(|own| own.iter().all(|byte| *byte == 0))
    }
}
