//! What a simulated drive reports of itself, as a drive of NVMe does in its log pages.
//!
//! The events of a request are counted when it ends, so no log can overflow between two reports.

use std::sync::Arc;
use std::time::Duration;

use larder_ssd::managed::{Event, EventRecord, GcDestination, ManagedSsd, PAGE_BYTES, Placement};
use larder_ssd::nvme::event::EventType;

use crate::clock::Clock;
use crate::drive_report::{DriveReport, FdpCounters};
use crate::event_tally::EventTally;
use crate::nvme::Watch;
use crate::nvme::watch::Sample;
use crate::placement::PlacementHandle;

/// The span that counts as recent.
const RECENT: Duration = Duration::from_secs(300);
/// At this interval a sample of the counters is kept, if there are requests for a report.
const INTERVAL: Duration = Duration::from_secs(5);
/// The reported group of a drive that has only one.
const GROUP: u16 = 1;

/// The report of a drive since it was opened.
pub(super) struct Reporting {
    clock: Arc<dyn Clock>,
    start: Sample,
    watch: Watch,
    events: EventTally,
    report: DriveReport,
}

impl Reporting {
    /// Counts from now on.
    pub(super) fn start(path: String, clock: Arc<dyn Clock>, ssd: &mut ManagedSsd) -> Self {
        ssd.keep_event_record(true);
        let mut watch = Watch::new(GROUP, INTERVAL, RECENT);
        let start = watch.add(clock.monotonic(), counters(ssd));
        let report = DriveReport { path, ..DriveReport::default() };
        Self { clock, start, watch, events: EventTally::default(), report }
    }

    /// Counts the events of the last request.
    pub(super) fn hear(&mut self, ssd: &mut ManagedSsd) {
        let EventRecord { events, moved_pages } = ssd.take_event_record();
        if events.is_empty() {
            return;
        }
        let config = ssd.config();
        let number = |placement: Placement| {
            let first = placement.group.saturating_mul(config.handles.max(1));
            PlacementHandle::new(first.saturating_add(placement.handle))
        };
        // NVMe has "media reallocated" for initially isolated handles alone.
        let tells_moves = config.gc_destination != GcDestination::PerHandle;
        let now = self.clock.now();
        let mut moved_pages = moved_pages.into_iter();
        for event in events {
            match event {
                Event::NotFullyWritten { placement, .. } => {
                    let code = EventType::UnitNotFullyWritten.to_byte();
                    self.events.count(now, code, Some(number(placement)), None);
                }
                Event::MediaReallocated { source, pages, .. } => {
                    let first = moved_pages.next();
                    moved_pages.by_ref().take((pages as usize).saturating_sub(1)).for_each(drop);
                    if tells_moves {
                        let code = EventType::MediaReallocated.to_byte();
                        let bytes = u64::from(pages) * PAGE_BYTES;
                        let moved = Some((bytes, first.map(|page| page * PAGE_BYTES)));
                        self.events.count(now, code, source.map(number), moved);
                    }
                }
                _ => {}
            }
        }
    }

    /// The report as of now.
    pub(super) fn report(&mut self, ssd: &ManagedSsd) -> Arc<DriveReport> {
        let counters = counters(ssd);
        let newest = Sample { at: self.clock.monotonic(), counters };
        if self.watch.next_at().is_none_or(|next| next <= newest.at) {
            self.watch.add(newest.at, counters);
        }
        let report = &mut self.report;
        report.looks += 1;
        report.counters = Some(counters);
        report.since_open = self.start.to(&newest).map(|interval| interval.written());
        report.recent = self.watch.until(&newest, RECENT).map(|interval| interval.written());
        report.own_written_bytes = report.since_open.map_or(0, |written| written.host_bytes);
        self.events.show_in(report, self.clock.now());
        Arc::new(report.clone())
    }
}

