//! An active mount, and its end.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::BackgroundSession;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::filesystem::FileSystem;

/// A mounted file system. It is closed when it is unmounted; dropping this leaves it mounted.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    /// Answers requests of the kernel, and closes the file system at the end.
    serving: JoinHandle<io::Result<()>>,
    /// Dropping it ends the thread that syncs.
    syncs: Sender<()>,
    syncing: JoinHandle<()>,
}

impl Mounted {
    pub(super) fn new(
        mut kernel: BackgroundSession,
        path: PathBuf,
        fs: Arc<FileSystem>,
        every: Duration,
    ) -> io::Result<Self> {
        let (syncs, ended) = mpsc::channel();
        let syncing = std::thread::Builder::new().name("larder-fs-sync".to_owned());
        let syncing = syncing.spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // Ignore the error: a caller of sync gets it too, because nothing can be written after a failure.
                let _ = fs.sync();
            }
        })?;
        let nobody = std::thread::Builder::new().spawn(|| Ok(()))?;
        let serving = std::mem::replace(&mut kernel.guard, nobody);
        // Dropping it would unmount the directory again, and with it any file system mounted there since.
        std::mem::forget(kernel);
        Ok(Self { path, serving, syncs, syncing })
    }

    /// Whether it is still mounted.
    pub fn is_mounted(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Unmounts it; [`Mounted::wait`] then waits until it is closed.
    ///
    /// # Errors
    /// Errors of the kernel, [`io::ErrorKind::ResourceBusy`] if a file is open there, or a process has its working
    /// directory there. Then it stays mounted.
    pub fn unmount(&self) -> io::Result<()> {
        self.take_away(UnmountFlags::empty(), &[])
    }

    /// Detaches it from the directory tree at once. Open files stay usable, and it is closed after the last of them is
    /// closed.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn detach(&self) -> io::Result<()> {
        self.take_away(UnmountFlags::DETACH, &["-z"])
    }

    fn take_away(&self, how: UnmountFlags, words: &[&str]) -> io::Result<()> {
        if !self.is_mounted() {
            return Ok(());
        }
        match unmount(&self.path, how) {
            Ok(()) => Ok(()),
            // Without root, a set-user-ID program may do it.
            Err(Errno::PERM) => by_program(&self.path, words),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it is unmounted and closed.
    ///
    /// # Errors
    /// Errors between the kernel and this process.
    pub fn wait(self) -> io::Result<()> {
        let Self { serving, syncs, syncing, .. } = self;
        let ended = serving.join();
        drop(syncs);
        let _ = syncing.join();
        ended.map_err(|_| io::Error::other("a thread that answers the kernel has panicked"))?
    }
}

fn by_program(path: &Path, words: &[&str]) -> io::Result<()> {
    let output = Command::new("fusermount3").arg("-u").args(words).arg("--").arg(path).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind =
        if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, said))
}
