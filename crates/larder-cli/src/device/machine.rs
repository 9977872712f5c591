//! The interface of `larder device` to the machine; tests use a fake one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder_device::nvme::access::open_exclusive;
use larder_device::nvme::node::Roots;
use larder_device::nvme::paths::Host;
use larder_device::nvme::{Commands, DriveFile, Node, discard};
use larder_device::{Clock, RealClock};
use larder_workload::Error;

/// The machine.
pub(super) trait Machine {
    /// Where sysfs and the device nodes are.
    fn roots(&self) -> &Roots;

    /// Opens a node for commands.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Commands>>;

    /// What this user may do with a namespace.
    fn host(&self, node: &Node) -> Host;

    /// Opens a block device exclusively, until the claim is dropped.
    fn claim(&self, path: &Path) -> io::Result<Box<dyn Claim>>;

    /// Time since 1970.
    fn now(&self) -> Duration;

    /// Waits for `time`; `false` if the user has interrupted.
    fn wait(&self, time: Duration) -> bool;

    /// From now on Ctrl-C ends a wait and not the process.
    fn catch_interrupt(&self) -> Result<(), Error>;

    /// Prints text on standard output, or on standard error if `beside`.
    fn say(&self, text: &str, beside: bool) -> Result<(), Error>;

    /// Lets the kernel rescan the namespaces of a controller.
    fn rescan(&self, controller: &str) -> io::Result<()> {
        let class = self.roots().sys.join("class/nvme").join(controller);
        fs::write(class.join("rescan_controller"), "1")
    }
}

/// A block device that no other process has open exclusively.
pub(super) trait Claim {
    /// Discards these bytes.
    fn discard(&self, start: u64, bytes: u64) -> io::Result<()>;
}

impl Claim for File {
    fn discard(&self, start: u64, bytes: u64) -> io::Result<()> {
        discard(self, start..start.saturating_add(bytes))
    }
}

/// The real Linux system.
#[derive(Debug, Default)]
pub(super) struct Linux {
    roots: Roots,
    interrupted: Arc<AtomicBool>,
}

impl Machine for Linux {
    fn roots(&self) -> &Roots {
        &self.roots
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Commands>> {
        Ok(Box::new(DriveFile::open(path, write)?))
    }

    fn host(&self, node: &Node) -> Host {
        Host::of(node)
    }

    fn claim(&self, path: &Path) -> io::Result<Box<dyn Claim>> {
        Ok(Box::new(open_exclusive(path)?))
    }

    fn now(&self) -> Duration {
        RealClock.now()
    }

    fn wait(&self, time: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(50);
        let end = Instant::now() + time;
        while !self.interrupted.load(Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(STEP));
        }
        false
    }

    fn say(&self, text: &str, beside: bool) -> Result<(), Error> {
        if beside {
            eprint!("{text}");
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // A reader that has closed its end does not want to wait any longer.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.interrupted.store(true, Ordering::Relaxed);
                Ok(())
            }
            written => written.map_err(|error| Error::run(format!("standard output: {error}"))),
        }
    }

    fn catch_interrupt(&self) -> Result<(), Error> {
        let interrupted = Arc::clone(&self.interrupted);
        ctrlc::set_handler(move || {
            if interrupted.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })
        .map_err(|error| Error::run(format!("Ctrl-C handler: {error}")))
    }
}
