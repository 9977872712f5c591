//! Drives that carry out NVMe commands.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use larder_ssd::nvme::{Command, Completion, Controller, Status};

/// A drive at the level of commands. Calls block until the command has ended.
pub trait Commands: Send + Sync {
    /// Sends an admin command. `data` is sent or filled, depending on the opcode. Returns dword 0 of the completion.
    ///
    /// # Errors
    /// If the command could not be sent, or ended with a status other than success.
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError>;

    /// Sends an I/O command, like [`Commands::admin`].
    ///
    /// # Errors
    /// As [`Commands::admin`].
    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError>;
}

/// Why a command did nothing.
#[derive(Debug)]
pub enum CommandError {
    /// The kernel did not send it: no permission, no such device, or the drive is gone.
    Os(io::Error),
    /// The drive refused it with this status.
    Status(Status),
    /// The drive does not report this.
    Unreported(&'static str),
    /// The drive's answer makes no sense.
    Malformed(&'static str),
}

impl CommandError {
    /// Whether the kernel refuses such commands to this user.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Os(error) if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(error) => error.fmt(f),
            Self::Status(status) => status.fmt(f),
            Self::Unreported(what) => write!(f, "the drive does not report {what}"),
            Self::Malformed(what) => write!(f, "the drive's {what} makes no sense"),
        }
    }
}

impl std::error::Error for CommandError {}

/// The model's controller as a drive.
pub struct ModelDrive(Mutex<Controller>);

impl ModelDrive {
    /// A drive with this controller.
    pub fn new(controller: Controller) -> Self {
        Self(Mutex::new(controller))
    }

    fn ended(completion: Completion) -> Result<u32, CommandError> {
        match completion.status {
            Status::Success => Ok(completion.result),
            status => Err(CommandError::Status(status)),
        }
    }
}

impl Commands for ModelDrive {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        let mut controller = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::ended(controller.admin(command, data))
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        let mut controller = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Self::ended(controller.io(command, data))
    }
}

#[cfg(test)]
impl ModelDrive {
    /// A drive of 64 MiB with a namespace of 1000 blocks, and the namespace's number. FDP is off if `handles` is empty.
    pub(crate) fn with_handles(handles: &[u16]) -> (Self, u32) {
        let geometry =
            larder_ssd::managed::Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0);
        Self::of(geometry.unwrap(), 4, handles)
    }

    /// A drive of 1000 blocks with hardly any spare space: random overwrites make it copy data.
    pub(crate) fn cramped(fdp: bool) -> (Self, u32) {
        let geometry =
            larder_ssd::managed::Geometry { logical_pages: 1000, pages_per_unit: 32, units: 40 };
        Self::of(geometry, 1, if fdp { &[0] } else { &[] })
    }

    fn of(
        geometry: larder_ssd::managed::Geometry,
        drive_handles: u16,
        handles: &[u16],
    ) -> (Self, u32) {
        use larder_ssd::managed::ManagedConfig;
        use larder_ssd::nvme::ControllerConfig;
        use larder_ssd::nvme::namespace::NamespaceRequest;
        let fdp = !handles.is_empty();
        let config = ManagedConfig { fdp, handles: drive_handles, ..ManagedConfig::new(geometry) };
        let mut drive = Controller::new(ControllerConfig::new(config)).unwrap();
        let handles = handles.to_vec();
        let request = NamespaceRequest { blocks: 1000, format: 0, endurance_group: 1, handles };
        let created = drive.admin(&Command::create_namespace(), &mut request.encode().unwrap());
        assert!(created.status.is_success(), "{}", created.status);
        (Self::new(drive), created.result)
    }
}
