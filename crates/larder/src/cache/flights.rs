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
    table: Mutex<Table<K, T>>,
    /// How many there are, to ask without the lock.
    count: AtomicUsize,
}

#[derive(Debug)]
struct Table<K, T> {
    flights: HashMap<K, Arc<Flight<T>>>,
    /// One that has landed and that nobody holds, for the next to board.
    spare: Option<Arc<Flight<T>>>,
}

#[derive(Debug)]
struct Flight<T> {
    /// Held by the one who flies. If he gives up, the next one flies.
    landed: async_lock::Mutex<Option<T>>,
    overtaken: AtomicBool,
}

impl<K: Hash + Eq + Clone, T: Clone> Flights<K, T> {
    pub(super) fn new() -> Self {
        let shard = |_| Shard {
            table: Mutex::new(Table { flights: HashMap::new(), spare: None }),
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
        if let Some(flight) = shard.lock().flights.get(key) {
            flight.overtaken.store(true, Ordering::SeqCst);
        }
    }

    /// All keys are being changed.
    pub(super) fn overtake_all(&self) {
        for shard in &self.shards {
            let overtake = |flight: &Arc<Flight<T>>| flight.overtaken.store(true, Ordering::SeqCst);
            shard.lock().flights.values().for_each(overtake);
        }
    }

    /// Joins the flight for `key`, or makes one.
    pub(super) fn board(&self, hash: KeyHash, key: K) -> Passenger<'_, K, T> {
        let shard = self.shard(hash);
        let Table { flights, spare } = &mut *shard.lock();
        let flight = match flights.get(&key) {
            Some(flight) if !flight.is_overtaken() => Arc::clone(flight),
            _ => {
                let flight = spare.take().unwrap_or_else(|| Arc::new(Flight::new()));
                flights.insert(key.clone(), Arc::clone(&flight));
                shard.count.store(flights.len(), Ordering::SeqCst);
                flight
            }
        };
        Passenger { shard, key, flight: Some(flight) }
    }

    fn shard(&self, hash: KeyHash) -> &Shard<K, T> {
        &self.shards[usize::from(hash.tag()) % SHARDS]
    }
}

impl<K: Hash + Eq, T> Shard<K, T> {
    /// Takes this very flight out of the table.
    fn take_away(&self, table: &mut Table<K, T>, key: &K, flight: &Arc<Flight<T>>) {
        let flights = &mut table.flights;
        if flights.get(key).is_some_and(|there| Arc::ptr_eq(there, flight)) {
            flights.remove(key);
            self.count.store(flights.len(), Ordering::SeqCst);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<K, T>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Flight<T> {
    fn new() -> Self {
        Self { landed: async_lock::Mutex::new(None), overtaken: AtomicBool::new(false) }
    }

    /// As new, but for what was allocated.
    fn take(&mut self) -> Option<T> {
        self.overtaken = AtomicBool::new(false);
        self.landed.get_mut().take()
    }

    fn is_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::SeqCst)
    }
}

/// Somebody who waits for a flight, or flies it. The last one to leave takes the flight away.
pub(super) struct Passenger<'a, K: Hash + Eq, T> {
    shard: &'a Shard<K, T>,
    key: K,
    /// Taken when the passenger leaves.
    flight: Option<Arc<Flight<T>>>,
}

impl<K: Hash + Eq, T> Passenger<'_, K, T> {
    /// What has landed; `None` means that it is ours to fly, as long as the guard is held.
    pub(super) async fn landing(&self) -> AsyncMutexGuard<'_, Option<T>> {
        self.flight().landed.lock().await
    }

    /// Names the flight as long as somebody holds it.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(self.flight()).addr()
    }

    /// Whether the key was changed since the flight began.
    pub(super) fn is_overtaken(&self) -> bool {
        self.flight().is_overtaken()
    }

    fn flight(&self) -> &Arc<Flight<T>> {
        self.flight.as_ref().expect("it is taken when the passenger leaves")
    }

    /// Nobody boards this flight any more.
    pub(super) fn close(&self) {
        self.shard.take_away(&mut self.shard.lock(), &self.key, self.flight());
    }
}

impl<K: Hash + Eq, T> Drop for Passenger<'_, K, T> {
    fn drop(&mut self) {
        let Some(mut flight) = self.flight.take() else { return };
        // Under one hold of the lock: who boarded in between would fly where nobody can overtake.
        let mut table = self.shard.lock();
        if Arc::strong_count(&flight) <= 2 {
            // The table's and ours.
            self.shard.take_away(&mut table, &self.key, &flight);
        }
        let mut landed = None;
        match Arc::get_mut(&mut flight) {
            Some(alone) => {
                landed = alone.take();
                table.spare = Some(flight);
            }
            // Under the lock: of two who leave at once the second one must find itself the last.
            None => drop(flight),
        }
        drop(table);
        drop(landed); // a value, whose end may take its time
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
    fn of_two_who_give_up_at_once_nobody_leaves_a_flight() {
        const KEYS: u64 = 20_000;
        let flights: Flights<u64, u32> = Flights::new();
        let turn = std::sync::atomic::AtomicU64::new(0);
        let give_up = || {
            for key in 0..KEYS {
                let passenger = flights.board(KeyHash(key), key);
                // Both have boarded; now both leave.
                turn.fetch_add(1, Ordering::SeqCst);
                let mut spins = 0;
                while turn.load(Ordering::SeqCst) < 2 * (key + 1) {
                    spins += 1;
                    if spins % 1000 == 0 {
                        std::thread::yield_now(); // the other one may wait for this core
                    }
                    std::hint::spin_loop();
                }
                drop(passenger);
            }
        };
        std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(give_up)));
        let left: usize = flights.shards.iter().map(|shard| shard.lock().flights.len()).sum();
        assert_eq!(left, 0, "flights of {KEYS}");
    }
}
