//! Joining an engine's thread.

use std::thread::JoinHandle;

/// Waits for an engine's thread to end. If that thread itself drops the device (in a waker), this returns at once and
/// the thread ends by itself.
pub(crate) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}
