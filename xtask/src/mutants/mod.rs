//! `cargo xtask mutants`: small changes to the cache, drawn by seed, and whether a test notices each.
//!
//! `cargo-mutants` lists the changes. Here they are drawn, made in a copy of the tree and run against our
//! tests in stages (`stages`). What no test notices is looked up among the reasons that somebody wrote
//! down (`reasons`): a survivor without one fails, and so does a sample of which too few were caught
//! (`judge`).

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

use self::mutant::{FOLDERS, Mutant};
use self::reasons::Reasons;
use self::stages::{Course, Fate};
use self::workshop::Workshop;
use crate::step::Verdict;
use crate::{tools, workspace};

/// Its list of mutants is what a seed draws from: another version may draw others.
const TOOL: &str = "cargo-mutants@27.1.0";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// How many mutants, as many of each folder as of any other.
    sample: usize,
    seed: u64,
    /// So many of the sample were seen to already, by a run that was ended.
    skip: usize,
    /// All mutants with one of these in their names, instead of a sample.
    only: Vec<String>,
}

impl Options {
    /// A few minutes' worth, as a part of everything.
    pub(crate) fn usual() -> Self {
        Self { sample: 30, ..Self::default() }
    }

    /// Reads the arguments of the command.
    pub(crate) fn read(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let (pairs, rest) = arguments.as_chunks::<2>();
        if let [word] = rest {
            return Err(format!("{word} needs a value, or is none"));
        }
        for [name, value] in pairs {
            let wrong = |_| format!("{name} {value}: a whole number is needed");
            match *name {
                "--sample" => options.sample = value.parse().map_err(wrong)?,
                "--seed" => options.seed = value.parse().map_err(wrong)?,
                "--skip" => options.skip = value.parse().map_err(wrong)?,
                "--only" => options.only.push((*value).to_owned()),
                _ => return Err(format!("mutants does not know {name}")),
            }
        }
        match options.sample {
            0 => Err("--sample 0: at least one is needed".to_owned()),
            all if all <= options.skip => Err(format!("--skip {}: none is left", options.skip)),
            _ => Ok(options),
        }
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

impl Default for Options {
    fn default() -> Self {
        Self { sample: 100, seed: 1, skip: 0, only: Vec::new() }
    }
}

/// Draws, runs and judges.
pub(crate) fn run(options: &Options) -> Verdict {
    let program = match tools::find(TOOL) {
        Ok(program) => program,
        Err(why) => return Verdict::Skipped(why),
    };
    match judged(options, &Workshop::new(program, &workspace::target().join("xtask/mutants"))) {
        Ok(verdict) => verdict,
        Err(message) => Verdict::Failed(message),
    }
}

fn judged(options: &Options, workshop: &Workshop) -> Result<Verdict, String> {
    let _alone = tree::lock(workshop.dir())?;
    tree::copy(&workspace::root(), workshop.tree())?;
    let all = workshop.list(&FOLDERS)?;
    let reasons = Reasons::read(&workspace::root().join(reasons::FILE))?;
    let drawn: Vec<&Mutant> = match options.only.is_empty() {
        true => sample::draw(&all, &FOLDERS, options.sample, options.seed)
            .into_iter()
            .skip(options.skip)
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
        // Whoever ends this early has what there is so far.
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

    #[test]
    fn arguments_are_read_and_said_again() {
        let options = Options::read(&["--sample", "7", "--seed", "3"]).unwrap();
        assert_eq!(options, Options { sample: 7, seed: 3, skip: 0, only: Vec::new() });
        assert_eq!(options.command(), "cargo xtask mutants --seed 3 --sample 7");
        let only = Options::read(&["--only", "page.rs:7", "--only", "x"]).unwrap();
        assert_eq!(only.command(), "cargo xtask mutants --only 'page.rs:7' --only 'x'");
        let rest = Options::read(&["--skip", "40"]).unwrap();
        assert_eq!(rest.command(), "cargo xtask mutants --seed 1 --sample 100 --skip 40");
        let wrong: [&[&str]; 5] = [
            &["--sample"],
            &["--sample", "0"],
            &["--seed", "x"],
            &["--what", "1"],
            &["--skip", "100"],
        ];
        for wrong in wrong {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
