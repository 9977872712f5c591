//! A closed loop on the timed drive, as the benchmark of the field drives a cache: each of some
//! clients makes a request, waits for what it reads, and makes the next; what the cache writes is
//! written by some writers, which the clients wait for only when too much is due.
//!
//! The cache itself knows no time. It makes its requests one after the other, and here they are dealt
//! out to the clients that are free first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use larder_ssd::timed::TimedSsd;

/// How hard caches drive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests of a cache that are under way at a time.
    pub(super) clients: usize,
    /// Writes of a cache that are under way at a time.
    pub(super) writers: usize,
    /// What a request takes beside the drive, on average.
    pub(super) request_ns: f64,
}

/// Writes that are due for each writer before clients wait.
const DUE_PER_WRITER: usize = 64;

/// Something that the drive is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Read { lpn: u64, pages: u64 },
    Write { lpn: u64, pages: u64, handle: u16 },
    Deallocate { lpn: u64, pages: u64 },
}

/// Latencies in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
}

/// What one cache saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) samples: Samples,
    /// Requests that began.
    pub(super) requests: u64,
}

/// The loop of all caches on a drive.
#[derive(Debug)]
pub(super) struct ClosedLoop {
    ssd: TimedSsd,
    load: Load,
    rng: fastrand::Rng,
    now: u64,
    events: BinaryHeap<Reverse<Event>>,
    events_made: u64,
    caches: Vec<Cache>,
    measured_from: u64,
}

#[derive(Debug, Default)]
struct Cache {
    idle_clients: usize,
    /// Clients that wait for the writers.
    waiting_clients: usize,
    idle_writers: usize,
    due: VecDeque<Vec<Step>>,
    seen: Seen,
}

/// Somebody goes on at a time; of those at the same time, in the order in which they came.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    time: u64,
    number: u64,
    actor: Actor,
}

/// Who goes on, and with what.
#[derive(Debug)]
struct Actor {
    cache: usize,
    is_client: bool,
    steps: std::vec::IntoIter<Step>,
    /// What a client leaves to the writers.
    writes: Vec<Vec<Step>>,
}

/// Events are told apart by time and number.
impl PartialEq for Actor {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Actor {}
impl PartialOrd for Actor {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Actor {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl ClosedLoop {
    pub(super) fn new(ssd: TimedSsd, caches: usize, load: Load, seed: u64) -> Self {
        let cache = |_| Cache {
            idle_clients: load.clients,
            idle_writers: load.writers,
            ..Cache::default()
        };
        Self {
            ssd,
            load,
            rng: fastrand::Rng::with_seed(seed),
            now: 0,
            events: BinaryHeap::new(),
            events_made: 0,
            caches: (0..caches).map(cache).collect(),
            measured_from: 0,
        }
    }

    /// Does `step` alone, before the load begins.
    pub(super) fn age(&mut self, step: Step) {
        self.now = self.ask(step);
    }

    /// The next request of a cache, by the first of its clients that is free.
    pub(super) fn request(&mut self, cache: usize, steps: &[Step]) {
        while self.caches[cache].idle_clients == 0 {
            if !self.go_on() {
                return; // unreachable: a client that is not idle has an event
            }
        }
        self.caches[cache].idle_clients -= 1;
        self.caches[cache].seen.requests += 1;
        let (reads, writes) = divided(steps);
        let actor = Actor { cache, is_client: true, steps: reads.into_iter(), writes };
        let time = self.now + self.request_ns();
        self.push(time, actor);
    }

    /// From here on latencies count.
    pub(super) fn measure(&mut self) {
        self.measured_from = self.now;
        self.caches.iter_mut().for_each(|cache| cache.seen = Seen::default());
    }

    /// What each cache saw since [`measure`](Self::measure), and in how many seconds.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn end(mut self) -> (Vec<Seen>, f64) {
        let seconds = (self.now - self.measured_from) as f64 / 1e9;
        (self.caches.drain(..).map(|cache| cache.seen).collect(), seconds)
    }

    /// Exponentially distributed: clients do not march in step.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a positive number
    fn request_ns(&mut self) -> u64 {
        (-(1.0 - self.rng.f64()).ln() * self.load.request_ns) as u64
    }

    fn push(&mut self, time: u64, actor: Actor) {
        self.events_made += 1;
        self.events.push(Reverse(Event { time, number: self.events_made, actor }));
    }

    /// Whoever is next goes on. Returns whether there was anybody.
    fn go_on(&mut self) -> bool {
        let Some(Reverse(Event { time, mut actor, .. })) = self.events.pop() else { return false };
        self.now = time;
        match actor.steps.next() {
            Some(step) => {
                let end = self.ask(step);
                let took_ns = u32::try_from(end - time).unwrap_or(u32::MAX);
                let samples = &mut self.caches[actor.cache].seen.samples;
                match step {
                    Step::Read { .. } => samples.reads.push(took_ns),
                    Step::Write { .. } => samples.writes.push(took_ns),
                    Step::Deallocate { .. } => {}
                }
                self.push(end, actor);
            }
            None if actor.is_client => self.client_is_through(actor),
            None => self.writer_is_through(actor.cache),
        }
        true
    }

