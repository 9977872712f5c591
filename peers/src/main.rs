//! Larder and its peers on the same work, in the same run: `larder-peers --help`.
//!
//! | module | what it is |
//! |---|---|
//! | `workload`, `stream`, `zipf`, `tables`, `item` | the work: which operations, on what |
//! | `system` | the caches |
//! | `drive`, `run`, `process`, `histogram` | one run, and what it costs |
//! | `rounds`, `child`, `neighbour` | all runs: who comes when, beside what |
//! | `summary`, `report`, `machine`, `options` | what is said, what was asked for |
//! | `growth`, `threads` | two looks at caches in memory: as they grow, and with more threads than cores |

mod child;
mod drive;
mod growth;
mod histogram;
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
mod zipf;

use std::process::ExitCode;

use options::{HELP, Options};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let (mode, rest) = match arguments.split_first() {
        Some((first, rest)) if !first.starts_with("--") => (first.as_str(), rest),
        _ => ("", &arguments[..]),
    };
    let options = match Options::parse(rest) {
        Ok(options) => options,
        Err(message) => return failed(&message, 2),
    };
    let result = match mode {
        "" => neighbour::beside(options.neighbour, || rounds::all(&options)),
        "one" => single(&options),
        "growth" => neighbour::beside(options.neighbour, || growth::all(&options)),
        "growth-one" => growth::one(&options),
        "growth-fill" => growth::fill_only(&options),
        "threads" => neighbour::beside(options.neighbour, || threads::all(&options)),
        "threads-one" => threads::one(&options, false),
        "threads-control" => threads::one(&options, true),
        "neighbour" => neighbour::stream(),
        other => return failed(&format!("{other}: unknown; use one, growth or threads"), 2),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => failed(&message, 1),
    }
}

/// One run. Its outcome is the last line, for foyer prints too.
fn single(options: &Options) -> Result<(), String> {
    let outcome = run::run(&options.task()?)?;
    println!("{}", outcome.to_json());
    Ok(())
}

fn failed(message: &str, code: u8) -> ExitCode {
    eprintln!("peers: {message}");
    if code == 2 {
        eprintln!("peers: --help says more");
    }
    ExitCode::from(code)
}
