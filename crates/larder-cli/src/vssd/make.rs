//! `larder vssd format`, `create`, `grow` and `delete`.

use clap::ValueEnum;
use larder_blocks::VssdArray;
use larder_blocks::vssd::ImageFile;
use larder_device::ErrorKind;
use larder_device::label::Uuid;
use larder_ssd::nand::{DieArray, Endurance, NandGeometry};
use larder_ssd::raw::RawConfig;
use larder_vssd::image::ImageConfig;
use larder_vssd::{Isolation, Request, Throughputs};
use larder_workload::Error;
use serde::Serialize;

use super::image::{carry_out, known, named, refused};
use super::output::{deliver, human, json_target};
use super::question::{Question, Wanted};
use super::tenants::Tenant;
use crate::args::{CreateArgs, DeleteArgs, GrowArgs, KindArg, VssdFormatArgs as FormatArgs};
use crate::ending::Ending;

/// Unit of reads and of the checksums, in bytes.
const PAGE_BYTES: u32 = 4096;

#[derive(Debug, Serialize)]
struct FormatReport {
    image: String,
    drives: u32,
    channels: u32,
    dies_per_channel: u32,
    blocks_per_die: u32,
    block_bytes: u64,
    stripe_bytes: u64,
    bytes: u64,
}

pub(super) fn format(arguments: &FormatArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let (config, throughputs) = (config(arguments)?, throughputs(arguments));
    let path = &arguments.image.image;
    let file = ImageFile::create(path).map_err(|error| named(path, &error))?;
    let made = VssdArray::format_image(file, config, throughputs).and_then(|array| array.sync());
    if let Err(error) = made {
        // The partial file is no image; remove it, so that its name is free again.
        let _ = std::fs::remove_file(path);
        return Err(refused("new image", &error));
    }
    let dies = arguments.drives * arguments.channels * arguments.dies;
    let blocks = u64::from(dies) * u64::from(arguments.blocks);
    let formatted = FormatReport {
        image: path.display().to_string(),
        drives: arguments.drives,
        channels: arguments.channels,
        dies_per_channel: arguments.dies,
        blocks_per_die: arguments.blocks,
        block_bytes: arguments.block_size,
        stripe_bytes: arguments.stripe,
        bytes: blocks * arguments.block_size,
    };
    let text = format!(
        "{}: {} of flash, {} channels of {} dies of {} blocks of {} on {} drives\n",
        formatted.image,
        human(formatted.bytes),
        arguments.channels,
        arguments.dies,
        arguments.blocks,
        human(arguments.block_size),
        arguments.drives
    );
    deliver(json, &text, &formatted)?;
    Ok(Ending::Complete)
}

fn config(arguments: &FormatArgs) -> Result<ImageConfig, Error> {
    let FormatArgs { block_size, stripe, .. } = *arguments;
    let stripe_bytes = u32::try_from(stripe).ok().filter(|bytes| bytes.is_multiple_of(PAGE_BYTES));
    let Some(page_bytes) = stripe_bytes else {
        let fix = "must be some pages of 4096 bytes, below 4 GiB";
        return Err(Error::usage(format!("--stripe {stripe}: {fix}")));
    };
    let stripes =
        u32::try_from(block_size / stripe).ok().filter(|_| block_size.is_multiple_of(stripe));
    let Some(pages_per_block) = stripes.filter(|&stripes| stripes > 0) else {
        let fix = format!("must be some stripes of {stripe} bytes");
        return Err(Error::usage(format!("--block-size {block_size}: {fix}")));
    };
    let geometry = NandGeometry {
        array: DieArray { channels: arguments.channels, dies_per_channel: arguments.dies },
        planes: 1,
        bits: 1,
        blocks_per_die: arguments.blocks,
        pages_per_block,
        page_bytes,
        mapping_bytes: PAGE_BYTES,
    };
    let endurance = match arguments.endurance {
        0 => Endurance::Unlimited,
        rated => Endurance::Rated { rated, certain: rated.saturating_mul(2) },
    };
    let identity = Uuid::draw().bytes();
    let [seed, _] =
        [0, 8].map(|at| u64::from_le_bytes(*identity[at..].first_chunk().unwrap_or(&[0; 8])));
    let drive = RawConfig { page_words: true, seed, ..RawConfig::new(geometry) };
    let drive = drive.with_endurance(endurance);
    Ok(ImageConfig { identity, drives: arguments.drives, drive })
}

fn throughputs(arguments: &FormatArgs) -> Throughputs {
    let channel_mb_s = arguments.channel_mb_s;
    let of_channel = (channel_mb_s / arguments.dies.max(1)).max(1);
    let die_mb_s = arguments.die_mb_s.unwrap_or(of_channel);
    let soft_plane_mb_s = arguments.quarter_mb_s.unwrap_or((die_mb_s / 4).max(1));
    Throughputs { channel_mb_s, die_mb_s, soft_plane_mb_s }
}

