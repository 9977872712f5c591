//! Data reported by a drive reach the cache's statistics, its forecast and its budget.

use std::sync::{Arc, Mutex};

use larder::{AdmissionPolicy, Config, Endurance, Larder, VirtualClock, block_on};
use larder_device::nvme::{DriveReport, FdpCounters, Move, Written};
use larder_device::{CheckedIo, Device, DeviceInfo, DeviceStats, IoFuture, MemoryDevice};

use crate::rig::config;

const DAY_S: u64 = 86_400;

/// A memory device with the drive report that the test sets.
struct Told {
    memory: MemoryDevice,
    report: Mutex<DriveReport>,
}

impl Told {
    fn new() -> Arc<Self> {
        let report = DriveReport { path: "/dev/nvme0n1".to_owned(), ..DriveReport::default() };
        let memory = MemoryDevice::holding(vec![0; 16 << 20]);
        Arc::new(Self { memory, report: Mutex::new(report) })
    }

    /// Reports `amplification` media bytes for each byte written so far.
    fn counts(&self, amplification: u64) {
        let own_written_bytes = self.memory.stats().host_written_bytes;
        let media_bytes = own_written_bytes * amplification;
        let mut report = self.report.lock().unwrap();
        report.own_written_bytes = own_written_bytes;
        report.counters = Some(FdpCounters {
            host_bytes: own_written_bytes.into(),
            media_bytes: media_bytes.into(),
            erased_bytes: Some(0),
        });
        report.since_open =
            Some(Written { host_bytes: own_written_bytes, media_bytes, ..Written::default() });
    }

    fn moves(&self, moves: &[(Option<u64>, u64)]) {
        let mut report = self.report.lock().unwrap();
        report.moves = moves.iter().map(|&(offset, bytes)| Move { bytes, offset }).collect();
        report.moves_seen += moves.len() as u64;
    }
}

impl Device for Told {
    fn info(&self) -> &DeviceInfo {
        self.memory.info()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.memory.start(io)
    }

    fn stats(&self) -> DeviceStats {
        let report = self.report.lock().unwrap().clone();
        DeviceStats { drives: vec![Arc::new(report)], ..self.memory.stats() }
    }
}

fn open(config: Config, drive: &Arc<Told>) -> (Larder, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::default());
    let device = Arc::clone(drive) as Arc<dyn Device>;
    (block_on(Larder::open(config, Some(device), Arc::clone(&clock) as _)).unwrap(), clock)
}

#[test]
fn moved_data_belongs_to_an_engine_and_counts_once() {
    let drive = Told::new();
    let (cache, _) = open(Config { utilization_percent: 90.0, ..config() }, &drive);
    let layout = *cache.layout().unwrap();
    let last = layout.capacity_bytes - 4096;
    drive.moves(&[
        (Some(0), 4096),
        (Some(layout.loc_offset), 8192),
        (Some(layout.soc_offset - 1), 1),
        (Some(layout.soc_offset), 100),
        (Some(layout.usable_bytes - 1), 0),
        (Some(last), 7),
        (None, 9),
    ]);
    for _ in 0..2 {
        let stats = cache.stats();
        assert_eq!((stats.drive_moves_of_metadata, stats.drive_moved_metadata_bytes), (1, 4096));
        assert_eq!((stats.drive_moves_of_loc, stats.drive_moved_loc_bytes), (2, 8193));
        assert_eq!((stats.drive_moves_of_soc, stats.drive_moved_soc_bytes), (2, 100));
        assert_eq!((stats.drive_moves_of_others, stats.drive_moved_other_bytes), (2, 16));
        assert_eq!(stats.drives[0].moves_seen, 7);
    }
    // The list is bounded: moves that fell out of it have no owner.
    drive.report.lock().unwrap().moves_seen += 5;
    drive.moves(&[(Some(layout.soc_offset), 50)]);
    let stats = cache.stats();
    assert_eq!((stats.drive_moves_of_soc, stats.drive_moved_soc_bytes), (3, 150));
    assert_eq!((stats.drive_moves_of_others, stats.drive_moved_other_bytes), (7, 16));
}

fn write(cache: &Larder, keys: std::ops::Range<u32>) {
    for key in keys {
        block_on(cache.set(&key.to_le_bytes(), &[1; 2000], None)).unwrap();
    }
}

#[test]
fn the_forecast_is_of_what_the_drive_wrote_to_its_media() {
    let drive = Told::new();
    let endurance = Endurance { rated_bytes: 1 << 40, written_bytes: 0 };
    let (cache, clock) = open(Config { endurance: Some(endurance), ..config() }, &drive);
    let written = |cache: &Larder| cache.stats().drive_life.unwrap().written_bytes;
    let host = || drive.memory.stats().host_written_bytes;
    // Bytes written before the cache started counting.
    let before = host() - written(&cache);
    write(&cache, 0..4000);
    clock.advance_to(std::time::Duration::from_secs(3600));
    assert!(written(&cache) > 1 << 20);
    assert_eq!(written(&cache), host() - before, "the drive has said nothing yet");
    drive.counts(3);
    let counted = host();
    assert_eq!(written(&cache), 3 * counted - before);
    write(&cache, 4000..5000);
    assert!(host() > counted);
    assert_eq!(written(&cache), 2 * counted + host() - before, "what came since counts once");
}

/// If a drive writes three bytes for one, a third of the bytes may be admitted.
#[test]
fn the_budget_pays_for_what_the_drive_wrote_to_its_media() {
    let day_of = |amplification| {
        let drive = Told::new();
        let admission = AdmissionPolicy::Budget { bytes_per_day: 32 << 20 };
        let (cache, clock) = open(Config { admission, ..config() }, &drive);
        let opened_with = drive.memory.stats().host_written_bytes;
        for minute in 0..DAY_S / 60 {
            clock.advance_to(std::time::Duration::from_secs(60 * minute));
            let first = u32::try_from(minute).unwrap() * 60;
            write(&cache, first..first + 60);
            drive.counts(amplification);
        }
        drive.memory.stats().host_written_bytes - opened_with
    };
    let (one, three) = (day_of(1), day_of(3));
    let ratio = u128::from(one) * 100 / u128::from(three);
    assert!((270..330).contains(&ratio), "{one} bytes, and {three}");
}
