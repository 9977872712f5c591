//! `larder block cores`: cores come and go while the cache does not run.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::layout::CoreId;
use larder_block::manage::{self, Core, Seen};
use larder_device::{Device, block_on};
use larder_lab::Error;

use super::control::{Progress, still_dirty};
use super::cores::{self, failed};
use super::recover::quietly;
use super::report::{Status, Usage};
use super::{render, target};
use crate::args::CoresArgs;
use crate::bars;
use crate::ending::Ending;
use crate::json::JsonTarget;

pub(super) fn run(arguments: &CoresArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let device = target::open(&arguments.cache)?;
    let mut seen = look(&device)?;
    let mut known = cores::of_known(&arguments.cache, &seen.stored, &arguments.cores)?;
    for id in &arguments.remove {
        remove(arguments, &device, &known, *id)?;
        known.retain(|core| core.id != *id);
    }
    if !arguments.remove.is_empty() {
        seen = look(&device)?;
    }
    for core in cores::of_added(&arguments.cache, &seen.stored, &known, &arguments.add)? {
        block_on(manage::add_core(&device, &known, &core)).map_err(|error| failed(&error))?;
        known.push(core);
    }
    let status = Status::of_label(&look(&device)?);
    json.tell(&render::status(&status))?;
    json.write(&status)?;
    Ok(Ending::Complete)
}

fn look(device: &Arc<dyn Device>) -> Result<Seen, Error> {
    block_on(manage::look(device)).map_err(|error| failed(&error))
}

fn remove(
    arguments: &CoresArgs,
    device: &Arc<dyn Device>,
    known: &[Core],
    id: CoreId,
) -> Result<(), Error> {
    let opened = block_on(manage::open(device, known, &quietly(arguments.changed_core)));
    let opened = opened.map_err(|error| failed(&error))?;
    let cache = opened.cache.clone();
    let before_bytes = Usage::of(&cache).dirty_bytes;
    let share = || {
        let dirty_bytes = Usage::of(&cache).dirty_bytes;
        let progress = Progress { dirty_bytes, before_bytes };
        (progress.share(), format!("{dirty_bytes} bytes dirty"))
    };
    let removed = bars::watch_share("destaging", &share, || block_on(opened.remove_core(id)));
    removed.map_err(|error| match (error.kind(), Usage::of(&cache).dirty_bytes) {
        (ErrorKind::Setup, _) | (_, 0) => failed(&error),
        _ => Error::run(format!("{error}; {}", still_dirty(&cache))),
    })
}
