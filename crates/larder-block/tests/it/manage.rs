//! The life of a cache on its devices: what a start finds, and what is refused before anything is written.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::cache::{CacheOptions, Health, Mode};
use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::{
    ChangedCore, Core, CreateOptions, LayoutOptions, OpenOptions, Opened, Over, create, look, open,
};
use larder_block::policy::cleaning::CleaningOptions;
use larder_block::policy::{CutOffPolicy, NHit, PromotionPolicy};
use larder_device::label::Uuid;
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice, PlacementHandle,
    block_on,
};

use super::rig::core;

const MIB: usize = 1 << 20;

type Shared = Arc<dyn Device>;

fn memory(bytes: usize) -> Shared {
    Arc::new(MemoryDevice::holding(vec![0; bytes]))
}

fn log() -> CreateOptions {
    let log = LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() };
    let layout = LayoutOptions::Log(log);
    CreateOptions { layout, mode: Mode::WriteBack, ..CreateOptions::default() }
}

fn layouts() -> Vec<CreateOptions> {
    let ocf = |version| LayoutOptions::Ocf(OcfOptions { version, line_bytes: 4096 });
    let of = |layout| CreateOptions { layout, ..log() };
    vec![log(), of(ocf(OcfVersion::V22)), of(ocf(OcfVersion::V26))]
}

fn options() -> OpenOptions {
    let cache = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    OpenOptions { cache, ..OpenOptions::default() }
}

struct Rig {
    device: Shared,
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

    fn create(&self, options: &CreateOptions) -> Uuid {
        block_on(create(&self.device, &self.cores, options)).unwrap()
    }

    fn open(&self) -> Opened {
        block_on(open(&self.device, &self.cores, &options())).unwrap()
    }