    fn client_is_through(&mut self, actor: Actor) {
        let cache = &mut self.caches[actor.cache];
        cache.due.extend(actor.writes);
        if cache.due.len() > DUE_PER_WRITER * self.load.writers {
            cache.waiting_clients += 1;
        } else {
            cache.idle_clients += 1;
        }
        while self.caches[actor.cache].idle_writers > 0 && self.begin_due(actor.cache) {
            self.caches[actor.cache].idle_writers -= 1;
        }
    }

    fn writer_is_through(&mut self, number: usize) {
        if !self.begin_due(number) {
            self.caches[number].idle_writers += 1;
        }
        let cache = &mut self.caches[number];
        if cache.due.len() <= DUE_PER_WRITER * self.load.writers {
            cache.idle_clients += std::mem::take(&mut cache.waiting_clients);
        }
    }

    /// A writer takes what is due first. Returns whether there was anything.
    fn begin_due(&mut self, cache: usize) -> bool {
        let Some(steps) = self.caches[cache].due.pop_front() else { return false };
        let steps = steps.into_iter();
        self.push(self.now, Actor { cache, is_client: false, steps, writes: Vec::new() });
        true
    }

    /// What the drive refuses, the cache's own device refuses too, and reports.
    fn ask(&mut self, step: Step) -> u64 {
        let now = self.now;
        let ended = match step {
            Step::Read { lpn, pages } => self.ssd.read(now, lpn, pages),
            Step::Write { lpn, pages, handle } => self.ssd.write(now, lpn, pages, handle),
            Step::Deallocate { lpn, pages } => self.ssd.deallocate(now, lpn, pages),
        };
        ended.unwrap_or(now)
    }
}

/// What of a request a client waits for, and what writers do: the rewriting of a bucket, which is
/// read first, and what is written one behind the other.
fn divided(steps: &[Step]) -> (Vec<Step>, Vec<Vec<Step>>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::<Vec<Step>>::new());
    for step in steps {
        let Step::Write { lpn, .. } = *step else {
            reads.push(*step);
            continue;
        };
        if matches!(reads.last(), Some(Step::Read { lpn: read, .. }) if *read == lpn) {
            writes.push(reads.pop().into_iter().chain([*step]).collect());
            continue;
        }
        match writes.last_mut() {
            Some(before) if before.last().is_some_and(|last| goes_on(*last, *step)) => {
                before.push(*step);
            }
            _ => writes.push(vec![*step]),
        }
    }
    (reads, writes)
}

fn goes_on(before: Step, step: Step) -> bool {
    match (before, step) {
        (Step::Write { lpn, pages, handle }, Step::Write { lpn: next, handle: same, .. }) => {
            lpn + pages == next && handle == same
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use larder_ssd::managed::{Geometry, ManagedConfig};
    use larder_ssd::timed;

    use super::*;

    fn closed(clients: usize, request_ns: f64) -> ClosedLoop {
        let geometry = Geometry { logical_pages: 19_200, pages_per_unit: 192, units: 120 };
        let ssd = TimedSsd::new(ManagedConfig::new(geometry), timed::small()).unwrap();
        ClosedLoop::new(ssd, 1, Load { clients, writers: 2, request_ns }, 1)
    }

    #[test]
    fn a_request_is_divided_into_what_is_waited_for_and_what_is_not() {
        let read = |lpn| Step::Read { lpn, pages: 1 };
        let write = |lpn, handle| Step::Write { lpn, pages: 2, handle };
        let steps = [read(5), read(7), write(7, 1), write(20, 2), write(22, 2), write(30, 2)];
        let (reads, writes) = divided(&steps);
        assert_eq!(reads, [read(5)]);
        let chains =
            [vec![read(7), write(7, 1)], vec![write(20, 2), write(22, 2)], vec![write(30, 2)]];
        assert_eq!(writes, chains);
    }

    #[test]
    fn more_clients_make_more_requests_until_the_drive_is_the_limit() {
        let rate = |clients| {
            let mut closed = closed(clients, 50_000.0);
            (0..19_200).step_by(64).for_each(|lpn| {
                closed.age(Step::Write { lpn, pages: 64, handle: 1 });
            });
            closed.measure();
            let mut rng = fastrand::Rng::with_seed(3);
            for _ in 0..20_000 {
                closed.request(0, &[Step::Read { lpn: rng.u64(..19_200), pages: 1 }]);
            }
            let (seen, seconds) = closed.end();
            assert!((seen[0].samples.reads.len() + clients) as u64 >= seen[0].requests);
            seen[0].requests as f64 / seconds
        };
        let [one, eight, many, more] = [1, 8, 64, 128].map(rate);
        assert!((4.5..8.1).contains(&(eight / one)), "{one} {eight}");
        assert!(more < many * 1.1, "{many} {more}");
    }

    #[test]
    fn clients_wait_only_when_too_much_is_due() {
        let mut closed = closed(4, 1000.0);
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..50_000 {
            let lpn = rng.u64(..19_200);
            closed.request(0, &[Step::Write { lpn, pages: 1, handle: 1 }]);
            assert!(closed.caches[0].due.len() <= 2 * DUE_PER_WRITER + 4);
        }
        assert!(closed.caches[0].waiting_clients + closed.caches[0].idle_clients <= 4);
    }
}
