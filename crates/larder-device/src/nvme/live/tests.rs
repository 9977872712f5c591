//! Counters of the model's controller, read on request and by the thread.

use super::*;
use crate::drive_report::Written;
use crate::nvme::{CommandError, ModelDrive};
use larder_ssd::nvme::Command;
use larder_ssd::nvme::event::EventType;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A drive that tests write to without the polling thread's knowledge.
#[derive(Clone)]
struct Shown {
    drive: Arc<ModelDrive>,
    nsid: u32,
    gone: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Shown {
    fn new(fdp: bool) -> Self {
        let (drive, nsid) = ModelDrive::cramped(fdp);
        let drive = Arc::new(drive);
        Self { drive, nsid, gone: Arc::default(), asked: Arc::default() }
    }

    fn write(&self, blocks: impl Iterator<Item = u64>) {
        for block in blocks {
            let command = Command::write(self.nsid, block, 1, None);
            self.drive.io(&command, &mut [1; 4096]).unwrap();
        }
    }

    fn report_moves(&self) {
        let types = &mut [EventType::MediaReallocated.to_byte()];
        self.drive.admin(&Command::set_events(self.nsid, 0, 1, true), types).unwrap();
    }

    fn counters(&self, interval: Option<Duration>, own: u64) -> LiveCounters {
        let watched = Watched {
            path: "test".to_owned(),
            nsid: self.nsid,
            block_bytes: 4096,
            range: 4096..4_096_000,
            handles: 1,
        };
        LiveCounters::start(Ok(Box::new(self.clone())), watched, interval, move || own).unwrap()
    }
}

impl Commands for Shown {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.gone.load(Ordering::Relaxed) {
            return Err(CommandError::Os(io::ErrorKind::NotFound.into()));
        }
        self.drive.admin(command, data)
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.drive.io(command, data)
    }
}

#[test]
fn what_was_written_before_it_was_opened_is_not_counted() {
    let drive = Shown::new(true);
    drive.write(0..1000);
    let counters = drive.counters(None, 500 * 4096);
    assert!(!counters.is_asking(), "no thread was requested");
    let mut random = fastrand::Rng::with_seed(1);
    drive.write((0..2000).map(|_| random.u64(0..1000)));
    assert_eq!(counters.report().since_open, Some(Written::default()), "no query was sent since");
    let report = counters.refresh();
    let written = report.since_open.unwrap();
    assert_eq!((written.host_bytes, report.used_percent), (2000 * 4096, Some(0)));
    assert!(written.dlwa().unwrap() > 1.2, "{written:?}");
    assert_eq!(report.recent, report.since_open);
    let all = report.counters.unwrap();
    assert_eq!(u128::from(written.media_bytes), all.media_bytes - 1000 * 4096);
    assert_eq!(report.beyond_own_bytes(), Some(written.media_bytes - 500 * 4096));
    assert_eq!((report.looks, report.unavailable.len()), (2, 0));
}

#[test]
fn moved_data_is_counted_once_and_has_a_place_on_the_device() {
    let drive = Shown::new(true);
    drive.report_moves();
    drive.write(0..1000);
    let mut random = fastrand::Rng::with_seed(1);
    let mut churn = |writes: usize| drive.write((0..writes).map(|_| random.u64(0..1000)));
    churn(500);
    let counters = drive.counters(None, 0);
    assert_eq!(counters.report().moves_seen, 0, "those were before");
    let code = EventType::MediaReallocated.to_byte();
    let mut blocks = 0;
    for _ in 0..20 {
        churn(60);
        let report = counters.refresh();
        assert_eq!(report.events, [(code, report.moves_seen)]);
        assert_eq!(report.event_gaps, 0);
        let again = counters.refresh();
        assert_eq!(again.moves_seen, report.moves_seen, "nothing was moved between the two");
        blocks = report.moves.iter().map(|one| one.bytes / 4096).sum::<u64>();
    }
    let report = counters.report();
    assert!(report.moves_seen > 20 && report.moves.len() as u64 == report.moves_seen);
    let written = report.since_open.unwrap();
    assert_eq!(blocks * 4096, written.media_bytes - written.host_bytes, "all that was copied");
    assert!(report.moves.iter().flat_map(|one| one.offset).all(|at| at < 4_096_000 - 4096));
    assert!(report.moves.iter().filter(|one| one.offset.is_some()).count() > 10);
}

