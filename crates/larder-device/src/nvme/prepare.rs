//! Prepares a drive for placement: enables FDP in an endurance group, and creates a namespace with a placement handle
//! for each reclaim unit handle.
//!
//! [`Preparation::plan`] queries the drive and changes nothing; [`Preparation::run`] carries the plan out. FDP can be
//! switched only while its endurance group has no namespace, so a drive in use loses its data. The plan lists the
//! namespaces that would be deleted, and running it needs explicit consent.

use std::fmt;

use larder_ssd::nvme::command::{EVERY_NAMESPACE, encode_controllers};
use larder_ssd::nvme::fdp_log::Configuration;
use larder_ssd::nvme::namespace::{
    NamespaceRequest, PAGE_BYTES, PLACEMENT_HANDLES_MAX, cns, decode_formats, decode_namespace,
    decode_namespace_list,
};
use larder_ssd::nvme::{Command, Status};

use super::commands::{CommandError, Commands};
use super::fdp::{read_configurations, read_endurance, read_handles};
use super::survey::read_controller;

/// What to make of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrepareOptions {
    /// Endurance group; the first by default.
    pub endurance_group: Option<u16>,
    /// Index of the FDP configuration. By default the first valid one with a single reclaim group, because Linux has
    /// write streams only for those, or else the first valid one.
    pub configuration: Option<u8>,
    /// Placement handles of the namespace; all by default.
    pub handles: Option<u16>,
    /// Size of the namespace in bytes; all available space by default.
    pub bytes: Option<u64>,
}

/// An existing namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Its number.
    pub nsid: u32,
    /// Its size in bytes.
    pub bytes: u64,
}

/// One step of a preparation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Delete a namespace, with all its data.
    Delete(Present),
    /// Enable FDP in a group, with one of its configurations.
    Enable {
        /// The group.
        endurance_group: u16,
        /// The configuration's index.
        configuration: u8,
    },
    /// Create a namespace.
    Create {
        /// The parameters.
        request: NamespaceRequest,
        /// Bytes of a logical block in that format.
        block_bytes: u32,
    },
    /// Attach the namespace that was created to the controller.
    Attach {
        /// The controller's number.
        controller: u16,
    },
}

/// Why a drive cannot be prepared.
#[derive(Debug)]
pub enum PrepareError {
    /// It cannot do what is needed, or not so: the reason and what to do instead.
    Impossible(String),
    /// An option does not fit the drive. The text names it, its value and the valid values.
    Options(String),
    /// Namespaces would be deleted, and the caller has not allowed it.
    WouldDelete(Vec<Present>),
    /// A command failed; the text says which step it belongs to.
    Command(String, CommandError),
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible(why) | Self::Options(why) => f.write_str(why),
            Self::WouldDelete(namespaces) => {
                let names: Vec<_> = namespaces.iter().map(|it| it.nsid.to_string()).collect();
                write!(f, "namespace {} would be deleted, with its data", names.join(", "))
            }
            Self::Command(doing, error) if error.is_denied() => {
                write!(f, "{doing}: {error}; run it as root")
            }
            Self::Command(doing, error) => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for PrepareError {}

fn while_doing(doing: impl Into<String>) -> impl FnOnce(CommandError) -> PrepareError {
    let doing = doing.into();
    move |error| PrepareError::Command(doing, error)
}

/// The steps to prepare a drive, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preparation {
    /// The endurance group.
    pub endurance_group: u16,
    /// The configuration's index, and the configuration.
    pub configuration: (u8, Configuration),
    /// Whether FDP is enabled in the group now.
    pub enabled: bool,
    /// The steps; none if the drive is ready.
    pub steps: Vec<Step>,
}

/// The properties of a drive that matter here.
struct Facts {
    controller: u16,
    enabled: bool,
    configuration: (u8, Configuration),
    present: Vec<Present>,
    unallocated_bytes: u128,
    /// Index and block size of the format to use.
    format: (u8, u32),
}

