//! Counters of the drive.

use super::geometry::PAGE_BYTES;

/// Counters since the drive was created, in pages and units. NVMe's FDP statistics log has the first three in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages that the host wrote (HBMW).
    pub host_pages: u64,
    /// Pages written to the media: host pages + copies + padding (MBMW).
    pub media_pages: u64,
    /// Units erased (MBE).
    pub erased_units: u64,
    /// Host pages by handle.
    pub host_pages_by_handle: Vec<u64>,
    /// Live pages that garbage collection moved.
    pub copied_pages: u64,
    /// Moved pages by the handle that owned their unit (0 for units of sequential streams). The last entry counts pages
    /// from units that garbage collection had filled with data of several handles.
    pub copied_pages_by_owner: Vec<u64>,
    /// Pages padded when a unit was closed before it was full.
    pub padded_pages: u64,
    /// Pages that the host deallocated while they were mapped.
    pub deallocated_pages: u64,
    /// Live pages that static wear levelling moved; included in `copied_pages`.
    pub wear_levelled_pages: u64,
    /// Units retired because their erase failed.
    pub retired_units: u64,
    /// Reclaimed units with live pages to copy. The others held none and were erased without copies.
    pub units_collected_with_copies: u64,
}

impl Stats {
    pub(crate) fn new(handles: u16) -> Self {
        Self {
            host_pages_by_handle: vec![0; usize::from(handles)],
            copied_pages_by_owner: vec![0; usize::from(handles) + 1],
            ..Self::default()
        }
    }

    /// Host bytes written.
    pub fn host_bytes(&self) -> u64 {
        self.host_pages * PAGE_BYTES
    }

    /// Media bytes written.
    pub fn media_bytes(&self) -> u64 {
        self.media_pages * PAGE_BYTES
    }

    /// Device-level write amplification since `earlier`: media pages per host page. `None` if the
    /// host wrote nothing.
    #[allow(clippy::cast_precision_loss)]
    pub fn dlwa_since(&self, earlier: &Self) -> Option<f64> {
        let host = self.host_pages - earlier.host_pages;
        let media = self.media_pages - earlier.media_pages;
        (host > 0).then(|| media as f64 / host as f64)
    }
}
