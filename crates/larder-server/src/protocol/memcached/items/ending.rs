//! What follows a change of an item, and its error messages.

use larder::{Error, ErrorKind};

use crate::caller::Caller;
use crate::protocol::memcached::lifetime::Lifetime;

/// The answer for an error of the cache.
pub(crate) fn server_error(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Busy => "SERVER_ERROR out of memory storing object",
        ErrorKind::InvalidInput => "SERVER_ERROR object too large for cache",
        ErrorKind::Closed => "SERVER_ERROR the server is ending",
        _ => "SERVER_ERROR the device has failed",
    }
}

/// The line for a request that took too long.
pub(crate) const TOO_LATE: &[u8] = b"SERVER_ERROR not read from flash in time\r\n";

/// Called after an item was given `lifetime`. If that is over, waits until the item is gone: the cache counts in
/// milliseconds, of which one may be left.
pub(crate) async fn let_pass(caller: &Caller, lifetime: Lifetime) {
    if lifetime == Lifetime::Over {
        caller.worker.pause(std::time::Duration::from_millis(1)).await;
    }
}
