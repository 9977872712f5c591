//! The version that clients see.

/// The version that clients see: the memcached release whose requests are understood, and ours. Some clients choose
/// their requests by it.
pub(super) const VERSION: &str = concat!("1.6.38-larder-", env!("CARGO_PKG_VERSION"));
