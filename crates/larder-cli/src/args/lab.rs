//! `larder lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::isolation::KindArg;

/// Reproduce published results on the model, and see how close they come.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments: what each reproduces, what can be set, what it measures.
    List,
    Run(LabRunArgs),
    Report(LabReportArgs),
}

/// Run one experiment, or all of them.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "EXAMPLES:
  larder lab run utilization
  larder lab run ftl-uniform --set op=20 --set pages_per_unit=256
  larder lab run tenants --first-seed 11 --seeds 5    seeds 11 to 15
  larder lab run all --json all.json --report page/
  larder lab report all.json --report page/           the page of an earlier run")]
pub(crate) struct LabRunArgs {
    /// Name of an experiment, or all
    #[arg(value_name = "NAME|all")]
    pub(crate) name: String,

    /// Set a parameter of the experiment; `larder lab list` names them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,

    /// What the virtual SSD under the experiment's cache shares: the same as --set vssd=KIND
    #[arg(long, value_name = "channel|die|software|none")]
    pub(crate) vssd: Option<KindArg>,

    /// Number of seeds to run: minimum, mean and maximum over them are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) seeds: u32,

    /// First seed; the others are the numbers that follow. By default the date of the commit that this program was
    /// built from, so that no seed was used while an experiment was tuned
    #[arg(long, value_name = "SEED", default_value = env!("LARDER_COMMIT_DATE"))]
    pub(crate) first_seed: u64,

    /// Print the criterion, the whole reason and all numbers, not only those that are compared with others
    #[arg(long)]
    pub(crate) details: bool,

    /// Write the results as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a page with the results to DIR/index.html: verdicts, charts beside published values, tables
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

/// Make the page of results that `larder lab run --json` wrote.
#[derive(Debug, Args)]
pub(crate) struct LabReportArgs {
    /// File that `larder lab run --json` wrote, of one experiment or of all
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Write the page to DIR/index.html
    #[arg(long, value_name = "DIR")]
    pub(crate) report: PathBuf,
}
