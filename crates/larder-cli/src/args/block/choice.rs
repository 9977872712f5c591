//! Which cores of a cache are taken as they are, and which are left aside.

use clap::Args;
use larder_block::layout::CoreId;

/// Which cores are taken as they are, and which are left aside. Of a cache that runs it is decided already.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CoreChoiceArgs {
    /// Number of a core whose device is taken as it is, whatever it was known by and has: dirty data go there
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) force_core: Vec<CoreId>,

    /// Number of a core that is left aside as if it were missing: what only the cache has of it stays
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) without_core: Vec<CoreId>,
}

pub(super) fn core_number(text: &str) -> Result<CoreId, String> {
    let number = text.parse().ok().and_then(CoreId::new);
    number.ok_or_else(|| "give 0 to 4095".to_owned())
}
