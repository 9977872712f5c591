//! What all clients of a server that is killed do: they run at once, and end when it is gone.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A connection may end this long before its server is known to be killed.
const EARLY_MAX: Duration = Duration::from_secs(10);

/// Runs `client` for each number below `clients`, all at once.
pub(super) fn all<T: Send>(
    clients: u32,
    client: impl Fn(u32) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> =
            (0..clients).map(|thread| scope.spawn(move || client(thread))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|ended| ended.unwrap_or_else(|_| Err("a client panicked".into()))).collect()
    })
}

/// The connection of a client has ended with this error: right if the server was killed, which `is_over` says soon.
pub(super) fn ends_with_server(error: &io::Error, is_over: &AtomicBool) -> Result<(), String> {
    if error.kind() == io::ErrorKind::InvalidData {
        return Err(error.to_string());
    }
    // The server may have been killed just before `is_over` was set.
    let gone = Instant::now();
    while !is_over.load(Ordering::SeqCst) {
        if gone.elapsed() > EARLY_MAX {
            return Err(format!("a connection ended by itself: {error}"));
        }
        std::thread::yield_now();
    }
    Ok(())
}
