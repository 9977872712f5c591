//! Options for cores that do not match, or that are to be left out.

use clap::Args;
use larder_block::layout::CoreId;

/// Options for cores that do not match, or that are to be left out; only for a cache that is not running.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CoreChoiceArgs {
    /// Number of a core whose device is accepted, whatever identity and content it has: dirty data go there
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) force_core: Vec<CoreId>,

    /// Number of a core to leave out as if it were missing: what only the cache has of it stays
    #[arg(long, value_name = "N", value_parser = core_number)]
    pub(crate) without_core: Vec<CoreId>,
}

pub(super) fn core_number(text: &str) -> Result<CoreId, String> {
    let number = text.parse().ok().and_then(CoreId::new);
    number.ok_or_else(|| "give 0 to 4095".to_owned())
}
