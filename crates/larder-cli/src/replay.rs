//! `larder replay`.

use std::sync::Arc;

use indicatif::BinaryBytes;
use larder::ArrayMemory;
use larder_device::{Isolation, PlacementMode};
use larder_lab::replay::{
    Monitor, Outcome, PlacementRuns, ReplayOptions, Storage, VssdPlace, Workload,
};
use larder_lab::report;
use larder_workload::Error;

use crate::args::{DeviceArg, IsolationArg, KindArg, PlacementArg, ReplayArgs, VssdArg};
use crate::drive::{self, ReplayDrive};
use crate::ending::Ending;
use crate::interrupt::on_interrupt;
use crate::json::JsonTarget;
use crate::trace::trace_options;
use crate::{run_bars, table};

/// With fewer drive writes than this before the measurement, DLWA has hardly settled.
const STEADY_DRIVE_WRITES: f64 = 3.0;

pub(crate) fn run(arguments: &ReplayArgs) -> Result<Ending, Error> {
    let options = options(arguments)?;
    options.check()?;
    if let Some(dir) = &arguments.report {
        report::check_writable(dir)?;
    }
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let monitor = Arc::new(Monitor::default());
    stop_on_interrupt(&monitor)?;
    let placements: &[bool] = match options.placement {
        PlacementRuns::On => &[true],
        PlacementRuns::Off => &[false],
        PlacementRuns::Both => &[true, false],
    };
    let drive = ReplayDrive::of(&options.storage);
    let mut outcome =
        run_bars::watch(&monitor, placements, || larder_lab::replay::replay(&options, &monitor))?;
    outcome.drive = drive.map(|drive| drive.facts());
    outcome.runs.iter().for_each(tell_device);
    let mut rendered = table::render(&outcome) + &notes(&options, &outcome);
    rendered.extend(outcome.drive.as_ref().map(drive::render));
    if arguments.show_handles {
        rendered += &handles(&outcome);
    }
    json.tell(&rendered)?;
    json.write(&outcome)?;
    if let Some(dir) = &arguments.report {
        eprintln!("report: {}", report::write(dir, &outcome)?.display());
    }
    let interrupted = outcome.runs.iter().any(|run| run.interrupted);
    Ok(if interrupted { Ending::Interrupted } else { Ending::Complete })
}

/// Prints how placement reached a real device, and what it was given.
fn tell_device(run: &larder_lab::replay::Run) {
    let Some(status) = &run.placement_path else { return };
    eprintln!("{status}");
    if let Some(notice) = &run.notice {
        eprintln!("notice: {notice}");
    }
    eprintln!("placement_active {}", u8::from(run.placement_active));
    eprintln!("host bytes by handle, after warm-up: {:?}", run.host_bytes_by_handle);
}

fn options(arguments: &ReplayArgs) -> Result<ReplayOptions, Error> {
    let workload = match &arguments.trace {
        Some(path) => Workload::Trace(path.clone(), trace_options(&arguments.format)?),
        None => Workload::Preset(arguments.workload.clone()),
    };
    let storage = match &arguments.device {
        DeviceArg::Model => Storage::Model,
        DeviceArg::File(path) => Storage::File(path.clone()),
        DeviceArg::Device(target) => {
            Storage::Device(target.clone(), mode(arguments.placement_mode, arguments.placement))
        }
    };
    let storage = match vssd(arguments)? {
        Some(place) => Storage::Vssd(place),
        None => storage,
    };
    if arguments.placement_mode.is_some() && !matches!(storage, Storage::Device(..)) {
        return Err(Error::usage(
            "--placement-mode: is for a real device; name one, such as --device block:/dev/nvme0n1",
        ));
    }
    let placement = match (arguments.placement, &storage) {
        (Some(PlacementArg::On), _) => PlacementRuns::On,
        (None, Storage::Device(_, mode)) if *mode != PlacementMode::Off => PlacementRuns::On,
        (Some(PlacementArg::Off), _)
        | (None, Storage::File(_) | Storage::Device(..) | Storage::Vssd(_)) => PlacementRuns::Off,
        (Some(PlacementArg::Both), _) | (None, Storage::Model) => PlacementRuns::Both,
    };
    let soc_max_object_bytes = soc_max_object(arguments.soc_max_object)?;
    Ok(ReplayOptions {
        workload,
        requests: arguments.requests,
        span_requests: None,
        repeat: arguments.repeat,
        dram_bytes: arguments.dram,
        dram_policy: arguments.dram_policy,
        flash_bytes: arguments.flash,
        shards: arguments.shards,
        utilization_percent: arguments.utilization,
        soc_percent: arguments.soc,
        soc_log_percent: arguments.soc_log,
        soc_layout: arguments.soc_layout,
        soc_eviction: arguments.soc_eviction,
        soc_max_object_bytes,
        array: arguments.large.config()?.unwrap_or_default(),
        op_percent: arguments.op,
        unit_bytes: arguments.ru,
        isolation: match arguments.isolation {
            IsolationArg::Initially => Isolation::InitiallyIsolated,
            IsolationArg::Persistently => Isolation::PersistentlyIsolated,
        },
        admission: arguments.admission,
        region_eviction: arguments.loc_eviction,
        reinsertion: arguments.reinsertion,
        ttl_classes: arguments.ttl_classes.clone(),
        placement,
        storage,
        warmup_percent: arguments.warmup,
        seed: arguments.seed,
    })
}

