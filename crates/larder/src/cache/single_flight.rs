//! Work that is done once for all who ask for it at the same time (single-flight): reads of flash, and
//! fetches.
//!
//! The first to ask begins a call and leads it, the others follow and wait for its outcome. Whoever
//! changes the key meanwhile overtakes the call: its outcome is given to those who wait, who asked
//! before the change had ended, but it is not stored, and nobody joins the call any more.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

use async_lock::MutexGuard as AsyncMutexGuard;

use crate::key::KeyHash;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

const SHARDS: usize = 64;

/// The calls that are in flight, by what they bring.
#[derive(Debug)]
pub(super) struct SingleFlight<K, T> {
    shards: Box<[Shard<K, T>]>,
}

#[derive(Debug)]
struct Shard<K, T> {
    calls: Mutex<Calls<K, T>>,
    /// How many there are, to ask without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Calls<K, T> {
    in_flight: HashMap<K, Arc<InFlight<T>>>,
    /// One that has ended and that nobody holds, for the next to begin.
    spare: Option<Arc<InFlight<T>>>,
}

#[derive(Debug)]
struct InFlight<T> {
    /// Held by its leader. If it gives up, the next one leads.
    outcome: async_lock::Mutex<Option<T>>,
    overtaken: AtomicBool,
}

impl<K: Hash + Eq + Clone, T: Clone> SingleFlight<K, T> {
    pub(super) fn new() -> Self {
        let shard = |_| Shard {
            calls: Mutex::new(Calls { in_flight: HashMap::new(), spare: None }),
            count: AtomicUsize::new(0),
        };
        Self { shards: (0..SHARDS).map(shard).collect() }
    }

    /// The key is being changed.
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

    /// All keys are being changed.
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
                    "nobody follows a call that has not begun"
                );
                debug_assert!(!call.is_overtaken(), "a call begins after the changes before it");
                in_flight.insert(key.clone(), Arc::clone(&call));
                shard.count.store(in_flight.len(), Ordering::SeqCst);
                call
            }
        };
        debug_assert!(shard.count.load(Ordering::SeqCst) > 0, "who changes the key looks for it");
        Participant { shard, key, call: Some(call) }
    }

    fn shard(&self, hash: KeyHash) -> &Shard<K, T> {
        &self.shards[usize::from(hash.tag()) % SHARDS]
    }
}

impl<K: Hash + Eq, T> Shard<K, T> {
    /// Takes this very call out.
    fn take_away(&self, calls: &mut Calls<K, T>, key: &K, call: &Arc<InFlight<T>>) {
        let in_flight = &mut calls.in_flight;
        debug_assert_eq!(
            self.count.load(Ordering::SeqCst),
            in_flight.len(),
            "who asks without the lock overlooks no call"
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

    /// As new, but for what was allocated.
    fn take(&mut self) -> Option<T> {
        self.overtaken = AtomicBool::new(false);
        self.outcome.get_mut().take()
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::SeqCst)
    }
}

/// Somebody who leads a call or follows it. The last one to leave takes it away.
pub(super) struct Participant<'a, K: Hash + Eq, T> {
    shard: &'a Shard<K, T>,
    key: K,
    /// Taken when the participant leaves.
    call: Option<Arc<InFlight<T>>>,
}

impl<K: Hash + Eq, T> Participant<'_, K, T> {
    /// What came of it; `None` means that we lead it, as long as the guard is held.
    pub(super) async fn outcome(&self) -> AsyncMutexGuard<'_, Option<T>> {
        self.call().outcome.lock().await
    }

    /// Names the call as long as somebody holds it.
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

    /// Nobody joins this call any more.
    pub(super) fn close(&self) {
        self.shard.take_away(&mut self.shard.lock(), &self.key, self.call());
    }
}

impl<K: Hash + Eq, T> Drop for Participant<'_, K, T> {
    fn drop(&mut self) {
        let Some(mut call) = self.call.take() else { return };
        // Under one hold of the lock: who joined in between would lead where nobody can overtake.
        let mut calls = self.shard.lock();
        if Arc::strong_count(&call) <= 2 {
            // The shard's and ours.
            self.shard.take_away(&mut calls, &self.key, &call);
        }
        let mut outcome = None;
        match Arc::get_mut(&mut call) {
            Some(alone) => {
                outcome = alone.take();
                calls.spare = Some(call);
            }
            // Under the lock: of two who leave at once the second one must find itself the last.
            None => drop(call),
        }
        drop(calls);
        drop(outcome); // a value, whose end may take its time
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// Who leaves is a count of references, which no scheduler of interleavings sees: real threads.
    #[test]
    fn of_two_who_give_up_at_once_nobody_leaves_a_call() {
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
                        std::thread::yield_now(); // the other one may wait for this core
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
