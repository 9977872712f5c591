//! Work that is done once for all who ask for it at the same time: reads of flash, and fetches.
//!
//! The first to ask boards a new flight and flies it, the others wait for its landing. Whoever
//! changes the key meanwhile overtakes the flight: what lands is handed to those who wait, who asked
//! before the change had ended, but it is not stored, and nobody boards it any more.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

use async_lock::MutexGuard as AsyncMutexGuard;

use crate::key::KeyHash;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

const SHARDS: usize = 64;

/// The flights that are under way, by what they bring.
#[derive(Debug)]
pub(super) struct Flights<K, T> {
    shards: Box<[Shard<K, T>]>,
}

#[derive(Debug)]
struct Shard<K, T> {
    flights: Mutex<HashMap<K, Arc<Flight<T>>>>,
    /// How many there are, to ask without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Flight<T> {
    /// Held by the one who flies. If he gives up, the next one flies.
    landed: async_lock::Mutex<Option<T>>,
    overtaken: AtomicBool,
}

impl<K: Hash + Eq + Clone, T: Clone> Flights<K, T> {
    pub(super) fn new() -> Self {
        let shard = |_| Shard { flights: Mutex::new(HashMap::new()), count: AtomicUsize::new(0) };
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
        if let Some(flight) = shard.lock().get(key) {
            flight.overtaken.store(true, Ordering::SeqCst);
        }
    }

    /// Joins the flight for `key`, or makes one.
    pub(super) fn board(&self, hash: KeyHash, key: K) -> Passenger<'_, K, T> {
        let shard = self.shard(hash);
        let mut flights = shard.lock();
        let flight = match flights.get(&key) {
            Some(flight) if !flight.is_overtaken() => Arc::clone(flight),
            _ => {
                let flight = Arc::new(Flight::new());
                flights.insert(key.clone(), Arc::clone(&flight));
                shard.count.store(flights.len(), Ordering::SeqCst);
                flight
            }
        };
        drop(flights);
        Passenger { shard, key, flight }
    }

    fn shard(&self, hash: KeyHash) -> &Shard<K, T> {
        &self.shards[usize::from(hash.tag()) % SHARDS]
    }
}

impl<K, T> Shard<K, T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<Flight<T>>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Flight<T> {
    fn new() -> Self {
        Self { landed: async_lock::Mutex::new(None), overtaken: AtomicBool::new(false) }
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::SeqCst)
    }
}

/// Somebody who waits for a flight, or flies it. The last one to leave takes the flight away.
pub(super) struct Passenger<'a, K: Hash + Eq, T> {
    shard: &'a Shard<K, T>,
    key: K,
    flight: Arc<Flight<T>>,
}

impl<K: Hash + Eq, T> Passenger<'_, K, T> {
    /// What has landed; `None` means that it is ours to fly, as long as the guard is held.
    pub(super) async fn landing(&self) -> AsyncMutexGuard<'_, Option<T>> {
        self.flight.landed.lock().await
    }

    /// Whether the key was changed since the flight began.
    pub(super) fn is_overtaken(&self) -> bool {
        self.flight.is_overtaken()
    }

    /// Nobody boards this flight any more.
    pub(super) fn close(&self) {
        self.take_away(&mut self.shard.lock());
    }

    fn take_away(&self, flights: &mut HashMap<K, Arc<Flight<T>>>) {
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
            self.shard.count.store(flights.len(), Ordering::SeqCst);
        }
    }
}

impl<K: Hash + Eq, T> Drop for Passenger<'_, K, T> {
    fn drop(&mut self) {
        // Under one hold of the lock: who boarded in between would fly where nobody can overtake.
        let mut flights = self.shard.lock();
        if Arc::strong_count(&self.flight) <= 2 {
            // The table's and ours.
            self.take_away(&mut flights);
        }
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings;
