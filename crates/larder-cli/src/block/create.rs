//! `larder block create`.

use indicatif::BinaryBytes;
use larder_block::layout::log::LogOptions;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::{self, CreateOptions, LayoutOptions, Over};
use larder_device::{Device, block_on};
use larder_workload::Error;

use super::cores::{self, failed};
use super::report::Status;
use super::{known_caches, render, target};
use crate::args::{CacheCreateArgs, DeviceFormatArgs, LayoutArg};
use crate::ending::Ending;
use crate::json::JsonTarget;

/// Default bytes of a log segment, on a device with room for enough of them.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Least segments on a small device, as long as they do not become too small.
const SEGMENTS: u64 = 64;
/// Smallest segment.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

pub(super) fn run(arguments: &CacheCreateArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let cores = cores::of_new(&arguments.cache, &arguments.cores)?;
    let device = target::open(&arguments.cache)?;
    let layout = layout(&arguments.format, &*device)?;
    let over = over(&arguments.format);
    let options = CreateOptions { layout, mode: arguments.mode, over };
    known_caches::warn_of_others(&arguments.cache, &cores);
    let made = block_on(manage::create(&device, &cores, &options));
    known_caches::record(made.map_err(|error| explained(&error, over))?, &arguments.cache);
    let seen = block_on(manage::look(&device)).map_err(|error| failed(&error))?;
    let status = Status::of_device(&device, &seen);
    let divided = divided(&status, &*device);
    json.tell(&(render::status(&status) + &divided))?;
    json.write(&status)?;
    Ok(Ending::Complete)
}

pub(super) fn over(arguments: &DeviceFormatArgs) -> Over {
    match arguments.over {
        Some(uuid) => Over::Cache(uuid),
        None if arguments.over_other => Over::Other,
        None => Over::Blank,
    }
}

/// Adds the option that allows to overwrite the device, if that is the problem.
pub(super) fn explained(error: &larder_block::Error, over: Over) -> Error {
    let text = error.to_string();
    let option = match over {
        _ if text.contains("name it by its UUID") => " (--over UUID)",
        Over::Blank if text.contains("it may be written over") => " (--over-other)",
        _ => return failed(error),
    };
    Error::usage(format!("{text}{option}"))
}

pub(super) fn layout(
    arguments: &DeviceFormatArgs,
    device: &dyn Device,
) -> Result<LayoutOptions, Error> {
    let line_bytes = arguments.line;
    let version = match arguments.layout {
        LayoutArg::Log => {
            let segment_bytes = arguments.segment.unwrap_or_else(|| segment(device, line_bytes));
            return Ok(LayoutOptions::Log(LogOptions {
                segment_bytes,
                line_bytes,
                ..LogOptions::default()
            }));
        }
        LayoutArg::Ocf22 => OcfVersion::V22,
        LayoutArg::Ocf26 => OcfVersion::V26,
        LayoutArg::Wal => OcfVersion::Wal,
    };
    if arguments.segment.is_some() {
        return Err(Error::usage("--segment: only the log has segments; leave it out"));
    }
    Ok(LayoutOptions::Ocf(OcfOptions { version, line_bytes }))
}

/// Segment size for the capacity of the device.
fn segment(device: &dyn Device, line_bytes: u32) -> u32 {
    let part = (device.info().capacity_bytes / SEGMENTS + 1).next_power_of_two() / 2;
    let least = SEGMENT_BYTES_MIN.max(u64::from(line_bytes) * 4);
    u32::try_from(part.min(SEGMENT_BYTES).max(least)).unwrap_or(u32::MAX)
}

/// The division of the device, for people.
fn divided(status: &Status, device: &dyn Device) -> String {
    let all = device.info().capacity_bytes;
    let (before, data) = (status.data_offset_bytes, status.capacity_bytes);
    format!(
        "device     {} of {}: {} for label and table, {} for data{}\n",
        BinaryBytes(all),
        device.info().name,
        BinaryBytes(before),
        BinaryBytes(all.min(before + data) - before),
        match status.segments {
            Some(segments) => format!(
                " in {segments} segments of {}",
                BinaryBytes(status.segment_bytes.unwrap_or_default().into())
            ),
            None => format!(" in lines of {}", BinaryBytes(u64::from(status.line_bytes))),
        }
    )
}
