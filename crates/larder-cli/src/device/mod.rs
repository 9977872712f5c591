//! `larder device`.

mod events;
mod info;
mod list;
mod machine;
mod prepare;
mod stats;
mod trim;

use std::path::Path;

use indicatif::HumanBytes;
use larder_device::PlacementPath;
use larder_device::nvme::paths::{placement_paths, taken};
use larder_device::nvme::{Asked, Commands, Node, Silence, Survey};
use larder_workload::Error;
use serde::Serialize;

use crate::args::{DeviceCommand, OutputArgs};
use crate::ending::Ending;
use crate::json::JsonTarget;
use machine::{Linux, Machine};

/// What to do about a missing permission.
const WAY_OUT: &str = "run as root, or see \"Permissions\" in docs/device.md";

pub(crate) fn run(command: &DeviceCommand) -> Result<Ending, Error> {
    answer(command, &Linux::default())
}

fn answer(command: &DeviceCommand, machine: &dyn Machine) -> Result<Ending, Error> {
    match command {
        DeviceCommand::List(arguments) => list::run(arguments, machine),
        DeviceCommand::Info(arguments) => info::run(arguments, machine),
        DeviceCommand::Stats(arguments) => stats::run(arguments, machine),
        DeviceCommand::Events(arguments) => events::run(arguments, machine),
        DeviceCommand::Prepare(arguments) => prepare::run(arguments, machine),
        DeviceCommand::Trim(arguments) => trim::run(arguments, machine),
    }
}

/// A fact that could not be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnavailableFact {
    /// The fact that could not be found out.
    what: &'static str,
    /// The reason.
    why: String,
}

/// The facts that could not be found out so far.
#[derive(Debug, Default)]
struct Missing(Vec<UnavailableFact>);

impl Missing {
    /// Returns the answer, or notes that there is none.
    fn or_note<T>(&mut self, what: &'static str, asked: Asked<T>) -> Option<T> {
        match asked {
            Ok(answer) => Some(answer),
            Err(silence) => {
                self.0.push(UnavailableFact { what, why: silence.why });
                None
            }
        }
    }

    fn render(&self) -> String {
        let mut text = String::new();
        for UnavailableFact { what, why } in &self.0 {
            text += &row(what, &format!("not available: {why}"));
        }
        if self.0.iter().any(|missing| missing.why.contains("no permission")) {
            text += &format!("note: for what there is no permission, {WAY_OUT}\n");
        }
        text
    }
}

fn find(path: &Path, machine: &dyn Machine) -> Result<Node, Error> {
    Node::find(path, machine.roots()).map_err(|error| Error::run(error.to_string()))
}

/// Opens the namespace for commands: its character device, or the block device of the whole namespace.
fn open(node: &Node, machine: &dyn Machine) -> Asked<Box<dyn Commands>> {
    let block = machine.roots().dev.join(&node.namespace);
    let path = node.generic_path.as_deref().unwrap_or(&block);
    machine.open(path, false).map_err(|error| {
        let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
        let reason = if denied { "no permission to read".to_owned() } else { error.to_string() };
        Silence { why: format!("{}: {reason}", path.display()), denied }
    })
}

fn survey(node: &Node, drive: &Asked<Box<dyn Commands>>) -> Survey {
    match drive {
        Ok(drive) => Survey::read(drive.as_ref(), node.nsid),
        Err(silence) => Survey::without_node(silence),
    }
}

/// The endurance group of the namespace; counters and events belong to it.
fn group_of(survey: &Survey) -> Asked<u16> {
    match &survey.namespace {
        Ok((_, _, 0)) => {
            let why = "the namespace is in no endurance group".to_owned();
            Err(Silence { why, denied: false })
        }
        Ok((_, _, group)) => Ok(*group),
        Err(silence) => Err(silence.clone()),
    }
}

/// A placement mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Way {
    /// `write streams`, `passthrough` or `none`.
    name: &'static str,
    /// Whether Larder could take it.
    available: bool,
    /// Why it is not available.
    why_not: Option<String>,
}

/// All mechanisms, and the name of the one that Larder would use.
fn ways(node: &Node, survey: &Survey, machine: &dyn Machine) -> (Vec<Way>, Option<&'static str>) {
    let paths = placement_paths(node, survey, &machine.host(node));
    let chosen = taken(&paths).map(PlacementPath::name);
    let ways = paths.map(|(path, verdict)| Way {
        name: path.name(),
        available: verdict.is_ok(),
        why_not: verdict.err(),
    });
    (ways.into(), chosen)
}

/// Prints a result for people on standard output, or on standard error if JSON goes to standard output, and writes the
/// JSON.
fn deliver(
    machine: &dyn Machine,
    json: JsonTarget,
    text: &str,
    result: &impl Serialize,
) -> Result<(), Error> {
    machine.say(text, json.is_stdout())?;
    json.write(result)
}

fn json_target(output: &OutputArgs) -> Result<JsonTarget, Error> {
    JsonTarget::prepare(output.json.as_deref())
}

/// A line with its label.
fn row(label: &str, value: &str) -> String {
    format!("{label:28}{value}\n")
}

fn human(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// Counters have 128 bits, JSON integers 64; a drive never writes 16 EiB in its life.
fn clamp(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests;
