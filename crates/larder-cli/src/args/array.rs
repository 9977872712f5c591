//! What `larder array` can be asked.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Sets of shards: several devices that share the keys of a cache, and fail alone.
///
/// Of a set that nobody has open. What a server has open is asked and changed through its admin port
/// (`/api/array`, see docs/admin.md).
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder array status --device /dev/sdb /dev/sdc /dev/sdd
  larder array add --device /dev/sdb /dev/sdc /dev/sdd --new /dev/sde
  larder array retire 2 --device /dev/sdb /dev/sdc /dev/sdd
  larder array fail 1 --device /dev/sdb /dev/sdd       the third one is dead
  larder array replace 1 --device /dev/sdb /dev/sdd --new /dev/sde")]
pub(crate) enum ArrayCommand {
    /// What its shards are: a table and a picture
    Status(ArrayArgs),
    /// Add a shard; give its device, which is blank, from the next opening on
    Add(AddArgs),
    /// Take a shard out for good
    Retire(NumberArgs),
    /// Take a shard out that has failed
    Fail(NumberArgs),
    /// Have another device, which is blank, take a shard's place from the next opening on
    Replace(ReplaceArgs),
}

/// Which set, and where the answer goes.
#[derive(Debug, Args)]
pub(crate) struct ArrayArgs {
    /// Devices or files of the set, in any order
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) device: Vec<PathBuf>,

    /// Write the result as JSON to this file; - is standard output
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct NumberArgs {
    /// Number of the shard
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// The device that comes
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReplaceArgs {
    /// Number of the shard
    pub(crate) number: usize,

    #[command(flatten)]
    pub(crate) array: ArrayArgs,

    /// The device that takes its place
    #[arg(long, value_name = "PATH")]
    pub(crate) new: PathBuf,
}
