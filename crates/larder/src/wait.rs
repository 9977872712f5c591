//! Waiting for a future on a plain thread, without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// One waker a thread: a future that is ready at once should cost no allocation.
    static WAKER: Waker = Arc::new(Unpark(std::thread::current())).into();
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            // A wake-up between poll and park leaves a token, so none is lost; one for somebody
            // else costs a poll.
            match future.as_mut().poll(&mut context) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::{IoBuffer, IoFuture};

    #[test]
    fn waits_for_another_thread() {
        let (future, completer) = IoFuture::pending();
        let other = std::thread::spawn(move || completer.complete(Ok(IoBuffer::zeroed(8))));
        assert_eq!(block_on(future).unwrap().len(), 8);
        other.join().unwrap();
    }
}
