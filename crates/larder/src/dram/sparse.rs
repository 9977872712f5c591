//! When a segment is worth compacting.

/// Dead bytes are told in eighths of a segment.
pub(super) const EIGHTHS: usize = 8;
/// A segment of which this share is dead, in eighths, is compacted: what lives in it is copied, and
/// nothing leaves. Less dead bytes would not be worth the copying.
pub(super) const COMPACTED_EIGHTHS: usize = 3;

/// How much of a segment is dead.
pub(super) fn dead_eighths(dead_bytes: usize, capacity: usize) -> usize {
    (dead_bytes * EIGHTHS / capacity.max(1)).min(EIGHTHS)
}

/// Whether a segment in which so many bytes more are dead than before is worth more to compact.
pub(super) fn is_sparser(before: usize, dead_bytes: usize, capacity: usize) -> bool {
    let eighths = dead_eighths(dead_bytes, capacity);
    eighths >= COMPACTED_EIGHTHS && eighths > dead_eighths(before, capacity)
}