impl Preparation {
    /// Queries the drive and plans the steps. Changes nothing.
    ///
    /// # Errors
    /// If the drive cannot do it, the options do not fit the drive, or a command fails.
    pub fn plan(drive: &dyn Commands, options: &PrepareOptions) -> Result<Self, PrepareError> {
        let group = options.endurance_group.unwrap_or(1);
        let facts = Facts::read(drive, group, options)?;
        let handles = handle_count(&facts.configuration.1, options.handles)?;
        let planned = |steps| Self {
            endurance_group: group,
            configuration: facts.configuration.clone(),
            enabled: facts.enabled,
            steps,
        };
        if facts.enabled && is_ready(drive, &facts.present, handles, options)? {
            return Ok(planned(Vec::new()));
        }
        // Delete the present namespaces if the new one needs their space, or to switch FDP, which needs an empty group.
        let needed = options.bytes.map(u128::from);
        let is_room = facts.unallocated_bytes >= needed.unwrap_or(u128::MAX).max(1);
        let deletes: &[Present] =
            if facts.enabled && is_room { &[] } else { facts.present.as_slice() };
        let mut steps: Vec<_> = deletes.iter().copied().map(Step::Delete).collect();
        if !facts.enabled {
            let configuration = facts.configuration.0;
            steps.push(Step::Enable { endurance_group: group, configuration });
        }
        let freed: u128 = deletes.iter().map(|it| u128::from(it.bytes)).sum();
        let (format, block_bytes) = facts.format;
        let available = facts.unallocated_bytes.saturating_add(freed);
        let bytes = needed.unwrap_or(available);
        if bytes > available || bytes < u128::from(block_bytes) {
            return Err(PrepareError::Options(format!(
                "a namespace of {bytes} bytes: endurance group {group} has room for {available}; set \
                 --size to something between {block_bytes} and that"
            )));
        }
        let blocks = u64::try_from(bytes / u128::from(block_bytes)).unwrap_or(u64::MAX);
        let handles = (0..handles).collect();
        let request = NamespaceRequest { blocks, format, endurance_group: group, handles };
        steps.push(Step::Create { request, block_bytes });
        steps.push(Step::Attach { controller: facts.controller });
        Ok(planned(steps))
    }

    /// The namespaces that would be deleted.
    pub fn deleted(&self) -> Vec<Present> {
        let deleted = self.steps.iter().filter_map(|step| match step {
            Step::Delete(present) => Some(*present),
            _ => None,
        });
        deleted.collect()
    }

    /// Carries the steps out and calls `on_step` before each. Returns the number of the new namespace, or `None` if
    /// there was nothing to do.
    ///
    /// # Errors
    /// [`PrepareError::WouldDelete`] before any step if namespaces would be deleted without `destroy_data`; otherwise
    /// the error of the step that failed. The steps before it stay done, and a new plan continues from there.
    pub fn run(
        &self,
        drive: &dyn Commands,
        destroy_data: bool,
        on_step: &mut dyn FnMut(&Step),
    ) -> Result<Option<u32>, PrepareError> {
        let deleted = self.deleted();
        if !deleted.is_empty() && !destroy_data {
            return Err(PrepareError::WouldDelete(deleted));
        }
        let mut created = None;
        for step in &self.steps {
            on_step(step);
            match step {
                Step::Delete(present) => {
                    let doing = while_doing(format!("deleting namespace {}", present.nsid));
                    drive
                        .admin(&Command::delete_namespace(present.nsid), &mut [])
                        .map_err(doing)?;
                }
                Step::Enable { endurance_group, configuration } => {
                    let command = Command::set_fdp(*endurance_group, true, *configuration);
                    let doing = format!("enabling FDP in endurance group {endurance_group}");
                    drive.admin(&command, &mut []).map_err(while_doing(doing))?;
                }
                Step::Create { request, .. } => created = Some(create(drive, request)?),
                Step::Attach { controller } => {
                    if let Some(nsid) = created {
                        attach(drive, nsid, *controller)?;
                    }
                }
            }
        }
        Ok(created)
    }
}

fn create(drive: &dyn Commands, request: &NamespaceRequest) -> Result<u32, PrepareError> {
    let Some(mut data) = request.encode() else {
        return Err(PrepareError::Impossible(format!(
            "a namespace with {} handles in format {}: at most {PLACEMENT_HANDLES_MAX} and 63",
            request.handles.len(),
            request.format
        )));
    };
    let doing = while_doing(format!("creating a namespace of {} blocks", request.blocks));
    drive.admin(&Command::create_namespace(), &mut data).map_err(doing)
}

