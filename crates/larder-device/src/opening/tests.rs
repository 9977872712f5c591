//! The choice of the placement path, with a made-up sysfs and made-up devices.
#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use super::choose::{Chooser, OpenNode, Openers, PathKind};
use super::*;
use crate::device::Device;
use crate::file_options::FileOptions;
use crate::memory::MemoryDevice;
use crate::nvme::{Node, node::Roots};
use crate::placement::PlacementInfo;
use crate::placement::PlacementPath;
use crate::{CheckedIo, DeviceInfo, DeviceStats, IoEngine, IoFuture};

/// Memory that reports the placement that it is given.
struct ReportingDevice(MemoryDevice, DeviceInfo);

impl Device for ReportingDevice {
    fn info(&self) -> &DeviceInfo {
        &self.1
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.0.start(io)
    }

    fn stats(&self) -> DeviceStats {
        self.0.stats()
    }
}

fn told(placement: PlacementInfo) -> Arc<dyn Device> {
    let memory = MemoryDevice::holding(vec![0; 1 << 20]);
    let info = DeviceInfo { placement, ..memory.info().clone() };
    Arc::new(ReportingDevice(memory, info))
}

#[derive(Default)]
struct FakeOpeners {
    /// io_uring is refused: the block device opens, but without streams.
    no_ring: bool,
    /// Handles of the namespace with passthrough; `None`: it is refused.
    passthrough: Option<u16>,
    opened: RefCell<Vec<String>>,
}

impl Openers for FakeOpeners {
    fn block(
        &self,
        path: &Path,
        _: &FileOptions,
        streams: PlacementInfo,
    ) -> Result<OpenNode, Error> {
        self.opened.borrow_mut().push(format!("block {}", streams.handles));
        let placement = if self.no_ring { PlacementInfo::none() } else { streams };
        let fallback = self.no_ring.then(|| "io_uring is refused: by a test".to_owned());
        Ok(OpenNode { device: told(placement), node: path.to_owned(), direct: true, fallback })
    }

    fn passthrough(&self, node: &Node, _: &FileOptions, placing: bool) -> Result<OpenNode, Error> {
        self.opened.borrow_mut().push(format!("passthrough {placing}"));
        let Some(handles) = self.passthrough else {
            return Err(Error::new(ErrorKind::Setup, "run as root"));
        };
        let handles = if placing { handles } else { 1 };
        let placement = PlacementInfo { handles, ..PlacementInfo::none() };
        let node = node.generic_path.clone().unwrap_or_default();
        Ok(OpenNode { device: told(placement), node, direct: true, fallback: None })
    }
}

/// A namespace with `streams` write streams. Dropping the folder removes it.
fn namespace(streams: u16) -> (tempfile::TempDir, Roots) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { sys: folder.path().join("sys"), dev: folder.path().join("dev") };
    let whole = roots.sys.join("devices/nvme0n1");
    fs::create_dir_all(whole.join("queue")).unwrap();
    fs::create_dir_all(roots.sys.join("class/block")).unwrap();
    fs::create_dir_all(&roots.dev).unwrap();
    fs::write(whole.join("nsid"), "1\n").unwrap();
    fs::write(whole.join("size"), "2048\n").unwrap();
    fs::write(whole.join("queue/logical_block_size"), "512\n").unwrap();
    fs::write(whole.join("queue/write_stream_granularity"), "16777216\n").unwrap();
    fs::write(whole.join("queue/max_write_streams"), format!("{streams}\n")).unwrap();
    symlink(&whole, roots.sys.join("class/block/nvme0n1")).unwrap();
    let partition = whole.join("nvme0n1p1");
    fs::create_dir_all(&partition).unwrap();
    fs::write(partition.join("partition"), "1\n").unwrap();
    fs::write(partition.join("start"), "8\n").unwrap();
    fs::write(partition.join("size"), "1000\n").unwrap();
    symlink(&partition, roots.sys.join("class/block/nvme0n1p1")).unwrap();
    fs::write(roots.dev.join("nvme0n1p1"), "").unwrap();
    fs::write(roots.dev.join("nvme0n1"), "").unwrap();
    fs::write(roots.dev.join("ng0n1"), "").unwrap();
    fs::write(roots.dev.join("vda"), "").unwrap();
    (folder, roots)
}

fn choose(
    (kind, name): (Option<TargetKind>, &str),
    found: PathKind,
    placement: PlacementMode,
    (streams, openers): (u16, &FakeOpeners),
) -> Result<Opened, Error> {
    choose_with(IoEngine::Auto, (kind, name), found, placement, (streams, openers))
}

