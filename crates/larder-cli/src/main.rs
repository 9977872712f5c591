//! The `larder` command.
//!
//! Exit status: 0 when the question was answered, 1 when answering failed, 2 when the question was
//! wrong, 130 when it was interrupted.

mod args;
mod array;
mod bars;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod block;
#[cfg(target_os = "linux")]
mod device;
mod drive;
mod ending;
mod interrupt;
mod json;
mod lab;
#[cfg(target_os = "linux")]
mod log;
mod plan;
mod replay;
#[cfg(target_os = "linux")]
mod serve;
mod table;
mod vssd;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use ending::Ending;
use larder_lab::Error;

fn main() -> ExitCode {
    survive_file_limits();
    let cli = Cli::parse();
    let ended = match cli.command {
        #[cfg(target_os = "linux")]
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(target_os = "linux")]
        Command::Check(arguments) => serve::check(&arguments),
        #[cfg(target_os = "linux")]
        Command::Password(_) => serve::password(),
        #[cfg(target_os = "linux")]
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Workload(command) => workload::run(&command),
        Command::Lab(command) => lab::run(&command),
        #[cfg(target_os = "linux")]
        Command::Device(command) => device::run(&command),
        #[cfg(target_os = "linux")]
        Command::Block(command) => block::run(&command),
        Command::Vssd(command) => vssd::run(&command),
        Command::Array(command) => array::run(&command),
    };
    ended_as(ended)
}

/// A file that would pass the limit of this process (`ulimit -f`) ends it without a word, unless the signal is handled.
/// Then the write fails, and the command says which.
#[cfg(target_os = "linux")]
fn survive_file_limits() {
    let seen = std::sync::Arc::default();
    // Without the handler it goes as it would have gone.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
}

#[cfg(not(target_os = "linux"))]
fn survive_file_limits() {}

fn ended_as(ended: Result<Ending, Error>) -> ExitCode {
    match ended {
        Ok(Ending::Complete) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(match error {
                Error::Usage(_) => 2,
                _ => 1,
            })
        }
    }
}
