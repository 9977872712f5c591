//! A mount while it lasts, and how it ends.

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

/// A file system that is mounted. It is closed when it is unmounted; whoever drops this leaves it mounted.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    /// Answers the kernel, and closes the file system at the end.
    serving: JoinHandle<io::Result<()>>,
    /// Ends the thread that syncs when it is dropped.
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
                // Whoever asks for a sync hears of the failure: from then on nothing can be written.
                let _ = fs.sync();
            }
        })?;
        let nobody = std::thread::Builder::new().spawn(|| Ok(()))?;
        let serving = std::mem::replace(&mut kernel.guard, nobody);
        // Its drop unmounts the directory once more, and thus whatever somebody has mounted there since.
        std::mem::forget(kernel);
        Ok(Self { path, serving, syncs, syncing })
    }

    /// Whether nobody has unmounted it.
    pub fn is_mounted(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Unmounts it; [`Mounted::wait`] then waits until it is closed.
    ///
    /// # Errors
    /// What the kernel says, [`io::ErrorKind::ResourceBusy`] if somebody has a file open there, or a directory as its
    /// own. It is mounted then as before.
    pub fn unmount(&self) -> io::Result<()> {
        self.take_away(UnmountFlags::empty(), &[])
    }

    /// Takes it out of the tree at once. Whoever has files open there keeps them, and it is closed after the last one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn detach(&self) -> io::Result<()> {
        self.take_away(UnmountFlags::DETACH, &["-z"])
    }

    fn take_away(&self, how: UnmountFlags, words: &[&str]) -> io::Result<()> {
        if !self.is_mounted() {
            return Ok(());
        }
        match unmount(&self.path, how) {
            Ok(()) => Ok(()),
            // Without root, a program with set-user-ID may.
            Err(Errno::PERM) => by_program(&self.path, words),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until somebody has unmounted it, and it is closed.
    ///
    /// # Errors
    /// What went wrong between the kernel and this process.
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
