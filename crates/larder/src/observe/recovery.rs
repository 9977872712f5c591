//! What an opening reports about the content that it found.

/// What an opening found on its device.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// A blank device.
    Fresh,
    /// A cache that was shut down cleanly; it continues where it was. Small objects are found through their buckets.
    /// Large ones are found once their region is indexed; if they are few, before the opening returns
    /// ([`LocConfig::eager_index_objects`](crate::LocConfig::eager_index_objects)). A call that would be a miss waits
    /// for the index, at most [`Config::flash_wait`](crate::Config::flash_wait).
    Clean {
        /// Large objects recovered so far.
        large_objects: u64,
    },
    /// A cache that was not shut down. The opening recovers the content that had reached flash and was not replaced,
    /// deleted or dropped since. Large objects are found once their region is indexed:
    /// [`Larder::rebuild`](crate::Larder::rebuild) indexes all regions, and every user of the cache indexes a few.
    /// Small objects are found when their bucket is read.
    Crashed {
        /// Large objects recovered so far.
        large_objects: u64,
        /// Regions of large objects that are not indexed yet.
        regions_left: u32,
    },
    /// A cache that could not be taken over; the new one starts empty.
    Discarded {
        /// The reason.
        reason: String,
    },
}

impl Recovery {
    /// One word for the outcome: `new`, `clean`, `crash` or `empty`.
    ///
    /// ```
    /// assert_eq!(larder::Recovery::Fresh.name(), "new");
    /// ```
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fresh => "new",
            Self::Clean { .. } => "clean",
            Self::Crashed { .. } => "crash",
            Self::Discarded { .. } => "empty",
        }
    }
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fresh => f.write_str("empty: nothing was there"),
            Self::Clean { large_objects } => {
                write!(
                    f,
                    "warm: it was closed in order; {large_objects} large objects are found so far"
                )
            }
            Self::Crashed { large_objects, regions_left } => write!(
                f,
                "warm: it was not closed; {large_objects} large objects are found so far, and {regions_left} regions \
                 are still to be looked at"
            ),
            Self::Discarded { reason } => write!(f, "empty: {reason}"),
        }
    }
}
