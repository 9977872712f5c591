//! Commands to the driver about whole devices.

use std::fs::OpenOptions;
use std::io;

use larder_device::{Error, ErrorKind};
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::kernel::ControlRing;
use super::owner::Owner;
use super::shape::Shape;
use super::wire::{
    ANY_ID, ControlCommand, DeviceInfo, NO_QUEUE, Params, SECTOR_BYTES, State, feature, operation,
};

const CONTROL: &str = "/dev/ublk-control";
/// Where the kernel lists the devices: `ublkc` and a number each.
const DEVICES: &str = "/sys/class/ublk-char";

/// The control device of the driver.
pub(super) struct Control {
    ring: ControlRing,
}

/// An existing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExistingDevice {
    pub(super) id: u32,
    pub(super) state: State,
    /// `None`: it does not belong to Larder.
    pub(super) owner: Option<Owner>,
    /// 0 if it has no size yet.
    pub(super) size_bytes: u64,
    pub(super) server_pid: i32,
    pub(super) features: u64,
    pub(super) queues: u16,
    pub(super) queue_depth: u16,
}

impl Control {
    /// # Errors
    /// [`ErrorKind::Setup`], with what to do: there is no driver, it is too old, or this user may not use it.
    pub(super) fn open() -> Result<Self, Error> {
        let setup = |why: String| Error::new(ErrorKind::Setup, why);
        let device = OpenOptions::new().read(true).write(true).open(CONTROL);
        let device = device.map_err(|error| {
            setup(match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "{CONTROL} is missing: the kernel has no ublk; `modprobe ublk_drv` loads it \
                     (Linux 6.5 or later with CONFIG_BLK_DEV_UBLK)"
                ),
                io::ErrorKind::PermissionDenied => {
                    format!("{CONTROL}: {error}; ublk is for root (CAP_SYS_ADMIN)")
                }
                _ => format!("{CONTROL}: {error}"),
            })
        })?;
        let ring = ControlRing::new(device);
        let ring = ring.map_err(|error| setup(format!("ublk needs io_uring: {error}")))?;
        let mut control = Self { ring };
        let features = control.features().map_err(|error| {
            setup(match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("ublk: {error}; it is for root (CAP_SYS_ADMIN)")
                }
                _ => format!("ublk: its features: {error}; Linux 6.5 or later is needed"),
            })
        })?;
        if features & feature::NEEDED != feature::NEEDED {
            return Err(setup(format!(
                "ublk: the driver has the features {features:#x}, and {:#x} are needed: Linux 6.5 or later",
                feature::NEEDED
            )));
        }
        Ok(control)
    }

    fn send(&mut self, operation: u32, id: u32, data: u64, buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        let command =
            ControlCommand { dev_id: id, queue_id: NO_QUEUE, data, ..ControlCommand::default() };
        self.ring.send(operation, command, buffer)
    }

    /// Sends the bytes of `asked`, and returns the answer, which has the same type.
    fn ask<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        operation: u32,
        id: u32,
        asked: T,
    ) -> io::Result<T> {
        let answer = self.send(operation, id, 0, asked.as_bytes().to_vec())?;
        T::read_from_bytes(&answer).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn features(&mut self) -> io::Result<u64> {
        self.ask(operation::GET_FEATURES, ANY_ID, 0_u64)
    }

    /// All devices, of Larder or not. A device that is being deleted is left out.
    pub(super) fn list(&mut self) -> Result<Vec<ExistingDevice>, Error> {
        let failed = |error| Error::from_os(DEVICES, error);
        let entries = match std::fs::read_dir(DEVICES) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut known = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix("ublkc")?.parse().ok());
            known.extend(match id {
                Some(id) => self.look(id)?,
                None => None,
            });
        }
        known.sort_by_key(|device| device.id);
        Ok(known)
    }

    /// The device with this number, if there is one.
    pub(super) fn look(&mut self, id: u32) -> Result<Option<ExistingDevice>, Error> {
        let failed = |error: io::Error| Error::from_os(format!("ublk device {id}"), error);
        let info: DeviceInfo = match self.ask(operation::GET_DEV_INFO, id, DeviceInfo::default()) {
            Ok(info) => info,
            Err(error) if is_unknown(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let len = u32::try_from(size_of::<Params>()).expect("a few bytes");
        let params = Params { len, ..Params::default() };
        let params = match self.ask(operation::GET_PARAMS, id, params) {
            Ok(params) => params,
            Err(error) if is_unknown(&error) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        Ok(Some(ExistingDevice {
            id,
            state: State::of(info.state),
            owner: Owner::of(info.server_flags),
            size_bytes: params.basic.sectors.saturating_mul(SECTOR_BYTES),
            server_pid: info.server_pid,
            features: info.features,
            queues: info.queues,
            queue_depth: info.queue_depth,
        }))
    }

    /// Makes a device that is not started yet. Returns its number, its number of queues and their depth.
    pub(super) fn add(
        &mut self,
        id: Option<u32>,
        owner: Owner,
        (queues, queue_depth): (u16, u16),
        shape: &Shape,
    ) -> io::Result<ExistingDevice> {
        let id = id.unwrap_or(ANY_ID);
        let wanted = DeviceInfo {
            queues,
            queue_depth,
            io_bytes_max: shape.io_bytes_max(),
            dev_id: id,
            features: feature::NEEDED,
            server_flags: owner.flags(),
            ..DeviceInfo::default()
        };
        let info: DeviceInfo = self.ask(operation::ADD_DEV, id, wanted)?;
        let made = ExistingDevice {
            id: info.dev_id,
            state: State::Dead,
            owner: Some(owner),
            size_bytes: shape.size_bytes(),
            server_pid: 0,
            features: info.features,
            queues: info.queues,
            queue_depth: info.queue_depth,
        };
        let set = self.ask(operation::SET_PARAMS, made.id, shape.params());
        if let Err(error) = set {
            let _ = self.delete(made.id);
            return Err(error);
        }
        Ok(made)
    }

    /// Starts a device whose tags have all been fetched: then the kernel has a disk.
    pub(super) fn start(&mut self, id: u32) -> io::Result<()> {
        self.send(operation::START_DEV, id, std::process::id().into(), Vec::new()).map(drop)
    }

    /// Removes the disk, after pending writes were answered, and takes back all tags.
    pub(super) fn stop(&mut self, id: u32) -> io::Result<()> {
        self.send(operation::STOP_DEV, id, 0, Vec::new()).map(drop)
    }

    /// Deletes a device. Waits until no process has its character device or its disk open.
    pub(super) fn delete(&mut self, id: u32) -> io::Result<()> {
        self.send(operation::DEL_DEV, id, 0, Vec::new()).map(drop)
    }

    /// The same without waiting, if the driver supports that: a disk may stay mounted for any time. The number becomes
    /// free when no process has it open.
    pub(super) fn give_up(&mut self, id: u32) -> io::Result<()> {
        match self.send(operation::DEL_DEV_ASYNC, id, 0, Vec::new()) {
            Err(error) if is_unsupported(&error) => self.delete(id),
            given_up => given_up.map(drop),
        }
    }

    /// Begins to take over a device whose server is gone.
    pub(super) fn begin_recovery(&mut self, id: u32) -> io::Result<()> {
        self.send(operation::START_USER_RECOVERY, id, 0, Vec::new()).map(drop)
    }

    /// Ends the takeover, after all tags were fetched: waiting requests continue.
    pub(super) fn end_recovery(&mut self, id: u32) -> io::Result<()> {
        let pid = std::process::id().into();
        self.send(operation::END_USER_RECOVERY, id, pid, Vec::new()).map(drop)
    }
}

/// Whether the driver is too old for the command.
fn is_unsupported(error: &io::Error) -> bool {
    is(error, Errno::OPNOTSUPP) || is(error, Errno::INVAL)
}

/// Whether there is no such device.
fn is_unknown(error: &io::Error) -> bool {
    is(error, Errno::NODEV) || is(error, Errno::NOENT)
}

/// Whether the error of the system is exactly this one.
pub(super) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Whether a process runs. A zombie does not.
pub(super) fn is_running(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state follows the name, which may contain any character.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}
