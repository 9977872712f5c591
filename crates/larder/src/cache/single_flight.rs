//! Work that is done once for all concurrent callers (single-flight): reads of flash, and fetches.
//!
//! The first caller begins a call and leads it; the others follow and wait for its outcome. A change of the key
//! overtakes the call: callers that already wait still get the outcome, because they asked before the change had
//! ended. But the outcome is not stored, and no other caller joins the call.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

use async_lock::MutexGuard as AsyncMutexGuard;

use crate::base::key::KeyHash;
use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::base::sync::{Mutex, MutexGuard};

const SHARDS: usize = 64;

/// The calls in flight, by key.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T> {
    shards: Box<[FlightShard<K, T>]>,
}

#[derive(Debug)]
struct FlightShard<K, T> {
    calls: Mutex<Calls<K, T>>,
    /// Number of calls in flight, to be read without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Calls<K, T> {
    in_flight: HashMap<K, Arc<InFlight<T>>>,
    /// A finished call without users, to be reused by the next one.
    spare: Option<Arc<InFlight<T>>>,
}

#[derive(Debug)]
struct InFlight<T> {
    /// Locked by the leader. If the leader gives up, the next holder of the lock leads.
    outcome: async_lock::Mutex<Option<T>>,
    overtaken: AtomicBool,
}

impl<K: Hash + Eq + Clone, T: Clone> SingleFlight<K, T> {
    pub(super) fn new() -> Self {
        let shard = |_| FlightShard {
            calls: Mutex::new(Calls { in_flight: HashMap::new(), spare: None }),
            count: AtomicUsize::new(0),
        };
        Self { shards: (0..SHARDS).map(shard).collect() }
    }

    /// Marks the call for this key as overtaken, because the key is being changed.
    pub(super) fn overtake<Q>(&self, hash: KeyHash, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shard = self.shard(hash);
        if shard.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(call) = shard.lock().in_flight.get(key) {
            call.overtaken.store(true, Ordering::SeqCst);
        }
    }

    /// Marks all calls as overtaken, because all keys are being changed.
    pub(super) fn overtake_all(&self) {
        for shard in &self.shards {
            let overtake = |call: &Arc<InFlight<T>>| call.overtaken.store(true, Ordering::SeqCst);
            shard.lock().in_flight.values().for_each(overtake);
        }
    }

    /// Joins the call for `key`, or begins one.
    pub(super) fn join(&self, hash: KeyHash, key: K) -> Participant<'_, K, T> {
        let shard = self.shard(hash);
        let Calls { in_flight, spare } = &mut *shard.lock();
        let call = match in_flight.get(&key) {
            Some(call) if !call.is_overtaken() => Arc::clone(call),
            _ => {
                let call = spare.take().unwrap_or_else(|| Arc::new(InFlight::new()));
                debug_assert_eq!(
                    Arc::strong_count(&call),
                    1,
                    "a call that has not begun has no followers"
                );
                debug_assert!(!call.is_overtaken(), "a call begins after the changes before it");
                in_flight.insert(key.clone(), Arc::clone(&call));
                shard.count.store(in_flight.len(), Ordering::SeqCst);
                call
            }
        };
        debug_assert!(
            shard.count.load(Ordering::SeqCst) > 0,
            "a caller that changes the key looks for this call"
        );
        Participant { shard, key, call: Some(call) }
    }

    fn shard(&self, hash: KeyHash) -> &FlightShard<K, T> {
        &self.shards[usize::from(hash.tag()) % SHARDS]
    }
}

impl<K: Hash + Eq, T> FlightShard<K, T> {
    /// Removes this very call from the map.
    fn take_away(&self, calls: &mut Calls<K, T>, key: &K, call: &Arc<InFlight<T>>) {
        let in_flight = &mut calls.in_flight;
        debug_assert_eq!(
            self.count.load(Ordering::SeqCst),
            in_flight.len(),
            "a check without the lock misses no call"
        );
        if in_flight.get(key).is_some_and(|there| Arc::ptr_eq(there, call)) {
            in_flight.remove(key);
            self.count.store(in_flight.len(), Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls<K, T>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> InFlight<T> {
    fn new() -> Self {
        Self { outcome: async_lock::Mutex::new(None), overtaken: AtomicBool::new(false) }
    }

    /// Resets the call for reuse and returns its outcome.
    fn take(&mut self) -> Option<T> {
        self.overtaken = AtomicBool::new(false);
        self.outcome.get_mut().take()
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::SeqCst)
    }
}

/// A leader or follower of a call. The last one to leave removes the call.
pub(super) struct Participant<'a, K: Hash + Eq, T> {
    shard: &'a FlightShard<K, T>,
    key: K,
    /// Taken when the participant leaves.
    call: Option<Arc<InFlight<T>>>,
}

impl<K: Hash + Eq, T> Participant<'_, K, T> {
    /// Waits for the outcome. `None` means that this caller leads, while it holds the guard.
    pub(super) async fn outcome(&self) -> AsyncMutexGuard<'_, Option<T>> {
        self.call().outcome.lock().await
    }

    /// Identifies the call while it has participants.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(self.call()).addr()
    }

    /// Whether the key was changed since the call began.
    pub(super) fn is_overtaken(&self) -> bool {
        self.call().is_overtaken()
    }

    fn call(&self) -> &Arc<InFlight<T>> {
        self.call.as_ref().expect("it is taken when the participant leaves")
    }

    /// Removes the call, so that no other caller joins it.
    pub(super) fn close(&self) {
        self.shard.take_away(&mut self.shard.lock(), &self.key, self.call());
    }
}

impl<K: Hash + Eq, T> Drop for Participant<'_, K, T> {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        // Check and remove under one lock: a caller that joined in between would lead a call that a change cannot
        // overtake.
        let mut calls = self.shard.lock();
        if Arc::strong_count(&call) <= 2 {
            // The references of the shard and of this participant.
            self.shard.take_away(&mut calls, &self.key, &call);
        }
        let mut outcome = None;
        match Arc::get_mut(&mut call) {
            Some(alone) => {
                outcome = alone.take();
                calls.spare = Some(call);
            }
            // Drop under the lock: of two that leave at once, the second must see that it is the last.
            None => drop(call),
        }
        drop(calls);
        drop(outcome); // outside the lock, because dropping a value may take long
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// The last participant is found by a reference count, which no interleaving scheduler sees: use real threads.
    #[test]
    fn two_participants_that_give_up_at_once_leave_no_call() {
        const KEYS: u64 = 20_000;
        let group: SingleFlight<u64, u32> = SingleFlight::new();
        let turn = std::sync::atomic::AtomicU64::new(0);
        let give_up = || {
            for key in 0..KEYS {
                let participant = group.join(KeyHash(key), key);
                // Both have joined; now both leave.
                turn.fetch_add(1, Ordering::SeqCst);
                let mut spins = 0;
                while turn.load(Ordering::SeqCst) < 2 * (key + 1) {
                    spins += 1;
                    if spins % 1000 == 0 {
                        std::thread::yield_now(); // the other thread may be waiting for this core
                    }
                    std::hint::spin_loop();
                }
                drop(participant);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(give_up)));
        let left: usize = group.shards.iter().map(|shard| shard.lock().in_flight.len()).sum();
        assert_eq!(left, 0, "calls of {KEYS}");
    }
}
