//! A worker: the state that the tasks of one thread share. Its loop is in `event_loop.rs`.

mod idle;
mod machines;
mod ring;
mod turns;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder::{Error, Value};
use larder_device::{Clock, LoopClock};
use larder_net::sockets::{Backend, Buffers};
use larder_net::{HandshakeTurn, Tasks};

pub(crate) use idle::Idle;
use machines::Machines;
pub(crate) use ring::RingWatch;
pub(crate) use turns::Turn;
use turns::Turns;

use crate::counters::Counters;
use crate::key_calls::{KeyCalls, Place, Waits};
use crate::mailbox::Letter;
use crate::rates::Purse;
use crate::shared::ServerState;
use crate::tenant::Tenant;

/// Buffers that were unused for this long are freed.
const UNUSED: Duration = Duration::from_secs(2);

/// The state that all tasks of a worker share.
pub(crate) struct Worker {
    /// Its number, from 0.
    pub(crate) number: usize,
    pub(crate) shared: Arc<ServerState>,
    pub(crate) buffers: Rc<Buffers>,
    /// Written by this worker alone, read by any thread.
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<LoopClock>,
    pub(crate) tasks: Tasks<Letter>,
    /// Its stock of each tenant's tokens, by the tenant's number.
    pub(crate) purses: Vec<Purse>,
    /// Turns to read flash.
    flash_turns: Turns,
    /// Interpreters of scripts.
    pub(crate) machines: Machines,
    /// Connections that wait for requests.
    pub(crate) idle: Idle,
    /// When to look for unused buffers next.
    next_look: Cell<Duration>,
    /// Held by the TLS handshake that computes now.
    pub(crate) handshake_turn: HandshakeTurn,
}

impl Worker {
    /// The worker of this thread.
    pub(crate) fn new(number: usize, shared: Arc<ServerState>) -> Self {
        let mailbox = Arc::clone(&shared.mailboxes[number]);
        let clock = Arc::new(LoopClock::new(mailbox.waker()));
        let counters = Arc::clone(&shared.counters[number]);
        let purses = shared.tenants.iter().map(|_| Purse::default()).collect();
        let flash_turns = Turns::new(shared.config.flash_turns, shared.tenants.len());
        let machines = Machines::new(shared.tenants.len());
        Self {
            number,
            shared,
            buffers: Rc::default(),
            counters,
            clock,
            tasks: Tasks::new(mailbox),
            purses,
            flash_turns,
            machines,
            idle: Idle::default(),
            next_look: Cell::default(),
            handshake_turn: HandshakeTurn::default(),
        }
    }

    /// Where its requests are noted while they work with a key.
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            steps: &self.shared.steps,
            worker: self.number,
            waited: &self.counters.waited_for_steps,
        }
    }

    /// Looks up a key of a tenant that was not found in DRAM at once. If flash may have to be read, waits for a turn.
    pub(crate) async fn get(&self, tenant: &Tenant, key: &[u8]) -> Result<Option<Value>, Error> {
        let calls = KeyCalls::new(self.place(), tenant, Waits::ForAll);
        let _pass = calls.pass(key).await;
        let cache = calls.calls();
        if !cache.may_read_flash(key) {
            return cache.get(key).await;
        }
        let _turn = self.flash_turns.take(tenant.number, tenant.weight()).await;
        cache.get(key).await
    }

    /// When due, frees buffers that were unused for a while; when there are none left, frees those of the sockets too.
    /// Returns the time until the next call.
    pub(crate) fn drop_unused(&self, now: Duration, sockets: &impl Backend) -> Option<Duration> {
        if now >= self.next_look.get() {
            let are_left = self.buffers.drop_unused();
            if !are_left && !self.next_look.get().is_zero() {
                sockets.drop_spare();
            }
            self.next_look.set(if are_left { now + UNUSED } else { Duration::ZERO });
            return are_left.then_some(UNUSED);
        }
        Some(self.next_look.get() - now)
    }

    /// A connection has done `units` of work in one turn.
    pub(crate) fn note_longest_turn(&self, units: usize) {
        self.shared.longest_turn_units.fetch_max(units, Ordering::Relaxed);
    }

    /// Runs a task next to the connections. The end of the server does not wait for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for `time` while other tasks run.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }
}
