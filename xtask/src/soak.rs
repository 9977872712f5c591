//! `cargo xtask soak`: the simulation of the cache for many seeds, and its history on threads.

use std::path::{Path, PathBuf};

use crate::step::{self, Verdict};

/// How many operations on threads, told to the test that makes them.
const THREADS_VARIABLE: &str = "LARDER_HISTORY_OPS";

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Soak {
    /// Seeds of the simulation: how many, from which on, and where the numbers go.
    Seeds { seeds: u64, first_seed: u64, json: Option<PathBuf> },
    /// Operations on real threads.
    Threads { operations: u64 },
}

impl Soak {
    /// A few minutes' worth, as a part of everything.
    pub(crate) const USUAL: Self = Self::Seeds { seeds: 2000, first_seed: 0, json: None };

    /// Reads the arguments of the command.
    pub(crate) fn read(arguments: &[&str]) -> Result<Self, String> {
        let (mut seeds, mut first_seed, mut json, mut threads) = (None, 0, None, None);
        let (pairs, rest) = arguments.as_chunks::<2>();
        if let [word] = rest {
            return Err(format!("{word} needs a value, or is none"));
        }
        for [name, value] in pairs {
            let number = || {
                let number: Result<u64, _> = value.parse();
                number.map_err(|_| format!("{name} {value}: a whole number is needed"))
            };
            match *name {
                "--seeds" => seeds = Some(number()?),
                "--first-seed" => first_seed = number()?,
                "--json" => json = Some(PathBuf::from(value)),
                "--threads-ops" => threads = Some(number()?),
                _ => return Err(format!("soak does not know {name}")),
            }
        }
        match (seeds, threads) {
            (Some(0), _) | (_, Some(0)) => Err("soak needs at least one".to_owned()),
            (Some(seeds), None) => Ok(Self::Seeds { seeds, first_seed, json }),
            (None, Some(operations)) if first_seed == 0 && json.is_none() => {
                Ok(Self::Threads { operations })
            }
            _ => Err("soak needs --seeds N or, alone, --threads-ops N".to_owned()),
        }
    }
}

/// Runs what was asked for.
pub(crate) fn run(soak: &Soak) -> Verdict {
    match soak {
        Soak::Seeds { seeds, first_seed, json } => {
            let mut words: Vec<String> =
                "run --release --quiet --locked --package larder-sim --example soak --"
                    .split(' ')
                    .map(str::to_owned)
                    .collect();
            words.extend(["--seeds".to_owned(), seeds.to_string()]);
            words.extend(["--first-seed".to_owned(), first_seed.to_string()]);
            if let Some(json) = json {
                words.extend(["--json".to_owned(), from_here(json)]);
            }
            named(step::run(&mut step::cargo(&words)), || format!("{seeds} seeds"))
        }
        Soak::Threads { operations } => {
            let words = "test --release --quiet --locked --package larder --test it -- \
                         history_threads::as_long_as_one_likes --exact --ignored --nocapture";
            let words: Vec<&str> = words.split_whitespace().collect();
            let mut command = step::cargo(&words);
            command.env(THREADS_VARIABLE, operations.to_string());
            named(step::run(&mut command), || format!("{operations} operations on threads"))
        }
    }
}

/// Cargo runs at the root of the workspace; the file is meant from where the user is.
fn from_here(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn named(verdict: Verdict, what: impl Fn() -> String) -> Verdict {
    match verdict {
        Verdict::Passed(_) => Verdict::Passed(what()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        assert_eq!(
            Soak::read(&["--seeds", "5", "--first-seed", "7", "--json", "x"]),
            Ok(Soak::Seeds { seeds: 5, first_seed: 7, json: Some("x".into()) })
        );
        assert_eq!(Soak::read(&["--threads-ops", "9"]), Ok(Soak::Threads { operations: 9 }));
        let wrong: [&[&str]; 7] = [
            &[],
            &["--seeds"],
            &["--seeds", "0"],
            &["--seeds", "x"],
            &["--what", "1"],
            &["--seeds", "1", "--threads-ops", "1"],
            &["--threads-ops", "1", "--json", "x"],
        ];
        wrong.iter().for_each(|words| assert!(Soak::read(words).is_err(), "{words:?}"));
    }
}
