//! A request that nobody waits for any more, until it has ended below.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use super::watch::Watch;
use crate::claim::Claim;
use crate::io::UnderWay;

/// Keeps the request and its memory, and the right to its bytes; polls it whenever it is woken.
pub(super) struct GivenUp {
    under_way: Mutex<Option<UnderWay>>,
    /// Somebody wants it polled.
    is_woken: AtomicBool,
    watch: Arc<Watch>,
    number: usize,
    /// Given back when the request has ended.
    _claim: Option<Arc<Claim>>,
}

impl GivenUp {
    /// Sees to it that the watch hears when the request has ended.
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
        // Whoever polls it now looks once more: a poll may wake what it polls.
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
