//! `larder device info`.

use larder_device::nvme::access::Permissions;
use larder_device::nvme::{Asked, Node, NodeKind, Survey};
use larder_ssd::nvme::PlacementId;
use larder_ssd::nvme::fdp_log::{Configuration, HandleType};
use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{
    Missing, UnavailableFact, Way, deliver, find, human, json_target, open, row, survey, ways,
    yes_or_no,
};
use crate::args::InfoArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Info {
    /// The device that the command was given.
    path: String,
    /// `namespace`, `partition` or `character device`.
    kind: &'static str,
    /// Name of the namespace's block device.
    namespace: String,
    /// Number of the namespace on the drive.
    nsid: u32,
    /// Model and serial number.
    model: String,
    /// Size of the device that the command was given.
    bytes: u64,
    /// Where in the namespace the device begins; 0 except for a partition.
    offset: u64,
    /// Size of the namespace.
    namespace_bytes: u64,
    /// Size of a logical block.
    block_bytes: u32,
    /// The most bytes that one command transfers.
    max_transfer_bytes: u32,
    /// `yes` if a loss of power may undo writes that no flush has covered; otherwise `no` or `unknown`.
    volatile_cache: String,
    /// Longest write that a loss of power leaves whole or undone, where the kernel reports it.
    atomic_write_bytes: Option<u32>,
    /// Whether the kernel refuses all writes.
    read_only: bool,
    /// The drive's controllers.
    controllers: Vec<String>,
    /// Release of the running kernel.
    kernel: Option<String>,
    /// Whether the drive has FDP.
    fdp_supported: Option<bool>,
    /// Whether FDP is enabled.
    fdp_enabled: Option<bool>,
    /// The endurance group; 0 for none.
    endurance_group: Option<u16>,
    /// Number of FDP configurations that the group offers.
    configurations: Option<usize>,
    /// Index of the FDP configuration in use.
    configuration_index: Option<u8>,
    /// The FDP configuration in use.
    configuration: Option<ConfigurationFacts>,
    /// The placement handles, one for each reclaim group and reclaim unit handle.
    handles: Vec<Handle>,
    /// Number of write streams of the block layer; 0 for none.
    write_streams: u16,
    /// Bytes that a write stream fills before it goes on to its next unit; 0 for unknown.
    write_stream_granularity: u64,
    /// The placement path that Larder would choose.
    placement: Option<&'static str>,
    /// The placement paths, best first.
    ways: Vec<Way>,
    /// What this user may do with the device nodes.
    permissions: Vec<Permission>,
    /// The NVMe commands that Larder sends, and whether they worked.
    commands: Vec<CommandFacts>,
    /// The facts that could not be found out.
    unavailable: Vec<UnavailableFact>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConfigurationFacts {
    /// Reclaim groups.
    groups: u32,
    /// Nominal size of a reclaim unit.
    unit_bytes: u64,
    /// Seconds that a unit may stay open; 0 if not reported.
    unit_time_limit_s: u32,
    /// Reclaim unit handles.
    handles: usize,
    /// Isolation of the handles: `initially`, `persistently`, `otherwise` or `mixed`.
    isolation: &'static str,
    /// The most namespaces that the configuration allows.
    namespaces_max: u32,
    /// Whether the drive has a volatile write cache for FDP.
    volatile_write_cache: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Handle {
    /// Placement identifier that a write names.
    placement_id: u16,
    /// Its reclaim group.
    group: Option<u16>,
    /// The reclaim unit handle behind it.
    handle: u16,
    /// Isolation of the handle, as in the configuration.
    isolation: Option<&'static str>,
    /// Room in its open reclaim unit (RUAMW, in bytes).
    bytes_left: u64,
    /// Seconds until the unit is closed, if the drive reports it.
    time_left_s: Option<u32>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Permission {
    /// A device node.
    path: String,
    /// Whether this user may read from it.
    read: bool,
    /// Whether this user may write to it.
    write: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CommandFacts {
    /// `identify`, `get features`, `get log page` or `handle status`.
    name: &'static str,
    /// Whether the kernel lets this user send it.
    allowed: bool,
    /// Why the command brought no answer.
    error: Option<String>,
}

pub(super) fn run(arguments: &InfoArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.on.output)?;
    let node = find(&arguments.on.device, machine)?;
    let drive = open(&node, machine);
    let survey = survey(&node, &drive);
    let info = Info::of(&node, &survey, machine);
    deliver(machine, json, &info.render(), &info)?;
    Ok(Ending::Complete)
}

impl Info {
    fn of(node: &Node, survey: &Survey, machine: &dyn Machine) -> Self {
        let mut missing = Missing::default();
        let host = machine.host(node);
        let (ways, placement) = ways(node, survey, machine);
        let path = if node.kind == NodeKind::Generic { &node.generic_path } else { &None };
        let supported = missing.or_note("FDP support", survey.supported());
        let enabled = missing.or_note("FDP enabled", survey.enabled());
        let with_fdp = supported != Some(false);
        let mut ask = |what, asked: Asked<()>| {
            if with_fdp {
                missing.or_note(what, asked);
            }
        };
        let silent = |asked: &Asked<_>| asked.as_ref().map(|_| ()).map_err(Clone::clone);
        ask("FDP configuration", survey.configuration().map(|_| ()));
        if enabled == Some(true) {
            ask("placement handles", silent(&survey.handles));
        }
        let configuration = survey.configuration().ok();
        Self {
            path: path.as_ref().unwrap_or(&node.block_path).display().to_string(),
            kind: match node.kind {
                NodeKind::Block => "namespace",
                NodeKind::Partition => "partition",
                NodeKind::Generic => "character device",
            },
            namespace: node.namespace.clone(),
            nsid: node.nsid,
            model: node.model.clone(),
            bytes: node.range.end - node.range.start,
            offset: node.range.start,
            namespace_bytes: node.namespace_bytes,
            block_bytes: node.block_bytes,
            max_transfer_bytes: node.max_transfer_bytes,
            volatile_cache: node.volatile_cache.to_string(),
            atomic_write_bytes: node.atomic_write_bytes,
            read_only: node.read_only,
            controllers: node.controller_paths.iter().map(|it| it.display().to_string()).collect(),
            kernel: host.kernel.map(|(major, minor)| format!("{major}.{minor}")),
            fdp_supported: supported,
            fdp_enabled: enabled,
            endurance_group: survey.namespace.as_ref().ok().map(|(.., group)| *group),
            configurations: survey.configurations.as_ref().ok().map(Vec::len),
            configuration_index: survey.setting.as_ref().ok().map(|(_, index)| *index),
            configuration: configuration.map(ConfigurationFacts::of),
            handles: handles(node, survey),
            write_streams: node.write_streams,
            write_stream_granularity: node.write_stream_granularity,
            placement,
            ways,
            permissions: permissions(node, host.block, host.generic),
            commands: commands(survey),
            unavailable: missing.0,
        }
    }

    fn render(&self) -> String {
        let mut text = row(&self.path, &self.model);
        text += &row("kind", &format!("{}, number {}", self.kind, self.nsid));
        let offset = match self.offset {
            0 => String::new(),
            at => format!(", from byte {at} of {} on", self.namespace),
        };
        text += &row("size", &format!("{} ({} bytes){offset}", human(self.bytes), self.bytes));
        text += &row("block", &format!("{} bytes", self.block_bytes));
        text += &row("largest transfer", &human(self.max_transfer_bytes.into()));
        text += &row("volatile cache", &self.volatile_cache);
        if let Some(bytes) = self.atomic_write_bytes {
            text += &row("written whole", &format!("up to {}", human(bytes.into())));
        }
        text += &row("controllers", &self.controllers.join(", "));
        if self.read_only {
            text += &row("read-only", "yes");
        }
        text += &self.render_fdp();
        text += &self.render_ways();
        text + &Missing(self.unavailable.clone()).render()
    }

    fn render_fdp(&self) -> String {
        let mut text = String::new();
        if let Some(supported) = self.fdp_supported {
            let enabled = match self.fdp_enabled {
                Some(true) => ", enabled",
                Some(false) if supported => ", not enabled",
                _ => "",
            };
            text += &row("FDP", &format!("{}{enabled}", yes_or_no(supported)));
        }
        if let Some(group) = self.endurance_group {
            text += &row("endurance group", &group.to_string());
        }
        if let (Some(facts), Some(index)) = (&self.configuration, self.configuration_index) {
            let of = self.configurations.unwrap_or(1);
            text += &row("configuration", &format!("{index} (of {of})"));
            text += &row("reclaim groups", &facts.groups.to_string());
            let unit = format!("{} ({} bytes)", human(facts.unit_bytes), facts.unit_bytes);
            text += &row("reclaim unit", &unit);
            text += &row(
                "reclaim unit handles",
                &format!("{}, {} isolated", facts.handles, facts.isolation),
            );
        }
        if !self.handles.is_empty() {
            text += &format!(
                "{:28}{:>5}{:>7}{:>8}  {:14}LEFT IN ITS OPEN UNIT\n",
                "placement handles", "PID", "GROUP", "HANDLE", "ISOLATED"
            );
        }
        for handle in &self.handles {
            let group = handle.group.map_or_else(|| "-".to_owned(), |group| group.to_string());
            let left = format!("{} ({} bytes)", human(handle.bytes_left), handle.bytes_left);
            let time = handle.time_left_s.map_or_else(String::new, |s| format!(", {s} s"));
            text += &format!(
                "{:28}{:>5}{group:>7}{:>8}  {:14}{left}{time}\n",
                "",
                handle.placement_id,
                handle.handle,
                handle.isolation.unwrap_or("-")
            );
        }
        text
    }

    fn render_ways(&self) -> String {
        let streams = match (self.write_streams, self.write_stream_granularity) {
            (0, _) => "none".to_owned(),
            (count, granularity) => format!("{count}, of {} each", human(granularity)),
        };
        let mut text = row("write streams", &streams);
        text += &row("placement", self.placement.unwrap_or("not usable"));
        for way in &self.ways {
            let verdict = way.why_not.as_deref().unwrap_or("available");
            text += &row(&format!("  {}", way.name), verdict);
        }
        for permission in &self.permissions {
            let may = match (permission.read, permission.write) {
                (true, true) => "read and write",
                (true, false) => "read only",
                (false, true) => "write only",
                (false, false) => "neither read nor write",
            };
            text += &row(&permission.path, may);
        }
        for command in &self.commands {
            let allowed = command.error.as_deref().unwrap_or("allowed");
            text += &row(&format!("  {}", command.name), allowed);
        }
        text
    }
}

impl ConfigurationFacts {
    fn of(configuration: &Configuration) -> Self {
        let mut kinds: Vec<_> = configuration.handles.iter().map(|it| isolation(*it)).collect();
        kinds.dedup();
        Self {
            groups: configuration.groups,
            unit_bytes: configuration.unit_bytes,
            unit_time_limit_s: configuration.unit_time_limit_s,
            handles: configuration.handles.len(),
            isolation: match kinds.as_slice() {
                [one] => one,
                _ => "mixed",
            },
            namespaces_max: configuration.namespaces_max,
            volatile_write_cache: configuration.volatile_write_cache,
        }
    }
}

fn isolation(kind: HandleType) -> &'static str {
    match kind {
        HandleType::InitiallyIsolated => "initially",
        HandleType::PersistentlyIsolated => "persistently",
        HandleType::Other(_) => "otherwise",
    }
}

fn handles(node: &Node, survey: &Survey) -> Vec<Handle> {
    let configuration = survey.configuration().ok();
    let handles = survey.handles.as_deref().unwrap_or_default().iter();
    let block_bytes = u64::from(node.block_bytes);
    let facts = handles.map(|status| Handle {
        placement_id: status.placement_id,
        group: configuration
            .and_then(|it| PlacementId::decode(status.placement_id, it.rgif))
            .map(|id| id.group),
        handle: status.handle,
        isolation: configuration
            .and_then(|it| it.handles.get(usize::from(status.handle)))
            .map(|kind| isolation(*kind)),
        bytes_left: status.blocks_left.saturating_mul(block_bytes),
        time_left_s: (status.time_left_s > 0).then_some(status.time_left_s),
    });
    facts.collect()
}

fn permissions(node: &Node, block: Permissions, generic: Permissions) -> Vec<Permission> {
    let of = |path: &std::path::Path, may: Permissions| Permission {
        path: path.display().to_string(),
        read: may.read,
        write: may.write,
    };
    let generic = node.generic_path.as_deref().map(|path| of(path, generic));
    std::iter::once(of(&node.block_path, block)).chain(generic).collect()
}

/// Which commands this user may send, as far as the attempts have shown.
fn commands(survey: &Survey) -> Vec<CommandFacts> {
    fn of<T>(name: &'static str, asked: &Asked<T>) -> CommandFacts {
        // A command that the drive refuses was allowed by the kernel, and that is what we report.
        let error = asked.as_ref().err().map(|silence| silence.why.clone());
        let denied = asked.as_ref().is_err_and(|silence| silence.denied);
        CommandFacts { name, allowed: !denied, error }
    }
    vec![
        of("identify", &survey.controller),
        of("get features", &survey.setting),
        of("get log page", &survey.configurations),
        of("handle status", &survey.handles),
    ]
}