fn choose_with(
    engine: IoEngine,
    (kind, name): (Option<TargetKind>, &str),
    found: PathKind,
    placement: PlacementMode,
    (streams, openers): (u16, &FakeOpeners),
) -> Result<Opened, Error> {
    let (_folder, roots) = namespace(streams);
    let target = Target { kind, path: roots.dev.join(name) };
    let file = FileOptions { engine, ..FileOptions::default() };
    let options = OpenOptions { placement, file };
    Chooser { target: &target, options: &options, openers, roots, missed: Vec::new() }.open(found)
}

use PlacementMode::{Off, Preferred, Required};
use TargetKind::{Block, Nvme};

#[test]
fn a_block_device_takes_the_first_rung_that_holds() {
    let openers = FakeOpeners { passthrough: Some(5), ..FakeOpeners::default() };
    let opened = choose((None, "nvme0n1"), PathKind::Block, Required, (8, &openers)).unwrap();
    assert_eq!((opened.status.path, opened.missed.len()), (PlacementPath::WriteStreams, 0));
    let line = opened.status.to_string();
    assert!(line.starts_with("placement: write streams of "), "{line}");
    let end = "nvme0n1, 7 handles beside the default, reclaim units of 16 MiB";
    assert!(line.ends_with(end), "{line}");

    let opened = choose((None, "nvme0n1"), PathKind::Block, Preferred, (0, &openers)).unwrap();
    assert_eq!((opened.status.path, opened.notice), (PlacementPath::Passthrough, None));
    assert!(opened.missed[0].to_string().contains("Linux 6.16"), "{:?}", opened.missed);
    assert_eq!(opened.device.info().placement.handles, 5);

    let openers = FakeOpeners::default();
    let opened = choose((None, "nvme0n1"), PathKind::Block, Preferred, (1, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::None);
    let notice = opened.notice.unwrap();
    assert!(notice.contains("single stream") && notice.contains("run as root"), "{notice}");
    assert_eq!(*openers.opened.borrow(), ["passthrough true", "block 1"]);
}

#[test]
fn what_is_required_and_not_there_is_an_error_with_a_way_out() {
    for (kind, name, found) in [
        (None, "nvme0n1", PathKind::Block),
        (Some(Block), "nvme0n1", PathKind::Block),
        (None, "vda", PathKind::Block),
        (None, "missing", PathKind::File),
        (Some(TargetKind::File), "nvme0n1", PathKind::Block),
    ] {
        let openers = FakeOpeners::default();
        let error = choose((kind, name), found, Required, (0, &openers)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setup);
        let text = error.to_string();
        assert!(text.contains("placement is required") && text.contains("preferred or off"));
        assert!(!openers.opened.borrow().iter().any(|it| it.starts_with("block")), "{text}");
    }
}

#[test]
fn a_target_that_says_how_is_opened_so() {
    let openers = FakeOpeners { passthrough: Some(5), ..FakeOpeners::default() };
    let opened = choose((Some(Nvme), "nvme0n1"), PathKind::Block, Required, (8, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::Passthrough);
    let opened = choose((None, "ng0n1"), PathKind::Character, Required, (8, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::Passthrough);
    let opened =
        choose((Some(Block), "nvme0n1"), PathKind::Block, Preferred, (0, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::None);
    assert!(opened.notice.unwrap().contains("the target says block:"));
    let error =
        choose((Some(Block), "ng0n1"), PathKind::Character, Off, (8, &openers)).unwrap_err();
    assert!(error.to_string().contains("not a block device"), "{error}");
    let denied = FakeOpeners::default();
    let error =
        choose((Some(Nvme), "nvme0n1"), PathKind::Block, Preferred, (8, &denied)).unwrap_err();
    assert!(error.to_string().contains("run as root"), "another way was not asked for: {error}");
}

#[test]
fn a_partition_has_no_streams_whatever_sysfs_says() {
    let openers = FakeOpeners { passthrough: Some(5), ..FakeOpeners::default() };
    let opened = choose((None, "nvme0n1p1"), PathKind::Block, Required, (8, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::Passthrough);
    assert!(opened.missed[0].why.contains("not for partitions"), "{:?}", opened.missed);
    let error = choose((Some(Block), "nvme0n1p1"), PathKind::Block, Required, (8, &openers));
    assert!(error.unwrap_err().to_string().contains("not for partitions"));
}

#[test]
fn off_is_off() {
    let openers = FakeOpeners { passthrough: Some(5), ..FakeOpeners::default() };
    let opened = choose((None, "nvme0n1"), PathKind::Block, Off, (8, &openers)).unwrap();
    assert_eq!((opened.status.path, opened.notice), (PlacementPath::None, None));
    let opened = choose((Some(Nvme), "nvme0n1"), PathKind::Block, Off, (8, &openers)).unwrap();
    assert_eq!((opened.status.path, opened.notice), (PlacementPath::None, None));
    assert!(opened.status.to_string().ends_with("(switched off)"), "{}", opened.status);
    assert_eq!(*openers.opened.borrow(), ["block 1", "passthrough false"]);
}

#[test]
fn streams_need_the_ring() {
    let openers = FakeOpeners { no_ring: true, ..FakeOpeners::default() };
    let opened = choose((None, "nvme0n1"), PathKind::Block, Preferred, (8, &openers)).unwrap();
    assert_eq!(opened.status.path, PlacementPath::None);
    assert!(opened.missed[0].why.contains("refused: by a test"), "{:?}", opened.missed);
    let how = (None, "nvme0n1");
    let openers = FakeOpeners::default();
    let engine = IoEngine::Threads;
    let opened = choose_with(engine, how, PathKind::Block, Preferred, (8, &openers)).unwrap();
    assert!(opened.missed[0].why.contains("thread pool"), "{:?}", opened.missed);
}

#[test]
fn another_disk_is_used_without_placement() {
    let openers = FakeOpeners::default();
    let opened = choose((None, "vda"), PathKind::Block, Preferred, (8, &openers)).unwrap();
    assert!(opened.notice.unwrap().contains("not a namespace of an NVMe drive"));
    assert_eq!(*openers.opened.borrow(), ["block 1"]);
}

#[test]
fn targets_come_back() {
    for text in
        ["file:/a", "block:/dev/nvme0n1p2", "nvme:/dev/ng0n1", "dax:/mnt/a", "/dev/sda", "a:b"]
    {
        assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
    }
    for text in ["", "block:", "nvme:", "file:", "dax:"] {
        assert!(text.parse::<Target>().unwrap_err().contains("names no path"));
    }
}

#[test]
fn mapped_memory_says_that_it_is_emulated() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("dax:{}", folder.path().join("cache").display());
    let file =
        FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
    let opened = open(&target, &OpenOptions { placement: Off, file: file.clone() }).unwrap();
    assert_eq!(opened.device.info().block_bytes, 64);
    let is_emulated = opened.device.info().name.ends_with("(emulated)");
    assert_eq!(opened.notice.is_some_and(|it| it.contains("mounted with -o dax")), is_emulated);
    let error = open(&target, &OpenOptions { placement: Required, file }).unwrap_err();
    assert!(error.to_string().contains("memory has no placement handles"), "{error}");
}

#[test]
fn a_file_opens_without_placement_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    let file =
        FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
    let options = OpenOptions { placement: Preferred, file };
    let opened = open(&path.display().to_string(), &options).unwrap();
    assert_eq!(opened.status.path, PlacementPath::None);
    assert!(opened.notice.unwrap().contains("a file has no placement handles"));
}

#[test]
fn a_simulated_drive_is_opened_by_its_description() {
    let open = |target: &str, placement| {
        super::open(target, &OpenOptions { placement, ..OpenOptions::default() })
    };
    let opened = open("model:64M,op=7,ru=256K,handles=4", PlacementMode::Required).unwrap();
    assert_eq!(opened.status.path, PlacementPath::Model);
    let info = opened.device.info();
    assert_eq!((info.capacity_bytes, info.placement.handles), (64 << 20, 4));
    assert_eq!(opened.status.placement.reclaim_unit_bytes, Some(256 << 10));

    let opened = open("model:64M,op=7,ru=256K", PlacementMode::Off).unwrap();
    assert!(!opened.device.info().placement.is_active());
    assert_eq!(opened.status.why, "switched off");

    let refused = open("model:64M,op=7,ru=256K,fdp=off", PlacementMode::Required).unwrap_err();
    assert!(refused.to_string().contains("fdp=off"), "{refused}");
    let preferred = open("model:64M,op=7,ru=256K,fdp=off", PlacementMode::Preferred).unwrap();
    assert!(preferred.notice.is_some_and(|notice| notice.contains("fdp=off")));

    let refused = open("model:64M,op=7,ru=64M", PlacementMode::Off).unwrap_err();
    assert!(refused.to_string().contains("SSD model"), "{refused}");
}
