//! A worker: what the tasks of one thread have in common. Its loop is in `event_loop.rs`.

mod buffers;
mod idle;
mod mailbox;
mod tasks;
mod under_way;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use larder_device::{Clock, LoopClock};

pub(crate) use buffers::{BUFFER_BYTES, Buffers};
pub(crate) use idle::Idle;
pub(crate) use mailbox::{Arrived, Letter, Mailbox};
pub(crate) use tasks::Tasks;
pub(crate) use under_way::UnderWay;

use crate::counters::Counters;
use crate::shared::Shared;

/// What all tasks of a worker have in common.
pub(crate) struct Worker {
    /// Its number, from 0.
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) buffers: Buffers,
    /// Written by this worker alone, read by whoever asks.
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<LoopClock>,
    /// What requests and answers take beyond the buffers that each connection has.
    under_way_bytes: Rc<Cell<usize>>,
    pub(crate) tasks: Tasks,
    /// Connections that wait for requests.
    pub(crate) idle: Idle,
    /// Whose TLS handshake computes now.
    pub(crate) handshake_turn: async_lock::Mutex<()>,
}

impl Worker {
    /// That of this thread.
    pub(crate) fn new(number: usize, shared: Arc<Shared>) -> Self {
        let mailbox = Arc::clone(&shared.mailboxes[number]);
        let clock = Arc::new(LoopClock::new(mailbox.waker()));
        let counters = Arc::clone(&shared.counters[number]);
        let idle = Idle::new(shared.config.idle_timeout);
        Self {
            number,
            shared,
            buffers: Buffers::default(),
            counters,
            clock,
            under_way_bytes: Rc::default(),
            tasks: Tasks::new(mailbox),
            idle,
            handshake_turn: async_lock::Mutex::new(()),
        }
    }

    /// Lets all other tasks that were woken run before this one goes on.
    pub(crate) async fn others_first(&self) {
        let mut is_first = true;
        poll_fn(|cx| match std::mem::take(&mut is_first) {
            true => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
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
