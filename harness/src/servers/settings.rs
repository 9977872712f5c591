//! Common settings of all measurements.

use std::path::PathBuf;

use clap::Args;

/// Options of a measurement.
#[derive(Debug, Clone, Args)]
pub(crate) struct Settings {
    /// Threads of each server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) threads: u16,
    /// Processors of the servers
    #[arg(long, value_name = "LIST", default_value = "0")]
    pub(super) server_cores: String,
    /// Processors of the client
    #[arg(long, value_name = "LIST", default_value = "1")]
    pub(super) client_cores: String,
    /// Rounds of each shape of load; every server is measured once a round
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(super) rounds: u16,
    /// Seconds of each measurement of a server
    #[arg(long, value_name = "S", default_value_t = 1.5)]
    pub(super) seconds: f64,
    /// Directory for flash files [default: the build directory]
    #[arg(long, value_name = "PATH")]
    pub(super) dir: Option<PathBuf>,
    /// The program to measure [default: built first]
    #[arg(long, value_name = "FILE")]
    pub(super) larder: Option<PathBuf>,
}

/// Common parts of all measurements.
pub(super) struct Bench {
    pub(super) settings: Settings,
    pub(super) larder: PathBuf,
    pub(super) dir: PathBuf,
}
