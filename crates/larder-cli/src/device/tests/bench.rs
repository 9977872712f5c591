//! A machine with one drive, which is the model's controller, and a sysfs in a folder.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use larder_device::nvme::access::Permissions;
use larder_device::nvme::node::Roots;
use larder_device::nvme::paths::Host;
use larder_device::nvme::{CommandError, Commands, ModelDrive, Node};
use larder_ssd::managed::{Geometry, ManagedConfig};
use larder_ssd::nvme::namespace::NamespaceRequest;
use larder_ssd::nvme::{Command, Controller, ControllerConfig};
use larder_workload::Error;
use serde_json::Value;
use tempfile::TempDir;

use super::super::answer;
use super::super::machine::{Claim, Machine};
use crate::args::Cli;

pub(super) const DRIVE_BYTES: u64 = 64 << 20;

/// The drive behind all nodes.
#[derive(Clone)]
pub(super) struct SharedDrive {
    pub(super) drive: Arc<ModelDrive>,
    /// Whether the user is root; other users may only identify, and ask for the status of handles.
    pub(super) root: bool,
}

impl Commands for SharedDrive {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        const IDENTIFY: u8 = 0x06;
        if self.root || command.opcode == IDENTIFY {
            self.drive.admin(command, data)
        } else {
            Err(CommandError::Os(io::ErrorKind::PermissionDenied.into()))
        }
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.drive.io(command, data)
    }
}

/// A machine with one drive, in a folder.
pub(super) struct Bench {
    pub(super) folder: TempDir,
    pub(super) roots: Roots,
    pub(super) drive: SharedDrive,
    pub(super) permissions: Permissions,
    pub(super) may_open: bool,
    pub(super) busy: bool,
    pub(super) now: Cell<Duration>,
    pub(super) random: RefCell<fastrand::Rng>,
    pub(super) discarded: Rc<RefCell<Vec<(u64, u64)>>>,
    pub(super) said: RefCell<String>,
}

struct Discards(Rc<RefCell<Vec<(u64, u64)>>>);

impl Claim for Discards {
    fn discard(&self, start: u64, bytes: u64) -> io::Result<()> {
        self.0.borrow_mut().push((start, bytes));
        Ok(())
    }
}

impl Machine for Bench {
    fn roots(&self) -> &Roots {
        &self.roots
    }

