//! `larder lab`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_lab::experiment::{self, Compared, Experiment, ExperimentResult, Seeds, Settings};
use larder_lab::replay::Monitor;
use larder_lab::report;
use larder_lab::report::lab::LabResult;
use larder_workload::Error;

use clap::ValueEnum;

use crate::args::{LabCommand, LabReportArgs, LabRunArgs};
use crate::bars;
use crate::ending::Ending;
use crate::json::{JsonTarget, print};
use crate::replay::stop_on_interrupt;

pub(crate) fn run(command: &LabCommand) -> Result<Ending, Error> {
    match command {
        LabCommand::List => list()?,
        LabCommand::Run(arguments) => run_experiments(arguments)?,
        LabCommand::Report(arguments) => report_of_file(arguments)?,
    }
    Ok(Ending::Complete)
}

fn list() -> Result<(), Error> {
    let mut text = String::new();
    for experiment in experiment::all() {
        text += &format!(
            "{}\n    {}\n    reproduces: {}\n    criterion:  {}\n",
            experiment.name, experiment.title, experiment.reproduces, experiment.criterion
        );
        for parameter in experiment.parameters {
            text += &format!(
                "    --set {}={}  {}\n",
                parameter.name, parameter.default, parameter.help
            );
        }
        for (name, meaning) in experiment.metrics {
            let by_clock = experiment.by_clock().contains(name);
            let mark = if by_clock { ", by the clock of this machine" } else { "" };
            text += &format!("    measures {name}{mark}: {meaning}\n");
        }
        if experiment.is_of_the_machine() {
            text += "    is about this machine, and not among all\n";
        }
        text.push('\n');
    }
    print(&text)
}

/// The parameter settings, including `--vssd`: experiments whose cache can run on a vSSD have a parameter of this name.
fn assignments(arguments: &LabRunArgs, chosen: &[&Experiment]) -> Result<Vec<String>, Error> {
    let Some(kind) = arguments.vssd else { return Ok(arguments.settings.clone()) };
    let takes = |experiment: &&Experiment| experiment.parameters.iter().any(|p| p.name == "vssd");
    if let Some(other) = chosen.iter().find(|experiment| !takes(experiment)) {
        let those: Vec<_> = experiment::all().iter().filter(|e| takes(e)).map(|e| e.name).collect();
        return Err(Error::usage(format!(
            "--vssd: {} is about what a drive that maps pages does by itself, has no cache, or has vSSDs of every kind \
             anyway; those whose cache can stand on one are {}",
            other.name,
            those.join(", ")
        )));
    }
    let kind = format!(
        "vssd={}",
        kind.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    );
    Ok(arguments.settings.iter().cloned().chain([kind]).collect())
}

fn run_experiments(arguments: &LabRunArgs) -> Result<(), Error> {
    let chosen: Vec<&'static Experiment> = if arguments.name == "all" {
        if !arguments.settings.is_empty() {
            return Err(Error::usage("--set goes with one experiment, not with all"));
        }
        experiment::anywhere()
    } else {
        vec![experiment::find(&arguments.name)?]
    };
    let assignments = assignments(arguments, &chosen)?;
    let settings: Vec<Settings> = chosen
        .iter()
        .map(|e| Settings::new(e.name, e.parameters, &assignments))
        .collect::<Result<_, _>>()?;
    if let Some(dir) = &arguments.report {
        report::check_writable(dir)?;
    }
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let monitor = Arc::new(Monitor::default());
    stop_on_interrupt(&monitor)?;
    let seeds = Seeds { first: arguments.first_seed, count: arguments.seeds };
    let mut results = Vec::new();
    for (experiment, settings) in chosen.into_iter().zip(&settings) {
        let result = run_one(experiment, settings, seeds, &monitor)?;
        let text = render(&result, arguments.details);
        json.tell(&text)?;
        results.push(result);
    }
    match results.as_slice() {
        [one] if arguments.name != "all" => json.write(one)?,
        all => json.write(&all)?,
    }
    match &arguments.report {
        Some(dir) => {
            let results = results.iter().map(LabResult::try_from).collect::<Result<Vec<_>, _>>()?;
            write_report(dir, &results)
        }
        None => Ok(()),
    }
}

fn report_of_file(arguments: &LabReportArgs) -> Result<(), Error> {
    let named = |cause: &dyn std::fmt::Display| {
        Error::run(format!("{}: {cause}", arguments.file.display()))
    };
    let json = std::fs::read_to_string(&arguments.file).map_err(|cause| named(&cause))?;
    let results = report::lab::read_results(&json).map_err(|cause| named(&cause))?;
    write_report(&arguments.report, &results)
}

fn write_report(dir: &Path, results: &[LabResult]) -> Result<(), Error> {
    eprintln!("report: {}", report::write_lab(dir, results)?.display());
    Ok(())
}

/// The first statements of a reason, up to about two lines.
fn first_of(reason: &str) -> String {
    const LENGTH: usize = 200;
    match reason.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{} …", reason[..end].trim_end()),
        None => reason.to_owned(),
    }
}

fn run_one(
    experiment: &'static Experiment,
    settings: &Settings,
    seeds: Seeds,
    monitor: &Monitor,
) -> Result<ExperimentResult, Error> {
    let finished = AtomicU32::new(0);
    let before = monitor.seeds();
    // Long experiments report progress within a seed; the others only when a seed is done.
    let share = || {
        let whole = f64::from(finished.load(Ordering::Relaxed));
        let share = (monitor.seeds() - before).max(whole) / f64::from(seeds.count);
        (share, format!("{whole} of {} seeds", seeds.count))
    };
    bars::watch_share(experiment.name, &share, || {
        let on_seed = |count: u32| finished.store(count, Ordering::Relaxed);
        experiment::run(experiment, settings, seeds, monitor, &on_seed)
    })
}

/// One result for people: the verdict in a line; then the numbers that are compared, or with `details` all numbers,
/// the criterion and the reason.
fn render(result: &ExperimentResult, details: bool) -> String {
    let seeds = result.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("{}: {}; {}\n", result.experiment, result.verdict, result.reading);
    text += &format!("  seeds {seeds}\n");
    if details {
        text += &format!(
            "  {} [{}]\n  criterion: {}\n  {}\n",
            result.title, result.reproduces, result.criterion, result.reason
        );
    }
    let compared = |name: &str| result.references.get(name);
    let rows = result.metrics.iter().filter(|(name, _)| details || compared(name).is_some());
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        text += &format!(
            "  {:32} {:>10} {:>10} {:>10} {:>10}\n",
            "metric", "min", "mean", "max", "compared"
        );
    }
    for (name, spread) in rows {
        text +=
            &format!("  {name:32} {:>10.4} {:>10.4} {:>10.4}", spread.min, spread.mean, spread.max);
        if let Some(Compared { reference, judged }) = compared(name) {
            let mark = if *judged { "" } else { ", not judged" };
            text += &format!(" {:>10.3}  {}{mark}", reference.value, reference.origin);
        }
        text.push('\n');
    }
    if !details {
        text += &format!("  why: {}\n", first_of(&result.reason));
        text += "  --details has the criterion, the whole reason and all numbers\n";
    }
    for line in &result.machine {
        text += &format!("  {line}\n");
    }
    if !result.by_clock.is_empty() {
        text += &format!("  by the clock of this machine: {}\n", result.by_clock.join(", "));
    }
    text.push('\n');
    text
}
