//! The `larder` command.
//!
//! Exit status: 0 for success, 1 if the command failed, 2 for a usage error, 130 if it was interrupted.

mod args;
mod array;
mod bars;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod block;
#[cfg(target_os = "linux")]
mod data_directory;
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
#[cfg(target_os = "linux")]
mod settings_file;
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

/// A write beyond the file size limit (`ulimit -f`) would kill the process without a message. With the signal handled,
/// the write fails, and the command reports it.
#[cfg(target_os = "linux")]
fn survive_file_limits() {
    let seen = std::sync::Arc::default();
    // Without the handler the process would be killed, as by default.
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
