//! Runs several futures side by side in one task. The device requests that they start in one turn reach the kernel
//! together.

use std::future::{Future, poll_fn};
use std::pin::pin;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::iter;
use larder_device::plugged;

/// Maximum number of futures in flight: enough requests to keep a drive busy, and no more, because each has buffers.
pub(crate) const AT_ONCE: usize = 64;

/// Waits for all futures.
pub(crate) async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    plugged_in_turns(join_all(futures)).await
}

/// Runs all futures to their end, [`AT_ONCE`] at a time.
pub(crate) async fn run_all<F: Future<Output = ()>>(futures: Vec<F>) {
    plugged_in_turns(iter(futures).for_each_concurrent(AT_ONCE, |future| future)).await;
}

async fn plugged_in_turns<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| plugged(|| future.as_mut().poll(context))).await
}
