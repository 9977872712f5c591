//! `larder workload`, and the options of everything that reads a trace.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use larder_workload::trace::TraceFormat;

use super::numbers::{positive_size, size};

/// Look at workloads: the built-in ones, and what is in a trace.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// List the built-in workloads and where their numbers come from.
    List,
    Stats(StatsArgs),
}

/// Read a workload to its end and print requests, keys, sizes, lifetimes.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub(crate) struct StatsArgs {
    /// Name of a built-in workload, or a trace file
    #[arg(value_name = "NAME|FILE")]
    pub(crate) workload: String,

    /// Stop after N requests [default: the workload's own number, or the whole trace]
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,

    /// Seed of a built-in workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Also print the miss ratio of an LRU cache of these sizes (objects only, no overhead)
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = size)]
    pub(crate) lru: Vec<u64>,

    #[command(flatten)]
    pub(crate) format: FormatArgs,

    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    /// Format of the trace, if it is not recognised: csv, twitter, meta-kv, oracle-general, keys or keys-u32
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<TraceFormat>,

    /// Size of every object in a trace without sizes
    #[arg(long, value_name = "BYTES", default_value = "1K", value_parser = positive_size)]
    pub(crate) object_size: u64,
}
