//! What is known of a bucket without reading flash.

/// State of the knowledge about a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Knowledge {
    /// Filter and generation are those of the bucket on flash.
    Known,
    /// A crash has left it, and it has not been read since. Its filter answers yes to everything.
    Unknown,
    /// Its write failed: its content is unknown. It is not read. It is written again only after a back-off, starting
    /// from an empty bucket.
    Retired,
}

impl Knowledge {
    /// The inverse of `as u8`.
    pub(super) fn of(stored: u8) -> Self {
        let all = [Self::Known, Self::Unknown, Self::Retired];
        let known = all.into_iter().find(|knowledge| *knowledge as u8 == stored);
        known.expect("only these values are stored")
    }
}
