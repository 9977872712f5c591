//! Replay, plan and experiments. Their results are the JSON that the command prints.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_lab::experiment::{self, Seeds, Settings};
use larder_lab::plan::{PlanOptions, Rating};
use larder_lab::replay::{Monitor, PlacementRuns, ReplayOptions, Workload};
use larder_workload::Error;
use larder_workload::trace::TraceOptions;
use pyo3::prelude::*;
use serde::Serialize;

use super::columns::Recorded;
use super::watched::watched;
use crate::errors;

/// Where requests come from: columns, the name of a generator, or the path of a trace.
pub(crate) struct Source(Workload);

impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(recorded) = given.cast::<Recorded>() {
            return Ok(Self(Workload::Requests(Arc::clone(&recorded.get().requests))));
        }
        let name: String = given.extract()?;
        Ok(Self(match larder_workload::generate::find(&name) {
            Some(_) => Workload::Preset(name),
            None => Workload::Trace(PathBuf::from(name), TraceOptions::default()),
        }))
    }
}

/// Options of a replay under the names of the package.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReplaySettings {
    dram: u64,
    flash: u64,
    /// "on", "off" or "both".
    placement: String,
    requests: Option<u64>,
    repeat: u32,
    utilization: f64,
    soc: f64,
    soc_max_object: u32,
    op: f64,
    unit: Option<u64>,
    admission: String,
    warmup: f64,
    seed: u64,
}

impl ReplaySettings {
    fn options(self, workload: Workload) -> Result<ReplayOptions, Error> {
        Ok(ReplayOptions {
            workload,
            dram_bytes: self.dram,
            flash_bytes: self.flash,
            placement: match self.placement.as_str() {
                "on" => PlacementRuns::On,
                "off" => PlacementRuns::Off,
                "both" => PlacementRuns::Both,
                other => {
                    let text = format!("placement={other:?}: must be 'on', 'off' or 'both'");
                    return Err(Error::usage(text));
                }
            },
            requests: self.requests,
            repeat: self.repeat,
            utilization_percent: self.utilization,
            soc_percent: self.soc,
            soc_max_object_bytes: self.soc_max_object,
            op_percent: self.op,
            unit_bytes: self.unit,
            admission: self.admission.parse().map_err(|e: String| Error::usage(e))?,
            warmup_percent: self.warmup,
            ..ReplayOptions::of_preset("", self.seed)
        })
    }
}

/// Options of a plan under the names of the package.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlanSettings {
    dram: u64,
    flash: u64,
    requests: Option<u64>,
    rate: f64,
    utilization: f64,
    soc: f64,
    soc_max_object: u32,
    op: f64,
    /// Drive writes per day over the warranty.
    endurance: f64,
    warranty_years: f64,
    years: f64,
    dlwa_limit: f64,
    price_flash: f64,
    price_dram: f64,
    simulate: u64,
    seed: u64,
}

impl PlanSettings {
    fn options(self, workload: Workload) -> PlanOptions {
        PlanOptions {
            workload,
            dram_bytes: self.dram,
            flash_bytes: self.flash,
            requests: self.requests,
            rate: self.rate,
            utilization_percent: self.utilization,
            soc_percent: self.soc,
            soc_max_object_bytes: self.soc_max_object,
            op_percent: self.op,
            rating: Rating::Dwpd(self.endurance),
            warranty_years: self.warranty_years,
            years: self.years,
            dlwa_limit: self.dlwa_limit,
            price_flash: self.price_flash,
            price_dram: self.price_dram,
            simulated_bytes: self.simulate,
            ..PlanOptions::of_preset("", self.seed)
        }
    }
}

/// The error in the words of the package: options of the command are arguments here.
fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Usage(_) => "ConfigError",
        _ => "Error",
    };
    errors::new(py, class, error.to_string().replace("--", ""))
}

fn json(py: Python<'_>, result: Result<impl Serialize, Error>) -> PyResult<String> {
    let result = result.map_err(|error| raised(py, &error))?;
    serde_json::to_string(&result).map_err(|error| errors::new(py, "Error", error.to_string()))
}

/// Replays a workload through the cache on the model of a drive.
#[pyfunction]
pub(crate) fn replay(
    py: Python<'_>,
    workload: Source,
    settings: ReplaySettings,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = settings.options(workload.0).map_err(|error| raised(py, &error))?;
    let monitor = Monitor::default();
    let runs: &[bool] = match options.placement {
        PlacementRuns::On => &[true],
        PlacementRuns::Off => &[false],
        PlacementRuns::Both => &[true, false],
    };
    let share = || runs.iter().map(|run| monitor.run(*run).share()).fold(1.0, f64::min);
    let outcome =
        watched(py, &monitor, progress, &share, || larder_lab::replay::replay(&options, &monitor))?;
    json(py, outcome)
}

/// What a drive will cost with a workload.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    workload: Source,
    settings: PlanSettings,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let options = settings.options(workload.0);
    let (monitor, [done, all]) = (Monitor::default(), [AtomicU32::new(0), AtomicU32::new(1)]);
    let share =
        || f64::from(done.load(Ordering::Relaxed)) / f64::from(all.load(Ordering::Relaxed).max(1));
    let on_run = |runs: usize, of: usize| {
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        all.store(number(of), Ordering::Relaxed);
        done.store(number(runs), Ordering::Relaxed);
    };
    let outcome = watched(py, &monitor, progress, &share, || {
        larder_lab::plan::plan(&options, &monitor, &on_run)
    })?;
    json(py, outcome)
}

/// The experiments: name, title, what each reproduces, criterion, and parameters with default and help.
#[pyfunction]
#[allow(clippy::type_complexity)] // rows that the package names
pub(crate) fn lab_list() -> Vec<(
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str, &'static str)>,
)> {
    let row = |it: &&'static experiment::Experiment| {
        let parameters = it.parameters.iter().map(|p| (p.name, p.default, p.help)).collect();
        (it.name, it.title, it.reproduces, it.criterion, parameters)
    };
    experiment::all().iter().map(row).collect()
}

/// Runs an experiment.
#[pyfunction]
pub(crate) fn lab_run(
    py: Python<'_>,
    name: &str,
    assignments: Vec<String>,
    seeds: (u64, u32),
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let (first, count) = seeds;
    let chosen = experiment::find(name).map_err(|error| raised(py, &error))?;
    let settings = Settings::new(chosen.name, chosen.parameters, &assignments);
    let settings = settings.map_err(|error| raised(py, &error))?;
    let (monitor, finished) = (Monitor::default(), AtomicU32::new(0));
    let share = || {
        let whole = f64::from(finished.load(Ordering::Relaxed));
        monitor.seeds().max(whole) / f64::from(count.max(1))
    };
    let of = Seeds { first, count };
    let on_seed = |count: u32| finished.store(count, Ordering::Relaxed);
    let outcome = watched(py, &monitor, progress, &share, || {
        experiment::run(chosen, &settings, of, &monitor, &on_seed)
    })?;
    json(py, outcome)
}
