//! Where the result of a command goes.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct BlockOutputArgs {
    /// Also write the result as JSON to this file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
