//! Runs a layout, or a cache on one, on a cache device and a core that take time: measures how fast requests are
//! served.
//!
//! ```text
//!   clients ──► processor ──► layout ──► processor ──► cache device, core ──┐
//!      ▲        (a request)              (an I/O)      (ShapedStorage)      │
//!      └──────────────────────── ended ◄──────────────────────────────────┘
//! ```
//!
//! Time is virtual, so a run is a function of its requests and takes no real time. The devices store nothing; reads
//! return zeros. The number of requests in flight is the number of clients. Each client sends its next request when it
//! is answered. Completions that arrive while the processor is busy are processed together when it is free: so
//! requests gather under load, as in an event loop that reaps completions.

mod bare;
mod processor;
mod run;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use larder_device::model::virtual_time::{Moment, ShapedStorage};
use slab::Slab;

use super::{ClientRequest, Counts, Driven, READ_BYTES_MAX};
use crate::cache::RequestCompletion;
use crate::layout::{Data, DeviceIo, Ending, IoId, Outcome, RequestId, Span, Target};
pub use bare::Bare;
use processor::Processor;
pub use processor::{IoCost, ProcessorCost};
pub use run::TimedRun;

/// A layout on its devices, and the requests in flight. All cores are on one device.
#[derive(Debug)]
pub struct TimedLayout<L: Driven> {
    layout: L,
    /// The cache device and the core.
    devices: [ShapedStorage; 2],
    processor: Processor,
    now: Moment,
    /// The end of each I/O in flight, and its key in `ios`.
    ends: BinaryHeap<Reverse<(Moment, usize)>>,
    /// The I/Os in flight; for reads of the layout, the number of bytes.
    ios: Slab<(IoId, Option<usize>)>,
    clients: HashMap<RequestId, WaitingClient>,
    /// The next request, which overlaps one in flight.
    waiting: Option<L::Request>,
    next_request: u64,
    wakes_at: Option<Duration>,
    counts: Counts,
    zeros: Data,
}

/// A client that waits for a request.
#[derive(Debug)]
struct WaitingClient {
    came: Moment,
    span: Option<Span>,
    bytes: u64,
}

/// The measurements of a run in progress.
#[derive(Debug)]
struct Notes {
    began: Moment,
    busy_ns: [u64; 2],
    processor_ns: u64,
    counts: Counts,
    bytes: u64,
    latencies_ns: Vec<u64>,
}

impl<L: Driven> TimedLayout<L> {
    /// A layout, or a cache, on these devices, at time zero.
    pub fn new(
        layout: L,
        cache: ShapedStorage,
        core: ShapedStorage,
        processor: ProcessorCost,
    ) -> Self {
        Self {
            layout,
            devices: [cache, core],
            processor: Processor::new(processor),
            now: Moment::default(),
            ends: BinaryHeap::new(),
            ios: Slab::new(),
            clients: HashMap::new(),
            waiting: None,
            next_request: 0,
            wakes_at: None,
            counts: Counts::default(),
            zeros: Data::copy_of(&vec![0; READ_BYTES_MAX]),
        }
    }

    /// The layout or cache.
    pub fn layout(&self) -> &L {
        &self.layout
    }

    /// The same; it may be changed while requests are in flight.
    pub fn layout_mut(&mut self) -> &mut L {
        &mut self.layout
    }

    /// The current time.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    /// Keeps `depth` of the requests in flight until all have ended. A request that overlaps another one in flight
    /// waits for it, and all later requests wait too. I/Os of the layout itself may still be in flight when this
    /// returns.
    ///
    /// # Panics
    /// If `depth` is 0, if a request does not end, or if one fails.
    pub fn run(
        &mut self,
        depth: usize,
        requests: impl IntoIterator<Item = L::Request>,
    ) -> TimedRun {
        self.run_until(None, depth, requests)
    }

    /// The same for a limited time. Requests may then still be in flight; the next run continues with them.
    ///
    /// # Panics
    /// Like [`run`](Self::run).
    pub fn run_for(
        &mut self,
        time: Duration,
        depth: usize,
        requests: impl IntoIterator<Item = L::Request>,
    ) -> TimedRun {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.run_until(Some(self.now.after(nanoseconds)), depth, requests)
    }

    /// Carries out the I/Os in flight, and those that follow from them, until none are left.
    pub fn settle(&mut self) {
        let mut notes = self.begin_notes();
        self.turn();
        while !self.ends.is_empty() {
            self.go_on(&mut notes);
            self.turn();
        }
    }

    fn run_until(
        &mut self,
        until: Option<Moment>,
        depth: usize,
        requests: impl IntoIterator<Item = L::Request>,
    ) -> TimedRun {
        assert!(depth > 0, "a depth of 0: give how many requests are under way at a time");
        let mut notes = self.begin_notes();
        let mut requests = requests.into_iter().fuse();
        loop {
            self.submit_some(depth, &mut requests);
            self.turn();
            if self.hear_of_ended(&mut notes) {
                continue;
            }
            if self.clients.is_empty() || until.is_some_and(|until| self.now >= until) {
                return self.end_notes(notes);
            }
            self.go_on(&mut notes);
        }
    }

