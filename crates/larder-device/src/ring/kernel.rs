//! The kernel interface of a hosted ring, as a trait so that tests can substitute their own kernel.

use std::io;
use std::time::Duration;

use super::wire::Range;
use crate::transfer::Piece;

/// `user_data` of the operation that ends when the wake-up event is signalled. Every other value is the index of a
/// slot.
pub(crate) const WAKE_EVENT: u64 = u64::MAX;

/// The two queues, the wake-up event, and the encoding of a device's requests.
///
/// Having the tables means having the queues: a ring has one set of tables, under the ring's lock. Any thread may call
/// the methods that take no tables, at any time.
pub(crate) trait Kernel: Send + Sync + Sized + 'static {
    /// What the encoding of a device's requests needs.
    type Target: Send;
    /// State that changes together with the queues.
    type KernelTables: Send;

    /// Puts what remains of a piece, in a slot with its range, into the submission queue. Returns `false` if the queue
    /// is full. From then on the kernel uses the memory of the piece and the range, until the completion was fetched.
    fn push(
        &self,
        tables: &mut Self::KernelTables,
        target: &mut Self::Target,
        what: (u64, &mut Piece, &mut Range),
    ) -> bool;

    /// Puts an operation into the submission queue that ends with [`WAKE_EVENT`] when the wake-up event is signalled.
    fn arm_wake_event(&self, tables: &mut Self::KernelTables) -> bool;

    /// The next completion: its `user_data` and its result.
    fn next(&self, tables: &mut Self::KernelTables) -> Option<(u64, i32)>;

    /// Whether the submission queue has an entry that was not submitted to the kernel.
    fn untold(&self, tables: &mut Self::KernelTables) -> bool;

    /// The result of an operation: the number of bytes moved, or the error. `None`: the piece must be submitted again,
    /// in another encoding.
    fn outcome(
        &self,
        target: &mut Self::Target,
        piece: &mut Piece,
        result: i32,
    ) -> Option<io::Result<usize>>;

    /// Submits the new entries to the kernel, and sleeps if asked to.
    fn enter(&self, wait: Wait) -> EnterOutcome;

    /// Signals the wake-up event: ends the operation that [`Kernel::arm_wake_event`] began, or the next one.
    fn wake(&self);

    /// Sleeps until the wake-up event is signalled, where the queues cannot be used any more.
    fn await_wake(&self, timeout: Option<Duration>);

    /// The device has nothing in flight and will submit nothing more.
    fn release(&self, tables: &mut Self::KernelTables, target: Self::Target);

    /// The ring broke; the kernel may still be working for this device.
    fn abandon(&self, target: Self::Target);

    /// Nothing is in flight, and nothing more will be submitted.
    fn close(&self, tables: &mut Self::KernelTables);
}

/// Whether a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    /// Until there is a completion, or the time is over.
    Completion(Option<Duration>),
}

/// Outcome of a call of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnterOutcome {
    Told,
    /// Entries that the kernel did not take stay in the queue for the next call.
    Later,
    Broken,
}