fn counters(ssd: &ManagedSsd) -> FdpCounters {
    let stats = ssd.stats();
    FdpCounters {
        host_bytes: stats.host_bytes().into(),
        media_bytes: stats.media_bytes().into(),
        erased_bytes: Some((stats.erased_units * ssd.config().geometry.unit_bytes()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;
    use crate::clock::VirtualClock;
    use crate::device::Device;
    use crate::drive_report::MOVES_MAX;
    use crate::io::Io;
    use crate::model::{ModelDevice, Payload};
    use larder_ssd::managed::{Geometry, ManagedConfig};

    const SECOND: Duration = Duration::from_secs(1);

    fn drive(config: impl Fn(&mut ManagedConfig)) -> (ModelDevice, Arc<VirtualClock>) {
        let geometry = Geometry { logical_pages: 4000, pages_per_unit: 32, units: 150 };
        let mut settings = ManagedConfig { handles: 4, ..ManagedConfig::new(geometry) };
        config(&mut settings);
        let clock = Arc::new(VirtualClock::starting_at(SECOND * 1000));
        let device = ModelDevice::new(settings, Payload::None).unwrap();
        (device.reporting("model:test", Arc::clone(&clock) as _), clock)
    }

    fn write(device: &ModelDevice, page: u64, handle: u16) {
        let io = Io::write(page * 4096, IoBuffer::zeroed(4096), PlacementHandle::new(handle));
        device.submit(io).wait().unwrap();
    }

    /// Writes pages at random under handle 1, and others in order under handle 2, a unit of which is dropped before it
    /// is written again.
    fn churn(device: &ModelDevice, writes: u64) {
        let mut rng = fastrand::Rng::with_seed(7);
        for number in 0..writes {
            write(device, rng.u64(..2000), 1);
            let page = 2000 + number % 1984;
            if number % 32 == 0 {
                let io = Io::Deallocate { offset: page * 4096, bytes: 32 * 4096 };
                device.submit(io).wait().unwrap();
            }
            write(device, page, 2);
        }
    }

    fn report(device: &ModelDevice) -> Arc<DriveReport> {
        Arc::clone(&device.stats().drives[0])
    }

    #[test]
    fn every_copied_page_is_in_an_event_of_a_handle() {
        let (device, clock) = drive(|_| ());
        churn(&device, 20_000);
        clock.advance_to(SECOND * 1010);
        let report = report(&device);
        let all: u64 = report.handles.iter().map(|it| it.moved_bytes).sum();
        assert_eq!(Some(all), device.stats().copied_bytes);
        let counts = device.with_ssd(|ssd| ssd.event_counts());
        assert_eq!(report.moves_seen, counts.media_reallocated, "no event is missed");
        assert!(report.moves_seen > MOVES_MAX as u64, "more than a log or the list holds");
        let of = |handle| report.handles.iter().find(|it| it.handle == handle);
        let random = of(Some(PlacementHandle::new(1))).unwrap();
        assert!(random.moves() > 0 && random.last_read_at == Some(SECOND * 1000), "{random:?}");
        assert_eq!(of(Some(PlacementHandle::new(2))), None, "what is written in order stays");
        assert!(of(None).unwrap().moves() > 0, "units of moved data belong to no handle");
        let written = report.since_open.unwrap();
        assert!(written.dlwa().unwrap() > 1.05 && written.span == SECOND * 10, "{written:?}");
        assert_eq!(report.beyond_own_bytes(), Some(all));
    }

    /// A long write makes several events. Each names an address of its own data.
    #[test]
    fn each_event_of_a_request_has_its_own_address() {
        let (device, _) = drive(|_| ());
        let mut rng = fastrand::Rng::with_seed(7);
        let mut several = 0;
        for _ in 0..2_000 {
            for _ in 0..8 {
                write(&device, rng.u64(..2000), 1);
                write(&device, 2000 + rng.u64(..2000), 2);
            }
            let before = device.with_ssd(|ssd| ssd.event_counts().media_reallocated);
            let buffer = IoBuffer::zeroed(96 * 4096);
            let io = Io::write(rng.u64(..1900) * 4096, buffer, PlacementHandle::new(1));
            device.submit(io).wait().unwrap();
            let after = device.with_ssd(|ssd| ssd.event_counts().media_reallocated);
            several += u32::from(after > before + 1);
            for one in &report(&device).moves {
                let page = one.offset.unwrap() / 4096;
                match one.handle.map(PlacementHandle::index) {
                    Some(1) => assert!(page < 2000, "{one:?}"),
                    Some(2) => assert!(page >= 2000, "{one:?}"),
                    _ => assert!(one.handle.is_none() && page < 4000, "{one:?}"),
                }
            }
        }
        assert!(several > 1000, "{several}");
    }

    #[test]
    fn data_on_one_handle_moves_under_that_handle() {
        let (device, _) = drive(|config| config.fdp = false);
        let mut rng = fastrand::Rng::with_seed(7);
        (0..20_000).for_each(|_| write(&device, rng.u64(..4000), 0));
        let report = report(&device);
        let of_default = report.handles.iter().find(|it| it.handle.is_some()).unwrap();
        assert_eq!(of_default.handle, Some(PlacementHandle::DEFAULT));
        assert!(of_default.moves() > 100, "{of_default:?}");
    }

    #[test]
    fn persistently_isolated_handles_have_no_such_event() {
        let (device, _) = drive(|config| config.gc_destination = GcDestination::PerHandle);
        churn(&device, 20_000);
        assert!(device.stats().copied_bytes > Some(0));
        assert!(report(&device).events.is_empty());
    }

    #[test]
    fn recent_is_five_minutes() {
        let (device, clock) = drive(|_| ());
        for second in 0..1000 {
            clock.advance_to(SECOND * (1000 + second));
            write(&device, 0, 1);
            let report = report(&device);
            assert_eq!(report.since_open.unwrap().host_bytes, u64::from(second + 1) * 4096);
        }
        let recent = report(&device).recent.unwrap();
        assert!((300..=305).contains(&recent.span.as_secs()), "{recent:?}");
        assert_eq!(recent.host_bytes, recent.span.as_secs() * 4096);
    }

    #[test]
    fn what_does_not_report_keeps_nothing() {
        let (device, _) = drive(|_| ());
        device.stats();
        let silent =
            ModelDevice::new(device.with_ssd(|ssd| ssd.config().clone()), Payload::None).unwrap();
        churn(&silent, 5_000);
        assert!(silent.stats().drives.is_empty());
        let record = silent.lock().ssd.take_event_record();
        assert!(record.events.is_empty());
    }
}
