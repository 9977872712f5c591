//! A drive's Flexible Data Placement (FDP): configurations, handles, counters and events (NVMe Base 2.1; logs 20h to
//! 23h, features 1Dh and 1Eh, I/O management).

use larder_ssd::nvme::Command;
use larder_ssd::nvme::command::log;
use larder_ssd::nvme::endurance_log::ENDURANCE_LOG_BYTES;
use larder_ssd::nvme::event::{Event, decode_events};
use larder_ssd::nvme::fdp_log::{
    Configuration, STATISTICS_BYTES, Statistics, configurations_bytes, decode_configurations,
};
use larder_ssd::nvme::io_management::{
    HandleStatus, STATUS_DESCRIPTOR_BYTES, STATUS_HEADER_BYTES, decode_status, status_count,
};

use super::commands::{CommandError, Commands};
use crate::drive_report::FdpCounters;
pub use larder_ssd::nvme::endurance_log::EnduranceLog;

/// Upper bound for the size of the configurations log; a larger size is taken for an error.
const CONFIGURATIONS_BYTES_MAX: u32 = 1 << 20;
const CONFIGURATIONS_HEADER_BYTES: u32 = 16;
/// 63 events of 64 bytes after a header of the same size.
const EVENTS_BYTES: u32 = 4096;

/// All FDP configurations of an endurance group.
///
/// # Errors
/// If a command fails, or an answer makes no sense.
pub fn read_configurations(
    drive: &dyn Commands,
    endurance_group: u16,
) -> Result<Vec<Configuration>, CommandError> {
    let read = |bytes: u32| {
        let mut log_page = vec![0; bytes as usize];
        let command = Command::get_log(log::FDP_CONFIGURATIONS, endurance_group, 0, bytes);
        drive.admin(&command, &mut log_page).map(|_| log_page)
    };
    let bytes = configurations_bytes(&read(CONFIGURATIONS_HEADER_BYTES)?)
        .filter(|bytes| (CONFIGURATIONS_HEADER_BYTES..=CONFIGURATIONS_BYTES_MAX).contains(bytes))
        .ok_or(CommandError::Malformed("length of its FDP configurations"))?;
    decode_configurations(&read(bytes.next_multiple_of(4))?)
        .ok_or(CommandError::Malformed("list of FDP configurations"))
}

/// The placement handles of a namespace.
///
/// # Errors
/// If a command fails, or an answer makes no sense.
pub fn read_handles(drive: &dyn Commands, nsid: u32) -> Result<Vec<HandleStatus>, CommandError> {
    let read = |bytes: usize| {
        let mut reply = vec![0; bytes];
        let bytes = u32::try_from(bytes).expect("65,535 descriptors of 32 bytes");
        drive.io(&Command::handle_status(nsid, bytes), &mut reply).map(|_| reply)
    };
    let malformed = || CommandError::Malformed("list of placement handles");
    let count = status_count(&read(STATUS_HEADER_BYTES)?).ok_or_else(malformed)?;
    let bytes = STATUS_HEADER_BYTES + STATUS_DESCRIPTOR_BYTES * usize::from(count);
    decode_status(&read(bytes)?).ok_or_else(malformed)
}

impl FdpCounters {
    /// Reads the counters from the FDP statistics, or from the endurance group log where there are none.
    ///
    /// # Errors
    /// If a command fails, or an answer makes no sense.
    pub fn read(drive: &dyn Commands, endurance_group: u16) -> Result<Self, CommandError> {
        let mut page = [0; STATISTICS_BYTES];
        let bytes = u32::try_from(STATISTICS_BYTES).expect("64");
        let command = Command::get_log(log::FDP_STATISTICS, endurance_group, 0, bytes);
        match drive.admin(&command, &mut page) {
            Ok(_) => {
                let statistics =
                    Statistics::decode(&page).ok_or(CommandError::Malformed("FDP statistics"))?;
                Ok(Self {
                    host_bytes: statistics.host_bytes,
                    media_bytes: statistics.media_bytes,
                    erased_bytes: Some(statistics.erased_bytes),
                })
            }
            // Drives without FDP differ in the status that they return.
            Err(CommandError::Status(_)) => counters_of(&read_endurance(drive, endurance_group)?),
            Err(error) => Err(error),
        }
    }
}

