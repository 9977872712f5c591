//! The end of an engine's thread.

use std::thread::JoinHandle;

/// Waits for an engine's thread, unless that thread itself dropped the device (in a waker): it ends
/// by itself.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}
