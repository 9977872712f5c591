//! `larder block`.
//!
//! A cache runs in the process of `larder block start`; other commands ask it over its control socket (`control/`).
//!
//! | file | content |
//! |---|---|
//! | `create`, `start`, `recover`, `export`, `ublk`, `calibrate` | the commands of these names |
//! | `change_cores` | `larder block cores` |
//! | `commands`, `control` | commands to a running cache, and its control socket |
//! | `serving`, `keeping` | what serving commands share; periodic work of a running cache |
//! | `settings`, `entry` | settings from the command line; `[[block]]` of `larder.toml` |
//! | `cores`, `target`, `stopped`, `known_caches` | opens caches, cores and devices; the caches of this system |
//! | `report`, `render`, `latency`, `metrics` | reports as JSON, as text, as metrics |
//! | `watched` | reports at a server's admin address |

mod calibrate;
mod change_cores;
mod commands;
mod control;
mod cores;
mod create;
mod export;
mod keeping;
mod known_caches;
mod latency;
mod metrics;
mod recover;
mod render;
mod report;
mod serving;
mod settings;
mod start;
mod stopped;
mod target;
mod ublk;
mod watched;

use larder_workload::Error;

use crate::args::BlockCommand;
use crate::ending::Ending;
use control::Question;
pub(crate) use watched::WatchedCaches;

pub(crate) fn run(command: &BlockCommand) -> Result<Ending, Error> {
    match command {
        BlockCommand::Create(arguments) => create::run(arguments),
        BlockCommand::Start(arguments) => start::run(arguments),
        BlockCommand::Status(arguments) => commands::status(arguments),
        BlockCommand::Stats(arguments) => commands::stats(arguments),
        BlockCommand::Flush(arguments) => commands::flush(arguments),
        BlockCommand::Mode(arguments) => commands::mode(arguments),
        BlockCommand::Cleaning(arguments) => {
            commands::policy("cleaning", arguments, |policy| Question::Cleaning { policy })
        }
        BlockCommand::CutOff(arguments) => {
            commands::policy("cut-off", arguments, |policy| Question::CutOff { policy })
        }
        BlockCommand::ReadAhead(arguments) => {
            commands::policy("read-ahead", arguments, |policy| Question::ReadAhead { policy })
        }
        BlockCommand::Promotion(arguments) => {
            commands::policy("promotion", arguments, |policy| Question::Promotion { policy })
        }
        BlockCommand::Routing(arguments) => {
            commands::policy("routing", arguments, |policy| Question::Routing { policy })
        }
        BlockCommand::Bypass(arguments) => {
            commands::policy("bypass", arguments, |policy| Question::Bypass { policy })
        }
        BlockCommand::IoClass(arguments) => commands::io_class(arguments),
        BlockCommand::Dirty(arguments) => commands::dirty(arguments),
        BlockCommand::Detach(arguments) => commands::detach(arguments),
        BlockCommand::Attach(arguments) => commands::attach(arguments),
        BlockCommand::Stop(arguments) => commands::stop(arguments),
        BlockCommand::Recover(arguments) => recover::run(arguments),
        BlockCommand::Cores(arguments) => change_cores::run(arguments),
        BlockCommand::Calibrate(arguments) => calibrate::run(arguments),
        BlockCommand::Export(arguments) => export::run(arguments),
        BlockCommand::Ublk(arguments) => ublk::run(arguments),
    }
}
