//! What `larder block cores` can be asked.

use clap::Args;
use larder_block::layout::CoreId;

use super::cache::BlockOutputArgs;
use super::{CoreArg, StoppedArgs};

/// Add cores to a cache that does not run, or take some away
///
/// What is cached of the other cores stays. A core that is added is left as it is, and nothing is cached of it yet.
/// Before one is taken away, everything that only the cache has goes to the cores, of all of them. Numbers of cores
/// that were taken away are not given again. A calibration is forgotten.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:
  larder block cores fast.img --add more.img           with the next number
  larder block cores fast.img --add 7=block:/dev/sdc
  larder block cores fast.img --remove 0")]
pub(crate) struct CoresArgs {
    /// A core to add, as `create` takes it
    #[arg(long, value_name = "[N=]PATH")]
    pub(crate) add: Vec<CoreArg>,

    /// Number of a core to take away; before any is added
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) remove: Vec<CoreId>,

    #[command(flatten)]
    pub(crate) stopped: StoppedArgs,

    #[command(flatten)]
    pub(crate) output: BlockOutputArgs,
}

fn core_number(text: &str) -> Result<CoreId, String> {
    let number = text.parse().ok().and_then(CoreId::new);
    number.ok_or_else(|| "give 0 to 4095".to_owned())
}
