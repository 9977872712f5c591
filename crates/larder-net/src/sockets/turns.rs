//! Turns of the connections of a thread.

use std::future::poll_fn;
use std::task::Poll;

/// Lets a thread's other connections have their turns.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
