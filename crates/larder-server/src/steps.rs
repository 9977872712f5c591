//! Steps of several requests, which others see as one.
//!
//! While a script, a transaction or a request of several keys runs, it holds its keys: single requests for them wait.
//! Requests for other keys go on.
//!
//! Keys are held by stripes, which a hash chooses. A request is noted as inside of its stripe while it works; a step
//! notes that it holds the stripe, and begins when no request is inside. Each notes itself before it looks at the
//! other, so one of the two sees the other. A request that finds its stripe held takes the tenant's turn, which steps
//! have, and so runs between two of them.

use std::sync::atomic::{AtomicU32, Ordering};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Stripes. A step of one key keeps one request for other keys in this number waiting too.
const STRIPES: usize = 1024;
type Stripes = Box<[AtomicU32]>;

/// Which stripes are held, and where requests are inside.
pub(crate) struct Steps {
    /// Steps that hold each stripe.
    held: Stripes,
    /// By worker, so that no two write to the same place: its requests inside of each stripe.
    inside: Box<[Stripes]>,
}

fn stripes() -> Stripes {
    (0..STRIPES).map(|_| AtomicU32::new(0)).collect()
}

impl Steps {
    pub(crate) fn new(workers: usize) -> Self {
        Self { held: stripes(), inside: (0..workers).map(|_| stripes()).collect() }
    }

    /// The stripe of a key of a tenant.
    pub(crate) fn stripe(tenant: usize, key: &[u8]) -> usize {
        let hash = xxh3_64_with_seed(key, tenant as u64);
        usize::try_from(hash % STRIPES as u64).unwrap_or(0)
    }

    /// A request of `worker` for the key with this name begins to work, unless a step holds the key.
    pub(crate) fn enter(&self, worker: usize, tenant: usize, key: &[u8]) -> Option<Inside<'_>> {
        let stripe = Self::stripe(tenant, key);
        let inside = self.inside.get(worker)?.get(stripe)?;
        inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(inside);
        (self.held.get(stripe)?.load(Ordering::SeqCst) == 0).then_some(inside)
    }

    /// A step holds a stripe from now on.
    pub(crate) fn hold(&self, stripe: usize) {
        if let Some(held) = self.held.get(stripe) {
            held.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A step gives a stripe back.
    pub(crate) fn give_back(&self, stripe: usize) {
        if let Some(held) = self.held.get(stripe) {
            held.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether no request is inside.
    pub(crate) fn is_empty(&self, stripe: usize) -> bool {
        let of = |stripes: &Stripes| stripes.get(stripe).map_or(0, |it| it.load(Ordering::SeqCst));
        self.inside.iter().all(|stripes| of(stripes) == 0)
    }
}

/// A request that works with a key.
pub(crate) struct Inside<'a>(&'a AtomicU32);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_request_inside_keeps_a_step_waiting_and_a_step_keeps_requests_out() {
        let steps = Steps::new(2);
        let stripe = Steps::stripe(0, b"key");
        let inside = steps.enter(1, 0, b"key").unwrap();
        assert!(!steps.is_empty(stripe) && steps.enter(0, 0, b"key").is_some());
        drop(inside);
        assert!(steps.is_empty(stripe));
        steps.hold(stripe);
        assert!(steps.enter(0, 0, b"key").is_none());
        assert!(steps.is_empty(stripe), "a request that was kept out is not inside");
        let other = (0..100).map(|key: u32| key.to_le_bytes());
        assert!(other.into_iter().any(|key| steps.enter(0, 0, &key).is_some()));
    }

    /// Of a step and a request that begin at the same time, one sees the other.
    #[test]
    fn a_step_and_a_request_see_each_other() {
        let steps = Steps::new(1);
        let stripe = Steps::stripe(0, b"key");
        let alone = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    steps.hold(stripe);
                    while !steps.is_empty(stripe) {
                        std::hint::spin_loop();
                    }
                    alone.store(true, Ordering::SeqCst);
                    alone.store(false, Ordering::SeqCst);
                    steps.give_back(stripe);
                    std::thread::yield_now();
                }
            });
            for _ in 0..200_000 {
                if let Some(_inside) = steps.enter(0, 0, b"key") {
                    assert!(!alone.load(Ordering::SeqCst), "both work");
                }
            }
        });
    }
}
