//! The life of a cache on its devices: what a start finds.

mod attach;
mod cores;
mod crash;
mod errors;
mod file_systems;
mod fingerprints;
mod left;
mod live_cores;
mod metadata;
mod missing;
mod mode;
mod overlapping;
mod power;
mod refusals;

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::cache::{CacheOptions, Health, Mode};
use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::{
    ChangedCore, Core, CreateOptions, LayoutOptions, OpenCache, OpenOptions, create, open,
};
use larder_block::policy::CutOffPolicy;
use larder_device::label::Uuid;
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, HeldDevice, Io, IoBuffer, MemoryDevice,
    PlacementHandle, block_on,
};

use super::rig::core;

const MIB: usize = 1 << 20;

type DynDevice = Arc<dyn Device>;

fn memory(bytes: usize) -> DynDevice {
    Arc::new(MemoryDevice::holding(vec![0; bytes]))
}

fn held_device(bytes: usize) -> Arc<HeldDevice<MemoryDevice>> {
    let below = MemoryDevice::with_blocks(vec![0; bytes], 4096).unwrap();
    Arc::new(HeldDevice::new(below))
}

/// Whether the request changes data.
fn is_change(io: &Io) -> bool {
    !matches!(io, Io::Read { .. } | Io::Flush)
}

fn log() -> CreateOptions {
    let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    let layout = LayoutOptions::Log(log);
    CreateOptions { layout, mode: Mode::WriteBack, ..CreateOptions::default() }
}

fn layouts() -> Vec<CreateOptions> {
    let ocf = |version| LayoutOptions::Ocf(OcfOptions { version, line_bytes: 4096 });
    let of = |layout| CreateOptions { layout, ..log() };
    let mut all = vec![log()];
    all.extend(OcfVersion::ALL.map(|version| of(ocf(version))));
    all
}

fn options() -> OpenOptions {
    let cache = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    OpenOptions { cache, ..OpenOptions::default() }
}

struct Rig {
    device: DynDevice,
    cores: Vec<Core>,
}

impl Rig {
    fn new() -> Self {
        let of = |number: u16| Core {
            id: core(number),
            name: format!("core-{number}"),
            device: memory(16 * MIB),
        };
        Self { device: memory(8 * MIB), cores: vec![of(0), of(5)] }
    }

    /// A rig whose cache device fails on demand.
    fn failing() -> (Self, Arc<FaultDevice<DynDevice>>) {
        let failing = Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
        let device = Arc::clone(&failing) as DynDevice;
        (Self { device, ..Self::new() }, failing)
    }

    fn create(&self, options: &CreateOptions) -> Uuid {
        block_on(create(&self.device, &self.cores, options)).unwrap()
    }

    fn open(&self) -> OpenCache {
        block_on(open(&self.device, &self.cores, &options())).unwrap()
    }

    /// The error with which a start is refused. Checks that the refused start writes nothing.
    fn refusal(&self, options: &OpenOptions) -> (ErrorKind, String) {
        let before = self.written();
        let error = block_on(open(&self.device, &self.cores, options)).err().expect("refused");
        assert_eq!(self.written(), before, "{error}");
        (error.kind(), error.to_string())
    }

    fn written(&self) -> Vec<u64> {
        let all = self.cores.iter().map(|core| &core.device).chain([&self.device]);
        all.map(|device| device.stats().host_written_bytes).collect()
    }
}

fn write(device: &dyn Device, offset: u64, fill: u8, bytes: usize) {
    let mut buffer = IoBuffer::zeroed(bytes);
    buffer.as_mut_slice().fill(fill);
    device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
}

fn read(device: &dyn Device, offset: u64, bytes: usize) -> Vec<u8> {
    let read = device.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) }).wait().unwrap();
    read.as_slice().to_vec()
}

fn write_to(opened: &OpenCache, number: u16, offset: u64, fill: u8, bytes: usize) {
    write(&opened.cache.core(core(number)).unwrap(), offset, fill, bytes);
}

fn read_from(opened: &OpenCache, number: u16, offset: u64, bytes: usize) -> Vec<u8> {
    read(&opened.cache.core(core(number)).unwrap(), offset, bytes)
}

#[test]
fn what_was_written_outlives_a_stop_and_a_crash_in_every_layout() {
    for create in layouts() {
        let rig = Rig::new();
        let uuid = rig.create(&create);
        let first = rig.open();
        write_to(&first, 0, 0, 1, 65536);
        write_to(&first, 5, 8192, 2, 4096);
        block_on(first.stop(false)).unwrap();
        let second = rig.open();
        assert_eq!((second.uuid, second.started.dirty_sectors), (uuid, 136), "{create:?}");
        assert_eq!(second.cache.with(|cache| cache.options().mode), Mode::WriteBack);
        assert!(read_from(&second, 0, 0, 65536) == [1; 65536]);
        write_to(&second, 0, 4096, 3, 4096);
        // As after a crash: memory keeps its content.
        drop(second);
        let third = rig.open();
        assert_eq!(third.started.dirty_sectors, 136);
        assert!(read_from(&third, 0, 4096, 8192)[..4097] == [[3; 4096].as_slice(), &[1]].concat());
        block_on(third.stop(true)).unwrap();
        assert!(read(&*rig.cores[1].device, 8192, 4096) == [2; 4096]);
        assert_eq!(rig.open().started.dirty_sectors, 0);
    }
}