fn attach(drive: &dyn Commands, nsid: u32, controller: u16) -> Result<(), PrepareError> {
    let mut list = encode_controllers(&[controller]);
    match drive.admin(&Command::attach_namespace(nsid), &mut list) {
        // A drive with a single controller may attach the namespace itself.
        Ok(_) | Err(CommandError::Status(Status::NamespaceAttached)) => Ok(()),
        Err(error) => {
            let doing = format!("attaching namespace {nsid} to controller {controller}");
            Err(PrepareError::Command(doing, error))
        }
    }
}

impl Facts {
    fn read(
        drive: &dyn Commands,
        group: u16,
        options: &PrepareOptions,
    ) -> Result<Self, PrepareError> {
        let facts = read_controller(drive).map_err(while_doing("asking the controller"))?;
        let impossible = |why: String| Err(PrepareError::Impossible(why));
        if !facts.fdp {
            return impossible(
                "the drive has no FDP; use it without placement, and leave room free instead \
                 (`larder plan` says how much)"
                    .to_owned(),
            );
        }
        if group == 0 || group > facts.endurance_groups_max {
            return Err(PrepareError::Options(format!(
                "--endurance-group {group}: the drive has 1 to {}",
                facts.endurance_groups_max
            )));
        }
        let configurations = read_configurations(drive, group)
            .map_err(while_doing("reading the FDP configurations"))?;
        let setting = drive
            .admin(&Command::get_fdp(group), &mut [])
            .map_err(while_doing("asking whether FDP is enabled"))?;
        let [flags, index, ..] = setting.to_le_bytes();
        let enabled = flags & 1 == 1;
        let in_use = enabled.then_some(index);
        let configuration = choose(&configurations, options.configuration, in_use)?;
        if !enabled && !facts.manages_namespaces {
            return impossible(
                "the drive cannot create namespaces, so that FDP can only be enabled by its maker's \
                 tools"
                    .to_owned(),
            );
        }
        let unallocated_bytes = match read_endurance(drive, group) {
            Ok(log) if log.capacity_bytes > 0 => log.unallocated_bytes,
            Ok(_) | Err(CommandError::Status(_)) => facts.unallocated_bytes,
            Err(error) => return Err(while_doing("reading the endurance group log")(error)),
        };
        Ok(Self {
            controller: facts.controller,
            enabled,
            configuration,
            present: namespaces_of(drive, group)?,
            unallocated_bytes,
            format: best_format(drive)?,
        })
    }
}

/// The configuration that is asked for, or is in use, or is best for Linux.
fn choose(
    configurations: &[Configuration],
    asked: Option<u8>,
    in_use: Option<u8>,
) -> Result<(u8, Configuration), PrepareError> {
    let refuse = |why: String| Err(PrepareError::Options(why));
    let listed: Vec<(u8, &Configuration)> = (0..=u8::MAX).zip(configurations).collect();
    if let (Some(asked), Some(in_use)) = (asked, in_use)
        && asked != in_use
    {
        return refuse(format!(
            "--configuration {asked}: FDP is enabled with configuration {in_use}; delete the \
             group's namespaces and disable it first"
        ));
    }
    let found = match asked.or(in_use) {
        Some(index) => listed.iter().find(|(number, _)| *number == index),
        None => {
            let mut valid = listed.iter().filter(|(_, it)| it.valid);
            let first = valid.clone().next();
            valid.find(|(_, it)| it.groups == 1).or(first)
        }
    };
    match found {
        Some((index, configuration)) if configuration.valid => {
            Ok((*index, (*configuration).clone()))
        }
        Some((index, _)) => refuse(format!(
            "--configuration {index}: the drive lists it as not valid; name another one"
        )),
        None => {
            let asked = asked.map_or("none".to_owned(), |index| index.to_string());
            refuse(format!(
                "--configuration {asked}: the drive lists {} configurations, 0 the first",
                configurations.len()
            ))
        }
    }
}

