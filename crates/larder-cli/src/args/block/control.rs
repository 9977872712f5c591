//! What a running cache can be asked, by its control socket.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use larder_block::cache::Mode;
use larder_block::layout::CoreId;

use super::cache::{BlockOutputArgs, DeviceFormatArgs};
use super::target::TargetArg;

/// Which running cache.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("running").required(true).args(["unix", "control"])))]
pub(crate) struct AskArgs {
    /// Socket by which it serves; its control socket is beside it
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Its control socket
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Which cache, running or not.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).args(["cache", "unix", "control"])))]
pub(crate) struct WhichArgs {
    /// The device of a cache that does not run
    #[arg(value_name = "CACHE")]
    pub(crate) cache: Option<TargetArg>,

    /// Socket by which a running one serves; its control socket is beside it
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Control socket of a running one
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Show how a cache is set, and what it has.
///
/// Of a running one by its socket; of one that does not run, what its device says.
#[derive(Debug, Args)]
pub(crate) struct CacheStatusArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

/// Show what a running cache has done: requests, bytes, errors, and what has passed it by.
#[derive(Debug, Args)]
pub(crate) struct CacheStatsArgs {
    /// Forget it afterwards
    #[arg(long)]
    pub(crate) reset: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CoreOfArgs {
    /// The core's number [default: all]
    #[arg(value_name = "CORE", value_parser = core_id)]
    pub(crate) core: Option<CoreId>,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Change the mode of a running cache, for good.
///
/// write-through (wt): a write goes to the core and the cache. write-back (wb): to the cache, and to the core later.
/// write-around (wa): to the core; cached where it was. write-invalidate (wi): to the core; void in the cache.
/// write-only (wo): as write-back, and reads are not kept. pass-through (pt): the core alone.
///
/// From wb or wo to another one, what is dirty is destaged, unless --no-flush: then it stays until it is.
#[derive(Debug, Args)]
pub(crate) struct ModeArgs {
    /// The new one
    pub(crate) mode: Mode,

    /// Leave what is dirty
    #[arg(long)]
    pub(crate) no_flush: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The new one
    pub(crate) policy: String,

    /// What is to be other than by default
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) keys: Vec<String>,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

impl PolicyArgs {
    /// As one text.
    pub(crate) fn text(&self) -> String {
        let words = std::iter::once(&self.policy).chain(&self.keys);
        words.map(String::as_str).collect::<Vec<_>>().join(",")
    }
}

/// Show or change the IO classes of a running cache: requests that are cached in a way of their own.
///
/// They are a CSV file in the form of Open CAS: IO class id,IO class name,Eviction priority,Allocation, and Cache mode
/// if wanted. The name is a rule, such as io_direction:read&request_size:ge:1048576&done or export:0.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["load", "list"])))]
pub(crate) struct IoClassArgs {
    /// Take them from this file, in place of those that there are
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// Show them as such a file
    #[arg(long)]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// Give a running cache without cache device a new one, while its cores are served.
///
/// The device is formatted: whatever was on it is lost. Nothing is written over a device that has something on it
/// unless it is said. The cache goes on in its mode, with nothing cached.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE:
  larder block detach --unix /run/larder.sock
  larder block attach block:/dev/nvme1n1 --unix /run/larder.sock")]
pub(crate) struct AttachArgs {
    /// The device, as the running process sees it: PATH, file:PATH, block:PATH, nvme:PATH or dax:PATH
    #[arg(value_name = "CACHE")]
    pub(crate) cache: TargetArg,

    #[command(flatten)]
    pub(crate) format: DeviceFormatArgs,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

/// End a running cache, as SIGTERM does.
///
/// What is dirty stays on the cache device until the next start, unless --flush.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Destage what is dirty
    #[arg(long)]
    pub(crate) flush: bool,

    #[command(flatten)]
    pub(crate) ask: AskArgs,
}

fn core_id(text: &str) -> Result<CoreId, String> {
    let id = text.parse().ok().and_then(CoreId::new);
    id.ok_or_else(|| "must be a core's number, 0 to 4095".to_owned())
}
