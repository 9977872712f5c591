//! Decides when a segment is worth compacting.

/// Dead bytes are measured in eighths of a segment.
pub(super) const EIGHTHS: usize = 8;
/// A segment with this number of dead eighths is compacted: its live records are copied, and none leaves. With fewer
/// dead bytes the copying would not be worth it.
pub(super) const COMPACTED_EIGHTHS: usize = 3;

/// Number of dead eighths of a segment.
pub(super) fn dead_eighths(dead_bytes: usize, capacity: usize) -> usize {
    (dead_bytes * EIGHTHS / capacity.max(1)).min(EIGHTHS)
}

/// Whether the increase of dead bytes from `before` to `dead_bytes` made the segment more worthwhile to compact.
pub(super) fn is_sparser(before: usize, dead_bytes: usize, capacity: usize) -> bool {
    let eighths = dead_eighths(dead_bytes, capacity);
    eighths >= COMPACTED_EIGHTHS && eighths > dead_eighths(before, capacity)
}
