//! `larder vssd`.
//!
//! | file | content |
//! |---|---|
//! | `make` | `format`, `create`, `grow`, `delete` |
//! | `list`, `offers` | `list`, and `list --device` |
//! | `exercise`, `wear`, `swap`, `fsck`, `mount` | the commands of these names |
//! | `question` | what a command asks the process that has an image, and its answer |
//! | `image`, `tenants`, `files`, `output` | opening an image, describing a vSSD, checking file systems, results |
//! | `levelling` | levelling while an image is in use |
//! | `orders` | what operators order at the admin address of a server |
//! | `ask`, `owner` | questions to the process that has an image, and its answers |

#[cfg(target_os = "linux")]
mod ask;
mod exercise;
mod files;
mod fsck;
mod image;
mod levelling;
mod list;
mod make;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(target_os = "linux")]
mod offers;
#[cfg(all(target_os = "linux", feature = "serve"))]
mod orders;
mod output;
#[cfg(target_os = "linux")]
mod owner;
mod question;
mod swap;
mod tenants;
mod wear;

use larder_workload::Error;

use crate::args::VssdCommand;
use crate::ending::Ending;
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use orders::ServedVssds;
#[cfg(all(target_os = "linux", feature = "serve"))]
pub(crate) use owner::Owner;

pub(crate) fn run(command: &VssdCommand) -> Result<Ending, Error> {
    match command {
        VssdCommand::Format(arguments) => make::format(arguments),
        VssdCommand::Create(arguments) => make::create(arguments),
        VssdCommand::Grow(arguments) => make::grow(arguments),
        VssdCommand::Delete(arguments) => make::delete(arguments),
        VssdCommand::List(arguments) => list::run(arguments),
        VssdCommand::Wear(arguments) => wear::run(arguments),
        VssdCommand::Swap(arguments) => swap::run(arguments),
        VssdCommand::Exercise(arguments) => exercise::run(arguments),
        #[cfg(target_os = "linux")]
        VssdCommand::Mount(arguments) => mount::run(arguments),
        VssdCommand::Fsck(arguments) => fsck::run(arguments),
    }
}
