//! Threads in virtual time: among all clients of an array only the one with the earliest time runs.
//!
//! ```text
//!              its turn                its future is polled in vain
//!   due(t) ──────────────► running ─────────────────────────────────► waiting
//!     ▲                       │  spends time                            │
//!     ├───────────────────────┘                                         │ one of its requests ends
//!     └─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//!
//! 1. At most one client runs, at the time `now`, which never goes back. So requests reach the array in the order of
//!    time, although each client is a thread of its own.
//! 2. A client gets its turn only when no event comes before it is due, neither on the drives nor for another client.
//!    So a run is a function of what its clients do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use larder_device::{Advance, Completer, IoBuffer, IoFuture};
use larder_ssd::timed::Nanoseconds;
use larder_vssd::timed::{Completed, TimedVssds};
use larder_vssd::{MemoryImages, VssdId};

use crate::info::BlockId;
use crate::ledger::Ledger;

/// The array, and the client whose turn it is.
pub(super) struct VirtualTimeScheduler {
    state: Mutex<SchedulerState>,
    turn: Condvar,
}

pub(super) struct SchedulerState {
    pub(super) timed: TimedVssds<MemoryImages>,
    pub(super) now: Nanoseconds,
    /// The bytes of the blocks.
    pub(super) bytes: HashMap<BlockId, Vec<u8>>,
    clients: Vec<Client>,
    running: Option<usize>,
    under_way: HashMap<u64, (RunningRequest, Completer)>,
    /// Requests that the dies have done, and when their clients are told.
    ended: BinaryHeap<Reverse<(Nanoseconds, u64)>>,
    last: u64,
    completed: Vec<Completed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Due(Nanoseconds),
    Running,
    Waiting,
    /// Waits until all other clients that are not gone meet it.
    Meeting,
    Gone,
}

/// A request in flight.
pub(super) struct RunningRequest {
    pub(super) client: usize,
    pub(super) buffer: IoBuffer,
    /// For an append, where it lands.
    pub(super) lands: Option<(Arc<Ledger>, BlockId, u64)>,
}

/// A client's place at the scheduler: a thread that waits for one of its requests gives up its turn.
pub(super) struct ClientHandle {
    pub(super) scheduler: Arc<VirtualTimeScheduler>,
    pub(super) client: usize,
}

impl VirtualTimeScheduler {
    pub(super) fn new(timed: TimedVssds<MemoryImages>, clients: &[VssdId]) -> Self {
        let state = SchedulerState {
            timed,
            now: 0,
            bytes: HashMap::new(),
            clients: vec![Client::Due(0); clients.len()],
            running: None,
            under_way: HashMap::new(),
            ended: BinaryHeap::new(),
            last: 0,
            completed: Vec::new(),
        };
        Self { state: Mutex::new(state), turn: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first turn of `client`.
    pub(super) fn enter(&self, client: usize) {
        let mut state = self.lock();
        if state.running.is_none() {
            state.choose();
            self.turn.notify_all();
        }
        self.await_turn(state, client);
    }

    /// Ends the turn of `client`, which gets the state `until`, and waits for its next turn.
    ///
    /// # Panics
    /// If it is not its turn, or if no client can ever continue.
    pub(super) fn pass(&self, client: usize, until: Client) {
        let mut state = self.lock();
        state.give_up(client, until);
        self.turn.notify_all();
        self.await_turn(state, client);
    }

    /// `client` leaves for good.
    pub(super) fn leave(&self, client: usize) {
        let mut state = self.lock();
        if state.running == Some(client) {
            state.give_up(client, Client::Gone);
        } else {
            state.clients[client] = Client::Gone;
        }
        self.turn.notify_all();
    }

    fn await_turn(&self, mut state: MutexGuard<'_, SchedulerState>, client: usize) {
        while state.running != Some(client) {
            assert!(state.can_go_on(), "clients wait for what does not come: {:?}", state.clients);
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl SchedulerState {
    /// The time of `client`, whose turn it is.
    ///
    /// # Panics
    /// If it is not its turn: its request would come out of order.
    pub(super) fn time_of(&self, client: usize) -> Nanoseconds {
        assert_eq!(self.running, Some(client), "a client asks out of its turn");
        self.now
    }

    /// A number for the next request.
    pub(super) fn token(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The future of a request that the array has taken.
    pub(super) fn begin(
        &mut self,
        token: u64,
        request: RunningRequest,
        handle: &Arc<ClientHandle>,
    ) -> IoFuture {
        let (future, completer) = IoFuture::pending();
        completer.advanced_by(handle);
        self.under_way.insert(token, (request, completer));
        future
    }

    fn give_up(&mut self, client: usize, until: Client) {
        assert_eq!(self.running, Some(client), "a client passes out of its turn");
        self.clients[client] = until;
        self.running = None;
        self.choose();
    }

    fn can_go_on(&self) -> bool {
        self.running.is_some()
    }

    /// Processes the events before the next client is due, and gives that client its turn.
    fn choose(&mut self) {
        loop {
            self.let_meet();
            let due = self.clients.iter().enumerate().filter_map(|(number, client)| match client {
                Client::Due(at) => Some((*at, number)),
                _ => None,
            });
            let due = due.min();
            let ends = self.ended.peek().map(|Reverse((at, _))| *at);
            let event = ends.into_iter().chain(self.timed.next_at()).min();
            match (due, event) {
                (Some((at, client)), event) if event.is_none_or(|event| at < event) => {
                    self.run_to(at);
                    self.clients[client] = Client::Running;
                    self.running = Some(client);
                    return;
                }
                (_, Some(event)) => self.run_to(event),
                (_, None) => return,
            }
        }
    }

    /// If all clients have met, lets them continue.
    fn let_meet(&mut self) {
        let meets = |client: &Client| matches!(client, Client::Meeting | Client::Gone);
        if self.clients.iter().all(meets) {
            let now = self.now;
            let meeting = self.clients.iter_mut().filter(|client| **client == Client::Meeting);
            meeting.for_each(|client| *client = Client::Due(now));
        }
    }

    fn run_to(&mut self, at: Nanoseconds) {
        self.now = self.now.max(at);
        let mut completed = std::mem::take(&mut self.completed);
        // Only a swap can fail, and no client begins one.
        self.timed.run(self.now, &mut completed).expect("no swap is under way");
        self.ended.extend(completed.drain(..).map(|done| Reverse((done.at, done.token))));
        self.completed = completed;
        while let Some(&Reverse((at, token))) = self.ended.peek().filter(|it| it.0.0 <= self.now) {
            self.ended.pop();
            self.end(at, token);
        }
    }

    fn end(&mut self, at: Nanoseconds, token: u64) {
        let Some((request, completer)) = self.under_way.remove(&token) else { return };
        let RunningRequest { client, buffer, lands } = request;
        if let Some((ledger, block, place)) = lands {
            ledger.landed(block, place, place + buffer.len() as u64);
        }
        completer.complete(Ok(buffer));
        if self.clients[client] == Client::Waiting {
            self.clients[client] = Client::Due(at);
        }
    }
}

/// A thread that waits for its request lets the other clients run until one of its own requests has ended.
impl Advance for ClientHandle {
    fn advance(&self) {
        self.scheduler.pass(self.client, Client::Waiting);
    }
}
