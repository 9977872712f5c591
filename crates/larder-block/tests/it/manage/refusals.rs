//! Operations that are refused before anything is written.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::cache::CacheOptions;
use larder_block::layout::log::LogOptions;
use larder_block::manage::{
    Core, CreateOptions, LayoutOptions, OpenOptions, Over, create, look, open,
};
use larder_block::policy::cleaning::CleaningOptions;
use larder_block::policy::{NHit, PromotionPolicy};
use larder_device::label::{FORMAT_VERSION, Uuid};
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Error, ErrorKind as DeviceErrorKind, Io, IoBuffer,
    IoFailure, IoFuture, MemoryDevice, block_on,
};

use super::super::rig::core;
use super::{DynDevice, MIB, Rig, layouts, log, memory, options, put, read, write, write_to};

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
    let complaint = |device: &DynDevice, cores: &[Core], create_options: &CreateOptions| {
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

/// A device that claims a large size and has no data.
struct Huge(DeviceInfo);

impl Device for Huge {
    fn info(&self) -> &DeviceInfo {
        &self.0
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        match io.into_inner() {
            Io::Flush => IoFuture::ready(Ok(IoBuffer::empty())),
            Io::Read { buffer, .. } => {
                let error = Error::new(DeviceErrorKind::Io, "it has nothing");
                IoFuture::ready(Err(IoFailure { error, buffer }))
            }
            io => panic!("a core is left as it is: {io:?}"),
        }
    }
}

#[test]
fn a_core_of_more_lines_than_can_be_named_is_refused() {
    for create_options in layouts() {
        let rig = Rig::new();
        // Lines of 4 KiB.
        let bytes = (1 << 46) * 4096;
        let refused = |bytes| {
            let device = Arc::new(Huge(DeviceInfo::new("huge", bytes, 512, 1 << 20)));
            let core = Core { id: core(0), name: "huge".to_owned(), device };
            block_on(create(&rig.device, &[core], &create_options)).err()
        };
        let error = refused(bytes + 512).expect("one line too many");
        assert_eq!(error.kind(), ErrorKind::Setup);
        assert!(error.to_string().contains("core 0 (huge) has"), "{error}");
        assert_eq!(rig.written(), [0, 0, 0]);
        assert!(refused(bytes).is_none());
    }
}

#[test]
fn a_cache_of_a_later_version_is_left_as_it_is() {
    let rig = Rig::new();
    rig.create(&log());
    for copy in [0, 16 << 10] {
        let mut block = read(&*rig.device, copy, 4096);
        block[8..10].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        put(&rig.device, copy, &block);
    }
    let later = format!("version {}", FORMAT_VERSION + 1);
    let (kind, message) = rig.refusal(&options());
    assert!(kind == ErrorKind::Format && message.contains(&later), "{message}");
    for over in [Over::Blank, Over::Cache(Uuid::draw())] {
        let before = rig.written();
        let create_options = CreateOptions { over, ..log() };
        let refused = block_on(create(&rig.device, &rig.cores, &create_options)).unwrap_err();
        assert!(refused.to_string().contains(&later), "{refused}");
        assert_eq!(rig.written(), before);
    }
}

#[test]
fn a_start_with_other_cores_is_refused() {
    let rig = Rig::new();
    assert_eq!(rig.refusal(&options()).0, ErrorKind::Format);
    rig.create(&log());
    let with =
        |cores: Vec<Core>| Rig { device: Arc::clone(&rig.device), cores }.refusal(&options());
    let (kind, none) = with(Vec::new());
    assert!(
        kind == ErrorKind::Setup && none.contains("none of the cache's cores is there"),
        "{none}"
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

/// If a label is older than the data on its device, it does not tell which data has become clean since.
#[test]
fn an_older_label_before_newer_data_is_refused() {
    let rig = Rig::new();
    rig.create(&log());
    let older = [0, 16 << 10].map(|copy| (copy, read(&*rig.device, copy, 4096)));
    for _ in 0..2 {
        let opened = rig.open();
        write_to(&opened, 0, 0, 1, 4096);
        block_on(opened.stop(false)).unwrap();
    }
    older.iter().for_each(|(copy, block)| put(&rig.device, *copy, block));
    let (kind, message) = rig.refusal(&options());
    assert_eq!(kind, ErrorKind::Format);
    assert!(message.contains("its label is of start"), "{message}");
}

/// A cache cannot be read with blocks longer than those that it was made on. Blocks shorter than a sector can tear
/// sectors.
#[test]
fn a_cache_on_other_blocks_is_refused_or_found() {
    let with_blocks = |bytes, block_bytes| -> DynDevice {
        Arc::new(MemoryDevice::with_blocks(bytes, block_bytes).unwrap())
    };
    for (made_on, opened_on, is_found) in
        [(512, 4096, false), (4096, 512, true), (512, 64, false), (64, 512, false), (64, 64, true)]
    {
        let mut rig = Rig::new();
        rig.device = with_blocks(vec![0; 8 * MIB], made_on);
        rig.create(&log());
        let content = read(&*rig.device, 0, 8 * MIB);
        rig.device = with_blocks(content, opened_on);
        if is_found {
            assert_eq!(rig.open().started.failed_reads, 0, "{made_on} {opened_on}");
            continue;
        }
        let (kind, message) = rig.refusal(&options());
        let named = [made_on, opened_on].map(|bytes| format!("blocks of {bytes}"));
        assert_eq!(kind, ErrorKind::Setup, "{message}");
        assert!(named.iter().all(|named| message.contains(named)), "{message}");
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
