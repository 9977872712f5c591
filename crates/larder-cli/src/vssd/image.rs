//! Opens the image of a command; errors say what to do.

use std::path::Path;

use larder_blocks::VssdArray;
use larder_blocks::vssd::{ImageFile, UnwrittenImage};
use larder_device::ErrorKind;
use larder_vssd::{Recovered, VssdId};
use larder_workload::Error;
use serde::Serialize;
use serde_json::Value;

use super::output::deliver;
use super::question::Question;
use crate::args::ImageArgs;
use crate::ending::Ending;
use crate::json::JsonTarget;

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

/// The array in an image, or the result of the process that has it: text and JSON.
pub(super) enum Reached {
    Array(VssdArray),
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    Owner(String, Value),
}

/// Opens an image for writing or for reading, or asks the process that has it.
pub(super) fn reach(
    arguments: &ImageArgs,
    written: bool,
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables))] question: &Question,
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
            Some(answer) => answer.map(|(text, json)| Reached::Owner(text, json)),
            None => Err(named(path, &error)),
        },
        Err(error) => Err(named(path, &error)),
    }
}

/// Does `work` on an image, or lets the process that has it do the same if it is asked `question`; delivers the result.
pub(super) fn carry_out<T: Serialize>(
    (arguments, written): (&ImageArgs, bool),
    question: &Question,
    json: JsonTarget,
    work: impl FnOnce(&VssdArray) -> Result<(String, T), Error>,
) -> Result<Ending, Error> {
    match reach(arguments, written, question)? {
        Reached::Array(array) => {
            let (text, result) = work(&array)?;
            deliver(json, &text, &result)?;
        }
        Reached::Owner(text, result) => deliver(json, &text, &result)?,
    }
    Ok(Ending::Complete)
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
