//! Cores and devices as kernel disks: starts, reports and ends them; and `larder block ublk`.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use indicatif::BinaryBytes;
use larder_device::{Device, ErrorKind};
use larder_export::ublk::{self, Owner, UblkConfig, UblkDevice, UblkId, UblkService, UblkStatus};
use larder_workload::Error;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGTERM;

use super::serving::say;
use super::target;
use crate::args::{TargetArg, UblkListArgs};
use crate::ending::Ending;
use crate::json::JsonTarget;

/// Default queue depth of a disk.
const DEPTH: u16 = 128;

/// The queue depth from the file or the command line.
pub(super) fn depth(told: Option<u16>) -> Result<u16, Error> {
    let depth = told.unwrap_or(DEPTH);
    if (1..=4096).contains(&depth) {
        return Ok(depth);
    }
    Err(Error::usage(format!("ublk-depth = {depth}: give 1 to 4096")))
}

/// The disks that this process serves.
#[derive(Default)]
pub(super) struct Disks {
    disks: Vec<UblkDevice>,
    /// Why a disk has ended without being told to.
    lost: Arc<Mutex<Option<String>>>,
}

impl Disks {
    /// Starts one more. If it ends without being told to, this process is told to end.
    pub(super) fn begin(&mut self, config: UblkConfig) -> Result<&UblkDevice, Error> {
        let lost = Arc::clone(&self.lost);
        let on_end = move |why: String| {
            lost.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            let _ = signal_hook::low_level::raise(SIGTERM);
        };
        let config = UblkConfig { on_end: Some(Box::new(on_end)), ..config };
        self.disks.push(UblkDevice::start(config).map_err(|error| failed(&error))?);
        Ok(self.disks.last().expect("it was put there"))
    }

    /// Ends all disks, even if one fails.
    pub(super) fn end(mut self) -> Result<(), Error> {
        let mut ended = Ok(());
        for disk in self.disks.drain(..) {
            let path = disk.path();
            match disk.end() {
                Ok(()) => say(&format!("ublk       {} is gone", path.display())),
                Err(error) => ended = ended.and(Err(Error::run(error.to_string()))),
            }
        }
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        match lost {
            // Errors of the end are only a consequence of this.
            Some(why) => Err(Error::run(format!("a disk has ended by itself: {why}"))),
            None => ended,
        }
    }

    /// Prints which disk it is.
    pub(super) fn announce(disk: &UblkDevice, depth: u16) {
        let how = match disk.was_taken_over() {
            true => "taken over from a server that is gone".to_owned(),
            false => format!("{depth} requests at a time"),
        };
        say(&format!("ublk       {}, {how}", disk.path().display()));
    }
}

/// Turns an error of the library into a usage error or a failure.
fn failed(error: &larder_device::Error) -> Error {
    match error.kind() {
        ErrorKind::Setup => Error::usage(error.to_string()),
        _ => Error::run(error.to_string()),
    }
}

/// Checks whether the kernel supports disks, before anything is started.
pub(super) fn check() -> Result<(), Error> {
    ublk::devices().map(drop).map_err(|error| failed(&error))
}

/// The owner name for the disk of a cache's core.
pub(super) fn owner_of_core(uuid: &str, core: u16) -> Owner {
    Owner::named(&format!("cache {uuid} core {core}"))
}

/// The owner name for the disk of a target. For a target that ends with this process it is unique, so that no later
/// process takes the disk over.
pub(super) fn owner_of_target(target: &TargetArg) -> Owner {
    let target = target::absolute(target);
    Owner::named(&match &target {
        TargetArg::Device(device) => format!("export {}", device.path.display()),
        TargetArg::Memory(_) | TargetArg::Model(_) => {
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            format!("export {target} of process {} at {now:?}", std::process::id())
        }
    })
}

/// The number of the `nth` disk.
pub(super) fn nth(first: UblkId, nth: usize) -> UblkId {
    match first {
        UblkId::Auto => UblkId::Auto,
        UblkId::Number(id) => {
            UblkId::Number(id.saturating_add(u32::try_from(nth).unwrap_or(u32::MAX)))
        }
    }
}

/// Logical block size of a disk: that of a drive, so that partitions are found where they were; 512 for other targets,
/// as in images of disks.
pub(super) fn logical_block_bytes(target: &TargetArg, device: &dyn Device) -> u32 {
    let is_drive = match target {
        TargetArg::Device(target) => fs::metadata(&target.path).is_ok_and(|found| {
            found.file_type().is_block_device() || found.file_type().is_char_device()
        }),
        TargetArg::Memory(_) | TargetArg::Model(_) => false,
    };
    match is_drive {
        true => device.info().block_bytes.clamp(512, 4096),
        false => 512,
    }
}