/// The virtual SSD for the cache.
fn vssd(arguments: &ReplayArgs) -> Result<Option<VssdPlace>, Error> {
    match (arguments.vssd, &arguments.image) {
        (None, None) => Ok(None),
        (Some(VssdArg::Kind(kind)), None) => Ok(Some(VssdPlace::Memory(isolation(kind)))),
        (Some(VssdArg::Number(number)), Some(path)) => {
            Ok(Some(VssdPlace::Image(path.clone(), number)))
        }
        (Some(VssdArg::Number(number)), None) => {
            Err(Error::usage(format!("--vssd {number}: of which image? Name it by --image FILE")))
        }
        (_, Some(path)) => Err(Error::usage(format!(
            "--image {}: which vSSD of it? Name its number by --vssd; `larder vssd list` has them",
            path.display()
        ))),
    }
}

fn isolation(kind: KindArg) -> larder_vssd::Isolation {
    use larder_vssd::Isolation;
    match kind {
        KindArg::Channel => Isolation::Channel,
        KindArg::Die => Isolation::Die,
        KindArg::Software => Isolation::Software { weight: 1 },
        KindArg::None => Isolation::None,
    }
}

/// The placement mode for a device; off if no run places.
fn mode(wanted: Option<PlacementMode>, runs: Option<PlacementArg>) -> PlacementMode {
    match runs {
        Some(PlacementArg::Off) => PlacementMode::Off,
        _ => wanted.unwrap_or_default(),
    }
}

pub(crate) fn soc_max_object(bytes: u64) -> Result<u32, Error> {
    u32::try_from(bytes)
        .map_err(|_| Error::usage(format!("--soc-max-object {bytes}: must be at most 4050")))
}

/// Ctrl-C asks the runs to end.
pub(crate) fn stop_on_interrupt(monitor: &Arc<Monitor>) -> Result<(), Error> {
    let monitor = Arc::clone(monitor);
    on_interrupt(move || {
        let before = monitor.is_stopped();
        monitor.stop();
        before
    })
}

/// The placement plan of each run.
fn handles(outcome: &Outcome) -> String {
    let plan = |run: &larder_lab::replay::Run| {
        let memory = run.array_memory.as_ref();
        let memory = memory.map_or(String::new(), |memory| memory_of(memory, run.shards.len()));
        format!("\nplacement {}\n{}{memory}", run.placement, run.placement_table)
    };
    outcome.runs.iter().map(plan).collect()
}

/// The memory of an array, line by line.
fn memory_of(memory: &ArrayMemory, shards: usize) -> String {
    let line = |(what, bytes)| format!("  {what:<24}{}\n", BinaryBytes(bytes));
    let total = BinaryBytes(memory.total_bytes());
    let whose = if shards > 1 { " of each shard" } else { "" };
    format!("memory of the array{whose}, {total} at most\n{}", memory.lines().map(line).concat())
}

/// Caveats about the numbers above.
fn notes(options: &ReplayOptions, outcome: &Outcome) -> String {
    let mut notes = String::new();
    if matches!(options.storage, Storage::File(_)) {
        notes += "note: a file has no placement handles, and what the drive below it writes to its \
                  media is unknown\n";
    }
    let unsteady = |run: &larder_lab::replay::Run| {
        run.dlwa.is_some() && run.drive_writes_before < STEADY_DRIVE_WRITES
    };
    if outcome.runs.iter().any(unsteady) {
        notes += &format!(
            "note: the drive had been written less than {STEADY_DRIVE_WRITES:.0} times over when the \
             measurement began, so its DLWA may not have settled; use more --requests or less --flash\n"
        );
    }
    let has_one = |percent| percent == 0.0 || percent == 100.0;
    if has_one(options.soc_percent) && has_one(options.array.percent) {
        notes += "note: with one engine switched off there is one stream only, and placement has \
                  little to separate\n";
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let Command::Replay(arguments) = Cli::parse_from(["larder", "replay"]).command else {
            panic!("a replay was asked for")
        };
        assert_eq!(options(&arguments).unwrap(), ReplayOptions::of_preset("meta-kv", 1));
    }
}
