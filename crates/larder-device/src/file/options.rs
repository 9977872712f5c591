//! How a file device is opened.

use std::fmt;
use std::time::Duration;

use crate::device::SECTOR_BYTES;

/// Every filesystem that grants direct I/O grants it for blocks of so many bytes. Capacities that nobody names are
/// multiples of it, so that a file or a drive has the same capacity however it is opened.
pub(crate) const SAFE_BLOCK_BYTES: u32 = 4096;

/// Who carries requests to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum IoEngine {
    /// io_uring where the kernel grants it, else a thread pool.
    /// [`FileDevice::engine`](super::FileDevice::engine) tells which.
    #[default]
    Auto,
    /// io_uring, or the device does not open. Linux only.
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
    /// Where the filesystem grants it. [`FileDevice::direct`](super::FileDevice::direct) tells
    /// whether it did.
    #[default]
    Auto,
    /// Always, or the device does not open.
    Required,
    /// Never.
    Off,
}

/// How a file device is opened. [`FileOptions::default`] suits a cache on a local disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// Usable bytes, a positive multiple of the device's block: 512 suits files without direct I/O, and 4096 suits
    /// all. `None`: what the file holds, rounded down to a multiple of 4096.
    pub capacity_bytes: Option<u64>,
    /// Make the file if there is none, and let a smaller one grow to `capacity_bytes`. Its content
    /// is kept in either case. A smaller file that holds another program's data is refused as it is:
    /// what is neither all zeros nor begins with a mark of ours ([`label`](crate::label)) in its first
    /// 128 KiB.
    pub create: bool,
    /// Open it for reading alone: it may be on a file system that is mounted so. Writes fail then, and nothing is
    /// created, reserved or made longer.
    pub read_only: bool,
    /// How long to wait for a file or a block device that another cache has. The kernel may let go of
    /// the requests of a process that died, and with them of its locks, seconds after its end. Default
    /// 5 s; zero does not wait.
    pub lock_wait: Duration,
    /// Reserve all space now, so that a full disk is found at start and not during a write.
    pub preallocate: bool,
    /// Who carries requests to the kernel.
    pub engine: IoEngine,
    /// Whether to bypass the page cache.
    pub direct: DirectIo,
    /// Longest piece that reaches the kernel in one call, a multiple of 4096 up to 1
    /// GiB. Longer transfers are split, and their pieces are under way at the same time.
    pub max_transfer_bytes: u32,
    /// Pieces that each ring keeps under way at once, 1 to 4096; further ones wait their turn.
    /// There is a ring for each core that submits, and one for each thread that hosts one
    /// (`ring::host`), which has a bound for all devices together besides.
    pub queue_depth: u16,
    /// Tell the kernel once and for all of buffers that are used again and again (io_uring's registered
    /// buffers), instead of with every request. It holds their memory from then on, which counts
    /// against `RLIMIT_MEMLOCK` without `CAP_IPC_LOCK`, of which at most a quarter is used; what goes
    /// beyond, and what the kernel refuses, goes on without.
    /// Nothing changes but processor time.
    pub registered_buffers: bool,
    /// Threads of the pool (where it serves), 1 to 256.
    pub threads: u16,
    /// Pieces that may wait for their turn, at least 1, in each ring or in the pool. While that
    /// many wait, every further request fails at once with [`ErrorKind::Busy`].
    ///
    /// [`ErrorKind::Busy`]: crate::ErrorKind::Busy
    pub waiting_max: u32,
    /// How long a piece may wait for its turn; one that has waited longer fails its request with
    /// [`ErrorKind::Busy`] as soon as another request comes or ends. What is under way is
    /// not subject to it.
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
    /// What is wrong with the options, if anything: the field, its value and what it may be.
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
