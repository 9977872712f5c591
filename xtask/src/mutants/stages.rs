//! Mutants against tests, in stages: what one stage's tests do not notice goes on to the next.
//!
//! The first stage is the quickest, and most mutants end there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Mutant;
use crate::step;

/// Memory that a mutant's compiler or test may have: one that never stops appending ends here.
const MEMORY_BYTES_MAX: u64 = 8 << 30;
/// How much longer than without a change tests may take, and the least that they get.
const TIME_FACTOR: &str = "5";
const TEST_SECONDS_MIN: &str = "60";
const BUILD_SECONDS_MAX: &str = "900";
/// What cargo-mutants says when it is done and some were missed, or some were not done in time.
const DONE: [i32; 3] = [0, 2, 3];

/// A set of tests.
pub(super) struct Stage {
    pub(super) name: &'static str,
    package: &'static str,
    /// What `cargo test` gets.
    arguments: &'static [&'static str],
}

/// In the order in which mutants see them.
pub(super) const STAGES: [Stage; 3] = [
    Stage {
        name: "unit tests",
        package: "larder",
        // Nine tenths of the time of all the others together, and about admission, which is not mutated.
        arguments: &["--lib", "--", "--skip", "a_day_is_held_to_its_budget_at_any_load"],
    },
    Stage { name: "tests/it", package: "larder", arguments: &["--test", "it"] },
    Stage {
        name: "soak",
        package: "larder-lab",
        arguments: &["--test", "it", "soak::every_answer"],
    },
];

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// A test of this stage failed.
    Caught(&'static str),
    /// Tests of this stage did not end: somebody would have noticed.
    TimedOut(&'static str),
    /// It does not compile.
    Unviable,
    /// All tests passed.
    Missed,
}

/// `cargo-mutants`, and where it works.
pub(super) struct Tool {
    program: PathBuf,
    dir: PathBuf,
}

impl Tool {
    pub(super) fn new(program: PathBuf, dir: &Path) -> Self {
        Self { program, dir: std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()) }
    }

    /// Where everything is that it makes.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The copy of the workspace that it changes.
    pub(super) fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    /// All mutants of these folders.
    pub(super) fn list(&self, folders: &[&str]) -> Result<Vec<Mutant>, String> {
        let mut command = Command::new(&self.program);
        command.args(["mutants", "--list", "--json", "--package", "larder"]);
        for folder in folders {
            command.arg("--file").arg(format!("crates/larder/src/{folder}/**"));
        }
        let output = command.current_dir(self.tree()).output();
        let output = output.map_err(|cause| format!("{}: {cause}", self.program.display()))?;
        let entries: Vec<Value> = serde_json::from_slice(&output.stdout).map_err(|cause| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("the list of cargo-mutants: {cause}; {}", errors.trim())
        })?;
        entries.iter().map(|entry| Mutant::read(entry, &self.tree())).collect()
    }

    /// Runs mutants against a stage, and reads how each ended.
    fn test(&self, stage: &Stage, mutants: &[&Mutant]) -> Result<Vec<(String, Fate)>, String> {
        let output = self.dir.join("out").join(stage.name.replace('/', " "));
        // What an earlier run wrote must not pass for this one's.
        if output.exists() {
            fs::remove_dir_all(&output).map_err(|cause| told(&output, &cause))?;
        }
        fs::create_dir_all(&output).map_err(|cause| told(&output, &cause))?;
        let mut command = self.limited();
        command.args(["mutants", "--in-place", "--package", "larder", "--caught", "--unviable"]);
        command.args(["--timeout-multiplier", TIME_FACTOR]);
        command.args(["--minimum-test-timeout", TEST_SECONDS_MIN]);
        command.args(["--build-timeout", BUILD_SECONDS_MAX, "--cap-lints", "true"]);
        command.args(["--test-package", stage.package, "--output"]).arg(&output);
        for mutant in mutants {
            command.arg("--re").arg(mutant.pattern());
        }
        command.arg("--").args(stage.arguments).current_dir(self.tree());
        command.env("CARGO_TARGET_DIR", self.dir.join("build"));
        // Nobody looks at it in a debugger, and it is compiled as often as there are mutants.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "1");
        let status = command.status().map_err(|cause| format!("cargo-mutants: {cause}"))?;
        if !status.code().is_some_and(|code| DONE.contains(&code)) {
            return Err(format!("cargo-mutants, {}: {status}", stage.name));
        }
        let file = output.join("mutants.out/outcomes.json");
        let text = fs::read_to_string(&file).map_err(|cause| told(&file, &cause))?;
        outcomes(&text, stage.name)
    }

    /// The tool with a limit to its memory, where there is a program that sets one.
    fn limited(&self) -> Command {
        let Some(prlimit) = step::find_program(&["prlimit"]) else {
            return Command::new(&self.program);
        };
        let mut command = Command::new(prlimit);
        command.arg(format!("--as={MEMORY_BYTES_MAX}")).arg(&self.program);
        command
    }
}

