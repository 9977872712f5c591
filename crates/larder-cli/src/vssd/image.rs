//! Opens the image of a command; errors say what to do.

use std::path::Path;

use larder_blocks::VssdArray;
use larder_blocks::vssd::{ImageFile, UnwrittenImage};
use larder_device::ErrorKind;
use larder_vssd::{Recovered, VssdId};
use larder_workload::Error;

use crate::args::ImageArgs;

/// The array in an image, and what was found in it.
pub(super) fn open(arguments: &ImageArgs) -> Result<(VssdArray, Recovered), Error> {
    let path = &arguments.image;
    let file = ImageFile::open(path).map_err(|error| named(path, &error))?;
    VssdArray::open_image(file).map_err(|error| named(path, &error))
}

/// The same for reading: the image does not change, and repairs of opening are made in memory only.
pub(super) fn open_unwritten(arguments: &ImageArgs) -> Result<(VssdArray, Recovered), Error> {
    let path = &arguments.image;
    let file = UnwrittenImage::open(path).map_err(|error| named(path, &error))?;
    VssdArray::open_image(file).map_err(|error| named(path, &error))
}

/// The array in an image, or the answer of the process that has it.
pub(super) enum Reached {
    Array(VssdArray),
    #[cfg(target_os = "linux")]
    Owner(super::ask::Answer),
}

/// Opens an image for writing or for reading, or asks the process that has it.
pub(super) fn reach(
    arguments: &ImageArgs,
    written: bool,
    #[cfg(target_os = "linux")] question: &super::ask::Question,
) -> Result<Reached, Error> {
    let path = &arguments.image;
    let array = match written {
        true => ImageFile::open(path).and_then(VssdArray::open_image),
        false => UnwrittenImage::open(path).and_then(VssdArray::open_image),
    };
    match array {
        Ok((array, _)) => Ok(Reached::Array(array)),
        #[cfg(target_os = "linux")]
        Err(error) if error.kind() == ErrorKind::InUse => match super::ask::ask(path, question) {
            Some(answer) => answer.map(Reached::Owner),
            None => Err(named(path, &error)),
        },
        Err(error) => Err(named(path, &error)),
    }
}

/// An error of the image, with a remedy if the error has none.
pub(super) fn named(path: &Path, error: &larder_device::Error) -> Error {
    let fix = if !path.exists() { "; make one by `larder vssd format`" } else { "" };
    let named = error.to_string();
    let in_front = if named.contains(&path.display().to_string()) {
        String::new()
    } else {
        format!("{}: ", path.display())
    };
    Error::run(format!("--image: {in_front}{named}{fix}"))
}

/// An error of the array.
pub(super) fn refused(what: &str, error: &larder_device::Error) -> Error {
    match error.kind() {
        // Usage errors, not failures.
        ErrorKind::Setup | ErrorKind::OutOfRange => Error::usage(format!("{what}: {error}")),
        _ => Error::run(format!("{what}: {error}")),
    }
}

/// The vSSD with this number.
pub(super) fn known(array: &VssdArray, vssd: u32) -> Result<VssdId, Error> {
    let ids: Vec<u32> = array.list().iter().map(|info| info.id.0).collect();
    if ids.contains(&vssd) {
        return Ok(VssdId(vssd));
    }
    let there = match ids[..] {
        [] => "there is none; make one by `larder vssd create`".to_owned(),
        _ => format!("there are {}", ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    Err(Error::usage(format!("vSSD {vssd}: no such vSSD; {there}")))
}
