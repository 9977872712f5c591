//! Runs calls in flight in thousands of interleavings, with a store that stands for DRAM and a number that stands for
//! flash. Readers, changes and participants that give up follow the rules of `cache/read.rs`.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use shuttle::future::block_on;
use shuttle::thread;

use super::SingleFlight;
use crate::base::key::KeyHash;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::sync::{Mutex, MutexGuard};

/// Number of random orders, and of orders by priorities that change a few times.
const ORDERS: usize = 3000;
const CHANGES: usize = 4;
const HASH: KeyHash = KeyHash(7);

/// One key.
struct Bench {
    calls: SingleFlight<u64, u32>,
    dram: Mutex<Option<u32>>,
    flash: AtomicU32,
    /// The newest version whose change has returned.
    returned: AtomicU32,
}

impl Bench {
    fn dram(&self) -> MutexGuard<'_, Option<u32>> {
        self.dram.lock().expect("no thread panics while it holds the lock")
    }

    /// Reads the key; the result must not be older than the version that was complete when the read began.
    async fn read(&self) {
        let newest = self.returned.load(Ordering::SeqCst);
        let found = self.read_together().await;
        assert!(found >= newest, "version {found} after {newest}");
    }

    async fn read_together(&self) -> u32 {
        let in_dram = *self.dram();
        if let Some(version) = in_dram {
            return version;
        }
        let participant = self.calls.join(HASH, HASH.0);
        let mut outcome = participant.outcome().await;
        if let Some(version) = *outcome {
            return version;
        }
        let in_dram = *self.dram();
        let found = in_dram.unwrap_or_else(|| self.flash.load(Ordering::SeqCst));
        let mut dram = self.dram();
        if dram.is_none() && !participant.is_overtaken() {
            *dram = Some(found);
        }
        drop(dram);
        participant.close();
        *outcome = Some(found);
        found
    }

    /// Joins and gives up: while it waits, or, if it leads, in the middle of the call.
    fn give_up(&self) {
        let participant = self.calls.join(HASH, HASH.0);
        let mut outcome = pin!(participant.outcome());
        let polled = outcome.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.flash.load(Ordering::SeqCst);
        drop(polled);
    }

    /// Stores a new version, which then goes to flash and leaves DRAM.
    fn change(&self, version: u32) {
        let mut dram = self.dram();
        self.calls.overtake(HASH, &HASH.0);
        *dram = Some(version);
        drop(dram);
        self.returned.store(version, Ordering::SeqCst);
        self.flash.store(version, Ordering::SeqCst);
        // The version is clean now: it leaves DRAM.
        *self.dram() = None;
    }

    fn has_no_calls(&self) -> bool {
        let mut shards = self.calls.shards.iter();
        shards.all(|shard| {
            shard.lock().in_flight.is_empty() && shard.count.load(Ordering::SeqCst) == 0
        })
    }
}

fn in_many_orders(runs: &'static [fn(&Bench)]) {
    let run = move || {
        let bench = Arc::new(Bench {
            calls: SingleFlight::new(),
            dram: Mutex::new(None),
            flash: AtomicU32::new(0),
            returned: AtomicU32::new(0),
        });
        let start = |&run: &fn(&Bench)| {
            let bench = Arc::clone(&bench);
            thread::spawn(move || run(&bench))
        };
        let running: Vec<_> = runs.iter().map(start).collect();
        running.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        assert!(bench.has_no_calls(), "no thread holds a call, and one is left over");
        block_on(bench.read());
        assert!(bench.has_no_calls(), "a call is left over");
    };
    shuttle::check_random(run, ORDERS);
    shuttle::check_pct(run, ORDERS, CHANGES);
}

const CHANGE: fn(&Bench) = |bench| (1..4).for_each(|version| bench.change(version));
const READ: fn(&Bench) = |bench| (0..3).for_each(|_| block_on(bench.read()));
const GIVE_UP: fn(&Bench) = |bench| (0..3).for_each(|_| bench.give_up());

#[test]
fn a_reader_gets_no_version_that_was_replaced_before() {
    in_many_orders(&[CHANGE, READ, READ]);
}

#[test]
fn a_reader_that_gives_up_leaves_the_others_a_call_that_can_be_overtaken() {
    in_many_orders(&[CHANGE, READ, READ, GIVE_UP]);
}

#[test]
fn readers_that_give_up_at_once_leave_no_call() {
    in_many_orders(&[GIVE_UP, GIVE_UP, GIVE_UP]);
}
