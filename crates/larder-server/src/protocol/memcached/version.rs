//! Which version clients are told.

/// What clients are told that this is: the release of memcached whose requests are understood, and ours. Some choose by
/// it what they ask for.
pub(super) const VERSION: &str = concat!("1.6.38-larder-", env!("CARGO_PKG_VERSION"));
