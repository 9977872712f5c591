//! `larder device prepare`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_device::nvme::prepare::{Preparation, PrepareError, PrepareOptions, Present, Step};
use larder_device::nvme::{CommandError, Commands, Node};
use larder_ssd::nvme::Command;
use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{WAY_OUT, deliver, human, json_target, yes_or_no};
use crate::args::PrepareArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PrepareReport {
    /// The controller.
    controller: String,
    /// The endurance group.
    endurance_group: u16,
    /// Whether FDP was enabled before.
    enabled: bool,
    /// Index of the FDP configuration that is used, or will be.
    configuration_index: u8,
    /// Reclaim groups of the configuration.
    groups: u32,
    /// Nominal size of its reclaim units.
    unit_bytes: u64,
    /// Its reclaim unit handles.
    handles: usize,
    /// The steps; none if the drive is ready.
    steps: Vec<StepFacts>,
    /// The namespaces that are deleted.
    destroys: Vec<DoomedNamespace>,
    /// Whether the steps were carried out.
    done: bool,
    /// Number of the new namespace.
    nsid: Option<u32>,
    /// Its block device, if the kernel has found it.
    path: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StepFacts {
    /// What the step does.
    what: String,
    /// The command of `nvme-cli` that does the same.
    command: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoomedNamespace {
    /// Number of the namespace.
    nsid: u32,
    /// Its size.
    bytes: u64,
}

pub(super) fn run(arguments: &PrepareArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let controller = controller_of(&arguments.device, machine)?;
    let name = controller.display().to_string();
    let failed = |error: PrepareError| match error {
        PrepareError::Options(_) => Error::usage(format!("{name}: {error}")),
        error => Error::run(format!("{name}: {error}")),
    };
    let drive = DriveCommands::open(&controller, machine)?;
    let options = PrepareOptions {
        endurance_group: Some(arguments.endurance_group),
        configuration: arguments.configuration,
        handles: arguments.handles,
        bytes: arguments.size,
    };
    let plan = Preparation::plan(&drive, &options).map_err(failed)?;
    let mut prepared = PrepareReport::of(&plan, &controller);
    if arguments.consent.yes && !plan.steps.is_empty() {
        let destroy = arguments.consent.destroy_data;
        if destroy {
            check_unused(&plan.deleted(), &controller, machine)?;
        }
        let mut told = 0;
        let mut on_step = |_: &Step| {
            told += 1;
            if let Some(step) = prepared.steps.get(told - 1) {
                // The step matters more than a line that cannot be printed.
                let _ = machine.say(&format!("{told}. {}\n", step.what), json.is_stdout());
            }
        };
        let created = plan.run(&drive, destroy, &mut on_step).map_err(|error| match error {
            PrepareError::WouldDelete(_) => {
                Error::usage(format!("--yes: {error}; add --destroy-data if that is meant"))
            }
            error => failed(error),
        })?;
        prepared.done = true;
        prepared.nsid = created;
        let found = created.and_then(|nsid| appear(nsid, &controller, machine));
        prepared.path = found.map(|node| node.block_path.display().to_string());
    }
    deliver(machine, json, &prepared.render(), &prepared)?;
    Ok(Ending::Complete)
}

/// The controller itself, or that of a namespace.
fn controller_of(path: &Path, machine: &dyn Machine) -> Result<PathBuf, Error> {
    let real = std::fs::canonicalize(path)
        .map_err(|error| Error::run(format!("{}: {error}", path.display())))?;
    let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_prefix("nvme").unwrap_or_default();
    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(real);
    }
    let node = super::find(path, machine)?;
    node.controller_paths.first().cloned().ok_or_else(|| {
        let why = "its controller cannot be found; name it, such as /dev/nvme0";
        Error::run(format!("{}: {why}", path.display()))
    })
}

/// The namespaces of a controller that the kernel knows.
fn namespaces(controller: &Path, machine: &dyn Machine) -> Vec<Node> {
    let mut nodes = Node::all(machine.roots());
    nodes.retain(|node| node.controller_paths.iter().any(|path| path == controller));
    nodes
}

/// Sends admin commands through the controller, and I/O commands through the namespace that they name.
struct DriveCommands {
    admin: Box<dyn Commands>,
    namespaces: Vec<(u32, Box<dyn Commands>)>,
}

impl DriveCommands {
    fn open(controller: &Path, machine: &dyn Machine) -> Result<Self, Error> {
        let admin = machine
            .open(controller, true)
            .map_err(|error| Error::run(format!("{}: {error}; {WAY_OUT}", controller.display())))?;
        let namespaces = namespaces(controller, machine)
            .into_iter()
            .filter_map(|node| {
                let path = node.generic_path.unwrap_or(node.block_path);
                Some((node.nsid, machine.open(&path, false).ok()?))
            })
            .collect();
        Ok(Self { admin, namespaces })
    }
}

impl Commands for DriveCommands {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.admin.admin(command, data)
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        let found = self.namespaces.iter().find(|(nsid, _)| *nsid == command.nsid);
        let (_, namespace) =
            found.ok_or_else(|| CommandError::Os(std::io::ErrorKind::NotFound.into()))?;
        namespace.io(command, data)
    }
}

