//! Lists Larder's devices, served or not, and removes those without a server.

use std::path::PathBuf;

use larder_device::{Error, ErrorKind};

use super::control::{Control, ExistingDevice, is_running};
use super::owner::Owner;
use super::wire::State;

/// A device of Larder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UblkStatus {
    /// The number of the device.
    pub id: u32,
    /// Its owner.
    pub owner: Owner,
    /// Length of the device in bytes.
    pub size_bytes: u64,
    /// Its server.
    pub served: UblkService,
}

/// Whether a device has a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkService {
    /// The process with this id serves the device.
    Process(i32),
    /// It has no server: requests wait for one.
    Waits,
    /// It has no server and no disk: its server has ended before starting it, or while deleting it.
    None,
}

impl UblkStatus {
    /// The path of the disk.
    pub fn path(&self) -> PathBuf {
        format!("/dev/ublkb{}", self.id).into()
    }

    fn of(known: &ExistingDevice) -> Option<Self> {
        let served = match known.state {
            State::Live if known.server_pid > 0 && is_running(known.server_pid) => {
                UblkService::Process(known.server_pid)
            }
            State::Dead => UblkService::None,
            State::Live | State::Quiesced | State::Other(_) => UblkService::Waits,
        };
        let owner = known.owner?;
        Some(Self { id: known.id, owner, size_bytes: known.size_bytes, served })
    }
}

/// All devices of Larder, by number.
///
/// # Errors
/// [`ErrorKind::Setup`] if the kernel has no ublk, or this user may not use it.
pub fn devices() -> Result<Vec<UblkStatus>, Error> {
    let known = Control::open()?.list()?;
    Ok(known.iter().filter_map(UblkStatus::of).collect())
}

/// Deletes a device without a server. Waiting requests fail. If its disk is mounted, the number becomes free when it
/// is unmounted.
///
/// # Errors
/// [`ErrorKind::Setup`] if there is no device with this number, if it is not Larder's, or as for [`devices`];
/// [`ErrorKind::InUse`] if the device has a server.
pub fn remove(id: u32) -> Result<UblkStatus, Error> {
    let mut control = Control::open()?;
    let known = control.look(id)?;
    let status = removable(id, known.as_ref())?;
    let failed = |error| Error::from_os(format!("deleting ublk device {id}"), error);
    control.stop(id).map_err(failed)?;
    control.give_up(id).map_err(failed)?;
    Ok(status)
}

fn removable(id: u32, known: Option<&ExistingDevice>) -> Result<UblkStatus, Error> {
    let refused = |kind, why: String| Err(Error::new(kind, why));
    let Some(known) = known else {
        let why = format!("ublk device {id}: there is none; `larder block ublk` lists Larder's");
        return refused(ErrorKind::Setup, why);
    };
    let Some(status) = UblkStatus::of(known) else {
        return refused(ErrorKind::Setup, format!("ublk device {id} is not Larder's"));
    };
    if let UblkService::Process(pid) = status.served {
        let why = format!("/dev/ublkb{id}: process {pid} serves it; end that");
        return refused(ErrorKind::InUse, why);
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_larders_and_not_served_is_removed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let known = ExistingDevice {
            id: 3,
            state: State::Live,
            owner: Some(Owner::named("me")),
            size_bytes: 4096,
            server_pid: own,
            features: 0,
            queues: 1,
            queue_depth: 1,
        };
        let of = |known: ExistingDevice| removable(3, Some(&known));
        assert_eq!(of(known).unwrap_err().kind(), ErrorKind::InUse);
        assert_eq!(
            of(ExistingDevice { owner: None, ..known }).unwrap_err().kind(),
            ErrorKind::Setup
        );
        assert!(removable(3, None).unwrap_err().to_string().contains("there is none"));
        let waits = of(ExistingDevice { state: State::Quiesced, ..known }).unwrap();
        assert_eq!((waits.served, waits.path()), (UblkService::Waits, "/dev/ublkb3".into()));
        let killed = of(ExistingDevice { server_pid: i32::MAX, ..known }).unwrap();
        assert_eq!(killed.served, UblkService::Waits);
        let stopped = of(ExistingDevice { state: State::Dead, ..known }).unwrap();
        assert_eq!(stopped.served, UblkService::None);
    }
}
