//! Periodic work of a running cache: a thread that calls it on time.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use larder_block::manage::OpenCache;
use larder_block::running::RunningCache;
use larder_device::{Clock, RealClock, block_on};

/// Longest time between two calls: we do not learn here when new work becomes due earlier.
const WAIT_MAX: Duration = Duration::from_millis(100);
const WAIT_MIN: Duration = Duration::from_millis(1);
/// A cache without requests for this long has time to update its label.
const IDLE: Duration = Duration::from_secs(3);
/// Pause before a refused label write is retried.
const LABEL_RETRY: Duration = Duration::from_secs(1);

/// How often the fingerprints of cores are updated. Blocks written since the last update have none.
const FINGERPRINTS: Duration = Duration::from_secs(60);

/// Calls the cache until it is dropped.
pub(super) struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(
        cache: RunningCache,
        opened: Arc<Mutex<Option<OpenCache>>>,
    ) -> std::io::Result<Self> {
        Self::noting(cache, opened, FINGERPRINTS)
    }

    /// Updates the fingerprints at the interval `every`.
    fn noting(
        cache: RunningCache,
        opened: Arc<Mutex<Option<OpenCache>>>,
        every: Duration,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let keep = move || {
            let (mut idle, mut label) = (Idle::default(), Label::default());
            let mut noted = RealClock.monotonic();
            loop {
                let now = RealClock.monotonic();
                let next = cache.work(now);
                if idle.has_come(&cache, now) {
                    note_clean(&opened);
                }
                label.keep(&cache, &opened, now);
                if now.saturating_sub(noted) >= every {
                    noted = now;
                    note_fingerprints(&opened);
                }
                let wait = next.map_or(WAIT_MAX, |next| next.saturating_sub(now));
                let wait = wait.clamp(WAIT_MIN, WAIT_MAX);
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("larder-keeper".to_owned()).spawn(keep)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Detects that there are no requests.
#[derive(Default)]
struct Idle {
    /// Requests so far, and the time since when this number has not changed.
    requests: u64,
    since: Duration,
    is_noted: bool,
}

impl Idle {
    /// Returns true once for each idle period, if nothing is dirty.
    fn has_come(&mut self, cache: &RunningCache, now: Duration) -> bool {
        let (requests, under_way, dirty) = cache.with(|cache| {
            let done = cache.statistics();
            let requests = done.reads.total() + done.writes.total();
            (requests, cache.under_way(), cache.usage().dirty_sectors)
        });
        if requests != self.requests || under_way > 0 || dirty > 0 {
            *self = Self { requests, since: now, is_noted: false };
        }
        let has_come = !self.is_noted && now - self.since >= IDLE;
        self.is_noted |= has_come;
        has_come
    }
}

/// The label of a cache device that was given up. Writing it may have failed, on a device that may come back.
#[derive(Default)]
struct Label {
    is_noted: bool,
    refused_at: Option<Duration>,
}

impl Label {
    /// Retries until the label says that nothing on the device may be used.
    fn keep(&mut self, cache: &RunningCache, opened: &Mutex<Option<OpenCache>>, now: Duration) {
        if !cache.with(|cache| cache.has_marked()) {
            *self = Self::default();
            return;
        }
        if self.is_noted || self.refused_at.is_some_and(|at| now < at + LABEL_RETRY) {
            return;
        }
        let Ok(mut opened) = opened.try_lock() else { return };
        let noted = opened.as_mut().map(|opened| block_on(opened.note_clean()));
        match noted {
            Some(Err(error)) if self.refused_at.replace(now).is_none() => eprintln!(
                "note: the label of a cache device that is not used any more does not say so: {error}; \
                 it is tried again until it does"
            ),
            Some(Err(_)) => {}
            Some(Ok(())) | None => self.is_noted = true,
        }
    }
}

/// If a command holds the cache now, the next interval will do.
fn note_fingerprints(opened: &Mutex<Option<OpenCache>>) {
    let Ok(opened) = opened.try_lock() else { return };
    if let Some(opened) = opened.as_ref() {
        block_on(opened.note_fingerprints());
    }
}

/// A command that changes the mode at this time writes the label anyway.
fn note_clean(opened: &Mutex<Option<OpenCache>>) {
    let Ok(mut opened) = opened.try_lock() else { return };
    if let Some(Err(error)) = opened.as_mut().map(|opened| block_on(opened.note_clean())) {
        eprintln!("note: the label does not say that nothing is dirty: {error}");
    }
}

#[cfg(test)]
mod tests {
    use larder_block::cache::Mode;
    use larder_block::layout::CoreId;
    use larder_block::layout::log::LogOptions;
    use larder_block::manage::{self, Core, CreateOptions, LayoutOptions, OpenOptions};
    use larder_device::label::AREA_BYTES;
    use larder_device::{Device, Io, IoBuffer, MemoryDevice, PlacementHandle};

    use super::*;

    /// Dirty data get into the fingerprint of their core before a stop, so that a killed cache recognises its core.
    #[test]
    fn fingerprints_are_brought_up_to_date_while_a_cache_runs() {
        let memory = || Arc::new(MemoryDevice::holding(vec![0; 8 << 20])) as Arc<dyn Device>;
        let (device, id) = (memory(), CoreId::new(0).unwrap());
        let core = Core { id, name: "core".to_owned(), device: memory() };
        let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
        let (layout, mode) = (LayoutOptions::Log(log), Mode::WriteBack);
        let options = CreateOptions { layout, mode, ..CreateOptions::default() };
        block_on(manage::create(&device, std::slice::from_ref(&core), &options)).unwrap();
        let opened = block_on(manage::open(&device, &[core], &OpenOptions::default())).unwrap();
        let cache = opened.cache.clone();
        let fingerprint = || {
            let buffer = IoBuffer::zeroed(64 << 10);
            block_on(device.submit(Io::Read { offset: AREA_BYTES, buffer })).unwrap()
        };
        let before = fingerprint();
        // About one block in 12 is chosen for the fingerprint, by the UUID: at most two of these three are.
        for block in [1001, 1005, 1009] {
            let buffer = IoBuffer::zeroed(4096);
            let write = Io::write(4096 * block, buffer, PlacementHandle::DEFAULT);
            block_on(cache.core(id).unwrap().submit(write)).unwrap();
        }
        assert_eq!(fingerprint().as_slice(), before.as_slice(), "a dirty block is on no core");
        let opened = Arc::new(Mutex::new(Some(opened)));
        let _keeper = Keeper::noting(cache, opened, Duration::from_millis(10)).unwrap();
        let begun = RealClock.monotonic();
        while fingerprint().as_slice() == before.as_slice() {
            assert!(RealClock.monotonic() - begun < Duration::from_secs(10), "nothing is written");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
