//! Shared by the tests: buffers with a pattern, short ways to submit, a small executor, a full disk.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use larder_device::{
    Device, FileDevice, FileOptions, Io, IoBuffer, IoEngine, IoFuture, IoResult, ModelDevice,
    Payload, PlacementHandle,
};
use larder_ssd::managed::{Geometry, ManagedConfig};
use tempfile::TempDir;

pub(crate) const BLOCK: usize = 4096;

/// A buffer of `blocks` blocks, filled with bytes derived from `tag`.
pub(crate) fn pattern(tag: u64, blocks: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(blocks * BLOCK);
    fastrand::Rng::with_seed(tag).fill(buffer.as_mut_slice());
    buffer
}

pub(crate) fn start_write(device: &dyn Device, block: u64, buffer: IoBuffer) -> IoFuture {
    let handle = PlacementHandle::DEFAULT;
    device.submit(Io::write(block * BLOCK as u64, buffer, handle))
}

pub(crate) fn start_read(device: &dyn Device, block: u64, blocks: usize) -> IoFuture {
    let buffer = IoBuffer::zeroed(blocks * BLOCK);
    device.submit(Io::Read { offset: block * BLOCK as u64, buffer })
}

pub(crate) fn write(device: &dyn Device, block: u64, buffer: IoBuffer) -> IoResult {
    start_write(device, block, buffer).wait()
}

pub(crate) fn read(device: &dyn Device, block: u64, blocks: usize) -> IoResult {
    start_read(device, block, blocks).wait()
}

pub(crate) fn flush(device: &dyn Device) -> IoResult {
    device.submit(Io::Flush).wait()
}

/// Polls `future` to its end on this thread, as an async executor would.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

pub(crate) fn model(capacity_bytes: u64) -> ModelDevice {
    let geometry = Geometry::with_overprovisioning(capacity_bytes, 16 << 10, 60.0).unwrap();
    ModelDevice::new(ManagedConfig::new(geometry), Payload::Memory).unwrap()
}

pub(crate) fn options(capacity_bytes: u64, engine: IoEngine) -> FileOptions {
    FileOptions { capacity_bytes: Some(capacity_bytes), create: true, engine, ..Default::default() }
}

/// A file device, and the temporary directory that holds it.
pub(crate) fn file(options: &FileOptions) -> (FileDevice, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let device = FileDevice::open(directory.path().join("cache"), options).unwrap();
    (device, directory)
}

/// The engines available on this machine. Prints a note if io_uring is not one of them.
pub(crate) fn engines() -> Vec<IoEngine> {
    let (device, _directory) = file(&options(1 << 20, IoEngine::Auto));
    match device.engine_fallback() {
        None => vec![IoEngine::IoUring, IoEngine::Threads],
        Some(why) => {
            println!("io_uring is not tested: {why}");
            vec![IoEngine::Threads]
        }
    }
}

/// A small filesystem in memory, to test a full disk. `None` if mounting is not allowed.
pub(crate) struct TinyFilesystem(TempDir);

impl TinyFilesystem {
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(directory.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("a full disk is not tested: no tmpfs can be mounted here");
        }
        mounted.then_some(Self(directory))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("cache")
    }
}

impl Drop for TinyFilesystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

/// A block device over a file, with one partition. `None` if creating one is not allowed.
pub(crate) struct LoopDisk {
    path: PathBuf,
    partition: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDisk {
    pub(crate) fn attach(bytes: u64) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let output = |command: &mut Command| {
            let output = command.output().ok().filter(|output| output.status.success())?;
            String::from_utf8(output.stdout).ok()
        };
        let attached = output(Command::new("losetup").args(["-f", "--show"]).arg(file.path()));
        let Some(attached) = attached else {
            println!("a disk and its partition are not tested: no loop device can be made here");
            return None;
        };
        let path = PathBuf::from(attached.trim());
        let partition = PathBuf::from(format!("{}p1", path.display()));
        let disk = Self { path, partition, _file: file };
        // 8 MiB from sector 2048 on.
        let added = output(Command::new("addpart").arg(&disk.path).args(["1", "2048", "16384"]));
        if added.is_none() || !disk.partition.exists() {
            println!("a disk and its partition are not tested: no partition can be made here");
            return None;
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn partition(&self) -> &Path {
        &self.partition
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("delpart").arg(&self.path).arg("1").output();
        let _ = Command::new("losetup").arg("-d").arg(&self.path).output();
    }
}
