//! What a rewrite of a bucket knows about dead keys.

/// The dead keys that were taken into account when a bucket was prepared for its write.
#[derive(Debug, Default)]
pub(super) struct BucketChange {
    /// Index of the first tombstone that the new bucket does not know of.
    pub(super) stamp: u64,
    /// Sorted hashes.
    pub(super) dead: Vec<u64>,
}
