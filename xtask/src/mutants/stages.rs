//! Runs tests against mutants in stages: a mutant that one stage does not notice goes on to the next.
//!
//! The first stage is the quickest, and most mutants end there.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use larder_harness::step;

use super::Mutant;
use super::workshop::Workshop;

/// Memory limit of a mutant's tests. It stops a mutant that never stops appending.
const MEMORY_BYTES_MAX: u64 = 8 << 30;
/// Time limit of tests, as a multiple of their time without a change, and its minimum.
const TIME_FACTOR: u32 = 5;
const TEST_TIME_MIN: Duration = Duration::from_secs(60);
const BUILD_TIME_MAX: Duration = Duration::from_secs(1800);
/// The slowest tests of `tests/it`.
const THREADS: &str = "history_threads::";

/// Documentation tests, which are compiled when they run.
const EXAMPLES: &str = "--doc";

/// A set of tests.
pub(super) struct Stage {
    pub(super) name: &'static str,
    package: &'static str,
    /// The binary, as arguments of `cargo test`.
    binary: &'static [&'static str],
    /// The tests, as arguments of the binary.
    tests: &'static [&'static str],
}

/// The stages, in the order in which mutants go through them.
pub(super) const STAGES: [Stage; 5] = [
    Stage {
        name: "unit tests",
        package: "larder",
        binary: &["--lib"],
        // It takes nine tenths of the time of all others together, and tests admission, which is not mutated.
        tests: &["--skip", "a_day_is_held_to_its_budget_at_any_load"],
    },
    Stage {
        name: "tests/it",
        package: "larder",
        binary: &["--test", "it"],
        tests: &["--skip", THREADS],
    },
    Stage { name: "examples", package: "larder", binary: &[EXAMPLES], tests: &[] },
    Stage { name: "threads", package: "larder", binary: &["--test", "it"], tests: &[THREADS] },
    Stage {
        name: "soak",
        package: "larder-sim",
        binary: &["--test", "it"],
        tests: &["soak::every_answer"],
    },
];

/// The fate of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// A test of this stage failed.
    Caught(&'static str),
    /// Tests of this stage did not end, which would be noticed.
    TimedOut(&'static str),
    /// The mutant does not compile.
    Unviable,
    /// All tests passed.
    Missed,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(stage) => write!(f, "caught by {stage}"),
            Self::TimedOut(stage) => write!(f, "timeout of {stage}"),
            Self::Unviable => f.write_str("unviable"),
            Self::Missed => f.write_str("MISSED"),
        }
    }
}

/// The result of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageResult {
    Passed,
    Failed,
    TimedOut,
    NotBuilt,
}

/// The stages with their time limits.
pub(super) struct Course<'a> {
    workshop: &'a Workshop,
    limits: Vec<Duration>,
}

impl<'a> Course<'a> {
    /// Runs every stage without a change, to measure its time. It must pass.
    pub(super) fn measured(workshop: &'a Workshop) -> Result<Self, String> {
        let mut limits = Vec::new();
        for stage in &STAGES {
            eprint!("without a change, {}: ", stage.name);
            stage.build(workshop)?.then_some(()).ok_or("it does not compile")?;
            let begin = Instant::now();
            match stage.test(workshop, BUILD_TIME_MAX)? {
                StageResult::Passed => {}
                ended => return Err(format!("{}: {ended:?} without a change", stage.name)),
            }
            eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
            limits.push((begin.elapsed() * TIME_FACTOR).max(TEST_TIME_MIN));
        }
        Ok(Self { workshop, limits })
    }

    /// Runs the stages on a mutant and returns its fate.
    pub(super) fn fate(&self, mutant: &Mutant) -> Result<Fate, String> {
        mutant.applied(self.workshop.tree(), || {
            for (stage, limit) in STAGES.iter().zip(&self.limits) {
                match stage.run(self.workshop, *limit)? {
                    StageResult::Passed => {}
                    StageResult::Failed => return Ok(Fate::Caught(stage.name)),
                    StageResult::TimedOut => return Ok(Fate::TimedOut(stage.name)),
                    StageResult::NotBuilt => return Ok(Fate::Unviable),
                }
            }
            Ok(Fate::Missed)
        })
    }
}

impl Stage {
    fn run(&self, workshop: &Workshop, limit: Duration) -> Result<StageResult, String> {
        match self.build(workshop)? {
            true => self.test(workshop, limit),
            false => Ok(StageResult::NotBuilt),
        }
    }

    fn build(&self, workshop: &Workshop) -> Result<bool, String> {
        if self.binary == [EXAMPLES] {
            return Ok(true);
        }
        let mut command = workshop.command(&step::cargo_program());
        self.arguments(&mut command).arg("--no-run");
        Ok(ended(&mut command, BUILD_TIME_MAX)? == StageResult::Passed)
    }

    fn test(&self, workshop: &Workshop, limit: Duration) -> Result<StageResult, String> {
        let mut command = match step::find_program(&["prlimit"]) {
            Some(prlimit) => {
                let mut command = workshop.command(prlimit.as_os_str());
                command.arg(format!("--as={MEMORY_BYTES_MAX}")).arg(step::cargo_program());
                command
            }
            None => workshop.command(&step::cargo_program()),
        };
        self.arguments(&mut command).arg("--").args(self.tests);
        ended(&mut command, limit)
    }

    fn arguments<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.args(["test", "--locked", "--package", self.package]).args(self.binary)
    }
}

fn ended(command: &mut Command, limit: Duration) -> Result<StageResult, String> {
    match step::ended_within(command, limit) {
        Ok(Some(status)) if status.success() => Ok(StageResult::Passed),
        Ok(Some(_)) => Ok(StageResult::Failed),
        Ok(None) => Ok(StageResult::TimedOut),
        Err(cause) => Err(format!("{}: {cause}", Path::new(command.get_program()).display())),
    }
}