    /// Submits requests until `depth` are in flight, there are no more, or one has to wait.
    fn submit_some(&mut self, depth: usize, requests: &mut impl Iterator<Item = L::Request>) {
        while self.clients.len() < depth
            && let Some(request) = self.waiting.take().or_else(|| requests.next())
        {
            if !self.is_free(request.span()) {
                self.waiting = Some(request);
                return;
            }
            self.submit(request);
        }
    }

    /// Whether no overlapping request is in flight.
    fn is_free(&self, span: Option<Span>) -> bool {
        let overlaps = |client: &WaitingClient| match (client.span, span) {
            (Some(a), Some(b)) => a.overlaps(b),
            _ => false,
        };
        !self.clients.values().any(overlaps)
    }

    fn submit(&mut self, request: L::Request) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let bytes = request.read_bytes().unwrap_or_else(|| request.written_bytes()) as u64;
        self.clients.insert(id, WaitingClient { came: self.now, span: request.span(), bytes });
        self.counts.user_written_bytes += request.written_bytes() as u64;
        self.processor.work(self.now, self.processor.cost.request_ns);
        self.layout.submit(id, request);
    }

    /// Issues the I/Os of a turn.
    fn turn(&mut self) {
        let mut ios = Vec::new();
        self.layout.turn(&mut ios);
        for (id, io) in ios {
            self.counts.count(&io);
            let is_core = io.target() != Target::Cache;
            let cost = if is_core { self.processor.cost.core } else { self.processor.cost.cache };
            let sent = self.processor.work(self.now, cost.io_ns);
            let device = &mut self.devices[usize::from(is_core)];
            let end = match &io {
                DeviceIo::Read { offset, bytes, .. } => device.read(sent, *offset, *bytes as u64),
                DeviceIo::Write { offset, parts, durable, .. } => {
                    let bytes = parts.iter().map(|part| part.len() as u64).sum();
                    device.write(sent, *offset, bytes, *durable)
                }
                DeviceIo::Flush { .. } => device.flush(sent),
                DeviceIo::Deallocate { .. } => device.deallocate(sent),
            };
            if cost.is_held {
                self.processor.hold(end);
            }
            let read = match io {
                DeviceIo::Read { bytes, reader: None, .. } => Some(bytes),
                _ => None,
            };
            let key = self.ios.insert((id, read));
            self.ends.push(Reverse((end, key)));
        }
    }

    /// Advances the time to the next completion, and to the time at which the processor handles it.
    ///
    /// # Panics
    /// If nothing is in flight and nothing is due.
    fn go_on(&mut self, notes: &mut Notes) {
        let end = self.ends.peek().map(|Reverse((end, _))| *end);
        let wakes_at = self.wakes_at.map(|at| {
            Moment::from_nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)).max(self.now)
        });
        let next = end.into_iter().chain(wakes_at).min();
        let next = next.unwrap_or_else(|| panic!("requests that do not end: {:?}", self.clients));
        self.now = self.processor.free_at(next.max(self.now));
        self.wakes_at = self.layout.work(self.now());
        while let Some(Reverse((end, key))) = self.ends.peek().copied()
            && end <= self.now
        {
            self.ends.pop();
            let (id, read) = self.ios.remove(key);
            let outcome =
                read.map_or(Outcome::Done, |bytes| Outcome::Read(self.zeros.slice(0..bytes)));
            self.layout.completed(id, outcome);
        }
        self.hear_of_ended(notes);
    }

    /// Collects the requests that have ended. Returns whether there were any.
    fn hear_of_ended(&mut self, notes: &mut Notes) -> bool {
        let mut ended = Vec::new();
        self.layout.ended(&mut ended);
        let has_ended = !ended.is_empty();
        for RequestCompletion { id, ending, keep } in ended {
            let client = self.clients.remove(&id).expect("it was asked for, once");
            assert_eq!(ending, Ending::Done, "{client:?} has failed");
            self.counts.requests += 1;
            notes.bytes += client.bytes;
            notes.latencies_ns.push(self.now.as_nanos() - client.came.as_nanos());
            if let Some(keep) = keep {
                let data = self.zeros.slice(0..keep.bytes().len());
                self.layout.keep(keep, Some(data));
            }
        }
        has_ended
    }

    fn begin_notes(&self) -> Notes {
        Notes {
            began: self.now,
            busy_ns: [0, 1].map(|at| self.devices[at].busy_ns()),
            processor_ns: self.processor.busy_ns(),
            counts: self.counts,
            bytes: 0,
            latencies_ns: Vec::new(),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn end_notes(&self, notes: Notes) -> TimedRun {
        let Notes { began, busy_ns, processor_ns, counts, bytes, mut latencies_ns } = notes;
        latencies_ns.sort_unstable();
        let elapsed_ns = self.now.as_nanos() - began.as_nanos();
        let part = |ns: u64, of: u64| ns as f64 / (elapsed_ns * of).max(1) as f64;
        let devices_busy = [0, 1].map(|at| {
            let device = &self.devices[at];
            part(device.busy_ns() - busy_ns[at], device.shape().channels.value)
        });
        TimedRun {
            requests: latencies_ns.len() as u64,
            bytes,
            elapsed: Duration::from_nanos(elapsed_ns),
            devices_busy,
            processor_busy: part(self.processor.busy_ns() - processor_ns, 1),
            counts: self.counts.since(&counts),
            latencies_ns,
        }
    }
}
