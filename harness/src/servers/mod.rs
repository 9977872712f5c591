//! `cargo xtask servers`: compares `larder serve` with memcached and Valkey, under the same load in one run.
//!
//! `larder bench` makes the load, so that one client with one clock measures all servers in turn. Processor time per
//! request is reliable on a shared machine; requests a second are reliable only on a quiet one.

mod beside;
mod cgroup;
mod collections;
mod contestant;
mod dram;
mod flash;
mod idle;
mod objects;
mod rounds;
mod settings;
mod throttle;
mod tls;
mod tools;

use clap::{Args, ValueEnum};

use crate::served;
use crate::step::Verdict;
use crate::workspace;
use settings::{Bench, Settings};

/// Options of `servers`.
#[derive(Debug, Clone, Args)]
pub struct ServersOptions {
    /// What to measure [default: all]
    #[arg(value_name = "WHAT")]
    what: Vec<ServerMeasurement>,
    #[command(flatten)]
    settings: Settings,
}

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServerMeasurement {
    /// Hits in DRAM: pipelines, multigets, sets
    Dram,
    /// Hits on flash, compared with memcached's extstore, in control groups with the same memory
    Flash,
    /// Memory of idle connections
    Idle,
    /// Hits in DRAM next to idle connections, loud neighbours, and a drive that stalls
    Beside,
    /// Hits in DRAM with TLS
    Tls,
    /// `larder bench` compared with redis-benchmark and memcaslap
    Tools,
    /// Commands of collections, and a script, compared with Valkey
    Collections,
}

/// Runs the selected measurements, and prints a table of each.
pub fn run(options: &ServersOptions) -> Verdict {
    let larder = match served::program(options.settings.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let dir =
        options.settings.dir.clone().unwrap_or_else(|| workspace::target().join("xtask/servers"));
    if let Err(cause) = std::fs::create_dir_all(&dir) {
        return Verdict::Failed(format!("cannot make {}: {cause}", dir.display()));
    }
    let bench = Bench { settings: options.settings.clone(), larder, dir };
    let all = [
        ServerMeasurement::Dram,
        ServerMeasurement::Flash,
        ServerMeasurement::Idle,
        ServerMeasurement::Beside,
        ServerMeasurement::Tls,
        ServerMeasurement::Tools,
        ServerMeasurement::Collections,
    ];
    let wanted = if options.what.is_empty() { &all[..] } else { &options.what };
    let mut skipped = Vec::new();
    for what in wanted {
        let measured = match what {
            ServerMeasurement::Dram => dram::run(&bench),
            ServerMeasurement::Flash => flash::run(&bench),
            ServerMeasurement::Idle => idle::run(&bench),
            ServerMeasurement::Beside => beside::run(&bench),
            ServerMeasurement::Tls => tls::run(&bench),
            ServerMeasurement::Tools => tools::run(&bench),
            ServerMeasurement::Collections => collections::run(&bench),
        };
        match measured {
            Ok(missing) => skipped.extend(missing),
            Err(why) => return Verdict::Failed(why),
        }
    }
    match skipped.is_empty() {
        true => Verdict::passed(),
        false => Verdict::Passed(format!("without {}", skipped.join(", "))),
    }
}
