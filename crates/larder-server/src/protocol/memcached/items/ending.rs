//! What there is to do and to say when an item was changed, or could not be.

use larder::{Error, ErrorKind};

use crate::caller::Caller;
use crate::protocol::memcached::lifetime::Lifetime;

/// What a client is told of an error of the cache.
pub(crate) fn server_error(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Busy => "SERVER_ERROR out of memory storing object",
        ErrorKind::InvalidInput => "SERVER_ERROR object too large for cache",
        ErrorKind::Closed => "SERVER_ERROR the server is ending",
        _ => "SERVER_ERROR the device has failed",
    }
}

/// What a client is told that asked for something which took too long, as a line.
pub(crate) const TOO_LATE: &[u8] = b"SERVER_ERROR not read from flash in time\r\n";

/// Something was given the lifetime. What is over is gone when this has ended: the cache counts in milliseconds, of
/// which one may be left.
pub(crate) async fn let_pass(caller: &Caller, lifetime: Lifetime) {
    if lifetime == Lifetime::Over {
        caller.worker.pause(std::time::Duration::from_millis(1)).await;
    }
}
