//! The log of the serving commands: events of cache and server, a line each, on standard error.
//!
//! Events come from serving threads, which hold locks, so they must not wait. A separate thread writes the lines; while
//! that is slow, further events are dropped and counted. Clients and drives can cause any number of events, so each
//! place in the program may log [`EVENTS_MAX`] of them in [`PERIOD`].

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Metadata;
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{DynFilterFn, FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// Most events of one place in the program in [`PERIOD`].
const EVENTS_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
/// Most lines that wait to be written.
const LINES_MAX: usize = 256;
/// How long the end of the command waits for the last lines.
const FAREWELL: Duration = Duration::from_secs(1);

/// Logs events of `level` and above until the process ends. On drop it waits up to [`FAREWELL`] for the last lines.
pub(crate) struct Log {
    written: Receiver<()>,
    lines: Lines,
}

/// The queue of lines.
#[derive(Clone)]
struct Lines {
    sender: Arc<Mutex<Option<SyncSender<Vec<u8>>>>>,
    dropped: Arc<AtomicU64>,
}

/// A line that is being formatted.
struct LogLine<'a> {
    bytes: Vec<u8>,
    lines: &'a Lines,
}

impl Log {
    /// Starts the log. If the process has a log already, that one stays.
    pub(crate) fn begin(level: LevelFilter) -> Self {
        let (sender, receiver) = sync_channel::<Vec<u8>>(LINES_MAX);
        let (done, written) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let lines =
            Lines { sender: Arc::new(Mutex::new(Some(sender))), dropped: Arc::clone(&dropped) };
        let write = move || {
            for line in receiver {
                let missing = dropped.swap(0, Ordering::Relaxed);
                // If standard error is closed, the command goes on all the same.
                let _ = io::stderr().write_all(&line);
                if missing > 0 {
                    let _ = writeln!(io::stderr(), "{missing} events could not be written in time");
                }
            }
            drop(done);
        };
        if std::thread::Builder::new().name("larder-log".to_owned()).spawn(write).is_ok() {
            install(level, lines.clone());
        }
        Self { written, lines }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        *self.lines.sender.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The thread has ended, or does not end in time.
        let _ = self.written.recv_timeout(FAREWELL);
    }
}

fn install(level: LevelFilter, lines: Lines) {
    let limits = Limits { of: Mutex::default(), lines: lines.clone() };
    let few = DynFilterFn::new(move |metadata, _| limits.allow(metadata, Instant::now()));
    let format = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(lines);
    // The systemd journal adds the time to each line.
    let layer = if std::env::var_os("JOURNAL_STREAM").is_some() {
        format.without_time().boxed()
    } else {
        format.boxed()
    };
    // The command itself reports why a cache cannot be opened.
    let not_said = filter_fn(|metadata| metadata.target() != "larder::open");
    let layer = layer.with_filter(level.and(not_said).and(few));
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

/// Counts the events of each place in the program in its current period.
struct Limits {
    of: Mutex<HashMap<Identifier, CallsiteCount>>,
    lines: Lines,
}

#[derive(Clone, Copy)]
struct CallsiteCount {
    since: Instant,
    count: u32,
}

impl Limits {
    fn allow(&self, metadata: &Metadata<'_>, now: Instant) -> bool {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let told = of.entry(metadata.callsite()).or_insert(CallsiteCount { since: now, count: 0 });
        if now.saturating_duration_since(told.since) >= PERIOD {
            let left_out = told.count.saturating_sub(EVENTS_MAX);
            if left_out > 0 {
                self.lines.send(format!("{left_out} more like the next line\n").into_bytes());
            }
            *told = CallsiteCount { since: now, count: 0 };
        }
        told.count = told.count.saturating_add(1);
        told.count <= EVENTS_MAX
    }
}

impl Lines {
    fn send(&self, line: Vec<u8>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.as_ref().is_some_and(|sender| sender.try_send(line).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = LogLine<'a>;

    fn make_writer(&'a self) -> LogLine<'a> {
        LogLine { bytes: Vec::new(), lines: self }
    }
}

impl Write for LogLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogLine<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.lines.send(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_without_end_is_told_a_few_times_and_then_counted() {
        let (sender, receiver) = sync_channel(LINES_MAX);
        let sender = Arc::new(Mutex::new(Some(sender)));
        let limits =
            Limits { of: Mutex::default(), lines: Lines { sender, dropped: Arc::default() } };
        let (begun, filter) = (Instant::now(), Arc::new(limits));
        let now = Arc::new(Mutex::new(begun));
        let (asked, time) = (Arc::new(AtomicU64::new(0)), Arc::clone(&now));
        let (passed, limits) = (Arc::clone(&asked), Arc::clone(&filter));
        let few = DynFilterFn::new(move |metadata, _| {
            let is_allowed = limits.allow(metadata, *time.lock().unwrap());
            passed.fetch_add(u64::from(is_allowed), Ordering::Relaxed);
            is_allowed
        });
        let layer = tracing_subscriber::fmt::layer().with_writer(io::sink).with_filter(few);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let tell = || tracing::warn!("again");
            (0..100).for_each(|_| tell());
            assert_eq!(asked.load(Ordering::Relaxed), u64::from(EVENTS_MAX));
            assert!(receiver.try_recv().is_err());
            *now.lock().unwrap() = begun + PERIOD;
            tell();
        });
        assert_eq!(asked.load(Ordering::Relaxed), u64::from(EVENTS_MAX) + 1);
        assert_eq!(receiver.try_recv().unwrap(), b"80 more like the next line\n");
    }
}
