//! The counters of a drive while a cache runs on it. A thread of its own reads them, so that no request of the cache
//! waits for an answer.

mod handle_numbers;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use larder_ssd::nvme::event::{EVENTS_MAX, Event};

use super::commands::Commands;
use super::fdp::read_events;
use super::smart::read_smart;
use super::survey::{Asked, Silence, Survey};
use super::watch::{Interval, Watch};
use crate::clock::{Clock, RealClock};
use crate::drive_report::{DriveReport, FdpCounters, Unsaid};
use crate::event_tally::EventTally;
use handle_numbers::HandleNumbers;

/// The default interval.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// The span that counts as recent.
const RECENT: Duration = Duration::from_secs(300);

/// The part of a namespace whose drive is polled.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The block device, for messages.
    pub path: String,
    /// The namespace's number on the drive.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// The range of bytes of the namespace that the device uses.
    pub range: Range<u64>,
    /// Number of placement handles that the device uses, including the default: 1 without placement.
    pub handles: u16,
}

/// Returns the number of bytes that the device has written itself.
type OwnBytes = Box<dyn Fn() -> u64 + Send>;

/// A drive that is polled at an interval. Dropping it ends the thread, after the answer that it is waiting for.
pub struct LiveCounters {
    shared: Arc<WatchShared>,
    thread: Option<JoinHandle<()>>,
}

struct WatchShared {
    /// Polls the drive. Locked as long as the drive takes to answer.
    asker: Mutex<Asker>,
    /// The last answer.
    report: Mutex<Arc<DriveReport>>,
    ended: Mutex<bool>,
    end: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LiveCounters {
    /// Polls `drive` at once and then every `interval`; without an interval, only on [`Self::refresh`]. `own_bytes`
    /// returns the number of bytes that the device has written itself. If the drive answers none of the first
    /// questions, for example for lack of permission, the report says so and no thread polls it.
    ///
    /// # Errors
    /// That of the operating system if it cannot start a thread.
    pub fn start(
        drive: io::Result<Box<dyn Commands>>,
        watched: Watched,
        interval: Option<Duration>,
        own_bytes: impl Fn() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        let mut asker = Asker::new(drive, watched, interval, Box::new(own_bytes));
        let report = asker.ask(RealClock.now());
        let silent = report.looks == 0;
        let shared = Arc::new(WatchShared {
            asker: Mutex::new(asker),
            report: Mutex::new(Arc::new(report)),
            ended: Mutex::new(false),
            end: Condvar::new(),
        });
        let thread = match interval {
            Some(interval) if !silent => {
                let shared = Arc::clone(&shared);
                let builder = thread::Builder::new().name("larder-drive".to_owned());
                Some(builder.spawn(move || shared.run(interval))?)
            }
            _ => None,
        };
        Ok(Self { shared, thread })
    }

    /// The drive's last answers.
    pub fn report(&self) -> Arc<DriveReport> {
        Arc::clone(&lock(&self.shared.report))
    }

    /// Polls the drive now, and waits for the answer.
    pub fn refresh(&self) -> Arc<DriveReport> {
        self.shared.ask();
        self.report()
    }

    /// Whether a thread polls at an interval.
    pub fn is_asking(&self) -> bool {
        self.thread.is_some()
    }
}

impl Drop for LiveCounters {
    fn drop(&mut self) {
        *lock(&self.shared.ended) = true;
        self.shared.end.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; it affects nothing else.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LiveCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveCounters").field("report", &self.report()).finish_non_exhaustive()
    }
}

impl WatchShared {
    fn ask(&self) {
        let mut asker = lock(&self.asker);
        let report = Arc::new(asker.ask(RealClock.now()));
        *lock(&self.report) = report;
    }

    fn run(&self, interval: Duration) {
        let mut ended = lock(&self.ended);
        loop {
            let waited = self.end.wait_timeout_while(ended, interval, |ended| !*ended);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *ended {
                return;
            }
            drop(ended);
            self.ask();
            ended = lock(&self.ended);
        }
    }
}

/// Polls a drive, and keeps what it has reported so far.
struct Asker {
    drive: Asked<Box<dyn Commands>>,
    group: Asked<u16>,
    watch: Watch,
    watched: Watched,
    own_bytes: OwnBytes,
    host: EventLog,
    controller: EventLog,
    report: DriveReport,
    numbers: Asked<HandleNumbers>,
    events: EventTally,
}

impl Asker {
    fn new(
        drive: io::Result<Box<dyn Commands>>,
        watched: Watched,
        interval: Option<Duration>,
        own_bytes: OwnBytes,
    ) -> Self {
        let drive: Asked<_> = drive.map_err(|error| Silence {
            why: format!("{}: {error}", watched.path),
            denied: error.kind() == io::ErrorKind::PermissionDenied,
        });
        let survey = drive.as_ref().map_err(Clone::clone);
        let survey = survey.map(|drive| Survey::read(drive.as_ref(), watched.nsid));
        let group = survey.as_ref().map_err(Clone::clone).and_then(|survey| {
            match survey.namespace.clone()? {
                (.., 0) => Err(Silence {
                    why: "the namespace is in no endurance group".to_owned(),
                    denied: false,
                }),
                (.., group) => Ok(group),
            }
        });
        let numbers = survey.and_then(|survey| {
            Ok(HandleNumbers::new(&survey.device_handles()?, watched.nsid, watched.handles))
        });
        let group_number = group.clone().unwrap_or(0);
        Self {
            watch: Watch::new(group_number, interval.unwrap_or(DEFAULT_INTERVAL), RECENT),
            report: DriveReport { path: watched.path.clone(), ..DriveReport::default() },
            drive,
            group,
            watched,
            own_bytes,
            host: EventLog::default(),
            controller: EventLog::default(),
            numbers,
            events: EventTally::default(),
        }
    }

