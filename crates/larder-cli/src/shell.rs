//! `larder completions`, `larder man`: what shells and manuals know of the command, made from its own description.

use std::fs;
use std::io::Write;

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::ending::Ending;
use larder_workload::Error;

pub(crate) fn completions(arguments: &CompletionsArgs) -> Result<Ending, Error> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "larder", &mut script);
    // A reader such as `head` may have gone.
    let _ = std::io::stdout().write_all(&script);
    Ok(Ending::Complete)
}

pub(crate) fn man(arguments: &ManArgs) -> Result<Ending, Error> {
    let dir = &arguments.to;
    let pages =
        fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    pages.map_err(|cause| Error::run(format!("manual pages in {}: {cause}", dir.display())))?;
    Ok(Ending::Complete)
}
