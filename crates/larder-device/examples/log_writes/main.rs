//! Replays a log that `dm-log-writes` has written of a device, up to any flush that the device was asked for:
//!
//! ```sh
//! cargo run -p larder-device --example log_writes -- points LOG --count 60
//! cargo run -p larder-device --example log_writes -- replay LOG IMAGE --from 0 --to 412
//! cargo run -p larder-device --example log_writes -- marks LOG
//! ```
//!
//! `points` prints values for `--to`, one per line: each is the number of an entry directly behind one that was to be
//! durable. They are evenly spread, and the last is the end of the log. `replay` does to IMAGE what the entries from
//! `--from` to before `--to` did to the device, and prints the marks among them, one per line. `marks` prints each mark
//! behind the value of `--to` that replays up to it: two logs with marks of the same moments can be replayed to the
//! same moment.
//!
//! A write that no flush has covered is not logged before that flush: an image replayed up to a point is the worst
//! state that a loss of power can leave.

mod log;
mod replay;

use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, value_parser};

use self::log::Log;

/// Replays a log that dm-log-writes has written of a device.
#[derive(Debug, Parser)]
#[command(name = "log_writes", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the points at which something was to be durable
    Points {
        /// The device or file with the log
        log: PathBuf,
        /// Number of points, or all if there are fewer
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u64).range(1..))]
        count: u64,
    },
    /// Print the marks, each behind the number of the entry that follows it
    Marks {
        /// The device or file with the log
        log: PathBuf,
    },
    /// Do to an image what the entries did to the device
    Replay {
        /// The device or file with the log
        log: PathBuf,
        /// A file as long as the device
        image: PathBuf,
        /// The first entry
        #[arg(long, value_name = "N", default_value_t = 0)]
        from: u64,
        /// The entry to stop before
        #[arg(long, value_name = "N")]
        to: u64,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(lines) => {
            lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("log_writes: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<Vec<String>, String> {
    let (Command::Points { log: path, .. }
    | Command::Marks { log: path }
    | Command::Replay { log: path, .. }) = &command;
    let file = OpenOptions::new().read(true).open(path);
    let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
    let told = |why: String| format!("{}: {why}", path.display());
    let mut log = Log::open(BufReader::new(file)).map_err(told)?;
    match command {
        Command::Points { count, .. } => {
            let points = replay::points(&mut log, count).map_err(told)?;
            Ok(points.iter().map(u64::to_string).collect())
        }
        Command::Marks { .. } => replay::marks(&mut log).map_err(told),
        Command::Replay { ref image, from, to, .. } => {
            let opened = OpenOptions::new().read(true).write(true).open(image);
            let mut opened = opened.map_err(|error| format!("{}: {error}", image.display()))?;
            replay::replay(&mut log, &mut opened, from..to).map_err(told)
        }
    }
}
