//! Turns to read flash: a worker reads for a limited number of requests at a time. When more wait, tenants get turns by
//! weight.
//!
//! Turns are given out by start-time fair queueing: each tenant's next turn has a virtual time, each turn advances it
//! by the inverse of the tenant's weight, and the earliest is next. Unlike weighted round robin, where a tenant of
//! weight 1000 takes 1000 turns in a row, no tenant waits for another's whole round.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// How far a turn advances a tenant of weight 1.
const STEP: u64 = 1 << 20;

/// The turns of a worker.
pub(crate) struct Turns(Rc<RefCell<TurnsState>>);

struct TurnsState {
    /// 0 while any request waits.
    free: usize,
    /// The virtual time of the last turn that was given out.
    now: u64,
    /// By the number of the tenant.
    queues: Vec<Queue>,
}

#[derive(Default)]
struct Queue {
    /// The virtual time of its next turn.
    next_at: u64,
    step: u64,
    waiting: VecDeque<Rc<TurnWaiter>>,
}

#[derive(Default)]
struct TurnWaiter {
    has_turn: Cell<bool>,
    /// The waiting request was cancelled.
    is_gone: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

/// A turn, until it is dropped.
pub(crate) struct Turn(Rc<RefCell<TurnsState>>);

/// A waiting request, until it is dropped.
struct QueuedTurn {
    state: Rc<RefCell<TurnsState>>,
    waiting: Rc<TurnWaiter>,
}

impl Turns {
    /// Gives out `turns` turns at a time, for `tenants` tenants.
    pub(crate) fn new(turns: usize, tenants: usize) -> Self {
        assert!(turns > 0, "there is at least one turn");
        let queues = (0..tenants).map(|_| Queue::default()).collect();
        Self(Rc::new(RefCell::new(TurnsState { free: turns, now: 0, queues })))
    }

    /// Waits for a turn of the tenant with this number and this weight, which is at least 1.
    pub(crate) async fn take(&self, tenant: usize, weight: u16) -> Turn {
        let place = {
            let mut state = self.0.borrow_mut();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Rc::clone(&self.0));
            }
            let waiting = state.wait(tenant, weight);
            QueuedTurn { state: Rc::clone(&self.0), waiting }
        };
        poll_fn(|cx| {
            if place.waiting.has_turn.get() {
                return Poll::Ready(());
            }
            place.waiting.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        place.waiting.has_turn.set(false);
        Turn(Rc::clone(&self.0))
    }
}

impl TurnsState {
    fn wait(&mut self, tenant: usize, weight: u16) -> Rc<TurnWaiter> {
        let now = self.now;
        let queue = &mut self.queues[tenant];
        if queue.waiting.is_empty() {
            // Turns that it did not use before are not saved up.
            queue.next_at = queue.next_at.max(now);
        }
        queue.step = STEP / u64::from(weight.max(1));
        let waiting = Rc::new(TurnWaiter::default());
        queue.waiting.push_back(Rc::clone(&waiting));
        waiting
    }

    /// A turn is over: gives it to the next waiting request, if there is one.
    fn give_back(&mut self) -> Option<Waker> {
        loop {
            let waited_for = self.queues.iter_mut().filter(|queue| !queue.waiting.is_empty());
            let Some(next) = waited_for.min_by_key(|queue| queue.next_at) else {
                self.free += 1;
                return None;
            };
            let Some(waiting) = next.waiting.pop_front() else { continue };
            if waiting.is_gone.get() {
                continue;
            }
            self.now = next.next_at;
            next.next_at += next.step;
            waiting.has_turn.set(true);
            return waiting.waker.take();
        }
    }
}

fn give_back(state: &RefCell<TurnsState>) {
    let waker = state.borrow_mut().give_back();
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        give_back(&self.0);
    }
}

impl Drop for QueuedTurn {
    fn drop(&mut self) {
        self.waiting.is_gone.set(true);
        if self.waiting.has_turn.get() {
            // It was given a turn, and was cancelled before it could use it.
            give_back(&self.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Context;

    use super::*;

    type Taking<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    fn poll(taking: &mut Taking<'_>) -> Poll<Turn> {
        taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Takes one turn after the other while all of `waiting` (tenants with their weights) wait; returns the tenants in
    /// order.
    fn order(waiting: &[(usize, u16)]) -> Vec<usize> {
        let turns = Turns::new(1, 3);
        let Poll::Ready(first) = poll(&mut (Box::pin(turns.take(2, 1)) as Taking<'_>)) else {
            panic!("it is free")
        };
        let mut all: Vec<(usize, Taking<'_>)> = Vec::new();
        for (tenant, weight) in waiting {
            let mut taking: Taking<'_> = Box::pin(turns.take(*tenant, *weight));
            assert!(poll(&mut taking).is_pending());
            all.push((*tenant, taking));
        }
        drop(first);
        let mut order = Vec::new();
        while !all.is_empty() {
            let found =
                all.iter_mut().enumerate().find_map(|(at, (tenant, taking))| match poll(taking) {
                    Poll::Ready(turn) => Some((at, *tenant, turn)),
                    Poll::Pending => None,
                });
            let (at, tenant, turn) = found.expect("one of the waiters gets a turn");
            order.push(tenant);
            drop(all.remove(at));
            drop(turn);
        }
        assert_eq!(turns.0.borrow().free, 1, "each is given back once");
        order
    }

    #[test]
    fn one_that_comes_behind_fifty_of_another_is_soon_next() {
        let mut waiting = vec![(0, 1000); 50];
        waiting.push((1, 1000));
        let place = order(&waiting).iter().position(|tenant| *tenant == 1).unwrap();
        assert!(place <= 1, "{place}");
    }

    #[test]
    fn turns_follow_weights() {
        let waiting: Vec<_> = (0..40).flat_map(|_| [(0, 3), (1, 1)]).collect();
        let first = &order(&waiting)[..40];
        let of_first = first.iter().filter(|tenant| **tenant == 0).count();
        assert!((29..=31).contains(&of_first), "{of_first} of 40");
        // No tenant gets more turns in a row than its weight allows.
        assert!(first.windows(5).all(|five| five.contains(&1)), "{first:?}");
    }

    #[test]
    fn a_waiter_that_is_dropped_leaves_its_turn_to_others() {
        let turns = Turns::new(1, 1);
        let take = || -> Taking<'_> { Box::pin(turns.take(0, 1)) };
        let Poll::Ready(first) = poll(&mut take()) else { panic!("it is free") };
        let (mut one, mut two, mut three) = (take(), take(), take());
        for taking in [&mut one, &mut two, &mut three] {
            assert!(poll(taking).is_pending());
        }
        drop(one); // before it was told
        drop(first);
        drop(two); // after it was told
        let Poll::Ready(turn) = poll(&mut three) else { panic!("it is its turn") };
        drop(turn);
        drop(three);
        assert!(poll(&mut take()).is_ready());
    }
}
