//! What a hosted ring asks of the kernel: the seam behind which tests put one of their own.

use std::io;
use std::time::Duration;

use super::wire::Range;
use crate::file::transfer::Piece;

/// `user_data` of the operation that ends when the wake-up event is signalled; every other is the index of a slot.
pub(crate) const WAKE_EVENT: u64 = u64::MAX;

/// The two queues, the wake-up event, and how requests of a device are put into words.
///
/// Whoever has the books has the queues: there is one set of them for a ring, and it lies under the
/// ring's lock. What takes no books may be called by any thread at any time.
pub(crate) trait Kernel: Send + Sync + Sized + 'static {
    /// What must be known of a device to speak of its requests.
    type Target: Send;
    /// What changes with the queues.
    type Books: Send;

    /// Puts what remains of a piece, in a slot with its range, into the submission queue. `false`: there
    /// is no room. The kernel uses the memory of the piece and the range from then on, until the
    /// completion was fetched.
    fn push(
        &self,
        books: &mut Self::Books,
        target: &mut Self::Target,
        what: (u64, &mut Piece, &mut Range),
    ) -> bool;

    /// Puts an operation into the submission queue that ends with [`WAKE_EVENT`] when the wake-up event was signalled.
    fn arm_wake_event(&self, books: &mut Self::Books) -> bool;

    /// The next completion: of what, and how it ended.
    fn next(&self, books: &mut Self::Books) -> Option<(u64, i32)>;

    /// Whether there is something in the submission queue that the kernel was not told of.
    fn untold(&self, books: &mut Self::Books) -> bool;

    /// What the end of an operation means: how many bytes were moved, or why not. `None`: it must be
    /// asked for again, in other words.
    fn outcome(
        &self,
        target: &mut Self::Target,
        piece: &mut Piece,
        result: i32,
    ) -> Option<io::Result<usize>>;

    /// Tells the kernel what is new in the submission queue, and sleeps if asked to.
    fn enter(&self, wait: Wait) -> Entered;

    /// Ends the operation that [`Kernel::arm_wake_event`] began, or the next one.
    fn wake(&self);

    /// Sleeps until the wake-up event is signalled, where the queues cannot be used any more.
    fn await_wake(&self, timeout: Option<Duration>);

    /// Nothing of this device is under way, and nothing more will come.
    fn release(&self, books: &mut Self::Books, target: Self::Target);

    /// The ring broke; the kernel may still be at work for this device.
    fn abandon(&self, target: Self::Target);

    /// Nothing is under way, and nothing more will come.
    fn close(&self, books: &mut Self::Books);
}

/// Whether a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    No,
    /// Until there is a completion, or the time is over.
    Completion(Option<Duration>),
}

/// What the kernel said to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    Told,
    /// What it did not take stays in the queue for the next call.
    Later,
    Broken,
}
