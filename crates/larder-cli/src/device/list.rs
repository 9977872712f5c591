//! `larder device list`.

use larder_device::nvme::Node;
use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{WAY_OUT, deliver, human, json_target, open, survey, ways};
use crate::args::ListArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct List {
    /// The namespaces, sorted by name.
    namespaces: Vec<NamespaceLine>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct NamespaceLine {
    /// Path of its block device.
    path: String,
    /// Model and serial number.
    model: String,
    /// Size of the namespace.
    bytes: u64,
    /// Size of a logical block.
    block_bytes: u32,
    /// Whether the drive has FDP; null if it could not be queried.
    fdp_supported: Option<bool>,
    /// Whether it is enabled in the namespace's endurance group.
    fdp_enabled: Option<bool>,
    /// Placement handles of the namespace.
    handles: Option<usize>,
    /// The placement path that Larder would choose: `write streams`, `passthrough` or `none`; null if this user may not
    /// write to the namespace.
    placement: Option<&'static str>,
    /// Why there is no placement.
    why_not: Option<String>,
    /// Whether a permission is missing for some of these facts.
    denied: bool,
}

pub(super) fn run(arguments: &ListArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let namespaces = Node::all(machine.roots()).iter().map(|node| line(node, machine)).collect();
    let list = List { namespaces };
    deliver(machine, json, &render(&list), &list)?;
    Ok(Ending::Complete)
}

fn line(node: &Node, machine: &dyn Machine) -> NamespaceLine {
    let drive = open(node, machine);
    let survey = survey(node, &drive);
    let (ways, placement) = ways(node, &survey, machine);
    // The reason why the last way before "none" is not available.
    let why_not = match placement {
        Some("none") | None => ways.iter().rev().find_map(|way| {
            (way.name != "none" || placement.is_none()).then(|| way.why_not.clone()).flatten()
        }),
        Some(_) => None,
    };
    // The kernel shows write streams of NVMe drives with FDP enabled, which needs no permission.
    let streams = (node.write_streams > 0).then_some(node.write_streams);
    let denied = [survey.supported().err(), survey.enabled().err()];
    NamespaceLine {
        path: node.block_path.display().to_string(),
        model: node.model.clone(),
        bytes: node.namespace_bytes,
        block_bytes: node.block_bytes,
        fdp_supported: survey.supported().ok().or(streams.map(|_| true)),
        fdp_enabled: survey.enabled().ok().or(streams.map(|_| true)),
        handles: survey.handle_count().ok().or(streams.map(usize::from)),
        placement,
        why_not,
        denied: denied.into_iter().flatten().any(|silence| silence.denied),
    }
}

fn render(list: &List) -> String {
    if list.namespaces.is_empty() {
        return "no NVMe namespace is here; `larder replay` needs none: its drive is simulated\n"
            .to_owned();
    }
    let width = |text: fn(&NamespaceLine) -> &str, least: usize| {
        list.namespaces.iter().map(|line| text(line).chars().count()).max().unwrap_or(0).max(least)
    };
    let (paths, models) = (width(|line| &line.path, 4) + 2, width(|line| &line.model, 5) + 2);
    let mut text = format!(
        "{:paths$}{:models$}{:>11}{:>7}  {:14}{:>7}  PLACEMENT\n",
        "PATH", "MODEL", "SIZE", "BLOCK", "FDP", "HANDLES"
    );
    for line in &list.namespaces {
        let fdp = match (line.fdp_supported, line.fdp_enabled) {
            (Some(false), _) => "no",
            (_, Some(true)) => "enabled",
            (_, Some(false)) => "disabled",
            (_, None) if line.denied => "no permission",
            (_, None) => "unknown",
        };
        let handles = line.handles.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let placement = match (line.placement, &line.why_not) {
            (Some(name), None) => name.to_owned(),
            (name, Some(why)) => format!("{}: {why}", name.unwrap_or("not usable")),
            (None, None) => "not usable".to_owned(),
        };
        text += &format!(
            "{:paths$}{:models$}{:>11}{:>7}  {fdp:14}{handles:>7}  {placement}\n",
            line.path,
            line.model,
            human(line.bytes),
            line.block_bytes
        );
    }
    if list.namespaces.iter().any(|line| line.denied) {
        text += &format!("note: for what there is no permission, {WAY_OUT}\n");
    }
    text
}
