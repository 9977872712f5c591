//! What `larder block cores` can be asked.

use clap::Args;
use larder_block::layout::CoreId;

use super::cache::BlockOutputArgs;
use super::choice::{CoreChoiceArgs, core_number};
use super::control::WhichArgs;
use super::{ChangedCoreArg, CoreArg};

/// Add cores to a cache, or take some away; while it runs, or while it does not
///
/// What is cached of the other cores stays. A core that is added is left as it is, and nothing is cached of it yet; a
/// running cache exports it at once. Before one is taken away, everything that only the cache has of it goes to it; of
/// a cache that does not run, of all cores. A running one serves it meanwhile, and the others all the time: then its
/// clients are refused, their connections close, and its device is let go of. If a block cannot be destaged it fails,
/// and the core is served on. The last core stays. Numbers of cores that were taken away are not given again. A
/// calibration is forgotten, and routing by it ends.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block cores --add more.img --unix s           to a running cache, with the next number
  larder block cores --remove 0 --unix s
  larder block cores fast.img --add 7=block:/dev/sdc   to one that does not run
  larder block cores fast.img --remove 0
  larder block cores --attach 1=block:/dev/sdd --unix s    one that was missing, and is there again
  larder block cores fast.img --give-up 1                  one that does not come back: its dirty data are lost")]
pub(crate) struct CoresArgs {
    #[command(flatten)]
    pub(crate) which: WhichArgs,

    /// A core to add, as `create` takes it
    #[arg(long, value_name = "[N=]PATH")]
    pub(crate) add: Vec<CoreArg>,

    /// Number of a core to take away; before any is added
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) remove: Vec<CoreId>,

    /// A core that was missing, and where it is now: it is served again, with all that is cached of it
    #[arg(long, value_name = "N=PATH")]
    pub(crate) attach: Vec<CoreArg>,

    /// Number of a core that is missing and does not come back: WHAT ONLY THE CACHE HAS OF IT IS LOST
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) give_up: Vec<CoreId>,

    /// Where a core is, if it is not where it was when the cache was made
    #[arg(long = "core", value_name = "[N=]PATH", conflicts_with_all = ["unix", "control"])]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// If a core was written while the cache was away and the cache has dirty data
    #[arg(long, value_enum, default_value_t = ChangedCoreArg::Refuse, conflicts_with_all = ["unix", "control"])]
    pub(crate) changed_core: ChangedCoreArg,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}
