//! Limits the bytes on their way to flash above the budget: objects that DRAM has no place for.
//!
//! A caller with such an object takes its bytes from the allowance before it builds the object. They are given back
//! when flash has dealt with the object. So a caller that gives up while it waits has taken no memory. Waiters are
//! served in the order in which they came, so short objects cannot delay a long one for ever. The caller that gives
//! bytes back hands them to the waiters: a waiter never depends on the poll of another future, unless that future has
//! been handed its bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::base::sync::{Mutex, MutexGuard};

/// Bytes that may be on their way to flash.
#[derive(Debug)]
pub(crate) struct Allowance {
    max_bytes: usize,
    state: Mutex<AllowanceState>,
}

#[derive(Debug, Default)]
struct AllowanceState {
    /// Never above `max_bytes`, except for a single object that is longer.
    used_bytes: usize,
    next_number: u64,
    waiting: VecDeque<WaitingPut>,
    /// Waiters that were handed their bytes and have not been polled since.
    served: Vec<u64>,
}

#[derive(Debug)]
struct WaitingPut {
    number: u64,
    bytes: usize,
    waker: Waker,
}

/// Bytes taken for an object that is not on its way yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct TakenBytes<'a> {
    allowance: &'a Allowance,
    bytes: usize,
}

/// A caller that waits for bytes.
#[derive(Debug)]
pub(crate) struct Taking<'a> {
    allowance: &'a Allowance,
    bytes: usize,
    number: Option<u64>,
}

impl Allowance {
    pub(crate) fn of_bytes(max_bytes: usize) -> Self {
        Self { max_bytes, state: Mutex::default() }
    }

    /// Takes `bytes` bytes if they are available and no caller waits.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<TakenBytes<'_>> {
        let mut state = self.lock();
        if !state.waiting.is_empty() || !state.has_room(bytes, self.max_bytes) {
            return None;
        }
        state.used_bytes += bytes;
        Some(TakenBytes { allowance: self, bytes })
    }

    /// Waits for `bytes` bytes.
    pub(crate) fn take(&self, bytes: usize) -> Taking<'_> {
        Taking { allowance: self, bytes, number: None }
    }

    /// Bytes on their way to flash, or about to be.
    pub(crate) fn used_bytes(&self) -> usize {
        self.lock().used_bytes
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        let woken = {
            let mut state = self.lock();
            assert!(bytes <= state.used_bytes, "what is given back was taken, once");
            state.used_bytes -= bytes;
            state.serve(self.max_bytes)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, AllowanceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllowanceState {
    fn has_room(&self, bytes: usize, max_bytes: usize) -> bool {
        // An object longer than the whole allowance goes alone.
        self.used_bytes == 0 || self.used_bytes.saturating_add(bytes) <= max_bytes
    }

    /// Hands bytes to the longest waiters.
    fn serve(&mut self, max_bytes: usize) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(first) = self.waiting.front()
            && self.has_room(first.bytes, max_bytes)
            && let Some(WaitingPut { number, bytes, waker }) = self.waiting.pop_front()
        {
            self.used_bytes += bytes;
            debug_assert!(
                self.used_bytes <= max_bytes || self.used_bytes == bytes,
                "what is longer than all of it goes alone"
            );
            debug_assert!(!self.served.contains(&number), "a waiter is served once");
            self.served.push(number);
            woken.push(waker);
        }
        woken
    }
}

impl TakenBytes<'_> {
    /// The object is on its way: the task that completes it gives back the returned number of bytes.
    pub(crate) fn spend(self) -> usize {
        let bytes = self.bytes;
        std::mem::forget(self);
        bytes
    }
}

impl Drop for TakenBytes<'_> {
    fn drop(&mut self) {
        self.allowance.give_back(self.bytes);
    }
}

impl<'a> Future for Taking<'a> {
    type Output = TakenBytes<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TakenBytes<'a>> {
        let Self { allowance, bytes, number } = *self;
        let Some(number) = number else {
            let mut state = allowance.lock();
            let number = state.next_number;
            state.next_number += 1;
            let waker = context.waker().clone();
            state.waiting.push_back(WaitingPut { number, bytes, waker });
            // Perhaps there is room and no caller waits in front.
            let woken = state.serve(allowance.max_bytes);
            drop(state);
            self.number = Some(number);
            let is_served = !woken.is_empty();
            drop(woken);
            return if is_served { self.poll(context) } else { Poll::Pending };
        };
        let mut state = allowance.lock();
        if let Some(at) = state.served.iter().position(|served| *served == number) {
            state.served.swap_remove(at);
            drop(state);
            self.number = None;
            return Poll::Ready(TakenBytes { allowance, bytes });
        }
        if let Some(waiting) = state.waiting.iter_mut().find(|other| other.number == number) {
            waiting.waker.clone_from(context.waker());
        }
        Poll::Pending
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let woken = {
            let mut state = self.allowance.lock();
            if let Some(at) = state.served.iter().position(|served| *served == number) {
                state.served.swap_remove(at);
                debug_assert!(self.bytes <= state.used_bytes, "a served waiter has its bytes");
                state.used_bytes -= self.bytes;
            }
            state.waiting.retain(|waiting| waiting.number != number);
            // Waiters behind it may be served now.
            state.serve(self.allowance.max_bytes)
        };
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    fn poll<'a>(taking: &mut Taking<'a>) -> Option<TakenBytes<'a>> {
        match Pin::new(taking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_first_waiter_is_served_first_and_a_request_above_the_total_runs_alone() {
        let allowance = Allowance::of_bytes(100);
        let first = allowance.try_take(60).unwrap();
        let (mut long, mut short) = (allowance.take(500), allowance.take(10));
        assert!(poll(&mut long).is_none() && poll(&mut short).is_none());
        assert!(allowance.try_take(1).is_none(), "others wait");
        drop(first);
        let long = poll(&mut long).unwrap();
        assert!(poll(&mut short).is_none());
        assert_eq!(allowance.used_bytes(), 500);
        drop(long);
        assert_eq!(poll(&mut short).map(TakenBytes::spend), Some(10));
        assert_eq!(allowance.used_bytes(), 10);
        allowance.give_back(10);
        assert_eq!(allowance.used_bytes(), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_delays_no_other_and_keeps_nothing() {
        let allowance = Allowance::of_bytes(100);
        let first = allowance.try_take(60).unwrap();
        let (mut second, mut third) = (allowance.take(60), allowance.take(40));
        assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
        drop(second);
        let mut third = Some(third);
        assert!(poll(third.as_mut().unwrap()).is_some(), "it has room beside the first");
        drop(first);
        let (holder, mut served) = (allowance.try_take(100).unwrap(), allowance.take(100));
        assert!(poll(&mut served).is_none());
        drop(holder); // hands over its bytes
        drop((served, third));
        assert_eq!(allowance.used_bytes(), 0);
    }
}
