//! `larder plan`.

use std::fs;
use std::sync::Arc;

use larder_lab::plan::{Plan, PlanOptions, Rating};
use larder_lab::replay::{Monitor, Workload};
use larder_lab::report;
use larder_workload::Error;

use crate::args::PlanArgs;
use crate::bars;
use crate::ending::Ending;
use crate::json::JsonTarget;
use crate::replay::{soc_max_object, stop_on_interrupt};
use crate::trace::trace_options;

pub(crate) fn run(arguments: &PlanArgs) -> Result<Ending, Error> {
    let options = options(arguments)?;
    options.check()?;
    if let Some(dir) = &arguments.report {
        report::check_writable(dir)?;
    }
    let json = JsonTarget::prepare(arguments.json.as_deref())?;
    let monitor = Arc::new(Monitor::default());
    stop_on_interrupt(&monitor)?;
    let plan = match simulate(&options, &monitor) {
        Err(error) if error.to_string() == "interrupted" => {
            eprintln!("interrupted: nothing was written");
            return Ok(Ending::Interrupted);
        }
        ended => ended?,
    };
    let rendered = render(&plan);
    json.tell(&rendered)?;
    json.write(&plan)?;
    if let Some(path) = &arguments.config {
        let written = fs::write(path, plan.larder_toml(&options));
        written.map_err(|error| {
            Error::run(format!("--config {}: cannot be written ({error})", path.display()))
        })?;
        eprintln!("settings: {}", path.display());
    }
    if let Some(dir) = &arguments.report {
        eprintln!("report: {}", report::write_plan(dir, &plan)?.display());
    }
    Ok(Ending::Complete)
}

fn simulate(options: &PlanOptions, monitor: &Monitor) -> Result<Plan, Error> {
    let bar = bars::bar("simulating");
    let on_run = |done: usize, all: usize| {
        #[allow(clippy::cast_precision_loss)] // some runs
        let share = done as f64 / all.max(1) as f64;
        bars::set_share(&bar, share, format!("{done} of {all} runs"));
    };
    let plan = larder_lab::plan::plan(options, monitor, &on_run);
    bar.finish_and_clear();
    plan
}

fn options(arguments: &PlanArgs) -> Result<PlanOptions, Error> {
    let workload = match &arguments.trace {
        Some(path) => Workload::Trace(path.clone(), trace_options(&arguments.format)?),
        None => Workload::Preset(arguments.workload.clone()),
    };
    Ok(PlanOptions {
        workload,
        requests: arguments.requests,
        dram_bytes: arguments.dram,
        flash_bytes: arguments.flash,
        utilization_percent: arguments.utilization,
        soc_percent: arguments.soc,
        soc_layout: arguments.soc_layout,
        soc_max_object_bytes: soc_max_object(arguments.soc_max_object)?,
        op_percent: arguments.op,
        rating: arguments.tbw.map_or(Rating::Dwpd(arguments.endurance), Rating::Tbw),
        warranty_years: arguments.warranty_years,
        rated_dlwa: arguments.rated_dlwa,
        rate: arguments.rate,
        dlwa_limit: arguments.dlwa_limit,
        years: arguments.years,
        drive_rates: arguments.drive_rates.clone(),
        price_flash: arguments.price_flash,
        price_dram: arguments.price_dram,
        carbon_flash: arguments.carbon_flash,
        carbon_dram: arguments.carbon_dram,
        carbon_grid: arguments.carbon_grid,
        idle_watts: arguments.idle_watts,
        simulated_bytes: arguments.simulate,
        seed: arguments.seed,
    })
}

/// The answer for people: a column with placement and one without, advice, and the assumptions.
fn render(plan: &Plan) -> String {
    let mut text = format!("{:28}", "placement");
    plan.answers.iter().for_each(|answer| text += &format!("{:>16}", answer.placement));
    text.push('\n');
    for (label, cells) in plan.rows() {
        text += &format!("{label:28}");
        cells.iter().for_each(|cell| text += &format!("{cell:>16}"));
        text.push('\n');
    }
    for line in plan.advice.iter().chain(&plan.basis()) {
        text += &format!("\n{}", folded(line));
    }
    for note in plan.notes() {
        text += &format!("\n{}", folded(&format!("note: {note}")));
    }
    text
}

/// Wraps a sentence to the width of a terminal.
fn folded(sentence: &str) -> String {
    const COLUMNS: usize = 92;
    let mut text = String::new();
    let mut columns = 0;
    for word in sentence.split(' ') {
        if columns > 0 && columns + 1 + word.chars().count() > COLUMNS {
            text.push('\n');
            columns = 0;
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        text += word;
        columns += word.chars().count();
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let Command::Plan(arguments) = Cli::parse_from(["larder", "plan"]).command else {
            panic!("a plan was asked for")
        };
        assert_eq!(options(&arguments).unwrap(), PlanOptions::of_preset("meta-kv", 1));
    }

    #[test]
    fn sentences_fit_a_terminal() {
        let folded = folded(&"word ".repeat(60));
        assert!(folded.lines().all(|line| line.len() <= 92) && folded.lines().count() > 2);
    }
}