/// Fails if a namespace that will be deleted is mounted or opened exclusively.
fn check_unused(doomed: &[Present], controller: &Path, machine: &dyn Machine) -> Result<(), Error> {
    let nodes = namespaces(controller, machine);
    for node in nodes.iter().filter(|node| doomed.iter().any(|it| it.nsid == node.nsid)) {
        machine.claim(&node.block_path).map_err(|error| {
            let path = node.block_path.display();
            Error::run(format!("{path}: {error}; unmount it and stop what uses it"))
        })?;
    }
    Ok(())
}

/// The node of a new namespace, once the kernel has found it.
fn appear(nsid: u32, controller: &Path, machine: &dyn Machine) -> Option<Node> {
    const TRIES: u32 = 20;
    let name = controller.file_name()?.to_str()?;
    // Without permission to rescan we rely on the drive's own notice to the kernel.
    let _ = machine.rescan(name);
    for _ in 0..TRIES {
        let found = namespaces(controller, machine).into_iter().find(|node| node.nsid == nsid);
        if found.is_some() {
            return found;
        }
        if !machine.wait(Duration::from_millis(100)) {
            break;
        }
    }
    None
}

impl PrepareReport {
    fn of(plan: &Preparation, controller: &Path) -> Self {
        let (index, configuration) = &plan.configuration;
        let path = controller.display().to_string();
        Self {
            endurance_group: plan.endurance_group,
            enabled: plan.enabled,
            configuration_index: *index,
            groups: configuration.groups,
            unit_bytes: configuration.unit_bytes,
            handles: configuration.handles.len(),
            steps: plan.steps.iter().map(|step| StepFacts::of(step, &path)).collect(),
            destroys: plan
                .deleted()
                .iter()
                .map(|it| DoomedNamespace { nsid: it.nsid, bytes: it.bytes })
                .collect(),
            done: false,
            nsid: None,
            path: None,
            controller: path,
        }
    }

    fn render(&self) -> String {
        let mut text = format!(
            "{}: endurance group {}, configuration {}: {} handles, {} reclaim group{}, units of {}; \
             FDP enabled: {}\n",
            self.controller,
            self.endurance_group,
            self.configuration_index,
            self.handles,
            self.groups,
            if self.groups == 1 { "" } else { "s" },
            human(self.unit_bytes),
            yes_or_no(self.enabled),
        );
        if self.groups > 1 {
            text += "note: Linux has write streams for one reclaim group only; with several it is \
                     passthrough\n";
        }
        if self.steps.is_empty() {
            return text + "the drive is ready: a namespace has all these handles\n";
        }
        if self.done {
            let nsid = self.nsid.map_or_else(String::new, |nsid| format!(" {nsid}"));
            let path = self.path.as_deref();
            let path = path.map_or_else(String::new, |path| format!(", {path}"));
            return text + &format!("done: namespace{nsid}{path}; see `larder device info`\n");
        }
        for (number, step) in (1..).zip(&self.steps) {
            text += &format!("\n{number}. {}\n     {}\n", step.what, step.command);
        }
        text += "\nnothing was done. ";
        text += if self.destroys.is_empty() {
            "With --yes larder sends these commands itself.\n"
        } else {
            "With --yes --destroy-data larder sends these commands itself.\n\
             All data in the namespaces that are deleted will be lost.\n"
        };
        text
    }
}

impl StepFacts {
    fn of(step: &Step, controller: &str) -> Self {
        let (what, command) = match step {
            Step::Delete(Present { nsid, bytes }) => (
                format!("delete namespace {nsid} ({}), and all data in it", human(*bytes)),
                format!("nvme delete-ns {controller} --namespace-id={nsid}"),
            ),
            Step::Enable { endurance_group, configuration } => (
                format!("enable FDP in endurance group {endurance_group}, for good"),
                format!(
                    "nvme set-feature {controller} --feature-id=0x1d --value={endurance_group} \
                     --cdw12={:#x} --save",
                    1 | u32::from(*configuration) << 8
                ),
            ),
            Step::Create { request, block_bytes } => {
                let count = request.handles.len();
                let list: Vec<_> = request.handles.iter().map(u16::to_string).collect();
                let (blocks, list) = (request.blocks, list.join(","));
                let bytes = human(blocks.saturating_mul(u64::from(*block_bytes)));
                (
                    format!("create a namespace of {bytes} with {count} placement handles"),
                    format!(
                        "nvme create-ns {controller} --nsze={blocks} --ncap={blocks} --flbas={} \
                         --endg-id={} --nphndls={count} --phndls={list}",
                        request.format, request.endurance_group
                    ),
                )
            }
            Step::Attach { controller: number } => (
                format!("attach it to controller {number}, so that the kernel sees it"),
                format!(
                    "nvme attach-ns {controller} --namespace-id=<the new one> --controllers={number}"
                ),
            ),
        };
        Self { what, command }
    }
}
