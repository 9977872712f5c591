//! `larder vssd fsck`.

use larder_workload::Error;
use serde::Serialize;

use super::files::{self, FileSystemCheck};
use super::image::{open_unwritten, refused};
use super::output::{count, deliver, json_target};
use crate::args::LookArgs;
use crate::ending::Ending;

#[derive(Debug, Serialize)]
struct Fsck {
    vssds: u64,
    blocks: u64,
    pages: u64,
    parts: u64,
    /// Physical blocks that belong to no vSSD. The next command that changes the image erases them.
    erased: u64,
    /// Blocks with a missing part in the middle.
    cut_off: u64,
    wrong: Vec<String>,
    /// For the vSSDs that have one.
    file_systems: Vec<FileSystemCheck>,
}

/// Opens an image without changing it, reads every page, compares map and drives, and checks the file systems.
pub(super) fn run(arguments: &LookArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let (array, recovered) = open_unwritten(&arguments.image)?;
    let verified = array.verify().map_err(|error| refused("fsck", &error))?;
    let fsck = Fsck {
        vssds: recovered.vssds,
        blocks: verified.blocks,
        pages: verified.pages,
        parts: recovered.parts,
        erased: recovered.erased,
        cut_off: recovered.cut_off,
        wrong: verified.wrong,
        file_systems: files::check_all(&array)?,
    };
    let mut text = format!(
        "{} vSSDs, {} blocks in {} parts, {} pages read and compared\n{} blocks belong to no vSSD, and are erased when \
         the image is changed next\n",
        fsck.vssds,
        count(fsck.blocks),
        count(fsck.parts),
        count(fsck.pages),
        count(fsck.erased)
    );
    if fsck.cut_off > 0 {
        text += &format!(
            "{} blocks have a gap, and end in front of it when the image is changed next\n",
            fsck.cut_off
        );
    }
    for wrong in &fsck.wrong {
        text += &format!("wrong: {wrong}\n");
    }
    for checked in &fsck.file_systems {
        text += &checked.render();
    }
    let of_files: u64 = fsck.file_systems.iter().map(FileSystemCheck::wrong_things).sum();
    let found = fsck.wrong.len() as u64 + fsck.cut_off + of_files;
    if found == 0 {
        text += "all is as it should be\n";
    }
    deliver(json, &text, &fsck)?;
    if found > 0 {
        let path = arguments.image.image.display();
        return Err(Error::run(format!("--image {path}: {found} things are wrong")));
    }
    Ok(Ending::Complete)
}
