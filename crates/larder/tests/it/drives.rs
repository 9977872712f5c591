//! Data reported by a drive reach the cache's statistics, its forecast and its budget.

use std::sync::{Arc, Mutex};

use larder::plan::Class;
use larder::{
    AdmissionPolicy, Config, Endurance, HandleReport, Larder, StreamReport, Tenant, Tenants,
    TenantsConfig, VirtualClock, block_on,
};
use larder_device::nvme::{DriveReport, FdpCounters, HandleEvents, Move, Written};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, IoFuture, MemoryDevice, ModelDevice, Payload,
    PlacementHandle, StripedDevice,
};
use larder_ssd::managed::{Geometry, ManagedConfig};

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
        report.moves =
            moves.iter().map(|&(offset, bytes)| Move { bytes, offset, handle: None }).collect();
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

/// A drive with little room to spare, and with or without placement, that reports of itself.
fn model(fdp: bool, clock: &Arc<VirtualClock>) -> Arc<ModelDevice> {
    let geometry = Geometry::with_overprovisioning(32 << 20, 256 << 10, 12.0).unwrap();
    let model = ManagedConfig { fdp, ..ManagedConfig::new(geometry) };
    let drive = ModelDevice::new(model, Payload::Memory).unwrap();
    Arc::new(drive.reporting("model:32M", Arc::clone(clock) as _))
}

/// Two tenants on the drive, after a lot of writes of the first one.
fn busy_tenants(drive: &Arc<ModelDevice>, clock: &Arc<VirtualClock>) -> Tenants {
    let tenant = |name: &str| Tenant { config: config(), ..Tenant::new(name, 50.0) };
    let settings = TenantsConfig {
        dram_bytes: 4 << 20,
        tenants: vec![tenant("pages"), tenant("photos")],
        ..TenantsConfig::default()
    };
    let device = Some(Arc::clone(drive) as Arc<dyn Device>);
    let tenants = block_on(Tenants::open(settings, device, Arc::clone(clock) as _)).unwrap();
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..60_000 {
        let key = rng.u32(..60_000).to_le_bytes();
        let bytes = if rng.u8(..) < 8 { 30_000 } else { 400 };
        block_on(tenants.tenant("pages").unwrap().set(&key, &vec![1; bytes], None)).unwrap();
    }
    clock.advance_to(std::time::Duration::from_secs(60));
    write(tenants.tenant("photos").unwrap(), 0..100);
    tenants
}

fn handles(tenants: &Tenants) -> Vec<HandleReport> {
    HandleReport::of_all(tenants.iter().map(|(_, cache)| cache))
}

fn stream(tenants: &Tenants, tenant: &str, class: Class) -> StreamReport {
    let reports = tenants.tenant(tenant).unwrap().stream_reports();
    reports.into_iter().find(|it| it.assignment.class == class).unwrap()
}

#[test]
fn a_handle_that_all_share_names_all_and_counts_once() {
    let clock = Arc::new(VirtualClock::default());
    let drive = model(false, &clock);
    let tenants = busy_tenants(&drive, &clock);
    let counted = drive.with_ssd(|ssd| ssd.event_counts().media_reallocated);
    let copied = drive.stats().copied_bytes.unwrap();
    assert!(counted > 100 && copied > 0);
    let handles = handles(&tenants);
    assert_eq!(handles.iter().map(|it| it.events.moves()).sum::<u64>(), counted);
    assert_eq!(handles.iter().map(|it| it.events.moved_bytes).sum::<u64>(), copied);
    let [mixed, all] = handles.as_slice() else { panic!("{handles:?}") };
    assert_eq!((mixed.events.handle, mixed.stream_names().as_str()), (None, "mixed"));
    assert_eq!(all.tenant_names(), "pages + photos");
    let names = all.stream_names();
    for name in ["pages SOC", "pages LOC", "photos SOC", "photos LOC", "photos metadata"] {
        assert!(names.split(" + ").any(|it| it == name), "{names}");
    }
    for tenant in ["pages", "photos"] {
        let loc = stream(&tenants, tenant, Class::Loc);
        assert_eq!((loc.path, loc.events.moves()), ("none", all.events.moves()));
    }
    let written = |tenant| stream(&tenants, tenant, Class::Soc).handle_written_bytes.unwrap();
    assert!(written("pages") > 10 * written("photos"), "each tenant has its own bytes");
}

#[test]
fn a_stream_with_a_handle_of_its_own_has_its_own_events() {
    let clock = Arc::new(VirtualClock::default());
    let drive = model(true, &clock);
    let tenants = busy_tenants(&drive, &clock);
    let counted = drive.with_ssd(|ssd| ssd.event_counts().media_reallocated);
    let handles = handles(&tenants);
    assert_eq!(handles.iter().map(|it| it.events.moves()).sum::<u64>(), counted);
    let soc = stream(&tenants, "pages", Class::Soc);
    assert!(soc.path == "model" && soc.events.moves() > 0, "{soc:?}");
    let own = handles.iter().find(|it| it.events.handle == Some(soc.assignment.handle)).unwrap();
    assert_eq!((own.stream_names(), own.tenant_names()), ("SOC".to_owned(), "pages".to_owned()));
    assert_eq!(own.events, soc.events);
    let idle = stream(&tenants, "photos", Class::Soc);
    assert_eq!((idle.events.moves(), idle.events.last_read_at), (0, None));
    assert!(soc.handle_written_bytes > idle.handle_written_bytes);
}

/// Striped drives have the same handles: a stream has the events of all, and each drive has its own.
#[test]
fn events_of_several_drives_are_those_of_the_stream() {
    let told = |path: &str| {
        let drive = Told::new();
        let handle = Some(PlacementHandle::DEFAULT);
        let events = HandleEvents { handle, events: vec![(0x80, 3)], ..HandleEvents::default() };
        let mut report = drive.report.lock().unwrap();
        (report.path, report.looks, report.handles) = (path.to_owned(), 1, vec![events]);
        drop(report);
        drive
    };
    let device: Arc<dyn Device> =
        Arc::new(StripedDevice::new(vec![told("a"), told("b")], 1 << 20).unwrap());
    let cache = Larder::open(config(), Some(device), Arc::new(VirtualClock::default()));
    let cache = block_on(cache).unwrap();
    assert!(cache.stream_reports().iter().all(|stream| stream.events.moves() == 6));
    let handles = HandleReport::of_all([&cache, &cache]);
    let moves: Vec<_> = handles.iter().map(|it| (it.drive.as_str(), it.events.moves())).collect();
    assert_eq!(moves, [("a", 0), ("a", 3), ("b", 0), ("b", 3)]);
}
