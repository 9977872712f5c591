//! Options of the array engine, of whichever command has a cache.

use clap::Args;
use larder::ArrayConfig;
use larder_lab::Error;

use super::numbers::{percent, size};

/// What is said of the engine. Without a share nothing else may be said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub(crate) struct ArrayArgs {
    /// Share of the cache's flash that the array engine gets, in percent: large objects under an index that lies on
    /// flash, so that little memory is enough for much flash; 0 is none
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) array: Option<f64>,

    /// Objects (key and value) from this size on go to the array, those between to the LOC [default: 0, all that the
    /// SOC does not take]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_min_object: Option<u64>,

    /// Mean size of the array's objects, by which its index is laid out [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_mean_object: Option<u64>,

    /// Memory for the array's index [default: 2 bytes an object]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_index: Option<u64>,
}

impl ArrayArgs {
    /// The engine that is meant; `None` if nothing is said of one.
    ///
    /// # Errors
    /// If a size is none of an object.
    pub(crate) fn config(&self) -> Result<Option<ArrayConfig>, Error> {
        let Some(percent) = self.array else { return Ok(None) };
        let default = ArrayConfig::default();
        let object = |name: &str, bytes: Option<u64>, default| match bytes.map(u32::try_from) {
            None => Ok(default),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(_)) => Err(Error::usage(format!("{name}: must be less than 4G"))),
        };
        Ok(Some(ArrayConfig {
            percent,
            min_object_bytes: object(
                "array min_object",
                self.array_min_object,
                default.min_object_bytes,
            )?,
            mean_object_bytes: object(
                "array mean_object",
                self.array_mean_object,
                default.mean_object_bytes,
            )?,
            index_bytes: self.array_index,
            ..default
        }))
    }
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