/// Closes the units that placement handles 1 and 2 of a drive with four fill, and reports the handles of the events, on
/// a device that uses `handles` of them.
fn handles_of_closed_units(handles: u16) -> (Vec<Option<u16>>, Vec<(u8, u64)>) {
    let (drive, nsid) = ModelDrive::with_handles(&[0, 3, 2, 1]);
    let shown = Shown { drive: Arc::new(drive), nsid, gone: Arc::default(), asked: Arc::default() };
    let code = EventType::UnitNotFullyWritten.to_byte();
    for handle in 0..4 {
        let command = Command::set_events(nsid, handle, 1, true);
        shown.drive.admin(&command, &mut [code]).unwrap();
    }
    let watched =
        Watched { path: "test".to_owned(), nsid, block_bytes: 4096, range: 0..4_096_000, handles };
    let counters = LiveCounters::start(Ok(Box::new(shown.clone())), watched, None, || 0).unwrap();
    assert!(counters.report().handles.is_empty());
    for identifier in [1_u16, 2] {
        let write = Command::write(nsid, u64::from(identifier), 1, Some(identifier));
        shown.drive.io(&write, &mut [1; 4096]).unwrap();
        let update = Command::handle_update(nsid, 1);
        shown.drive.io(&update, &mut identifier.to_le_bytes()).unwrap();
    }
    let report = counters.refresh();
    assert!(report.unavailable.is_empty(), "{report:?}");
    assert!(report.handles.iter().all(|it| it.last_read_at > Some(Duration::from_secs(1))));
    let handles = report.handles.iter().map(|it| it.handle.map(|handle| handle.index()));
    (handles.collect(), report.events.clone())
}

#[test]
fn events_belong_to_the_handles_of_the_device() {
    let code = EventType::UnitNotFullyWritten.to_byte();
    assert_eq!(handles_of_closed_units(4), (vec![Some(1), Some(2)], vec![(code, 2)]));
    let without_placement = (vec![None], vec![(code, 2)]);
    assert_eq!(handles_of_closed_units(1), without_placement, "others use those handles");
}

#[test]
fn a_log_that_went_round_has_a_gap() {
    let event = |timestamp_ms| Event { timestamp_ms, ..Event::of(EventType::ControllerReset) };
    let events = |from: u64, to: u64| (from..to).map(event).collect::<Vec<_>>();
    let mut log = EventLog::default();
    assert_eq!(log.new_ones(events(0, 10)), (vec![], false));
    assert_eq!(log.new_ones(events(0, 12)), (events(10, 12), false));
    assert_eq!(log.new_ones(events(5, 68)), (events(12, 68), false));
    assert_eq!(log.new_ones(events(5, 68)), (vec![], false));
    let newest_first: Vec<_> = events(6, 69).into_iter().rev().collect();
    assert_eq!(log.new_ones(newest_first), (events(68, 69), false));
    assert_eq!(log.new_ones(events(100, 163)), (events(100, 163), true));
    assert_eq!(log.new_ones(vec![]), (vec![], false));
}

#[test]
fn a_drive_that_is_gone_leaves_what_it_said() {
    let drive = Shown::new(true);
    let counters = drive.counters(None, 0);
    drive.write(0..10);
    let before = counters.refresh();
    drive.gone.store(true, Ordering::Relaxed);
    let after = counters.refresh();
    assert_eq!((after.since_open, after.looks), (before.since_open, before.looks));
    let silent: Vec<_> = after.unavailable.iter().map(|unsaid| unsaid.what).collect();
    assert_eq!(silent, ["host and media bytes", "percentage used", "FDP events"]);
}

#[test]
fn without_permission_counters_have_a_reason_and_no_thread() {
    let watched =
        Watched { path: "it".to_owned(), nsid: 1, block_bytes: 512, range: 0..1, handles: 1 };
    let denied = Err(io::ErrorKind::PermissionDenied.into());
    let interval = Some(Duration::from_secs(1));
    let counters = LiveCounters::start(denied, watched, interval, || 0).unwrap();
    assert!(!counters.is_asking());
    let report = counters.report();
    assert_eq!((report.since_open, report.looks, report.beyond_own_bytes()), (None, 0, None));
    assert_eq!(report.unavailable.len(), 3);
    assert!(report.unavailable[0].why.contains("permission denied"), "{report:?}");
}

#[test]
fn a_thread_asks_until_it_is_dropped() {
    let drive = Shown::new(true);
    let counters = drive.counters(Some(Duration::from_millis(1)), 0);
    assert!(counters.is_asking());
    drive.write(0..10);
    while counters.report().since_open.unwrap().host_bytes < 10 * 4096 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(counters);
    let asked = drive.asked.load(Ordering::Relaxed);
    drive.write(0..10);
    assert_eq!(drive.asked.load(Ordering::Relaxed), asked, "the thread has ended");
}

#[test]
fn counters_in_billions_are_shown_and_not_reckoned_with() {
    let drive = Shown::new(false);
    let counters = drive.counters(None, 0);
    drive.write(0..10);
    let report = counters.refresh();
    assert_eq!(report.since_open.unwrap().host_bytes, 1_000_000_000);
    assert_eq!(report.beyond_own_bytes(), None);
    assert!(report.unavailable.iter().any(|unsaid| unsaid.what == "FDP events"), "{report:?}");
}
