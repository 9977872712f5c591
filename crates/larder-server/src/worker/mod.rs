//! A worker: what the tasks of one thread have in common. Its loop is in `event_loop.rs`.

mod idle;
mod mailbox;
mod ring;
mod tasks;
mod turns;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use larder::{Error, Value};
use larder_device::sockets::{Backend, Buffers};
use larder_device::{Clock, LoopClock};

pub(crate) use idle::Idle;
pub(crate) use mailbox::{Arrived, Letter, Mailbox};
pub(crate) use ring::RingWatch;
pub(crate) use tasks::Tasks;
use turns::Turns;

use crate::counters::Counters;
use crate::rates::Purse;
use crate::shared::Shared;
use crate::tenant::Tenant;

/// Buffers that nothing has taken for so long are freed.
const UNUSED: Duration = Duration::from_secs(2);

/// What all tasks of a worker have in common.
pub(crate) struct Worker {
    /// Its number, from 0.
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Rc<Buffers>,
    /// Written by this worker alone, read by whoever asks.
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<LoopClock>,
    pub(crate) tasks: Tasks,
    /// What it has of each tenant's tokens, by the tenant's number.
    pub(crate) purses: Vec<Purse>,
    /// Who reads flash.
    flash_turns: Turns,
    /// Connections that wait for requests.
    pub(crate) idle: Idle,
    /// When buffers are looked at that may be unused.
    next_look: Cell<Duration>,
    /// Whose TLS handshake computes now.
    pub(crate) handshake_turn: async_lock::Mutex<()>,
}

impl Worker {
    /// That of this thread.
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Self {
        let mailbox = Arc::clone(&shared.mailboxes[number]);
        let clock = Arc::new(LoopClock::new(mailbox.waker()));
        let counters = Arc::clone(&shared.counters[number]);
        let purses = shared.tenants.iter().map(|_| Purse::default()).collect();
        let flash_turns = Turns::new(shared.config.flash_turns, shared.tenants.len());
        Self {
            number,
            shared,
            buffers: Rc::default(),
            counters,
            clock,
            tasks: Tasks::new(mailbox),
            purses,
            flash_turns,
            idle: Idle::default(),
            next_look: Cell::default(),
            handshake_turn: async_lock::Mutex::new(()),
        }
    }

    /// What a tenant has of a key, which DRAM does not know at once: in turn with others who read flash, if it may have
    /// to be read.
    pub(crate) async fn get(&self, tenant: &Tenant, key: &[u8]) -> Result<Option<Value>, Error> {
        let cache = tenant.calls();
        if !cache.may_read_flash(key) {
            return cache.get(key).await;
        }
        let _turn = self.flash_turns.take(tenant.number, tenant.weight()).await;
        cache.get(key).await
    }

    /// Frees buffers that nothing has taken for a while, if it is time to look, and then those of the sockets. Says
    /// after how long to call again.
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

    /// A connection has done `units` of work in a turn.
    pub(crate) fn note_longest_turn(&self, units: usize) {
        self.shared.longest_turn_units.fetch_max(units, Ordering::Relaxed);
    }

    /// Runs something beside the connections. The end of the server does not wait for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.spawn(task);
    }

    /// Waits for so long, while others are served.
    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.monotonic() + time).await;
    }
}
