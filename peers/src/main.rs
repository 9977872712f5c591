//! Compares Larder and its peers on the same work, in the same run: `larder-peers --help`.
//!
//! | module | what it is |
//! |---|---|
//! | `workload`, `stream`, `tables`, `item` | the work: operations and items |
//! | `system` | the caches |
//! | `drive`, `run`, `process` | one run, and its cost |
//! | `rounds`, `child`, `neighbour` | all runs: their order, and a neighbour for them |
//! | `summary`, `report`, `machine`, `options` | output and options |
//! | `growth`, `threads` | two other measurements of caches in memory: as they grow, and with more threads than cores |

mod child;
mod drive;
mod growth;
mod item;
mod machine;
mod neighbour;
mod options;
mod process;
mod report;
mod rounds;
mod run;
mod stream;
mod summary;
mod system;
mod tables;
mod threads;
mod workload;

use std::process::ExitCode;

use clap::Parser;
use options::{Mode, Options};

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match options.mode {
        Mode::Rounds => neighbour::beside(options.neighbour, || rounds::all(&options)),
        Mode::One => single(&options),
        Mode::Growth => neighbour::beside(options.neighbour, || growth::all(&options)),
        Mode::GrowthOne => growth::one(&options),
        Mode::GrowthFill => growth::fill_only(&options),
        Mode::Threads => neighbour::beside(options.neighbour, || threads::all(&options)),
        Mode::ThreadsOne => threads::one(&options, false),
        Mode::ThreadsControl => threads::one(&options, true),
        Mode::Neighbour => neighbour::stream(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("peers: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Makes one run. The last line is its outcome, because foyer prints too.
fn single(options: &Options) -> Result<(), String> {
    let outcome = run::run(&options.task()?)?;
    println!("{}", outcome.to_json());
    Ok(())
}