#[test]
fn a_stop_without_dirty_data_writes_label_and_fingerprint_alone() {
    let rig = Rig::new();
    rig.create(&log());
    let opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.cache.clean()).unwrap();
    let before = rig.written();
    block_on(opened.stop(true)).unwrap();
    let after = rig.written();
    assert_eq!(before[..2], after[..2], "cores are not written");
    assert!(after[2] - before[2] <= 3 * 4096, "two copies of a label, and what core 0 is known by");
}

#[test]
fn a_mode_outlives_a_crash_and_leaving_write_back_destages() {
    let rig = Rig::new();
    rig.create(&log());
    let mut opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.set_mode(Mode::WriteThrough, true)).unwrap();
    assert_eq!(opened.cache.with(|cache| cache.usage().dirty_sectors), 0);
    drop(opened);
    let opened = rig.open();
    assert_eq!(opened.stored().mode, Mode::WriteThrough);
    assert!(read(&*rig.cores[0].device, 0, 65536) == [1; 65536]);
}

fn put(device: &DynDevice, offset: u64, bytes: &[u8]) {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
}

/// A cache with clean data of core 0, and with dirty data of core 5 if `with_dirty`. Core 0 is written while the cache
/// is stopped.
fn changed(with_dirty: bool) -> Rig {
    let rig = Rig::new();
    rig.create(&log());
    let mut opened = rig.open();
    write_to(&opened, 0, 0, 1, 2 * MIB);
    block_on(opened.cache.clean()).unwrap();
    block_on(opened.note_clean()).unwrap();
    if with_dirty {
        write_to(&opened, 5, 0, 2, 4096);
    }
    block_on(opened.stop(false)).unwrap();
    write(&*rig.cores[0].device, 0, 9, 2 * MIB);
    rig
}

#[test]
fn clean_data_of_a_core_that_was_written_without_the_cache_are_dropped_for_good() {
    let rig = changed(false);
    let opened = rig.open();
    assert!(opened.started.changed > 0 && opened.started.compared == 32, "{:?}", opened.started);
    assert_eq!(opened.cache.with(|cache| cache.usage().valid_sectors), 0);
    assert!(read_from(&opened, 0, 0, 65536) == [9; 65536]);
    drop(opened);
    let again = rig.open();
    assert_eq!(again.started.changed, 0, "{:?}", again.started);
    assert!(read_from(&again, 0, 1 << 20, 65536) == [9; 65536]);
}

#[test]
fn dirty_data_of_a_core_that_was_written_without_the_cache_need_an_option() {
    let rig = changed(true);
    let (kind, message) = rig.refusal(&options());
    assert!(
        kind == ErrorKind::Changed && message.contains("4096 bytes that only it has"),
        "{message}"
    );
    let told = OpenOptions { changed: ChangedCore::DestageAndDrop, ..options() };
    let opened = block_on(open(&rig.device, &rig.cores, &told)).unwrap();
    assert!(read(&*rig.cores[1].device, 0, 4096) == [2; 4096]);
    assert!(read_from(&opened, 0, 0, 65536) == [9; 65536]);
    assert_eq!(opened.cache.with(|cache| cache.usage().dirty_sectors), 0);
}

/// The device fails everywhere except in its label, then recovers, and its clean data is out of date.
#[test]
fn what_was_written_without_the_cache_device_does_not_come_back_old() {
    let (rig, failing) = Rig::failing();
    rig.create(&log());
    let opened = rig.open();
    write_to(&opened, 0, 0, 1, 2 * MIB);
    block_on(opened.cache.clean()).unwrap();
    let behind_the_label = (32 << 10)..(8 * MIB as u64);
    let rule = FaultRule::new(Fault::Error).within(behind_the_label).on_writes();
    failing.set_plan(&FaultPlan::new(1).with(rule));
    for number in 0..16 {
        write_to(&opened, 0, number * 4096, 9, 4096);
    }
    assert_eq!(opened.cache.with(|cache| cache.health()), Health::Failed);
    assert!(read_from(&opened, 0, 0, 65536) == [9; 65536]);
    drop(opened);
    failing.set_plan(&FaultPlan::new(1));
    let unsampled = OpenOptions { samples: 0, ..options() };
    let opened = block_on(open(&rig.device, &rig.cores, &unsampled)).unwrap();
    assert_eq!(opened.started.compared, 0);
    assert!(
        read_from(&opened, 0, 0, 2 * MIB)[..65536 + 1] == [[9; 65536].as_slice(), &[1]].concat()
    );
    assert_eq!(opened.cache.with(|cache| cache.health()), Health::Whole);
}

