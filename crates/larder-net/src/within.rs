//! A future with a time limit.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use larder_device::Clock;

/// The output of `future`, or `None` if it takes longer than `time`. The caller may poll it further then.
pub async fn within<F: Future>(
    clock: &dyn Clock,
    time: Duration,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    // Most futures are ready at once, and need no timer.
    let mut timer = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(clock.monotonic() + time));
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}
