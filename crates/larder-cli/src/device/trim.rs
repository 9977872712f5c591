//! `larder device trim`.

use larder_workload::Error;
use serde::Serialize;

use super::machine::Machine;
use super::{deliver, find, human, json_target};
use crate::args::TrimArgs;
use crate::ending::Ending;

/// Bytes in one call to the kernel: large enough to be fast, small enough to allow an interrupt between two calls.
const PIECE_BYTES: u64 = 64 << 30;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TrimReport {
    /// The block device.
    path: String,
    /// Its size.
    bytes: u64,
    /// Whether it was deallocated.
    done: bool,
}

pub(super) fn run(arguments: &TrimArgs, machine: &dyn Machine) -> Result<Ending, Error> {
    let json = json_target(&arguments.on.output)?;
    let node = find(&arguments.on.device, machine)?;
    let path = node.block_path.display().to_string();
    let bytes = node.range.end - node.range.start;
    let consent = &arguments.consent;
    if consent.yes && !consent.destroy_data {
        return Err(Error::usage(format!(
            "--yes: all data in {path} ({}) would be lost; add --destroy-data if that is meant",
            human(bytes)
        )));
    }
    if consent.yes {
        let failed = |doing: &str, error: std::io::Error| {
            use std::io::ErrorKind::{PermissionDenied, ResourceBusy};
            let fix = match error.kind() {
                ResourceBusy => "; unmount it and stop what uses it",
                PermissionDenied => "; run as root, or as a user that may write to it",
                _ => "",
            };
            Error::run(format!("{path}: {doing}: {error}{fix}"))
        };
        let device = machine.claim(&node.block_path).map_err(|it| failed("opening", it))?;
        let mut start = 0;
        while start < bytes {
            let piece = PIECE_BYTES.min(bytes - start);
            device.discard(start, piece).map_err(|it| failed("deallocating", it))?;
            start += piece;
        }
    }
    let trimmed = TrimReport { done: consent.yes, bytes, path };
    deliver(machine, json, &render(&trimmed), &trimmed)?;
    Ok(Ending::Complete)
}

fn render(trimmed: &TrimReport) -> String {
    let TrimReport { path, bytes, done } = trimmed;
    let size = human(*bytes);
    if *done {
        return format!("{path}: {size} deallocated\n");
    }
    format!(
        "{path}: would deallocate all {size} ({bytes} bytes); all data in it would be lost\n\
         \x20    blkdiscard {path}\n\
         nothing was done. With --yes --destroy-data larder does it.\n"
    )
}
