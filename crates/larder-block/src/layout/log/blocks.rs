//! Blocks of the cache device as they were read.

/// The bytes of consecutive whole blocks, and their metadata in the same order. The metadata is empty if the device
/// keeps none for the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) metadata: &'a [u8],
}

impl Blocks<'_> {
    /// The rest after the first `bytes` bytes, whose metadata has `metadata_bytes` bytes; `None` if there are fewer.
    pub(super) fn from(self, bytes: u32, metadata_bytes: usize) -> Option<Self> {
        let rest = self.bytes.get(bytes as usize..)?;
        let metadata = self.metadata.get(metadata_bytes..);
        Some(Self { bytes: rest, metadata: metadata.unwrap_or_default() })
    }

    /// Whether the metadata of the first block, of `bytes` bytes, is present and all zeros.
    pub(super) fn has_blank_metadata(self, bytes: u16) -> bool {
        self.metadata.get(..bytes.into()).is_some_and(|own| own.iter().all(|byte| *byte == 0))
    }
}
