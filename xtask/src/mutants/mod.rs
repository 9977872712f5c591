//! `cargo xtask mutants`: makes small changes to the cache, drawn by seed, and checks whether a test notices each.
//!
//! `cargo-mutants` lists the changes. We draw some of them, make them in a copy of the tree, and run our tests in
//! stages (`stages`). The reason for a mutant that no test notices is looked up among the written ones (`reasons`). A
//! survivor without a reason fails the run, and so does a sample of which too few were caught (`judge`).

mod judge;
mod mutant;
mod reasons;
mod sample;
mod stages;
mod table;
mod tree;
mod workshop;

use std::fs;
use std::path::Path;

use clap::Args;
use larder_harness::step::Verdict;
use larder_harness::{tools, workspace};

use self::mutant::{FOLDERS, Mutant};
use self::reasons::Reasons;
use self::stages::{Course, Fate};
use self::workshop::Workshop;

/// A seed draws from its list of mutants. Another version may list other mutants.
const TOOL: &str = "cargo-mutants@27.1.0";

/// Options of `mutants`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct MutantsOptions {
    /// Number of mutants, the same number from each folder
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,
    /// Seed of the sample
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Skip the first K of them, which an interrupted run has already tested
    #[arg(long, value_name = "K", default_value_t = 0)]
    skip: u32,
    /// Test all mutants with TEXT in their names instead of a sample; may be given several times
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["sample", "seed", "skip"])]
    only: Vec<String>,
}

impl MutantsOptions {
    /// A sample for a few minutes, as part of `all`.
    pub(crate) fn usual() -> Self {
        Self { sample: 30, ..Self::default() }
    }

    fn command(&self) -> String {
        let skip = match self.skip {
            0 => String::new(),
            skip => format!(" --skip {skip}"),
        };
        let only: String = self.only.iter().map(|text| format!(" --only '{text}'")).collect();
        match only.is_empty() {
            true => {
                format!("cargo xtask mutants --seed {} --sample {}{skip}", self.seed, self.sample)
            }
            false => format!("cargo xtask mutants{only}"),
        }
    }
}

impl Default for MutantsOptions {
    fn default() -> Self {
        Self { sample: 100, seed: 1, skip: 0, only: Vec::new() }
    }
}

/// Draws, tests and judges the mutants.
pub(crate) fn run(options: &MutantsOptions) -> Verdict {
    let MutantsOptions { sample, skip, .. } = options;
    if sample <= skip {
        return Verdict::Failed(format!(
            "--skip {skip} leaves none of --sample {sample}: use fewer"
        ));
    }
    let program = match tools::find(TOOL) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    match judged(options, &Workshop::new(program, &workspace::target().join("xtask/mutants"))) {
        Ok(verdict) => verdict,
        Err(message) => Verdict::Failed(message),
    }
}

fn judged(options: &MutantsOptions, workshop: &Workshop) -> Result<Verdict, String> {
    let _alone = tree::lock(workshop.dir())?;
    tree::copy(&workspace::root(), workshop.tree())?;
    let all = workshop.list(&FOLDERS)?;
    let reasons = Reasons::read(&workspace::root().join(reasons::FILE))?;
    let drawn: Vec<&Mutant> = match options.only.is_empty() {
        true => sample::draw(&all, &FOLDERS, options.sample as usize, options.seed)
            .into_iter()
            .skip(options.skip as usize)
            .collect(),
        false => all.iter().filter(|mutant| mutant.is_named(&options.only)).collect(),
    };
    if drawn.is_empty() {
        return Err(format!("of {} mutants none is named so", all.len()));
    }
    eprintln!("{} of {} mutants; again: {}", drawn.len(), all.len(), options.command());
    let course = Course::measured(workshop)?;
    let mut fates: Vec<(Mutant, Fate)> = Vec::new();
    for mutant in &drawn {
        let fate = course.fate(mutant)?;
        fates.push(((*mutant).clone(), fate));
        eprintln!("{:4} of {}: {fate}: {}", fates.len(), drawn.len(), mutant.name);
        // An interrupted run leaves the results so far.
        let json = table::json(&fates, &reasons, &options.command());
        write(&workshop.dir().join("result.json"), &json.to_string())?;
    }
    let judgement = judge::judge(&all, &fates, &reasons);
    let text = table::markdown(&FOLDERS, &fates, &reasons, &judgement, &options.command());
    print!("\n{text}");
    write(&workshop.dir().join("result.md"), &text)?;
    eprintln!("\nalso in {}/result.md and result.json", workshop.dir().display());
    Ok(judgement.verdict(&fates))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|cause| format!("cannot write {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{self, Command};

    #[test]
    fn arguments_are_read_and_said_again() {
        let read = |line| match args::read(line) {
            Ok(Command::Mutants(options)) => options,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(read("mutants"), MutantsOptions::default());
        let options = read("mutants --sample 7 --seed 3");
        assert_eq!(options, MutantsOptions { sample: 7, seed: 3, skip: 0, only: Vec::new() });
        assert_eq!(options.command(), "cargo xtask mutants --seed 3 --sample 7");
        let only = read("mutants --only page.rs:7 --only x");
        assert_eq!(only.command(), "cargo xtask mutants --only 'page.rs:7' --only 'x'");
        let rest = read("mutants --skip 40");
        assert_eq!(rest.command(), "cargo xtask mutants --seed 1 --sample 100 --skip 40");
        for wrong in ["--sample", "--sample 0", "--seed x", "--what 1", "--only x --sample 1"] {
            assert!(args::read(&format!("mutants {wrong}")).is_err(), "{wrong}");
        }
        assert!(matches!(run(&read("mutants --skip 100")), Verdict::Failed(_)));
    }
}
