//! A thread's loop over its connections: sends requests when their time has come, and reads answers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_workload::Latencies;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

use crate::Error;
use crate::connection::{Connection, OutstandingRequest, Scratch};
use crate::protocol::{ExpectedReply, Reply};
use crate::target::Target;
use crate::tls::ServerTls;
use crate::value::Values;
use crate::workload::{Asks, KeyRequest};

/// The thread checks at least this frequently for the end and for a stop.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Event number of the timer; no connection has it.
const TIMER: u64 = u64::MAX;

/// When requests are sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrivals {
    /// A connection sends the next requests when all its requests are answered.
    Closed,
    /// This number a second, at random times (a Poisson process).
    Open(f64),
}

/// The work of a thread.
pub(crate) struct Task<'a> {
    pub(crate) target: &'a Target,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) values: &'a Values,
    pub(crate) asks: Asks,
    pub(crate) arrivals: Arrivals,
    pub(crate) connections: usize,
    /// Most requests in flight on a connection.
    pub(crate) pipeline: usize,
    pub(crate) look_aside: bool,
    /// The time that a backend takes to answer what was missed.
    pub(crate) backend_ns: u64,
    pub(crate) begin: Instant,
    /// Begin and end of the measured time, in nanoseconds from `begin`.
    pub(crate) counts_ns: (u64, u64),
    /// Version of values that are set.
    pub(crate) version: u32,
    pub(crate) done: &'a AtomicU64,
    pub(crate) stop: &'a AtomicBool,
}

/// The counts of a thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Requests answered in the measured time.
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) hits: u64,
    pub(crate) sets: u64,
    pub(crate) refused: u64,
    pub(crate) wrong: u64,
    /// Requests sent, or due to be sent, without an answer at the end.
    pub(crate) unanswered: u64,
    pub(crate) latencies: Latencies,
}

impl Tally {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.keys += other.keys;
        self.hits += other.hits;
        self.sets += other.sets;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.unanswered += other.unanswered;
        self.latencies.merge(&other.latencies);
    }
}

/// A thread's loop over its connections.
pub(crate) struct Worker<'a> {
    task: Task<'a>,
    queue: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Connection>,
    /// Connections with room for a request.
    free: VecDeque<usize>,
    /// Connections that wait for the socket to take more.
    stuck: Vec<bool>,
    /// Requests whose time has come while no connection had room for them.
    due: VecDeque<u64>,
    next_ns: u64,
    rng: fastrand::Rng,
    asks_ended: bool,
    scratch: Scratch,
    one: Vec<KeyRequest>,
    missed: Vec<KeyRequest>,
    /// Requests that the backend is asked for: when it answers, the connection, and the set that follows. They come in
    /// the order of their times, because the backend takes as long for each.
    at_backend: VecDeque<(u64, usize, KeyRequest)>,
    /// Number of those of each connection.
    waiting: Vec<usize>,
    tally: Tally,
}

/// A timer in the epoll set, edge-triggered.
fn alarm(queue: &OwnedFd) -> io::Result<OwnedFd> {
    let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(queue, &timer, epoll::EventData::new_u64(TIMER), flags)?;
    Ok(timer)
}

