//! Arguments of `larder block cores`.

use clap::Args;
use larder_block::layout::CoreId;

use super::choice::{CoreChoiceArgs, core_number};
use super::control::WhichArgs;
use super::output::BlockOutputArgs;
use super::{ChangedCoreArg, CoreArg};

/// Add cores to a cache, or remove some, whether it is running or not
///
/// Cached data of the other cores stay. An added core is left as it is, with nothing cached yet; a running cache
/// exports it at once. Before a core is removed, everything that only the cache has of it is destaged; in a cache that
/// is not running, everything of all cores. A running cache goes on serving the core during that time, and the others
/// all the time. Then it refuses the core's clients, closes their connections and closes the device. If a block cannot
/// be destaged, the command fails and the core is served on. The last core cannot be removed. Numbers of removed cores
/// are not used again. The calibration is lost, and routing that is based on it ends.
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

    /// Core to add, as for `create`
    #[arg(long, value_name = "[N=]PATH")]
    pub(crate) add: Vec<CoreArg>,

    /// Number of a core to remove; removals come before additions
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) remove: Vec<CoreId>,

    /// Core that was missing, and where it is now: it is served again, with everything that is cached of it
    #[arg(long, value_name = "N=PATH")]
    pub(crate) attach: Vec<CoreArg>,

    /// Number of a missing core that will not come back: DATA OF IT THAT ONLY THE CACHE HAS ARE LOST
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) give_up: Vec<CoreId>,

    /// Where a core is, if it has moved since the cache was made
    #[arg(long = "core", value_name = "[N=]PATH", conflicts_with_all = ["unix", "control"])]
    pub(crate) cores: Vec<CoreArg>,

    #[command(flatten)]
    pub(crate) choice: CoreChoiceArgs,

    /// What to do with dirty data of a core that was written while the cache was away
    #[arg(long, value_enum, default_value_t = ChangedCoreArg::Refuse, conflicts_with_all = ["unix", "control"])]
    pub(crate) changed_core: ChangedCoreArg,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}