fn handle_count(configuration: &Configuration, asked: Option<u16>) -> Result<u16, PrepareError> {
    let most = configuration.handles.len().min(PLACEMENT_HANDLES_MAX);
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    match asked {
        Some(asked) if asked == 0 || asked > most => Err(PrepareError::Options(format!(
            "--handles {asked}: the configuration has 1 to {most}"
        ))),
        Some(asked) => Ok(asked),
        None => Ok(most),
    }
}

/// Whether a namespace has at least the handles that are asked for, and the size if one is asked for.
fn is_ready(
    drive: &dyn Commands,
    present: &[Present],
    handles: u16,
    options: &PrepareOptions,
) -> Result<bool, PrepareError> {
    for namespace in present {
        let found = match read_handles(drive, namespace.nsid) {
            Ok(found) => found,
            // A namespace that is not attached takes no I/O commands, and a controller's node takes none at all.
            Err(CommandError::Status(_) | CommandError::Os(_)) => continue,
            Err(error) => return Err(while_doing("reading the placement handles")(error)),
        };
        let mut behind: Vec<u16> = found.iter().map(|handle| handle.handle).collect();
        behind.sort_unstable();
        behind.dedup();
        let fits = options.bytes.is_none_or(|bytes| bytes == namespace.bytes);
        if fits && behind.len() >= usize::from(handles) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All namespaces of an endurance group, attached or not.
fn namespaces_of(drive: &dyn Commands, group: u16) -> Result<Vec<Present>, PrepareError> {
    let mut page = [0; PAGE_BYTES];
    let mut list = |structure| drive.admin(&Command::identify(0, structure), &mut page);
    // Drives without namespace management list the attached namespaces only.
    match list(cns::ALLOCATED_NAMESPACES) {
        Err(CommandError::Status(Status::InvalidField)) => list(cns::ACTIVE_NAMESPACES),
        listed => listed,
    }
    .map_err(while_doing("listing the namespaces"))?;
    let mut present = Vec::new();
    for nsid in decode_namespace_list(&page) {
        let mut about = |structure| drive.admin(&Command::identify(nsid, structure), &mut page);
        match about(cns::ALLOCATED_NAMESPACE) {
            Err(CommandError::Status(Status::InvalidField)) => about(cns::NAMESPACE),
            answer => answer,
        }
        .map_err(while_doing(format!("asking about namespace {nsid}")))?;
        let malformed = while_doing(format!("asking about namespace {nsid}"));
        let (blocks, block_bytes, in_group) = decode_namespace(&page)
            .ok_or_else(|| malformed(CommandError::Malformed("namespace data")))?;
        // A namespace without a group may be in any group, so count it.
        if in_group == group || in_group == 0 {
            present.push(Present { nsid, bytes: blocks.saturating_mul(u64::from(block_bytes)) });
        }
    }
    Ok(present)
}

/// The format with blocks of 4096 bytes and without metadata, or else with blocks of 512 bytes.
fn best_format(drive: &dyn Commands) -> Result<(u8, u32), PrepareError> {
    let mut page = [0; PAGE_BYTES];
    let doing = "asking for the LBA formats";
    match drive.admin(&Command::identify(EVERY_NAMESPACE, cns::NAMESPACE), &mut page) {
        Err(CommandError::Status(_)) => {
            drive.admin(&Command::identify(1, cns::NAMESPACE), &mut page)
        }
        answer => answer,
    }
    .map_err(while_doing(doing))?;
    let formats = decode_formats(&page)
        .ok_or_else(|| while_doing(doing)(CommandError::Malformed("list of LBA formats")))?;
    let of_size = |bytes: u32| {
        let mut plain = formats.iter().filter(|(.., metadata)| *metadata == 0);
        plain.find(|(_, size, _)| *size == bytes).map(|(index, size, _)| (*index, *size))
    };
    of_size(4096).or_else(|| of_size(512)).ok_or_else(|| {
        let why = "the drive has no LBA format of 4096 or 512 bytes without metadata";
        PrepareError::Impossible(why.to_owned())
    })
}

#[cfg(test)]
mod tests;
