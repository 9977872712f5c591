//! What is known of a bucket without a look at flash.

/// What is known of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Knowledge {
    /// Filter and generation are those of the bucket on flash.
    Known,
    /// A crash has left it, and nobody has read it since. Its filter says yes to everything.
    Unknown,
    /// Its write failed: what it holds is unknown. It is not read, and written again only after a
    /// back-off, from an empty one.
    Retired,
}

impl Knowledge {
    /// What `as u8` made of it.
    pub(super) fn of(stored: u8) -> Self {
        let all = [Self::Known, Self::Unknown, Self::Retired];
        let known = all.into_iter().find(|knowledge| *knowledge as u8 == stored);
        known.expect("nobody stores anything else")
    }
}
