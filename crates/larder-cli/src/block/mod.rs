//! `larder block`.

mod export;
mod target;

use larder_lab::Error;

use crate::args::BlockCommand;
use crate::ending::Ending;

pub(crate) fn run(command: &BlockCommand) -> Result<Ending, Error> {
    match command {
        BlockCommand::Export(arguments) => export::run(arguments),
    }
}