    /// Why a start is refused; nothing is written.
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

fn write_to(opened: &Opened, number: u16, offset: u64, fill: u8, bytes: usize) {
    write(&opened.cache.core(core(number)).unwrap(), offset, fill, bytes);
}

fn read_from(opened: &Opened, number: u16, offset: u64, bytes: usize) -> Vec<u8> {
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
        // As by a crash: memory keeps what it has.
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
fn a_stop_without_dirty_data_writes_the_label_alone() {
    let rig = Rig::new();
    rig.create(&log());
    let opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.cache.clean()).unwrap();
    let before = rig.written();
    block_on(opened.stop(true)).unwrap();
    let after = rig.written();
    assert_eq!(before[..2], after[..2], "cores are not written");
    assert!(after[2] - before[2] <= 2 * 4096, "two copies of a label");
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

#[test]
fn nothing_but_zeros_is_written_over_unasked() {
    let rig = Rig::new();
    write(&*rig.device, 0, 7, 4096);
    let create =
        |over: Over| block_on(create(&rig.device, &rig.cores, &CreateOptions { over, ..log() }));
    let refused = create(Over::Blank).unwrap_err();
    assert!(refused.to_string().contains("not Larder's"), "{refused}");
    let uuid = create(Over::Other).unwrap();
    for over in [Over::Blank, Over::Other, Over::Cache(Uuid::draw())] {
        let before = rig.written();
        let refused = create(over).unwrap_err().to_string();
        assert!(
            refused.contains(&uuid.to_string()) && refused.contains("by its UUID"),
            "{refused}"
        );
        assert_eq!(rig.written(), before);
    }
    assert_ne!(create(Over::Cache(uuid)).unwrap(), uuid);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let rig = Rig::new();
    let complaint = |device: &Shared, cores: &[Core], create_options: &CreateOptions| {
        block_on(create(device, cores, create_options)).unwrap_err().to_string()
    };
    let own = Core { device: Arc::clone(&rig.device), ..rig.cores[0].clone() };
    assert!(complaint(&rig.device, &[own], &log()).contains("the cache or one core, once"));
    assert!(complaint(&rig.device, &[], &log()).contains("at least one"));
    let twice = Core { id: core(0), ..rig.cores[1].clone() };
    assert!(complaint(&rig.device, &[rig.cores[0].clone(), twice], &log()).contains("given twice"));
    let small = memory(MIB);
    assert!(complaint(&small, &rig.cores, &log()).contains("make segment_bytes smaller"));
    let odd = LayoutOptions::Log(LogOptions { line_bytes: 5000, ..LogOptions::default() });
    assert!(
        complaint(&rig.device, &rig.cores, &CreateOptions { layout: odd, ..log() })
            .contains("line_bytes of 5000")
    );
    assert_eq!(rig.written(), [0, 0, 0]);
}

#[test]
fn a_start_with_other_cores_is_refused() {
    let rig = Rig::new();
    assert_eq!(rig.refusal(&options()).0, ErrorKind::Format);
    rig.create(&log());
    let with =
        |cores: Vec<Core>| Rig { device: Arc::clone(&rig.device), cores }.refusal(&options());
    let (kind, missing) = with(vec![rig.cores[0].clone()]);
    assert!(
        kind == ErrorKind::Setup && missing.contains("core 5 (core-5) is missing"),
        "{missing}"
    );
    let resized = Core { device: memory(17 * MIB), ..rig.cores[1].clone() };
    let (_, resized) = with(vec![rig.cores[0].clone(), resized]);
    assert!(resized.contains("had 16777216"), "{resized}");
    let more = Core { id: core(6), device: memory(MIB), name: "six".to_owned() };
    let (_, more) = with(vec![rig.cores[0].clone(), rig.cores[1].clone(), more]);
    assert!(more.contains("core 6 (six) is none of the cache's 2"), "{more}");
}

#[test]
fn no_flipped_byte_of_a_label_starts_a_cache() {
    let rig = Rig::new();
    rig.create(&log());
    let label = read(&*rig.device, 0, 4096);
    let used = label.iter().rposition(|byte| *byte != 0).unwrap();
    for at in (0..=used).step_by(3) {
        let mut before = Vec::new();
        for copy in [0, 16 << 10] {
            let mut block = read(&*rig.device, copy, 4096);
            before.push(block.clone());
            block[at] ^= 0x10;
            put(&rig.device, copy, &block);
        }
        let (kind, message) = rig.refusal(&options());
        assert_eq!(kind, ErrorKind::Format, "byte {at}: {message}");
        put(&rig.device, 0, &before[0]);
        assert!(block_on(look(&rig.device)).is_ok(), "one whole copy is enough");
        put(&rig.device, 16 << 10, &before[1]);
    }
}

fn put(device: &Shared, offset: u64, bytes: &[u8]) {
    let mut buffer = IoBuffer::zeroed(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
}

/// A cache of clean data of core 0, and dirty ones of core 5 if so wanted; core 0 is written while it is away.
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
fn clean_data_of_a_core_that_was_written_meanwhile_are_dropped_for_good() {
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
fn dirty_data_before_a_core_that_was_written_meanwhile_need_a_word() {
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

/// The device fails but for its label, comes back, and its clean data are out of date.
#[test]
fn what_was_written_without_the_cache_device_does_not_come_back_old() {
    let mut rig = Rig::new();
    let failing = Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
    rig.device = Arc::clone(&failing) as Shared;
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

/// The same, and it is stopped in order before the device is well again.
#[test]
fn a_stop_does_not_make_believe_in_what_was_given_up() {
    let mut rig = Rig::new();
    let failing = Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
    rig.device = Arc::clone(&failing) as Shared;
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

/// What the label calls clean is not dirtied where it lies: a crash would leave it clean, and the core without it.
#[test]
fn what_is_written_over_data_that_the_label_calls_clean_is_dirty_after_a_crash() {
    let mut rig = Rig::new();
    let whole = FaultPlan::new(1).atomic_write_bytes(4096);
    rig.device = Arc::new(FaultDevice::new(memory(8 * MIB), &whole));
    rig.create(&log());
    let mut opened = rig.open();
    let bytes = |opened: &Opened| opened.cache.with(|cache| cache.statistics().metadata_bytes);
    write_to(&opened, 0, 0, 1, 65536);
    // A header states that they are complete.
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

/// Streams go to the core from memory without a flush: the label does not call that clean before there was one.
#[test]
fn what_a_core_may_lose_is_not_called_clean() {
    for flushes in [false, true] {
        let mut rig = Rig::new();
        let plan = FaultPlan::new(1).volatile_cache(true).volatile_writes(100_000);
        let core = Arc::new(FaultDevice::new(memory(16 * MIB), &plan));
        rig.cores[0].device = Arc::clone(&core) as Shared;
        rig.create(&log());
        let log = LogOptions { write_buffer_bytes: 1 << 20, ..LogOptions::default() };
        let streaming = OpenOptions { log, ..options() };
        let mut opened = block_on(open(&rig.device, &rig.cores, &streaming)).unwrap();
        let part = |numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| write_to(&opened, 0, number << 16, 7, 65536));
        };
        part(0..2);
        block_on(opened.cache.clean()).unwrap();
        // A stream by now: half of the buffer goes to the core from memory.
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

/// The n-th I/O of the cache device fails, for each n until none is hit.
fn at_each_io(failing: &FaultDevice<Shared>, ask: impl Fn(), check: impl Fn(u64)) {
    for number in 0.. {
        assert!(number < 500, "it never ends");
        let rule = FaultRule::new(Fault::Error).at_io(failing.submissions() + number);
        failing.set_plan(&FaultPlan::new(1).with(rule));
        let before = failing.counts().errors;
        ask();
        let was_hit = failing.counts().errors > before;
        failing.set_plan(&FaultPlan::new(1));
        check(number);
        if !was_hit {
            return;
        }
    }
}

#[test]
fn starts_and_stops_that_an_error_cuts_leave_what_was() {
    for create_options in layouts() {
        let mut rig = Rig::new();
        let failing: Arc<FaultDevice<Shared>> =
            Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
        rig.device = Arc::clone(&failing) as Shared;
        let uuid = rig.create(&create_options);
        let opened = rig.open();
        write_to(&opened, 0, 0, 1, 65536);
        block_on(opened.stop(false)).unwrap();
        let is_whole = |number: u64| {
            let opened = rig.open();
            assert_eq!(opened.uuid, uuid, "{number}");
            assert!(read_from(&opened, 0, 0, 65536) == [1; 65536], "I/O {number}");
        };
        let open = || block_on(open(&rig.device, &rig.cores, &options()));
        at_each_io(&failing, || drop(open()), is_whole);
        let stop = || drop(open().map(|opened| block_on(opened.stop(true))));
        at_each_io(&failing, stop, is_whole);
        let mode = || {
            drop(open().map(|mut opened| block_on(opened.set_mode(Mode::WriteThrough, true))));
        };
        at_each_io(&failing, mode, is_whole);
    }
}

#[test]
fn a_format_that_an_error_cuts_leaves_nothing_or_a_cache() {
    for create_options in layouts() {
        let mut rig = Rig::new();
        let failing: Arc<FaultDevice<Shared>> =
            Arc::new(FaultDevice::new(memory(8 * MIB), &FaultPlan::new(1)));
        rig.device = Arc::clone(&failing) as Shared;
        let over = CreateOptions { over: Over::Other, ..create_options.clone() };
        let format = || drop(block_on(create(&rig.device, &rig.cores, &over)));
        at_each_io(&failing, format, |number| {
            if let Ok(seen) = block_on(look(&rig.device)) {
                assert_eq!(rig.open().uuid, seen.uuid, "I/O {number}");
                // For the next one.
                put(&rig.device, 0, &[0; 32768]);
            }
        });
    }
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_written() {
    let rig = Rig::new();
    block_on(create(&rig.device, &rig.cores, &log())).unwrap();
    let promotion = PromotionPolicy::NHit(NHit { insertion_threshold: 1, trigger_percent: 0 });
    let dirty_high_percent = 0;
    let cleaning = CleaningOptions { dirty_high_percent, ..CleaningOptions::default() };
    for cache in [
        CacheOptions { promotion, ..CacheOptions::default() },
        CacheOptions { cleaning, ..CacheOptions::default() },
        CacheOptions { cache_errors_max: 0, ..CacheOptions::default() },
    ] {
        let options = OpenOptions { cache, ..OpenOptions::default() };
        let refused = block_on(open(&rig.device, &rig.cores, &options)).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Setup);
        assert!(block_on(look(&rig.device)).unwrap().stored.was_stopped, "its label is as before");
    }
}