/// Reads the endurance group log (09h).
///
/// # Errors
/// If a command fails, or an answer makes no sense.
pub fn read_endurance(
    drive: &dyn Commands,
    endurance_group: u16,
) -> Result<EnduranceLog, CommandError> {
    let mut page = [0; ENDURANCE_LOG_BYTES];
    let bytes = u32::try_from(page.len()).map_err(|_| CommandError::Malformed("log length"))?;
    drive.admin(&Command::get_log(log::ENDURANCE_GROUP, endurance_group, 0, bytes), &mut page)?;
    EnduranceLog::decode(&page).ok_or(CommandError::Malformed("endurance group log"))
}

/// The bytes written according to the log, which counts in billions.
fn counters_of(log: &EnduranceLog) -> Result<FdpCounters, CommandError> {
    if log.host_bytes > 0 && log.media_bytes == 0 {
        return Err(CommandError::Unreported("what it writes to its media"));
    }
    Ok(FdpCounters { host_bytes: log.host_bytes, media_bytes: log.media_bytes, erased_bytes: None })
}

/// The events that a drive remembers: the host's (`host`) or the controller's.
///
/// # Errors
/// If a command fails, or an answer makes no sense.
pub fn read_events(
    drive: &dyn Commands,
    endurance_group: u16,
    host: bool,
) -> Result<Vec<Event>, CommandError> {
    let mut page = vec![0; EVENTS_BYTES as usize];
    drive.admin(&Command::get_events(endurance_group, host, EVENTS_BYTES), &mut page)?;
    decode_events(&page).ok_or(CommandError::Malformed("list of FDP events"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::ModelDrive;

    const GROUP: u16 = 1;

    #[test]
    fn a_drive_with_fdp_says_all_of_it() {
        let (drive, nsid) = ModelDrive::with_handles(&[0, 1, 2, 3]);
        let before = read_handles(&drive, nsid).unwrap();
        drive.io(&Command::write(nsid, 0, 2, Some(2)), &mut [7; 8192]).unwrap();
        let after = read_handles(&drive, nsid).unwrap();
        assert_eq!(before[2].blocks_left - after[2].blocks_left, 2);
        let counters = FdpCounters::read(&drive, GROUP).unwrap();
        assert_eq!((counters.host_bytes, counters.media_bytes), (8192, 8192));
        assert!(read_events(&drive, GROUP, true).unwrap().is_empty());
    }

    #[test]
    fn a_drive_without_fdp_enabled_counts_in_billions() {
        let (drive, nsid) = ModelDrive::with_handles(&[]);
        // This log counts in billions of bytes, rounded up.
        drive.io(&Command::write(nsid, 0, 2, None), &mut [7; 8192]).unwrap();
        let counters = FdpCounters::read(&drive, GROUP).unwrap();
        assert_eq!((counters.host_bytes, counters.media_bytes), (1_000_000_000, 1_000_000_000));
        assert_eq!((counters.erased_bytes, counters.dlwa()), (None, Some(1.0)));
        let log = read_endurance(&drive, GROUP).unwrap();
        assert_eq!(log.capacity_bytes, 64 << 20);
        assert_eq!(log.unallocated_bytes, (64 << 20) - 1000 * 4096);
    }

    #[test]
    fn media_bytes_that_are_not_reported_are_not_zero() {
        let log = EnduranceLog {
            available_spare_percent: 100,
            used_percent: 0,
            endurance_bytes: 0,
            host_bytes: 1,
            media_bytes: 0,
            capacity_bytes: 0,
            unallocated_bytes: 0,
        };
        let error = counters_of(&log).unwrap_err().to_string();
        assert_eq!(error, "the drive does not report what it writes to its media");
        assert!(counters_of(&EnduranceLog { host_bytes: 0, ..log }).is_ok());
    }
}
