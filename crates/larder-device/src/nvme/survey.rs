//! Everything that the user may read of a namespace's placement. Each question is asked by itself, so that a missing
//! permission costs one answer and not all.

use std::collections::BTreeSet;

use larder_ssd::nvme::fdp_log::{Configuration, HandleType};
use larder_ssd::nvme::io_management::HandleStatus;
use larder_ssd::nvme::namespace::{ControllerFacts, PAGE_BYTES, cns, decode_namespace};
use larder_ssd::nvme::{Command, PlacementId};

use super::commands::{CommandError, Commands};
use super::fdp::{read_configurations, read_handles};
use crate::placement::Isolation;

/// An answer, or why there is none.
pub type Asked<T> = Result<T, Silence>;

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// The reason, for messages.
    pub why: String,
    /// Whether this user lacks the permission.
    pub denied: bool,
}

impl From<CommandError> for Silence {
    fn from(error: CommandError) -> Self {
        if error.is_denied() {
            Self { why: "no permission".to_owned(), denied: true }
        } else {
            Self { why: error.to_string(), denied: false }
        }
    }
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// What a drive reports about one of its namespaces.
///
/// Without root, Linux allows Identify and those I/O commands whose effects the drive declares. So `controller`,
/// `namespace` and `handles` are available, and the rest is denied.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Capabilities of the controller.
    pub controller: Asked<ControllerFacts>,
    /// Number of logical blocks, bytes of a block, endurance group.
    pub namespace: Asked<(u64, u32, u16)>,
    /// Whether FDP is enabled in the group, and the index of the configuration.
    pub setting: Asked<(bool, u8)>,
    /// The configurations that the group offers.
    pub configurations: Asked<Vec<Configuration>>,
    /// The placement handles of the namespace in each reclaim group.
    pub handles: Asked<Vec<HandleStatus>>,
}

impl Survey {
    /// Asks about namespace `nsid`.
    pub fn read(drive: &dyn Commands, nsid: u32) -> Self {
        let controller = read_controller(drive).map_err(Silence::from);
        let namespace = read_namespace(drive, nsid).map_err(Silence::from);
        let without_fdp = || Silence { why: "the drive has no FDP".to_owned(), denied: false };
        if matches!(&controller, Ok(facts) if !facts.fdp) {
            return Self {
                controller,
                namespace,
                setting: Err(without_fdp()),
                configurations: Err(without_fdp()),
                handles: Err(without_fdp()),
            };
        }
        let group = namespace.as_ref().map(|(.., group)| *group).map_err(Clone::clone);
        let setting = group.clone().and_then(|group| {
            let answer = drive.admin(&Command::get_fdp(group), &mut [])?;
            let [flags, index, ..] = answer.to_le_bytes();
            Ok((flags & 1 == 1, index))
        });
        let configurations =
            group.and_then(|group| read_configurations(drive, group).map_err(Silence::from));
        let handles = read_handles(drive, nsid).map_err(Silence::from);
        Self { controller, namespace, setting, configurations, handles }
    }

    /// A survey in which every answer is `why`, for a node that cannot be opened.
    pub fn without_node(why: &Silence) -> Self {
        Self {
            controller: Err(why.clone()),
            namespace: Err(why.clone()),
            setting: Err(why.clone()),
            configurations: Err(why.clone()),
            handles: Err(why.clone()),
        }
    }

    /// Whether the drive has FDP.
    pub fn supported(&self) -> Asked<bool> {
        self.controller.as_ref().map(|facts| facts.fdp).map_err(Clone::clone)
    }

    /// Whether FDP is enabled in the namespace's endurance group. The feature says so or, if the user may not read it,
    /// the existence of placement handles. Never where there is no endurance group.
    pub fn enabled(&self) -> Asked<bool> {
        if let Ok((.., 0)) = self.namespace {
            return Ok(false);
        }
        match (&self.supported(), &self.setting, &self.handles) {
            (Ok(false), ..) => Ok(false),
            (_, Ok((enabled, _)), _) => Ok(*enabled),
            (_, Err(_), Ok(handles)) => Ok(!handles.is_empty()),
            (_, Err(silence), Err(_)) => Err(silence.clone()),
        }
    }

    /// The configuration in use, or the one that would be.
    pub fn configuration(&self) -> Asked<&Configuration> {
        let index = self.setting.as_ref().map_or(0, |(_, index)| usize::from(*index));
        let all = self.configurations.as_ref().map_err(Clone::clone)?;
        all.get(index).ok_or_else(|| {
            let why = format!("configuration {index} is in use, the drive lists {}", all.len());
            Silence { why, denied: false }
        })
    }

