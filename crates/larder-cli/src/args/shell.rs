//! Arguments of the commands that describe the command itself.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print a script that completes `larder` in a shell.
///
/// For bash: larder completions bash > /usr/share/bash-completion/completions/larder
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Write the manual pages of `larder` and its commands.
///
/// For example: larder man --to /usr/local/share/man/man1
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages, one file each.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
}