    fn ask(&mut self, now: Duration) -> DriveReport {
        let mut unsaid = Vec::new();
        let before = (self.own_bytes)();
        let drive = self.drive.as_ref().map(AsRef::as_ref).map_err(Clone::clone);
        let in_group = || Ok((drive.clone()?, self.group.clone()?));
        let counters: Asked<FdpCounters> =
            in_group().and_then(|(drive, group)| Ok(FdpCounters::read(drive, group)?));
        let smart = drive.clone().and_then(|drive| read_smart(drive).map_err(Silence::from));
        let events = |host: bool| -> Asked<Vec<Event>> {
            in_group().and_then(|(drive, group)| Ok(read_events(drive, group, host)?))
        };
        let events = events(true).and_then(|host| Ok((host, events(false)?)));
        let answered = counters.is_ok() || smart.is_ok() || events.is_ok();
        let mut note = |what, silence: Silence| unsaid.push(Unsaid { what, why: silence.why });
        match counters {
            Ok(counters) => self.count(now, counters, before),
            Err(silence) => note("host and media bytes", silence),
        }
        match smart {
            Ok(smart) => {
                self.report.used_percent = Some(smart.used_percent);
                self.report.power_on_hours = u64::try_from(smart.power_on_hours).ok();
            }
            Err(silence) => note("percentage used", silence),
        }
        match events {
            Ok((host, controller)) => {
                if let Err(silence) = &self.numbers {
                    note("the placement handles of FDP events", silence.clone());
                }
                self.hear(now, host, controller);
            }
            Err(silence) => note("FDP events", silence),
        }
        self.report.looks += u64::from(answered);
        self.report.unavailable = unsaid;
        self.report.clone()
    }

    /// `own_bytes` were written before the drive was polled. Bytes that are written in between are in the drive's
    /// counter but not in `own_bytes`, so they appear as foreign bytes rather than being hidden.
    fn count(&mut self, now: Duration, counters: FdpCounters, own_bytes: u64) {
        self.watch.add(now, counters);
        let written = |interval: Interval| interval.written();
        self.report.counters = Some(counters);
        self.report.since_open = self.watch.since_start().map(written);
        self.report.recent = self.watch.over(RECENT).map(written);
        self.report.own_written_bytes = own_bytes;
    }

    fn hear(&mut self, now: Duration, host: Vec<Event>, controller: Vec<Event>) {
        let (host, host_gap) = self.host.new_ones(host);
        let (controller, controller_gap) = self.controller.new_ones(controller);
        self.report.event_gaps += u64::from(host_gap) + u64::from(controller_gap);
        for event in host.iter().chain(&controller) {
            let handle = self.numbers.as_ref().ok().and_then(|numbers| numbers.of(event));
            let moved = event.moved.map(|(blocks, lba)| {
                let bytes = u64::from(blocks) * u64::from(self.watched.block_bytes);
                (bytes, lba.and_then(|lba| self.offset(lba, event.nsid)))
            });
            self.events.count(now, event.kind.to_byte(), handle, moved);
        }
        self.events.show_in(&mut self.report, now);
    }

    /// Offset on the device of a logical block of the namespace; `None` if it is not on the device.
    fn offset(&self, lba: u64, nsid: Option<u32>) -> Option<u64> {
        let here = nsid.is_none_or(|nsid| nsid == self.watched.nsid);
        let byte = lba.checked_mul(u64::from(self.watched.block_bytes)).filter(|_| here)?;
        self.watched.range.contains(&byte).then(|| byte - self.watched.range.start)
    }
}

/// A log of events as last read; `None` before the first read.
#[derive(Debug, Default)]
struct EventLog(Option<Vec<Event>>);

impl EventLog {
    /// Returns the events in `listed` that the last read did not have, and whether some were missed in between. A drive
    /// lists the events that it remembers: the last ones of the previous read, and those since. No event of the first
    /// read counts as new.
    fn new_ones(&mut self, mut listed: Vec<Event>) -> (Vec<Event>, bool) {
        if listed.first().zip(listed.last()).is_some_and(|(a, z)| a.timestamp_ms > z.timestamp_ms) {
            listed.reverse();
        }
        let Some(before) = self.0.replace(listed.clone()) else { return (Vec::new(), false) };
        let most = before.len().min(listed.len());
        let shared = (0..=most).rev().find(|&n| before[before.len() - n..] == listed[..n]);
        let shared = shared.unwrap_or(0);
        let gap = shared == 0 && !before.is_empty() && listed.len() >= EVENTS_MAX;
        (listed.split_off(shared), gap)
    }
}

#[cfg(test)]
mod tests;