pub(super) fn create(arguments: &CreateArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    if arguments.capacity == Some(0) {
        return Err(Error::usage(
            "--capacity 0: a vSSD has at least a unit; ask for 1 byte or more",
        ));
    }
    isolation(arguments.isolation, arguments.weight)?;
    let kind = arguments.isolation.to_possible_value();
    let wanted = Wanted {
        name: arguments.name.clone(),
        isolation: kind.map_or_else(String::new, |kind| kind.get_name().to_owned()),
        weight: arguments.weight,
        mb_s: arguments.mb_s,
        units: arguments.units,
        capacity: arguments.capacity.unwrap_or(1),
    };
    let question = Question::Create(wanted.clone());
    carry_out((&arguments.image, true), &question, json, |array| created(array, &wanted))
}

/// Makes a vSSD in an array, while other tenants may use theirs.
pub(super) fn created(array: &VssdArray, wanted: &Wanted) -> Result<(String, Tenant), Error> {
    let kind = KindArg::from_str(&wanted.isolation, false)
        .map_err(|why| Error::usage(format!("--isolation {}: {why}", wanted.isolation)))?;
    let isolation = isolation(kind, wanted.weight)?;
    if wanted.units == Some(0) {
        return Err(Error::usage("--units 0: a vSSD has at least 1"));
    }
    let rate = array.look(|array| array.throughputs().of(isolation));
    let rate = rate.map_err(|error| refused("image", &error))?;
    let mb_s = wanted.units.map_or(wanted.mb_s, |units| units.saturating_mul(rate));
    let request = Request { isolation, mb_s, bytes: wanted.capacity };
    let made = array.alloc_named(&wanted.name, request);
    let id = made.map_err(|error| refused("--name, --units, --capacity and --mb-s", &error))?;
    array.sync().map_err(|error| refused("image", &error))?;
    let tenant = Tenant::of(array, id)?;
    Ok((format!("vSSD {}: {}\n", tenant.vssd, tenant.describe()), tenant))
}

fn isolation(kind: KindArg, weight: Option<u32>) -> Result<Isolation, Error> {
    if let (Some(weight), false) = (weight, kind == KindArg::Software) {
        let fix = "is for --isolation software: others share no time of a die by weight";
        return Err(Error::usage(format!("--weight {weight}: {fix}")));
    }
    Ok(match (kind, weight) {
        (KindArg::Channel, _) => Isolation::Channel,
        (KindArg::Die, _) => Isolation::Die,
        (KindArg::Software, Some(0)) => {
            return Err(Error::usage("--weight 0: the least share is 1"));
        }
        (KindArg::Software, weight) => Isolation::Software { weight: weight.unwrap_or(1) },
        (KindArg::None, _) => Isolation::None,
    })
}

pub(super) fn grow(arguments: &GrowArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let GrowArgs { vssd, units, .. } = *arguments;
    let question = Question::Grow { vssd, units };
    carry_out((&arguments.image, true), &question, json, |array| grown(array, vssd, units))
}

/// Adds units to a vSSD of an array, while other tenants may use theirs.
pub(super) fn grown(array: &VssdArray, vssd: u32, units: u32) -> Result<(String, Tenant), Error> {
    let id = known(array, vssd)?;
    array.grow(id, units).map_err(|error| refused("--units", &error))?;
    array.sync().map_err(|error| refused("image", &error))?;
    let tenant = Tenant::of(array, id)?;
    Ok((format!("vSSD {}: {}\n", tenant.vssd, tenant.describe()), tenant))
}

#[derive(Debug, Serialize)]
pub(super) struct Deleted {
    vssd: u32,
    blocks: u32,
}

pub(super) fn delete(arguments: &DeleteArgs) -> Result<Ending, Error> {
    let json = json_target(&arguments.output)?;
    let DeleteArgs { vssd, destroy_data, .. } = *arguments;
    let question = Question::Delete { vssd, destroy_data };
    let delete = |array: &VssdArray| deleted(array, vssd, destroy_data);
    carry_out((&arguments.image, true), &question, json, delete)
}

/// Ends a vSSD of an array, while other tenants may use theirs. One that a tenant uses is refused.
pub(super) fn deleted(
    array: &VssdArray,
    vssd: u32,
    destroy_data: bool,
) -> Result<(String, Deleted), Error> {
    let id = known(array, vssd)?;
    let blocks = array.list().iter().find(|info| info.id == id).map_or(0, |info| info.allocated);
    let ended = if destroy_data { array.destroy(id) } else { array.dealloc(id) };
    ended.map_err(|error| match error.kind() {
        ErrorKind::InUse if !destroy_data => Error::run(format!(
            "vSSD {}: it has {blocks} blocks: free them, or give --destroy-data to lose what they hold",
            id.0
        )),
        _ => refused("delete", &error),
    })?;
    array.sync().map_err(|error| refused("image", &error))?;
    let text = format!("vSSD {} is gone, with {blocks} blocks; its units are free\n", id.0);
    Ok((text, Deleted { vssd: id.0, blocks }))
}
