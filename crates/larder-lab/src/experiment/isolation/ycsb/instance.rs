//! An instance of LevelDB on its vSSD: clients, and a thread that compacts.

use std::collections::VecDeque;

use larder_ssd::timed::Nanoseconds;
use larder_vssd::MemoryImages;
use larder_vssd::timed::TimedVssds;
use larder_workload::Latencies;

use super::recorded::Step;
use super::store::LevelDb;
use super::thread::{Progress, Shared, Thread};
use super::workload::{Op, Workload};
use crate::Error;

/// Memtables that wait for the compacting thread when writes become slower and when they stop: LevelDB begins to
/// compact 4 tables of level 0, delays each write from 8 of them on, and stops at 12.
const SLOW: usize = 4;
const STOP: usize = 8;

/// The number of the compacting thread.
const COMPACTOR: u64 = 0;

/// What an operation of LevelDB takes beside the drive, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnTimes {
    pub(super) op_ns: Nanoseconds,
    /// By which a write is delayed while compactions are behind.
    pub(super) delay_ns: Nanoseconds,
}

/// A client: one operation after the other.
#[derive(Debug)]
struct Client {
    thread: Thread,
    began: Nanoseconds,
    doing: Doing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// Computes until then, and asks LevelDB for this operation.
    Computes(Nanoseconds, Op),
    /// Its write has stopped until a compaction ends.
    Stopped(Op),
    /// Waits for the drive.
    Steps,
}

/// An instance.
pub(super) struct Instance {
    store: LevelDb,
    pub(super) shared: Shared,
    clients: Vec<Client>,
    compactor: Thread,
    /// Compactions that have not begun.
    waiting: VecDeque<Vec<Step>>,
    compacts: bool,
    times: OwnTimes,
    pub(super) took: Latencies,
    pub(super) ops: u64,
}

impl Instance {
    pub(super) fn new(store: LevelDb, shared: Shared, times: OwnTimes) -> Self {
        Self {
            store,
            shared,
            clients: Vec::new(),
            compactor: Thread::new(COMPACTOR),
            waiting: VecDeque::new(),
            compacts: false,
            times,
            took: Latencies::default(),
            ops: 0,
        }
    }

    /// Lets `clients` clients begin `workload`, with fresh results. None may be at work.
    pub(super) fn begin(&mut self, clients: u64, workload: &Workload, now: Nanoseconds) {
        self.forget();
        let client =
            |number| Client { thread: Thread::new(number + 1), began: now, doing: Doing::Nothing };
        self.clients = (0..clients).map(client).collect();
        (0..self.clients.len()).for_each(|client| self.next(client, workload, now));
    }

    /// Forgets the results so far.
    pub(super) fn forget(&mut self) {
        (self.took, self.ops) = (Latencies::default(), 0);
    }

    /// A client begins its next operation.
    fn next(&mut self, client: usize, workload: &Workload, now: Nanoseconds) {
        let op = self.store.draw(workload);
        let slowed = op.writes() && self.backlog() >= SLOW;
        let ready = now + self.times.op_ns + if slowed { self.times.delay_ns } else { 0 };
        let client = &mut self.clients[client];
        (client.began, client.doing) = (now, Doing::Computes(ready, op));
    }

    fn backlog(&self) -> usize {
        self.waiting.len() + usize::from(self.compacts)
    }

    /// When a client has computed what it has to.
    pub(super) fn next_at(&self) -> Option<Nanoseconds> {
        let due = self.clients.iter().filter_map(|client| match client.doing {
            Doing::Computes(at, _) => Some(at),
            _ => None,
        });
        due.min()
    }

    /// Whether neither clients nor the compacting thread have anything left to do.
    pub(super) fn is_idle(&self) -> bool {
        let idle =
            |client: &Client| client.doing == Doing::Nothing && !client.thread.is_appending();
        !self.compacts && self.waiting.is_empty() && self.clients.iter().all(idle)
    }

    /// A request of this instance is done.
    pub(super) fn ended(&mut self, token: u64) {
        let number = Thread::of(token);
        let thread = match usize::try_from(number.wrapping_sub(COMPACTOR + 1)) {
            Ok(client) if client < self.clients.len() => &mut self.clients[client].thread,
            _ => &mut self.compactor,
        };
        thread.ended(&mut self.shared, token);
    }

    /// All threads do what they can at `now`. A client that has done its operation begins another one of `workload`, if
    /// `another` says so.
    pub(super) fn go_on(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        workload: &Workload,
        now: Nanoseconds,
        another: bool,
    ) -> Result<(), Error> {
        for client in 0..self.clients.len() {
            self.begin_steps(client, workload, now)?;
            let it = &mut self.clients[client];
            if it.doing == Doing::Steps
                && it.thread.go_on(&mut self.shared, timed, now)? == Progress::Done
            {
                self.took.record_ns(now - it.began);
                self.ops += 1;
                it.doing = Doing::Nothing;
                if another {
                    self.next(client, workload, now);
                }
            }
        }
        self.compact(timed, now)
    }

    /// If the client has computed, LevelDB does its operation.
    fn begin_steps(
        &mut self,
        client: usize,
        workload: &Workload,
        now: Nanoseconds,
    ) -> Result<(), Error> {
        let op = match self.clients[client].doing {
            Doing::Computes(at, op) if at <= now => op,
            Doing::Stopped(op) => op,
            _ => return Ok(()),
        };
        if op.writes() && self.backlog() >= STOP {
            self.clients[client].doing = Doing::Stopped(op);
            return Ok(());
        }
        let recording = self.store.make(workload, op)?;
        let client = &mut self.clients[client];
        client.thread.push(&mut self.shared, recording.client);
        client.doing = Doing::Steps;
        if !recording.compaction.is_empty() {
            self.waiting.push_back(recording.compaction);
        }
        Ok(())
    }

    fn compact(
        &mut self,
        timed: &mut TimedVssds<MemoryImages>,
        now: Nanoseconds,
    ) -> Result<(), Error> {
        loop {
            if !self.compacts {
                let Some(steps) = self.waiting.pop_front() else { return Ok(()) };
                self.compactor.push(&mut self.shared, steps);
                self.compacts = true;
            }
            let progress = self.compactor.go_on(&mut self.shared, timed, now)?;
            if progress == Progress::Waits || self.compactor.is_appending() {
                return Ok(());
            }
            self.compacts = false;
        }
    }
}
