//! What a rewrite of a bucket has to follow of what died meanwhile.

/// What a bucket that is about to be written has followed.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) stamp: u64,
    /// Hashes in order.
    pub(super) dead: Vec<u64>,
}