/// As above, but the cache is stopped before the device recovers.
#[test]
fn a_stop_does_not_make_believe_in_what_was_given_up() {
    let (rig, failing) = Rig::failing();
    rig.create(&log());
    let opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.cache.clean()).unwrap();
    let rule = FaultRule::new(Fault::Error).within((32 << 10)..(8 * MIB as u64)).on_writes();
    failing.set_plan(&FaultPlan::new(1).with(rule));
    (0..16).for_each(|number| write_to(&opened, 0, number * 4096, 9, 4096));
    failing.set_plan(&FaultPlan::new(1));
    block_on(opened.stop(false)).unwrap();
    let unsampled = OpenOptions { samples: 0, ..options() };
    let opened = block_on(open(&rig.device, &rig.cores, &unsampled)).unwrap();
    assert!(read_from(&opened, 0, 0, 65536) == [9; 65536]);
}

/// The device also refuses writes of its label, and the process is killed some time after the device recovers.
#[test]
fn a_label_that_was_refused_says_what_was_given_up_as_soon_as_it_can() {
    let (rig, failing) = Rig::failing();
    rig.create(&log());
    let mut opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.cache.clean()).unwrap();
    assert!(!opened.cache.with(|cache| cache.has_marked()));
    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    (0..16).for_each(|number| write_to(&opened, 0, number * 4096, 9, 4096));
    assert!(opened.cache.with(|cache| cache.has_marked()));
    for _ in 0..2 {
        assert_eq!(block_on(opened.note_clean()).unwrap_err().kind(), ErrorKind::Device);
    }
    failing.set_plan(&FaultPlan::new(1));
    block_on(opened.note_clean()).unwrap();
    drop(opened);
    let unsampled = OpenOptions { samples: 0, ..options() };
    let opened = block_on(open(&rig.device, &rig.cores, &unsampled)).unwrap();
    assert!(read_from(&opened, 0, 0, 65536) == [9; 65536]);
}

/// Data that the label calls clean is not overwritten in place with dirty data. Otherwise, after a crash, the data
/// would count as clean while the core does not have it.
#[test]
fn what_is_written_over_data_that_the_label_calls_clean_is_dirty_after_a_crash() {
    let mut rig = Rig::new();
    let whole = FaultPlan::new(1).atomic_write_bytes(4096);
    rig.device = Arc::new(FaultDevice::new(memory(8 * MIB), &whole));
    rig.create(&log());
    let mut opened = rig.open();
    let bytes = |opened: &OpenCache| opened.cache.with(|cache| cache.statistics().metadata_bytes);
    write_to(&opened, 0, 0, 1, 65536);
    // A header states that the sectors are complete.
    write_to(&opened, 0, 0, 1, 65536);
    let before = bytes(&opened);
    write_to(&opened, 0, 0, 2, 65536);
    assert_eq!(bytes(&opened), before, "in place");
    block_on(opened.cache.clean()).unwrap();
    block_on(opened.note_clean()).unwrap();
    write_to(&opened, 0, 0, 3, 65536);
    drop(opened);
    let opened = rig.open();
    assert_eq!(opened.started.dirty_sectors, 128);
    assert!(read_from(&opened, 0, 0, 65536) == [3; 65536]);
    block_on(opened.cache.clean()).unwrap();
    assert!(read(&*rig.cores[0].device, 0, 65536) == [3; 65536]);
}

/// Streams go to the core from memory without a flush. The label calls this data clean only after a flush.
#[test]
fn what_a_core_may_lose_is_not_called_clean() {
    for flushes in [false, true] {
        let mut rig = Rig::new();
        let plan = FaultPlan::new(1).volatile_cache(true).volatile_writes(100_000);
        let core = Arc::new(FaultDevice::new(memory(16 * MIB), &plan));
        rig.cores[0].device = Arc::clone(&core) as DynDevice;
        rig.create(&log());
        let log = LogOptions { write_buffer_bytes: 1 << 20, ..LogOptions::default() };
        let streaming = OpenOptions { log, ..options() };
        let mut opened = block_on(open(&rig.device, &rig.cores, &streaming)).unwrap();
        let part = |numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| write_to(&opened, 0, number << 16, 7, 65536));
        };
        part(0..2);
        block_on(opened.cache.clean()).unwrap();
        // From here on this is a stream: half of the buffer goes to the core from memory.
        part(2..10);
        let state = || opened.cache.with(|it| (it.usage().dirty_sectors, it.is_on_cores()));
        assert_eq!(state(), (0, false));
        if flushes {
            block_on(opened.cache.clean()).unwrap();
            assert_eq!(state(), (0, true));
        }
        block_on(opened.note_clean()).unwrap();
        drop(opened);
        core.crash().unwrap();
        core.restart().unwrap();
        let opened = rig.open();
        assert_eq!(opened.started.dirty_sectors == 0, flushes);
        assert!(read_from(&opened, 0, 0, 10 << 16) == [7; 10 << 16], "flushed {flushes}");
        block_on(opened.cache.clean()).unwrap();
        assert!(read(&*core, 0, 10 << 16) == [7; 10 << 16]);
    }
}