    /// The placement handles that a device on the namespace has: those of the first reclaim group, ordered by
    /// identifier. The first is the default.
    pub fn device_handles(&self) -> Asked<Vec<HandleStatus>> {
        let mut handles = self.handles.clone()?;
        handles.sort_unstable_by_key(|handle| handle.placement_id);
        match self.configuration() {
            Ok(in_use) => handles.retain(|handle| {
                PlacementId::decode(handle.placement_id, in_use.rgif)
                    .is_some_and(|id| id.group == 0)
            }),
            // A user that may not read how many bits the group has takes the lowest identifier of each reclaim unit
            // handle: the group is in the upper bits.
            Err(_) => {
                let mut known = BTreeSet::new();
                handles.retain(|handle| known.insert(handle.handle));
            }
        }
        handles.dedup_by_key(|handle| handle.placement_id);
        Ok(handles)
    }

    /// What garbage collection may mix in the configuration in use: the weakest guarantee among its handles.
    pub fn isolation(&self) -> Option<Isolation> {
        let handles = &self.configuration().ok()?.handles;
        let all = handles.iter().all(|handle| *handle == HandleType::PersistentlyIsolated);
        Some(if all { Isolation::PersistentlyIsolated } else { Isolation::InitiallyIsolated })
    }

    /// Number of placement handles of the namespace. Each handle has a descriptor in every reclaim group, so this
    /// counts the reclaim unit handles behind them.
    pub fn handle_count(&self) -> Asked<usize> {
        let handles = self.handles.as_ref().map_err(Clone::clone)?;
        let behind: BTreeSet<u16> = handles.iter().map(|status| status.handle).collect();
        Ok(behind.len())
    }
}

/// Reads the capabilities of the controller.
///
/// # Errors
/// If the command fails, or the answer makes no sense.
pub fn read_controller(drive: &dyn Commands) -> Result<ControllerFacts, CommandError> {
    let mut page = [0; PAGE_BYTES];
    drive.admin(&Command::identify(0, cns::CONTROLLER), &mut page)?;
    ControllerFacts::decode(&page).ok_or(CommandError::Malformed("controller data"))
}

/// Reads a namespace's number of logical blocks, bytes of a block, and endurance group.
///
/// # Errors
/// As [`read_controller`].
pub fn read_namespace(drive: &dyn Commands, nsid: u32) -> Result<(u64, u32, u16), CommandError> {
    let mut page = [0; PAGE_BYTES];
    drive.admin(&Command::identify(nsid, cns::NAMESPACE), &mut page)?;
    decode_namespace(&page).ok_or(CommandError::Malformed("namespace data"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::ModelDrive;
    use std::io;

    /// What Linux allows without root.
    struct UnprivilegedModel(ModelDrive);

    impl Commands for UnprivilegedModel {
        fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
            if command.opcode == 0x06 {
                self.0.admin(command, data)
            } else {
                Err(CommandError::Os(io::ErrorKind::PermissionDenied.into()))
            }
        }

        fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
            self.0.io(command, data)
        }
    }

    #[test]
    fn root_knows_all() {
        let (drive, nsid) = ModelDrive::with_handles(&[0, 1, 2]);
        let survey = Survey::read(&drive, nsid);
        assert_eq!((survey.supported(), survey.enabled()), (Ok(true), Ok(true)));
        assert_eq!((survey.setting.clone(), survey.handle_count()), (Ok((true, 0)), Ok(3)));
        assert_eq!(survey.configuration().unwrap().handles.len(), 4);
        assert_eq!(survey.namespace, Ok((1000, 4096, 1)));
        assert_eq!(survey.configuration().unwrap().unit_bytes, 256 << 10);
        assert_eq!(survey.isolation(), Some(Isolation::InitiallyIsolated));
        let ids = survey.handles.unwrap().into_iter().map(|handle| handle.placement_id);
        assert_eq!(ids.collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn others_know_what_they_may_ask() {
        let (drive, nsid) = ModelDrive::with_handles(&[0, 1, 2]);
        let survey = Survey::read(&UnprivilegedModel(drive), nsid);
        assert_eq!((survey.supported(), survey.enabled()), (Ok(true), Ok(true)));
        assert_eq!(survey.handle_count(), Ok(3));
        let denied = survey.configuration().unwrap_err();
        assert!(denied.denied && denied.to_string() == "no permission");
    }

    #[test]
    fn handles_of_several_groups_count_once() {
        let (drive, nsid) = ModelDrive::with_handles(&[0, 1, 2]);
        let mut survey = Survey::read(&UnprivilegedModel(drive), nsid);
        let again = survey.handles.clone().unwrap().into_iter();
        let second_group =
            again.map(|it| HandleStatus { placement_id: it.placement_id | 1 << 15, ..it });
        survey.handles.as_mut().unwrap().extend(second_group);
        assert_eq!(survey.handle_count(), Ok(3));
    }

    #[test]
    fn a_drive_with_fdp_off() {
        let (drive, nsid) = ModelDrive::with_handles(&[]);
        let survey = Survey::read(&drive, nsid);
        assert_eq!((survey.supported(), survey.enabled()), (Ok(true), Ok(false)));
        assert!(survey.handles.unwrap_err().why.contains("FDP disabled"));
    }
}