impl<'a> Worker<'a> {
    /// Connects.
    pub(crate) fn new(task: Task<'a>, seed: u64) -> Result<Self, Error> {
        let address = &task.target.address;
        let cannot = |cause: io::Error| {
            Error::run(format!("{address}: {cause}; does a server of this protocol listen there?"))
        };
        let queue = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| cannot(e.into()))?;
        let mut connections = Vec::with_capacity(task.connections);
        for number in 0..task.connections {
            let mut connection =
                Connection::open(task.target, task.tls.as_ref()).map_err(cannot)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&queue, connection.stream(), data, epoll::EventFlags::IN)
                .map_err(|e| cannot(e.into()))?;
            connection.send().map_err(cannot)?;
            connections.push(connection);
        }
        let timer = alarm(&queue).map_err(cannot)?;
        Ok(Self {
            free: (0..connections.len()).collect(),
            stuck: vec![false; connections.len()],
            queue,
            timer,
            connections,
            due: VecDeque::new(),
            next_ns: 0,
            rng: fastrand::Rng::with_seed(seed),
            asks_ended: false,
            scratch: Scratch::default(),
            one: Vec::new(),
            missed: Vec::new(),
            at_backend: VecDeque::new(),
            waiting: vec![0; task.connections],
            tally: Tally::default(),
            task,
        })
    }

    /// Sets the time from which everything counts.
    pub(crate) fn starting(mut self, begin: Instant) -> Self {
        self.task.begin = begin;
        self
    }

    /// Runs until the end, or until all requests are sent and answered.
    pub(crate) fn run(mut self) -> Result<Tally, Error> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        loop {
            let now_ns = self.now_ns();
            if now_ns >= self.task.counts_ns.1 || self.is_stopped() || self.is_done() {
                return Ok(self.ended(now_ns));
            }
            self.issue(now_ns)?;
            self.set_what_the_backend_has_answered(now_ns)?;
            let timeout = Timespec::try_from(LOOK_UP).ok();
            self.set_alarm()?;
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.queue, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::run(format!("epoll: {error}"))),
            }
            for event in &events {
                // The fields are packed, so copy them.
                let (flags, data) = (event.flags, event.data);
                if data.u64() == TIMER {
                    continue;
                }
                let Ok(number) = usize::try_from(data.u64()) else { continue };
                if flags.contains(epoll::EventFlags::OUT) {
                    self.send(number)?;
                }
                self.read(number)?;
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.task.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_stopped(&self) -> bool {
        self.task.stop.load(Ordering::Relaxed)
    }

    fn is_done(&self) -> bool {
        self.asks_ended
            && self.at_backend.is_empty()
            && self.connections.iter().all(|connection| connection.under_way() == 0)
    }

    /// Sets the timer for the next request, or for the backend's next answer. The timeout of the sleep itself has only
    /// millisecond precision, which is long compared to an answer.
    fn set_alarm(&self) -> Result<(), Error> {
        // Requests that are due wait for an answer, not for a time.
        let next_ns = match self.task.arrivals {
            Arrivals::Open(_) => Some(self.next_ns),
            Arrivals::Closed => None,
        };
        let answer_ns = self.at_backend.front().map(|&(at_ns, ..)| at_ns);
        let Some(at_ns) = next_ns.into_iter().chain(answer_ns).min() else { return Ok(()) };
        // A wait of 0 would disarm the timer.
        let wait = Duration::from_nanos(at_ns.saturating_sub(self.now_ns()).max(1));
        let never = Timespec::default();
        let once =
            Itimerspec { it_interval: never, it_value: Timespec::try_from(wait).unwrap_or(never) };
        let set = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        set.map(drop).map_err(|error| Error::run(format!("timerfd: {error}")))
    }

    /// Sends the requests whose time has come.
    fn issue(&mut self, now_ns: u64) -> Result<(), Error> {
        match self.task.arrivals {
            Arrivals::Closed => {
                while let Some(number) = self.free.pop_front() {
                    for _ in 0..self.task.pipeline {
                        self.ask(number, now_ns)?;
                    }
                    self.send(number)?;
                }
            }
            Arrivals::Open(a_second) => {
                while self.next_ns <= now_ns {
                    self.due.push_back(self.next_ns);
                    // Not 0: its logarithm is infinite.
                    let wait_s = -(1.0 - self.rng.f64()).max(1e-12).ln() / a_second;
                    let wait = Duration::try_from_secs_f64(wait_s).unwrap_or(LOOK_UP);
                    self.next_ns += u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX).max(1);
                }
                while !self.due.is_empty() {
                    let Some(number) = self.free.pop_front() else { break };
                    let Some(at_ns) = self.due.pop_front() else { break };
                    self.ask(number, at_ns)?;
                    self.send(number)?;
                    if self.connections[number].under_way() < self.task.pipeline {
                        self.free.push_back(number);
                    }
                }
            }
        }
        Ok(())
    }

    fn ask(&mut self, number: usize, at_ns: u64) -> Result<(), Error> {
        if self.asks_ended {
            return Ok(());
        }
        let mut one = std::mem::take(&mut self.one);
        self.asks_ended = !self.task.asks.next(&mut one)?;
        let value = (self.task.values, self.task.version);
        self.connections[number].ask(self.task.target, &one, at_ns, value);
        self.one = one;
        Ok(())
    }

    /// Sends what the socket takes; if there is a rest, waits until the socket is writable.
    fn send(&mut self, number: usize) -> Result<(), Error> {
        let sent = self.connections[number].send();
        let is_stuck = !sent.map_err(|error| self.lost(&error))?;
        if is_stuck != self.stuck[number] {
            self.stuck[number] = is_stuck;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_stuck);
            let data = epoll::EventData::new_u64(number as u64);
            let changed =
                epoll::modify(&self.queue, self.connections[number].stream(), data, flags);
            changed.map_err(|error| self.lost(&error.into()))?;
        }
        Ok(())
    }

    fn lost(&self, error: &io::Error) -> Error {
        Error::run(format!("{}: {error}", self.task.target.name))
    }

    /// Reads everything that has come on a connection: there is no second event for bytes that TLS has already taken
    /// from the socket.
    fn read(&mut self, number: usize) -> Result<(), Error> {
        let was_full = self.is_full(number);
        let (mut there_may_be_more, mut answers) = (true, 0);
        while there_may_be_more {
            let received = self.connections[number].receive();
            there_may_be_more = received.map_err(|error| self.lost(&error))?;
            let now_ns = self.now_ns();
            answers += self.read_answers(number, now_ns)?;
            self.set_missed(number, now_ns)?;
        }
        self.task.done.fetch_add(answers, Ordering::Relaxed);
        let frees = match self.task.arrivals {
            Arrivals::Closed => {
                answers > 0
                    && self.connections[number].under_way() == 0
                    && self.waiting[number] == 0
            }
            Arrivals::Open(_) => was_full && !self.is_full(number),
        };
        if frees {
            self.free.push_back(number);
        }
        Ok(())
    }

    /// Counts all complete answers, and returns their number.
    fn read_answers(&mut self, number: usize, now_ns: u64) -> Result<u64, Error> {
        let mut answers = 0;
        loop {
            let (connection, missed) = (&mut self.connections[number], &mut self.missed);
            let task = &self.task;
            let answer = connection.answer(task.target, task.values, &mut self.scratch, |ask| {
                if task.look_aside {
                    missed.push(ask);
                }
            });
            let name = &self.task.target.name;
            let broken = |answer: crate::protocol::ProtocolViolation| {
                Error::run(format!("{name}: not an answer of this protocol: {}", answer.0))
            };
            let Some((sent, reply)) = answer.map_err(broken)? else { return Ok(answers) };
            self.note(sent, reply, now_ns)?;
            answers += 1;
        }
    }

    fn is_full(&self, number: usize) -> bool {
        self.connections[number].under_way() >= self.task.pipeline
    }

    /// Sets the keys that were not found, or asks the backend for them first.
    fn set_missed(&mut self, number: usize, now_ns: u64) -> Result<(), Error> {
        if self.missed.is_empty() {
            return Ok(());
        }
        if self.task.backend_ns > 0 {
            let at_ns = now_ns + self.task.backend_ns;
            self.waiting[number] += self.missed.len();
            self.at_backend.extend(self.missed.drain(..).map(|ask| (at_ns, number, ask)));
            return Ok(());
        }
        for ask in std::mem::take(&mut self.missed) {
            self.ask_to_set(number, ask, now_ns);
        }
        self.send(number)
    }

    fn ask_to_set(&mut self, number: usize, ask: KeyRequest, now_ns: u64) {
        let value = (self.task.values, self.task.version);
        let set = KeyRequest { op: larder_workload::Op::Set, ..ask };
        self.connections[number].ask(self.task.target, &[set], now_ns, value);
    }

    fn set_what_the_backend_has_answered(&mut self, now_ns: u64) -> Result<(), Error> {
        while self.at_backend.front().is_some_and(|(at_ns, ..)| *at_ns <= now_ns)
            && let Some((_, number, ask)) = self.at_backend.pop_front()
        {
            self.waiting[number] -= 1;
            self.ask_to_set(number, ask, now_ns);
            self.send(number)?;
        }
        Ok(())
    }

    /// Counts an answer.
    fn note(&mut self, sent: OutstandingRequest, reply: Reply, now_ns: u64) -> Result<(), Error> {
        if sent.asked == ExpectedReply::Hello {
            return match reply.refused {
                true => Err(Error::run(format!(
                    "{}: refuses what opens a connection: are user and password right?",
                    self.task.target.name
                ))),
                false => Ok(()),
            };
        }
        let Self { tally, task, .. } = self;
        let (from_ns, to_ns) = task.counts_ns;
        tally.refused += u64::from(reply.refused);
        tally.wrong += u64::from(reply.wrong);
        if sent.at_ns < from_ns || now_ns > to_ns {
            return Ok(());
        }
        tally.requests += 1;
        tally.hits += u64::from(reply.hits);
        match sent.asked {
            ExpectedReply::Get(keys) => tally.keys += u64::from(keys),
            ExpectedReply::Set => tally.sets += 1,
            ExpectedReply::Delete | ExpectedReply::Hello => {}
        }
        // The client has its value when the backend has answered.
        let misses = matches!(sent.asked, ExpectedReply::Get(keys) if reply.hits < keys);
        let backend_ns = if misses && task.look_aside { task.backend_ns } else { 0 };
        tally.latencies.record_ns(now_ns.saturating_sub(sent.at_ns) + backend_ns);
        Ok(())
    }

    /// Requests without an answer took at least until now. Leaving them out would make a stalled server look fast.
    fn ended(mut self, now_ns: u64) -> Tally {
        if self.is_done() || matches!(self.task.arrivals, Arrivals::Closed) {
            return self.tally;
        }
        let unanswered = self.connections.iter().flat_map(Connection::unanswered);
        let asked = unanswered.map(|sent| sent.at_ns).chain(self.due.iter().copied());
        for at_ns in asked.filter(|&at_ns| at_ns >= self.task.counts_ns.0) {
            self.tally.unanswered += 1;
            self.tally.latencies.record_ns(now_ns.saturating_sub(at_ns));
        }
        self.tally
    }
}
