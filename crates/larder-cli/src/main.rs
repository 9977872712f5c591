//! The `larder` command.
//!
//! Exit status: 0 for success, 1 if the command failed, 2 for a usage error, 130 if it was interrupted.
//!
//! Groups of commands are features, all of them on by default. `--no-default-features --features serve,block` builds
//! what an operator runs, without the lab, file systems and the load generator.

// What the commands share is used by all of them together; a build with fewer commands leaves some of it unused.
#![cfg_attr(
    not(all(feature = "bench", feature = "lab", feature = "serve", feature = "vssd")),
    allow(dead_code, unused_imports)
)]

#[cfg(all(target_os = "linux", feature = "serve"))]
mod admin_client;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod advise;
mod args;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod array;
mod bars;
#[cfg(all(target_os = "linux", feature = "bench"))]
mod bench;
#[cfg(all(target_os = "linux", feature = "block"))]
mod block;
#[cfg(all(target_os = "linux", feature = "block"))]
mod data_directory;
#[cfg(target_os = "linux")]
mod device;
#[cfg(feature = "lab")]
mod drive;
mod ending;
mod interrupt;
mod json;
#[cfg(feature = "lab")]
mod lab;
#[cfg(all(target_os = "linux", feature = "block"))]
mod log;
#[cfg(feature = "lab")]
mod plan;
#[cfg(feature = "lab")]
mod replay;
#[cfg(feature = "lab")]
mod run_bars;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod serve;
#[cfg(all(target_os = "linux", feature = "block"))]
mod settings_file;
mod shell;
#[cfg(feature = "lab")]
mod table;
#[cfg(any(feature = "bench", feature = "lab"))]
mod trace;
#[cfg(feature = "vssd")]
mod vssd;
#[cfg(feature = "lab")]
mod workload;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use ending::Ending;
use larder_workload::Error;

fn main() -> ExitCode {
    survive_file_limits();
    let cli = Cli::parse();
    let ended = match cli.command {
        #[cfg(all(target_os = "linux", feature = "serve"))]
        Command::Serve(arguments) => serve::run(&arguments),
        #[cfg(all(target_os = "linux", feature = "serve"))]
        Command::Check(arguments) => serve::check(&arguments),
        #[cfg(all(target_os = "linux", feature = "serve"))]
        Command::Advise(arguments) => advise::run(&arguments),
        #[cfg(all(target_os = "linux", feature = "serve"))]
        Command::Password(_) => serve::password(),
        #[cfg(all(target_os = "linux", feature = "bench"))]
        Command::Bench(arguments) => bench::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Replay(arguments) => replay::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Plan(arguments) => plan::run(&arguments),
        #[cfg(feature = "lab")]
        Command::Workload(command) => workload::run(&command),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(&command),
        #[cfg(target_os = "linux")]
        Command::Device(command) => device::run(&command),
        #[cfg(all(target_os = "linux", feature = "block"))]
        Command::Block(command) => block::run(&command),
        #[cfg(feature = "vssd")]
        Command::Vssd(command) => vssd::run(&command),
        #[cfg(all(target_os = "linux", feature = "serve"))]
        Command::Array(command) => array::run(&command),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
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
