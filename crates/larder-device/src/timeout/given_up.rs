//! A request that its caller no longer waits for, until it has ended below.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use super::watch::Watch;
use crate::claim::Claim;
use crate::io::UnderWay;

/// Keeps the request, its memory and the claim on its bytes; polls the request whenever it is woken.
pub(super) struct GivenUp {
    under_way: Mutex<Option<UnderWay>>,
    /// A poll was asked for.
    is_woken: AtomicBool,
    watch: Arc<Watch>,
    number: usize,
    /// Released when the request has ended.
    _claim: Option<Arc<Claim>>,
}

impl GivenUp {
    /// Follows the request, so that the watch is told when it has ended.
    pub(super) fn follow(
        under_way: UnderWay,
        watch: &Arc<Watch>,
        number: usize,
        claim: Option<Arc<Claim>>,
    ) {
        let given_up = Self {
            under_way: Mutex::new(Some(under_way)),
            is_woken: AtomicBool::new(false),
            watch: Arc::clone(watch),
            number,
            _claim: claim,
        };
        Arc::new(given_up).wake();
    }
}

impl Wake for GivenUp {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        // A thread that is polling already polls once more: a poll may wake the request that it polls.
        while let Ok(mut under_way) = self.under_way.try_lock() {
            while self.is_woken.swap(false, Ordering::SeqCst) {
                let waker = Waker::from(Arc::clone(&self));
                let has_ended = under_way.as_mut().is_some_and(|it| it.poll(&waker).is_ready());
                if has_ended {
                    *under_way = None;
                    self.watch.ended_late(self.number);
                }
            }
            drop(under_way);
            if !self.is_woken.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}
