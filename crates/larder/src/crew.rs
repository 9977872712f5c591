//! Futures that one task polls side by side, a few at a time, each only when it was woken.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// At most so many.
pub(crate) const SLOTS: usize = 32;
const _: () = assert!(SLOTS <= u32::BITS as usize);

/// The futures that are under way.
pub(crate) struct Crew<F> {
    slots: Vec<Slot<F>>,
    ready: Arc<Ready>,
}

struct Slot<F> {
    future: Option<Pin<Box<F>>>,
    waker: Waker,
}

/// Which of them were woken.
struct Ready {
    slots: AtomicU32,
    /// Who polls them.
    task: Mutex<Waker>,
}

struct SlotWaker {
    ready: Arc<Ready>,
    bit: u32,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.ready.slots.fetch_or(self.bit, Ordering::SeqCst);
        // Whoever set the first bit has woken the task, which takes all bits once it is polled.
        if before == 0 {
            self.ready.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

impl<F: Future<Output = ()>> Crew<F> {
    pub(crate) fn new() -> Self {
        let ready =
            Arc::new(Ready { slots: AtomicU32::new(0), task: Mutex::new(Waker::noop().clone()) });
        let slot = |number: usize| {
            let waker = Arc::new(SlotWaker { ready: Arc::clone(&ready), bit: 1 << number });
            Slot { future: None, waker: Waker::from(waker) }
        };
        Self { slots: (0..SLOTS).map(slot).collect(), ready }
    }

    /// Polls those that were woken, and begins what `next` gives wherever there is a free slot. Ready when
    /// none is under way and `next` has nothing.
    pub(crate) fn poll(
        &mut self,
        context: &Context<'_>,
        mut next: impl FnMut() -> Option<F>,
    ) -> Poll<()> {
        // First this: a wake-up from here on is for this waker.
        self.ready.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        let mut woken = self.ready.slots.swap(0, Ordering::SeqCst);
        let mut is_empty = true;
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let mut is_due = woken & 1 << number != 0;
            loop {
                if slot.future.is_none() {
                    let Some(begun) = next() else { break };
                    slot.future = Some(Box::pin(begun));
                    is_due = true;
                }
                let Some(future) = slot.future.as_mut().filter(|_| is_due) else { break };
                if future.as_mut().poll(&mut Context::from_waker(&slot.waker)).is_pending() {
                    break;
                }
                slot.future = None;
            }
            is_empty &= slot.future.is_none();
            woken &= !(1 << number);
        }
        if is_empty { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Runs all of them to their end, a few at a time.
pub(crate) async fn run_all<F: Future<Output = ()>>(futures: Vec<F>) {
    let (mut crew, mut futures) = (Crew::new(), futures.into_iter());
    poll_fn(|context| crew.poll(context, || futures.next())).await;
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use larder_device::{IoBuffer, IoFuture, block_on};

    #[test]
    fn all_are_run_and_only_those_that_were_woken_are_polled() {
        let (send, completers) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            for (number, completer) in completers.into_iter().enumerate() {
                if number % 7 == 0 {
                    std::thread::yield_now();
                }
                larder_device::Completer::complete(completer, Ok(IoBuffer::zeroed(8)));
            }
        });
        let mut left = 5_000;
        let polls = AtomicU32::new(0);
        let mut crew = Crew::new();
        block_on(poll_fn(|context| {
            crew.poll(context, || {
                left = if left == 0 { return None } else { left - 1 };
                let (mut future, completer) = IoFuture::pending();
                send.send(completer).unwrap();
                let polls = &polls;
                Some(poll_fn(move |context| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    Pin::new(&mut future).poll(context).map(|_| ())
                }))
            })
        }));
        drop(send);
        other.join().unwrap();
        assert!(polls.into_inner() <= 10_000, "twice each: at the beginning and at the end");
    }
}