/// A disk, for people and as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Disk {
    pub(super) id: u32,
    pub(super) path: String,
    pub(super) bytes: u64,
    /// `process`, `waits` or `none`.
    pub(super) served: String,
    pub(super) process: Option<i32>,
    /// The core, if it is a disk of a cache.
    pub(super) core: Option<u16>,
}

impl Disk {
    fn of(status: &UblkStatus, core: Option<u16>) -> Self {
        let (served, process) = match status.served {
            UblkService::Process(pid) => ("process", Some(pid)),
            UblkService::Waits => ("waits", None),
            UblkService::None => ("none", None),
        };
        let path = status.path().display().to_string();
        let (id, bytes) = (status.id, status.size_bytes);
        Self { id, path, bytes, served: served.to_owned(), process, core }
    }

    /// Formats it in one line.
    pub(super) fn render(&self) -> String {
        let Self { id, path, .. } = self;
        let core = self.core.map(|core| format!(" of core {core}")).unwrap_or_default();
        match (self.served.as_str(), self.process) {
            ("process", Some(pid)) => format!("{path}{core}, served by process {pid}"),
            ("none", _) => format!(
                "{path}{core} is no disk, for its server has ended: \
                 `larder block ublk --remove {id}` removes what is left"
            ),
            _ => format!(
                "{path}{core} WAITS for its server: `larder block start` or `export` with --ublk takes it \
                 over, `larder block ublk --remove {id}` removes it"
            ),
        }
    }
}

/// The existing disks of a cache's cores. Empty if that cannot be found out: the kernel has no ublk, or tells only
/// root.
pub(super) fn of_cache(uuid: &str, cores: &[u16]) -> Vec<Disk> {
    let devices = ublk::devices().unwrap_or_default();
    let of = |status: &UblkStatus| {
        let core = cores.iter().find(|core| owner_of_core(uuid, **core) == status.owner)?;
        Some(Disk::of(status, Some(*core)))
    };
    devices.iter().filter_map(of).collect()
}

pub(super) fn run(arguments: &UblkListArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let failed = |error: larder_device::Error| failed(&error);
    if let Some(id) = arguments.remove {
        let removed = Disk::of(&ublk::remove(id).map_err(failed)?, None);
        json.tell(&format!("removed    {}\n", removed.path))?;
        json.write(&removed)?;
        return Ok(Ending::Complete);
    }
    let devices = ublk::devices().map_err(failed)?;
    let disks: Vec<Disk> = devices.iter().map(|status| Disk::of(status, None)).collect();
    let mut text = String::new();
    for disk in &disks {
        text += &format!("{}, {}\n", BinaryBytes(disk.bytes), disk.render());
    }
    if disks.is_empty() {
        text += "no disk of the kernel's is Larder's\n";
    }
    json.tell(&text)?;
    json.write(&disks)?;
    Ok(Ending::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_outlive_the_process_where_what_is_exported_does() {
        let of = |text: &str| owner_of_target(&text.parse().unwrap());
        assert_eq!(of("file:/x/disk.img"), of("/x/disk.img"));
        assert_ne!(of("/x/disk.img"), of("/x/other.img"));
        assert_ne!(of("memory:1M"), of("memory:1M"), "what was in memory is gone");
        assert_ne!(owner_of_core("u", 1), owner_of_core("u", 2));
        assert_ne!(owner_of_core("u", 1), owner_of_core("v", 1));
    }

    #[test]
    fn a_disk_that_waits_is_told_of_with_what_helps() {
        let status = UblkStatus {
            id: 3,
            owner: owner_of_core("u", 7),
            size_bytes: 1 << 20,
            served: UblkService::Waits,
        };
        let line = Disk::of(&status, Some(7)).render();
        assert!(line.starts_with("/dev/ublkb3 of core 7 WAITS"), "{line}");
        assert!(line.contains("larder block ublk --remove 3"), "{line}");
        let served = UblkStatus { served: UblkService::Process(5), ..status };
        assert_eq!(Disk::of(&served, None).render(), "/dev/ublkb3, served by process 5");
    }

    #[test]
    fn the_second_disk_has_the_number_behind_the_first() {
        assert_eq!(nth(UblkId::Auto, 3), UblkId::Auto);
        assert_eq!(nth(UblkId::Number(4), 3), UblkId::Number(7));
    }
}