    fn open(&self, _: &Path, _: bool) -> io::Result<Box<dyn Commands>> {
        if self.may_open {
            Ok(Box::new(self.drive.clone()))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }

    fn host(&self, _: &Node) -> Host {
        Host { kernel: Some((6, 18)), block: self.permissions, generic: self.permissions }
    }

    fn claim(&self, _: &Path) -> io::Result<Box<dyn Claim>> {
        if self.busy {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        Ok(Box::new(Discards(Rc::clone(&self.discarded))))
    }

    fn now(&self) -> Duration {
        self.now.get()
    }

    /// Advances the time, and writes random blocks.
    fn wait(&self, time: Duration) -> bool {
        self.now.set(self.now.get() + time);
        let blocks = (0..2000).map(|_| self.random.borrow_mut().u64(0..DRIVE_BYTES / 4096));
        blocks.for_each(|block| self.write(block));
        true
    }

    fn catch_interrupt(&self) -> Result<(), Error> {
        Ok(())
    }

    fn say(&self, text: &str, _: bool) -> Result<(), Error> {
        *self.said.borrow_mut() += text;
        Ok(())
    }

    fn rescan(&self, _: &str) -> io::Result<()> {
        self.show_namespace();
        Ok(())
    }
}

impl Bench {
    /// A machine with a namespace of the whole drive, which has these handles.
    pub(super) fn new(fdp: bool, handles: &[u16]) -> Self {
        let bench = Self::without_namespace(fdp);
        bench.create(handles);
        bench.show_namespace();
        bench
    }

    pub(super) fn without_namespace(fdp: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().join("sys"), dev: folder.path().join("dev") };
        for path in [&roots.dev, &roots.sys.join("class/block"), &roots.sys.join("devices/nvme0")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(roots.dev.join("nvme0"), "").unwrap();
        fs::write(roots.sys.join("devices/nvme0/model"), "Model\n").unwrap();
        let geometry = Geometry::with_overprovisioning(DRIVE_BYTES, 256 << 10, 17.0).unwrap();
        let config = ManagedConfig { fdp, handles: 4, ..ManagedConfig::new(geometry) };
        let drive = Controller::new(ControllerConfig::new(config)).unwrap();
        Self {
            folder,
            roots,
            drive: SharedDrive { drive: Arc::new(ModelDrive::new(drive)), root: true },
            permissions: Permissions { read: true, write: true },
            may_open: true,
            busy: false,
            now: Cell::new(Duration::from_secs(1_800_000_000)),
            random: RefCell::new(fastrand::Rng::with_seed(1)),
            discarded: Rc::default(),
            said: RefCell::default(),
        }
    }

    pub(super) fn create(&self, handles: &[u16]) {
        let handles = handles.to_vec();
        let blocks = DRIVE_BYTES / 4096;
        let request = NamespaceRequest { blocks, format: 0, endurance_group: 1, handles };
        let command = Command::create_namespace();
        self.drive.drive.admin(&command, &mut request.encode().unwrap()).unwrap();
    }

    /// Creates the kernel's entries for the namespace.
    pub(super) fn show_namespace(&self) {
        let whole = self.roots.sys.join("devices/nvme0/nvme0n1");
        fs::create_dir_all(whole.join("queue")).unwrap();
        let files = [
            ("nsid", "1".to_owned()),
            ("size", (DRIVE_BYTES / 512).to_string()),
            ("ro", "0".to_owned()),
            ("queue/logical_block_size", "4096".to_owned()),
            ("queue/max_hw_sectors_kb", "512".to_owned()),
            ("queue/max_write_streams", "4".to_owned()),
            ("queue/write_stream_granularity", "262144".to_owned()),
        ];
        for (name, text) in files {
            fs::write(whole.join(name), text).unwrap();
        }
        let link = |to: &Path, from: &Path| {
            if !from.exists() {
                symlink(to, from).unwrap();
            }
        };
        link(&self.roots.sys.join("devices/nvme0"), &whole.join("device"));
        link(&whole, &self.roots.sys.join("class/block/nvme0n1"));
        for name in ["nvme0n1", "ng0n1"] {
            fs::write(self.roots.dev.join(name), "").unwrap();
        }
    }

    pub(super) fn write(&self, block: u64) {
        self.drive.drive.io(&Command::write(1, block, 1, Some(1)), &mut [7; 4096]).unwrap();
    }

    /// Runs a command; NODE in it is the namespace, DRIVE its controller. Returns its JSON.
    pub(super) fn ask(&self, arguments: &str) -> Result<Value, Error> {
        let file = self.folder.path().join("answer.json");
        let words = format!("larder device {arguments} --json {}", file.display());
        let dev = |name: &str| self.roots.dev.join(name).display().to_string();
        let words = words.replace("NODE", &dev("nvme0n1")).replace("DRIVE", &dev("nvme0"));
        let parsed = Cli::try_parse_from(words.split_whitespace()).unwrap();
        let crate::args::Command::Device(command) = parsed.command else { panic!("{words}") };
        answer(&command, self)?;
        Ok(serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap())
    }

    #[track_caller]
    pub(super) fn json(&self, arguments: &str) -> Value {
        self.ask(arguments).unwrap()
    }

    #[track_caller]
    pub(super) fn refusal(&self, arguments: &str, usage: bool) -> String {
        let error = self.ask(arguments).unwrap_err();
        assert_eq!(matches!(error, Error::Usage(_)), usage, "{error}");
        error.to_string()
    }

    /// The text of a command for people.
    #[track_caller]
    pub(super) fn text(&self, arguments: &str) -> String {
        self.said.take();
        self.json(arguments);
        self.said.take().replace(&self.roots.dev.display().to_string(), "/dev")
    }

    pub(super) fn state(&self) -> Value {
        self.json("list")["namespaces"][0].clone()
    }
}
