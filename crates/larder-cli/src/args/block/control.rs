//! Commands to a running cache, over its control socket.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use larder_block::cache::Mode;
use larder_block::layout::CoreId;

use super::cache::DeviceFormatArgs;
use super::output::BlockOutputArgs;
use super::target::TargetArg;

/// Selects a running cache.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("running").required(true).args(["unix", "control"])))]
pub(crate) struct AskArgs {
    /// Socket by which it serves; its control socket is next to it
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Its control socket
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Selects a cache, running or not.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["cache", "unix", "control"])))]
pub(crate) struct WhichArgs {
    /// Device of a cache that is not running
    #[arg(value_name = "CACHE")]
    pub(crate) cache: Option<TargetArg>,

    /// Socket by which a running cache serves; its control socket is next to it
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Control socket of a running cache
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Show the settings and the contents of a cache.
///
/// A running cache is asked by its socket; for a stopped one the label of its device is read.
#[derive(Debug, Args)]
pub(crate) struct CacheStatusArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Show what a running cache has done: requests, bytes, errors, and what has bypassed it.
#[derive(Debug, Args)]
pub(crate) struct CacheStatsArgs {
    /// Reset the statistics afterwards
    #[arg(long)]
    pub(crate) reset: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CoreOfArgs {
    /// Number of the core [default: all]
    #[arg(value_name = "CORE", value_parser = core_id)]
    pub(crate) core: Option<CoreId>,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Change the mode of a running cache, for good.
///
/// write-through (wt): a write goes to the core and the cache. write-back (wb): to the cache, and to the core later.
/// write-around (wa): to the core; the cache is updated only where it has all of the data. write-invalidate (wi): to
/// the core; cached data become invalid. write-only (wo): as write-back, and reads are not kept. pass-through (pt): the
/// core alone.
///
/// A change from wb or wo to another mode destages dirty data. With --no-flush they stay until they are destaged.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// New mode
    pub(crate) mode: Mode,

    /// Do not destage dirty data
    #[arg(long)]
    pub(crate) no_flush: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// New policy
    pub(crate) policy: String,

    /// Settings that differ from the defaults
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) keys: Vec<String>,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

impl PolicyArgs {
    /// The policy and its keys as one text.
    pub(crate) fn text(&self) -> String {
        let words = std::iter::once(&self.policy).chain(&self.keys);
        words.map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

/// Show or change the IO classes of a running cache: rules for requests that are cached differently.
///
/// They are a CSV file in the format of Open CAS: IO class id,IO class name,Eviction priority,Allocation, and
/// optionally Cache mode. The name is a rule, such as io_direction:read&request_size:ge:1048576&done or export:0.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["load", "list"])))]
pub(crate) struct IoClassArgs {
    /// Replace the classes by those in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// Show the classes as such a file
    #[arg(long)]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Give a running cache without a cache device a new one, while its cores are served.
///
/// The device is formatted: everything on it is lost. A device that holds something is not overwritten unless you say
/// so. The cache goes on in its mode, with nothing cached.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE:
  larder block detach --unix /run/larder.sock
  larder block attach block:/dev/nvme1n1 --unix /run/larder.sock")]
pub(crate) struct AttachArgs {
    /// Device, as the running process sees it: PATH, file:PATH, block:PATH, nvme:PATH or dax:PATH
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    #[command(flatten)]
    pub(crate) format: DeviceFormatArgs,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// End a running cache, as SIGTERM does.
///
/// Dirty data stay on the cache device until the next start, unless --flush is given.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Destage dirty data first
    #[arg(long)]
    pub(crate) flush: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

fn core_id(text: &str) -> Result<CoreId, String> {
    let id = text.parse().ok().and_then(CoreId::new);
    id.ok_or_else(|| "must be a core's number, 0 to 4095".to_owned())
}
