//! Work of several steps that proceeds by itself: each request that ends begins the next, whether or not a task waits
//! for the whole.
//!
//! A device promises that a request continues when its future is dropped. A request made of several keeps that promise
//! only if it does not depend on being polled by its caller. So the thread that ends a step polls the work.
//!
//! 1. One thread at a time polls the work. A wake-up during a poll is remembered, and causes another poll.
//! 2. Work that a step wakes is not polled inside that step, even the first one: a thread that carries out work queues
//!    what it wakes and polls it afterwards. So a chain of a thousand waiting works needs no deep stack. And a waker
//!    may hold a lock that the woken work is about to take, as a lock does that wakes its next holder.
//! 3. It is polled apart from what the thread itself waits for (`apart`), because it may outlive that.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use crate::io::{IoFuture, IoResult};
use crate::park::apart;

type Steps = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work in progress. Its wakers own it.
struct Work {
    /// `None` once it has ended.
    steps: Mutex<Option<Steps>>,
    polled: AtomicBool,
    woken: AtomicBool,
}

thread_local! {
    /// Works that were woken on this thread while it carries out another one; `None` while it carries out none.
    static WOKEN: RefCell<Option<VecDeque<Arc<Work>>>> = const { RefCell::new(None) };
}

/// Begins `steps` at once, on this thread, and carries them out to their end. No future waits for them.
pub fn carry_on(steps: impl Future<Output = ()> + Send + 'static) {
    let work = Work {
        steps: Mutex::new(Some(Box::pin(steps))),
        polled: AtomicBool::new(false),
        woken: AtomicBool::new(true),
    };
    Arc::new(work).carry(true);
}

/// A request that consists of `steps`. They begin at once, on this thread, and continue to their end whether or not the
/// future is polled. For code that makes one request of several.
///
/// ```
/// use std::sync::Arc;
/// use larder_device::{Device, Io, IoBuffer, MemoryDevice, steps};
///
/// let device = Arc::new(MemoryDevice::holding(vec![7; 1 << 20]));
/// let copied = steps::request({
///     let device = Arc::clone(&device);
///     async move {
///         let buffer = device.submit(Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) }).await?;
///         device.submit(Io::write(4096, buffer, Default::default())).await
///     }
/// });
/// assert_eq!(copied.wait().unwrap().as_slice()[0], 7);
/// ```
pub fn request(steps: impl Future<Output = IoResult> + Send + 'static) -> IoFuture {
    let (future, completer) = IoFuture::pending();
    carry_on(async move { completer.complete(steps.await) });
    future
}

impl Work {
    /// Polls the work on this thread, and then the works that this wakes. If the thread is already carrying out another
    /// work, this one waits until that was polled, unless it `begins`.
    fn carry(self: Arc<Self>, begins: bool) {
        let is_outermost = WOKEN.try_with(|woken| {
            let mut woken = woken.borrow_mut();
            let is_outermost = woken.is_none();
            let waiting = woken.get_or_insert_default();
            if !is_outermost && !begins {
                waiting.push_back(Arc::clone(&self));
            }
            is_outermost
        });
        match is_outermost {
            Ok(true) => {
                let _done = QueueGuard;
                let mut next = Some(self);
                while let Some(work) = next {
                    work.go();
                    next = WOKEN.with(|woken| woken.borrow_mut().as_mut()?.pop_front());
                }
            }
            Ok(false) if begins => self.go(),
            Ok(false) => {}
            // The thread is exiting.
            Err(_) => self.go(),
        }
    }

    fn go(self: &Arc<Self>) {
        while self.woken.load(Ordering::SeqCst) && !self.polled.swap(true, Ordering::SeqCst) {
            self.woken.store(false, Ordering::SeqCst);
            self.poll();
            self.polled.store(false, Ordering::SeqCst);
        }
    }

    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(next) = steps.as_mut() else { return };
        let polled = apart(|| next.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Poll::Ready(()) = polled {
            *steps = None;
        }
    }
}

impl Wake for Work {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.carry(false);
    }
}

/// Clears the thread's queue when it carries out no more work, also if a step panicked.
struct QueueGuard;

impl Drop for QueueGuard {
    fn drop(&mut self) {
        let _ = WOKEN.try_with(|woken| woken.borrow_mut().take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;

    #[test]
    fn the_second_step_follows_the_first_after_the_future_was_dropped() {
        let (first, end_first) = IoFuture::pending();
        let (second, end_second) = IoFuture::pending();
        let whole = request(async move {
            first.await?;
            end_second.complete(Ok(IoBuffer::empty()));
            Ok(IoBuffer::zeroed(8))
        });
        drop(whole);
        end_first.complete(Ok(IoBuffer::empty()));
        assert!(second.wait().is_ok());
    }

    #[test]
    fn steps_end_on_whatever_thread_and_are_waited_for() {
        for _ in 0..100 {
            let (first, end_first) = IoFuture::pending();
            let whole = request(async move {
                first.await?;
                Ok(IoBuffer::zeroed(8))
            });
            let other = std::thread::spawn(move || end_first.complete(Ok(IoBuffer::empty())));
            assert_eq!(whole.wait().unwrap().len(), 8);
            other.join().unwrap();
        }
    }

    /// A lock may wake its next holder while its list of waiters is locked.
    #[test]
    fn what_a_first_step_wakes_is_polled_behind_it() {
        let (ends, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let lock = Arc::new(async_lock::Mutex::new(()));
            let whole = request(async move {
                let held = lock.lock().await;
                let next = request({
                    let lock = Arc::clone(&lock);
                    async move {
                        drop(lock.lock().await);
                        Ok(IoBuffer::zeroed(8))
                    }
                });
                drop(held);
                next.await
            });
            let _ = ends.send(whole.wait().unwrap().len());
        });
        assert_eq!(ended.recv_timeout(std::time::Duration::from_secs(20)), Ok(8));
    }

    /// Each work wakes the next: with recursion a thread's stack would be too small.
    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let (first, end_first) = IoFuture::pending();
        let mut last = first;
        for _ in 0..100_000 {
            let before = last;
            last = request(async move {
                let buffer = before.await?;
                Ok(buffer)
            });
        }
        end_first.complete(Ok(IoBuffer::zeroed(8)));
        assert_eq!(last.wait().unwrap().len(), 8);
    }
}
