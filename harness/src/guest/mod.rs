//! `cargo xtask guest`: Linux in an emulator, with an NVMe drive that supports Flexible Data Placement. Our programs
//! and nvme-cli, an independent program, run in it, and this module checks their reports. The guests are defined by
//! data: `scenarios/`.

mod check;
mod content;
mod cpio;
mod drive;
mod frames;
mod json;
mod machine;
mod modules;
mod nvme_cli;
mod packages;
mod scenario;
mod tools;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};

use self::content::Build;
use self::packages::Apt;
use self::scenario::{Kernel, Scenario};
use self::tools::Tools;
use self::verdicts::ScenarioResult;
use crate::step::Verdict;
use crate::workspace;

/// Options of `guest`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Args)]
pub struct GuestOptions {
    /// Only the scenario of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the scenarios and run none
    #[arg(long)]
    list: bool,
    /// Keep images and console in target/xtask/guest/runs, as after a failure
    #[arg(long)]
    keep: bool,
    /// Use our programs as built for the workspace's tests, instead of separate small and fast builds: for short guests
    /// after the tests
    #[arg(long)]
    dev: bool,
    /// Features that those tests were built with, in cargo's format
    #[arg(long, value_name = "LIST", requires = "dev", default_value = "")]
    features: String,
    /// Write every check and every step's output to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs every scenario.
pub fn usual() -> Verdict {
    run(&GuestOptions::default())
}

/// Runs the selected scenarios.
pub fn run(options: &GuestOptions) -> Verdict {
    let scenarios = match chosen(options) {
        Ok(scenarios) => scenarios,
        Err(message) => return Verdict::Failed(message),
    };
    if options.list {
        scenarios.iter().for_each(|s| println!("{:20} {}", s.name, s.about));
        return Verdict::Passed(format!("{} scenarios", scenarios.len()));
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Verdict::Skipped(
            "guests are made for Linux on x86-64, on such a machine".to_owned(),
        );
    }
    let begin = Instant::now();
    let dir = workspace::target().join("xtask").join("guest");
    let build = match options.dev {
        true => Build::Dev { features: &options.features },
        false => Build::Guest,
    };
    let host = match Host::prepared(&scenarios, &dir, build) {
        Ok(host) => host,
        Err(missing) => return Verdict::Skipped(missing),
    };
    let ran = build.run(&scenarios, &dir).and_then(|()| {
        let outcomes = host.outcomes(&scenarios, options.keep);
        if let Some(file) = &options.json {
            let text = format!("{:#}\n", host.json(&outcomes));
            fs::write(file, text).map_err(|cause| format!("{}: {cause}", file.display()))?;
        }
        Ok(outcomes)
    });
    match ran {
        Ok(outcomes) => verdicts::verdict(&outcomes, begin.elapsed()),
        Err(message) => Verdict::Failed(message),
    }
}

fn chosen(options: &GuestOptions) -> Result<Vec<Scenario>, String> {
    let mut scenarios = scenario::all()?;
    if let Some(name) = options.only.iter().find(|name| scenarios.iter().all(|s| s.name != **name))
    {
        return Err(format!("there is no scenario {name}; --list shows those that are"));
    }
    if !options.only.is_empty() {
        scenarios.retain(|scenario| options.only.contains(&scenario.name));
    }
    Ok(scenarios)
}

/// The tools and kernels of this machine for its guests.
struct Host {
    tools: Tools,
    kernels: BTreeMap<Kernel, PathBuf>,
    /// The directory of our built programs.
    built: PathBuf,
    dir: PathBuf,
}

impl Host {
    /// Finds or fetches everything. The error says what is not available.
    fn prepared(scenarios: &[Scenario], dir: &Path, build: Build<'_>) -> Result<Self, String> {
        let dir =
            std::path::absolute(dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
        let tools = tools::find(&dir)?;
        for program in scenarios.iter().flat_map(|scenario| &scenario.programs) {
            tools::program_path(program).ok_or_else(|| format!("{program} is not installed"))?;
        }
        let mut apt = Apt::new(&dir.join("apt"), &packages::KERNEL_SUITES);
        let mut kernels = BTreeMap::new();
        let needed: BTreeSet<Kernel> = scenarios.iter().map(|scenario| scenario.kernel).collect();
        for kernel in needed {
            let image = apt.kernel(kernel, &dir.join("kernels"));
            let image = image.map_err(|cause| format!("a kernel cannot be had: {cause}"))?;
            kernels.insert(kernel, image);
        }
        Ok(Self { tools, kernels, built: build.built(&dir), dir })
    }

    /// Runs all scenarios, with one worker for each processor of this machine, because most guests have one. Returns
    /// the outcomes in the order of the scenarios.
    fn outcomes(&self, scenarios: &[Scenario], keep: bool) -> Vec<ScenarioResult> {
        let next = AtomicUsize::new(0);
        let take = || {
            let mut ran = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(scenario) = scenarios.get(number) else { return ran };
                ran.push((number, self.outcome(scenario, keep)));
            }
        };
        let at_once = thread::available_parallelism().map_or(1, usize::from).min(scenarios.len());
        let mut ran: Vec<(usize, ScenarioResult)> = thread::scope(|scope| {
            let runners: Vec<_> = (0..at_once).map(|_| scope.spawn(take)).collect();
            let ended = runners.into_iter().map(|it| it.join().expect("a guest's failure is told"));
            ended.flatten().collect()
        });
        ran.sort_by_key(|(number, _)| *number);
        ran.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Runs a scenario and prints its outcome.
    fn outcome(&self, scenario: &Scenario, keep: bool) -> ScenarioResult {
        let kernel = self.kernels.get(&scenario.kernel);
        let kernel = kernel.and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
        let kernel = kernel.unwrap_or_default().trim_start_matches("vmlinuz-").to_owned();
        eprintln!("\n{} on Linux {kernel}: {}", scenario.name, scenario.about);
        let begin = Instant::now();
        let dir = self.dir.join("runs").join(&scenario.name);
        let ran = self.ran(scenario, &dir);
        let mut outcome = verdicts::judge(scenario, kernel, ran);
        outcome.seconds = begin.elapsed().as_secs_f64();
        outcome.print();
        if keep {
            eprintln!("  kept in {}", dir.display());
        } else if outcome.passed()
            && let Err(cause) = fs::remove_dir_all(&dir)
        {
            eprintln!("  {}: {cause}", dir.display());
        }
        outcome
    }

    fn ran(&self, scenario: &Scenario, dir: &Path) -> Result<verdicts::Evidence, String> {
        let told = |cause: std::io::Error| format!("{}: {cause}", dir.display());
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(told)?;
        }
        fs::create_dir_all(dir).map_err(told)?;
        scenario.drive.make(dir)?;
        let archive = dir.join("guest.cpio");
        let kernel = self.kernels.get(&scenario.kernel).ok_or("its kernel is missing")?;
        let content = content::archive(scenario, &self.tools, kernel, &self.built)?;
        fs::write(&archive, content).map_err(told)?;
        let frames = machine::run(scenario, &self.tools, kernel, &archive, dir)?;
        Ok(verdicts::Evidence { frames, untouched: scenario.drive.untouched(dir)? })
    }

    fn json(&self, outcomes: &[ScenarioResult]) -> Value {
        let scenarios: Vec<Value> = outcomes.iter().map(ScenarioResult::json).collect();
        json!({ "emulator": self.tools.version, "scenarios": scenarios })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: GuestOptions,
    }

    #[test]
    fn arguments_are_read() {
        let read = |line: &str| Line::try_parse_from(line.split(' ')).map(|line| line.options);
        let options = read("guest --only a --keep --only b --json x").unwrap();
        assert_eq!(options.only, ["a", "b"]);
        assert!(options.keep && !options.list && options.json == Some("x".into()));
        let options = read("guest --dev --features a/b,c").unwrap();
        assert!(options.dev && options.features == "a/b,c");
        for wrong in ["guest --only", "guest a", "guest --features a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let missing = GuestOptions { only: vec!["no-such".to_owned()], ..GuestOptions::default() };
        assert!(chosen(&missing).unwrap_err().contains("no scenario no-such"));
    }
}
