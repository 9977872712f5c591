//! Options for opening a file device.

use std::fmt;
use std::time::Duration;

use crate::info::SECTOR_BYTES;

/// Block size that works with every filesystem that allows direct I/O. A capacity that the caller did not name is a
/// multiple of it, so that a file or drive has the same capacity however it is opened.
pub(crate) const SAFE_BLOCK_BYTES: u32 = 4096;

/// How requests reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum IoEngine {
    /// io_uring where the kernel allows it, else a thread pool. [`FileDevice::engine`](super::FileDevice::engine) says
    /// which.
    #[default]
    Auto,
    /// io_uring; the device does not open without it. Linux only.
    IoUring,
    /// A pool of threads that make blocking calls.
    Threads,
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Threads => "threads",
        })
    }
}

/// Whether transfers bypass the kernel's page cache (`O_DIRECT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum DirectIo {
    /// Where the filesystem allows it. [`FileDevice::direct`](super::FileDevice::direct) says whether it did.
    #[default]
    Auto,
    /// Always; the device does not open without it.
    Required,
    /// Never.
    Off,
}

/// How to open a file device. [`FileOptions::default`] suits a cache on a local disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// Usable bytes, a positive multiple of the device's block: a multiple of 512 for files without direct I/O, while a
    /// multiple of 4096 always works. `None`: the file's size, rounded down to a multiple of 4096.
    pub capacity_bytes: Option<u64>,
    /// Create the file if it is missing, and let a smaller one grow to `capacity_bytes`. Existing content is kept. A
    /// smaller file is refused if it holds another program's data, that is, if its first 128 KiB are not all zeros and
    /// do not begin with one of our labels ([`label`](crate::label)).
    pub create: bool,
    /// Open read-only, for example on a file system that is mounted read-only. Writes then fail, and nothing is
    /// created, reserved or extended.
    pub read_only: bool,
    /// How long to wait for a file or block device that another cache has. After a process dies, the kernel may need
    /// seconds to end its requests and release its locks. Default 5 s; zero does not wait.
    pub lock_wait: Duration,
    /// Reserve all space now, so that a full disk is found at start and not during a write.
    pub preallocate: bool,
    /// How requests reach the kernel.
    pub engine: IoEngine,
    /// Whether to bypass the page cache.
    pub direct: DirectIo,
    /// Longest piece that reaches the kernel in one call, in bytes: a multiple of 4096 up to 1 GiB. Longer transfers
    /// are split, and their pieces are in flight at the same time.
    pub max_transfer_bytes: u32,
    /// Pieces that each ring keeps in flight, 1 to 4096; further ones wait. There is a ring for each core that submits,
    /// and one for each thread that hosts a ring (`ring::host`); a hosted ring also has a bound for all its devices
    /// together.
    pub queue_depth: u16,
    /// Register frequently used buffers with the kernel (io_uring's registered buffers) instead of naming their memory
    /// with every request. The kernel then pins their memory, which counts against `RLIMIT_MEMLOCK` unless the process
    /// has `CAP_IPC_LOCK`; at most a quarter of that limit is used. Buffers beyond that, and buffers that the kernel
    /// refuses, are used unregistered. Only processor time changes.
    pub registered_buffers: bool,
    /// Threads of the pool (where it is used), 1 to 256.
    pub threads: u16,
    /// Pieces that may wait for a free slot, at least 1, in each ring or in the pool. While that many wait, every
    /// further request fails at once with [`ErrorKind::Busy`].
    ///
    /// [`ErrorKind::Busy`]: crate::ErrorKind::Busy
    pub waiting_max: u32,
    /// How long a piece may wait for a free slot. If it has waited longer, its request fails with [`ErrorKind::Busy`]
    /// as soon as another request is submitted or ends. Pieces in flight have no such limit.
    ///
    /// [`ErrorKind::Busy`]: crate::ErrorKind::Busy
    pub waiting_age_max: Duration,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            capacity_bytes: None,
            create: false,
            read_only: false,
            lock_wait: Duration::from_secs(5),
            preallocate: true,
            engine: IoEngine::Auto,
            direct: DirectIo::Auto,
            max_transfer_bytes: 1 << 20,
            queue_depth: 256,
            registered_buffers: true,
            threads: 8,
            waiting_max: 1 << 16,
            waiting_age_max: Duration::from_secs(30),
        }
    }
}

impl FileOptions {
    /// What is wrong with the options, if anything: the field, its value and the allowed values.
    pub(crate) fn complaint(&self) -> Option<String> {
        let block = u64::from(SECTOR_BYTES);
        if let Some(bytes) = self.capacity_bytes
            && (bytes == 0 || !bytes.is_multiple_of(block) || i64::try_from(bytes).is_err())
        {
            return Some(format!(
                "capacity of {bytes} bytes: must be a positive multiple of {SECTOR_BYTES}"
            ));
        }
        if self.read_only && (self.create || self.preallocate) {
            return Some("read_only with create or preallocate: nothing can be written".to_owned());
        }
        if self.create && self.capacity_bytes.is_none() {
            return Some("creating a file needs a capacity".to_owned());
        }
        let transfer = self.max_transfer_bytes;
        if transfer == 0 || !transfer.is_multiple_of(SAFE_BLOCK_BYTES) || transfer > 1 << 30 {
            return Some(format!(
                "max_transfer_bytes of {transfer}: must be a multiple of {SAFE_BLOCK_BYTES} up to 1 GiB"
            ));
        }
        if !(1..=4096).contains(&self.queue_depth) {
            return Some(format!("queue_depth of {}: must be 1 to 4096", self.queue_depth));
        }
        if !(1..=256).contains(&self.threads) {
            return Some(format!("threads of {}: must be 1 to 256", self.threads));
        }
        if self.waiting_max == 0 {
            return Some("waiting_max of 0: must be at least 1".to_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_options_are_named() {
        let complaint = |options: FileOptions| options.complaint().unwrap_or_default();
        let base = FileOptions::default;
        assert_eq!(complaint(base()), "");
        assert!(complaint(FileOptions { create: true, ..base() }).contains("needs a capacity"));
        let odd = FileOptions { capacity_bytes: Some(5000), ..base() };
        assert!(complaint(odd).contains("capacity of 5000 bytes"));
        let odd = FileOptions { max_transfer_bytes: 512, ..base() };
        assert!(complaint(odd).contains("max_transfer_bytes of 512"));
        assert!(complaint(FileOptions { queue_depth: 0, ..base() }).contains("queue_depth of 0"));
        assert!(complaint(FileOptions { waiting_max: 0, ..base() }).contains("waiting_max of 0"));
        assert!(complaint(FileOptions { threads: 300, ..base() }).contains("threads of 300"));
    }
}