/// What became of each of these mutants, in their order.
pub(super) fn run(tool: &Tool, drawn: &[&Mutant]) -> Result<Vec<(Mutant, Fate)>, String> {
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    let mut left = drawn.to_vec();
    for (nth, stage) in STAGES.iter().enumerate() {
        if left.is_empty() {
            break;
        }
        let of = STAGES.len();
        eprintln!("\n{} of {of}: {} mutants against {}", nth + 1, left.len(), stage.name);
        fates.extend(tool.test(stage, &left)?);
        left.retain(|mutant| fates.get(&mutant.name) == Some(&Fate::Missed));
    }
    let fate = |mutant: &&Mutant| {
        let fate = fates.get(&mutant.name);
        let fate = fate.ok_or_else(|| format!("cargo-mutants did not run {}", mutant.name))?;
        Ok(((*mutant).clone(), *fate))
    };
    drawn.iter().map(fate).collect()
}

/// Reads what the tool wrote about mutants that it ran.
fn outcomes(text: &str, stage: &'static str) -> Result<Vec<(String, Fate)>, String> {
    let strange = |what: &str| format!("the outcomes of cargo-mutants, {stage}: {what}");
    let file: Value = serde_json::from_str(text).map_err(|cause| strange(&cause.to_string()))?;
    let entries = file.get("outcomes").and_then(Value::as_array);
    let mut fates = Vec::new();
    for entry in entries.ok_or_else(|| strange("there are none"))? {
        // The run without a change has no name.
        let name = entry.pointer("/scenario/Mutant/name").and_then(Value::as_str);
        let Some(name) = name else { continue };
        let fate = match entry.get("summary").and_then(Value::as_str) {
            Some("CaughtMutant") => Fate::Caught(stage),
            Some("Timeout") => Fate::TimedOut(stage),
            Some("Unviable") => Fate::Unviable,
            Some("MissedMutant") => Fate::Missed,
            other => return Err(strange(&format!("{name}: {other:?}"))),
        };
        fates.push((name.to_owned(), fate));
    }
    Ok(fates)
}

fn told(path: &Path, cause: &dyn std::fmt::Display) -> String {
    format!("{}: {cause}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        let text = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            {"scenario": {"Mutant": {"name": "a"}}, "summary": "CaughtMutant"},
            {"scenario": {"Mutant": {"name": "b"}}, "summary": "MissedMutant"},
            {"scenario": {"Mutant": {"name": "c"}}, "summary": "Timeout"},
            {"scenario": {"Mutant": {"name": "d"}}, "summary": "Unviable"}]}"#;
        let expected = [Fate::Caught("it"), Fate::Missed, Fate::TimedOut("it"), Fate::Unviable];
        let read: Vec<Fate> = outcomes(text, "it").unwrap().into_iter().map(|(_, f)| f).collect();
        assert_eq!(read, expected);
        for wrong in ["", "{}", &text.replace("Timeout", "Gone")] {
            assert!(outcomes(wrong, "it").is_err(), "{wrong}");
        }
    }
}
