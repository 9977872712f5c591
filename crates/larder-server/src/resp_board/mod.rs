//! What all RESP connections share: the list of clients, the slow log, and counters of commands.

mod slow;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::channels::Post;
use crate::counters::Counter;
use crate::keyspace::Follower;
use crate::waiters::{Unblock, Waiter};
pub(crate) use slow::{ClientScope, ENTRIES_MAX, SlowLog};

/// What all RESP connections share.
pub(crate) struct Board {
    clients: Mutex<BTreeMap<u64, Arc<ClientEntry>>>,
    pub(crate) slow: SlowLog,
    /// One entry per worker, with one per command of the table.
    calls: Vec<Box<[Calls]>>,
}

/// Counters of one command, for the clients of one worker.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) calls: Counter,
    /// Sum of the whole microseconds of each call; a call that DRAM answers at once counts 0.
    pub(crate) micros: Counter,
    /// Calls that were refused before they began.
    pub(crate) rejected: Counter,
    /// Calls that were answered with an error.
    pub(crate) failed: Counter,
}

/// Tenant number of a client that has to log in first; only administrators see such clients.
const NO_TENANT: usize = usize::MAX;

/// A client, as other clients see it.
pub(crate) struct ClientEntry {
    pub(crate) id: u64,
    /// The number of its tenant; [`NO_TENANT`] before it has logged in.
    tenant: AtomicUsize,
    /// Its address.
    pub(crate) peer: String,
    pub(crate) since: Instant,
    /// Time of its last request, in seconds since it connected.
    pub(crate) last_s: AtomicU64,
    /// Index of its last command in the table.
    pub(crate) command: AtomicUsize,
    pub(crate) is_resp3: AtomicBool,
    /// The index of its database.
    pub(crate) database: AtomicU8,
    /// Queued requests of its transaction; -1 outside of one.
    pub(crate) queued: AtomicI64,
    /// Its subscriptions: channels, patterns, sharded channels.
    subscriptions: [AtomicUsize; 3],
    /// It is closed at its next request.
    pub(crate) is_killed: AtomicBool,
    words: Mutex<Words>,
    /// Where it gets messages.
    pub(crate) post: Arc<Post>,
    /// Set while it tracks keys.
    follower: Mutex<Option<Arc<Follower>>>,
    /// Set while it waits for something to take.
    waiter: Mutex<Option<Arc<Waiter>>>,
}

/// The user and the tenant of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownAs<'a> {
    /// The number of the tenant. `None`: it has to log in first.
    pub(crate) tenant: Option<usize>,
    pub(crate) user: &'a str,
}

/// What a client says about itself.
#[derive(Clone, Default)]
pub(crate) struct Words {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

impl Board {
    /// A board for this number of workers, tenants and commands.
    pub(crate) fn new(workers: usize, tenants: usize, commands: usize) -> Self {
        let calls = || (0..commands).map(|_| Calls::default()).collect();
        Self {
            clients: Mutex::default(),
            slow: SlowLog::new(tenants),
            calls: (0..workers).map(|_| calls()).collect(),
        }
    }

    /// Lists a client, until it leaves ([`Board::strike`]).
    pub(crate) fn list(&self, id: u64, peer: String, known: KnownAs<'_>) -> Arc<ClientEntry> {
        let listed = Arc::new(ClientEntry {
            id,
            tenant: AtomicUsize::new(NO_TENANT),
            peer,
            since: Instant::now(),
            last_s: AtomicU64::new(0),
            command: AtomicUsize::new(0),
            is_resp3: AtomicBool::new(false),
            database: AtomicU8::new(0),
            queued: AtomicI64::new(-1),
            subscriptions: Default::default(),
            is_killed: AtomicBool::new(false),
            words: Mutex::default(),
            post: Arc::default(),
            follower: Mutex::default(),
            waiter: Mutex::default(),
        });
        listed.is_known_as(known);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.insert(id, Arc::clone(&listed));
        listed
    }

    pub(crate) fn strike(&self, id: u64) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The clients that have sent a request, by number: those of one tenant, or of all.
    pub(crate) fn clients(&self, whose: ClientScope) -> Vec<Arc<ClientEntry>> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let visible = |it: &&Arc<ClientEntry>| whose.has(it.tenant.load(Ordering::Relaxed));
        clients.values().filter(visible).cloned().collect()
    }

    /// The counters of a command at a worker. Only that worker may count; any thread may read.
    pub(crate) fn calls(&self, worker: usize, command: usize) -> Option<&Calls> {
        self.calls.get(worker)?.get(command)
    }

    /// Calls, microseconds, rejected calls and failed calls of a command, over all workers.
    pub(crate) fn called(&self, command: usize) -> [u64; 4] {
        let mut sum = [0_u64; 4];
        for calls in self.calls.iter().filter_map(|of_worker| of_worker.get(command)) {
            let Calls { calls, micros, rejected, failed } = calls;
            for (sum, counter) in sum.iter_mut().zip([calls, micros, rejected, failed]) {
                *sum = sum.wrapping_add(counter.read());
            }
        }
        sum
    }
}

impl ClientEntry {
    /// The user or the tenant of its connection has changed.
    pub(crate) fn is_known_as(&self, KnownAs { tenant, user }: KnownAs<'_>) {
        self.tenant.store(tenant.unwrap_or(NO_TENANT), Ordering::Relaxed);
        self.say(|words| words.user = user.as_bytes().to_vec());
    }

    pub(crate) fn words(&self) -> Words {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn say(&self, say: impl FnOnce(&mut Words)) {
        say(&mut self.words.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// It tracks keys, or does so no more.
    pub(crate) fn follows(&self, follower: Option<&Arc<Follower>>) {
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = follower.cloned();
    }

    /// How it tracks keys, if it does.
    pub(crate) fn follower(&self) -> Option<Arc<Follower>> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It waits for something to take, or waits no more.
    pub(crate) fn waits(&self, waiter: Option<&Arc<Waiter>>) {
        *self.waiter.lock().unwrap_or_else(PoisonError::into_inner) = waiter.cloned();
    }

    /// Whether it waits for something to take.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiter.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Tells it to wait no longer. `false`: it does not wait.
    pub(crate) fn unblock(&self, how: Unblock) -> bool {
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        waiter.as_ref().is_some_and(|waiter| waiter.unblock(how))
    }

    /// It has these numbers of subscriptions: channels, patterns, sharded channels.
    pub(crate) fn subscribes_to(&self, numbers: [usize; 3]) {
        for (seen, number) in self.subscriptions.iter().zip(numbers) {
            seen.store(number, Ordering::Relaxed);
        }
    }

    /// Its channels, patterns and sharded channels.
    pub(crate) fn subscriptions(&self) -> [usize; 3] {
        self.subscriptions.each_ref().map(|number| number.load(Ordering::Relaxed))
    }

    /// Whether it has any subscription.
    pub(crate) fn hears_messages(&self) -> bool {
        self.subscriptions().iter().any(|number| *number > 0)
    }

    pub(crate) fn set_name(&self, name: &[u8]) {
        self.say(|words| words.name = name.to_vec());
    }

    /// It sends a request now, with the command at this index of the table.
    pub(crate) fn asks(&self, command: usize) {
        self.command.store(command, Ordering::Relaxed);
    }

    pub(crate) fn is_seen(&self) {
        self.last_s.store(self.since.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// Time since it connected, and time since its last request.
    pub(crate) fn age_and_idle(&self) -> (Duration, Duration) {
        let age = self.since.elapsed();
        let last = Duration::from_secs(self.last_s.load(Ordering::Relaxed));
        (age, age.saturating_sub(last))
    }
}
