//! `larder block cores`: cores come and go while the cache does not run.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::layout::CoreId;
use larder_block::manage::{self, Core};
use larder_device::{Device, block_on};
use larder_lab::Error;

use super::control::still_dirty;
use super::cores::{self, failed};
use super::report::{Status, Usage};
use super::{render, stopped, target};
use crate::args::{ChangedCoreArg, CoresArgs, StoppedArgs};
use crate::ending::Ending;
use crate::json::JsonTarget;

pub(super) fn run(arguments: &CoresArgs) -> Result<Ending, Error> {
    let CoresArgs { add, remove, stopped, output } = arguments;
    if add.is_empty() && remove.is_empty() {
        let message = "nothing to change: --add [N=]PATH adds a core, --remove N takes one away";
        return Err(Error::usage(message));
    }
    let json = JsonTarget::prepare(output.json.as_deref())?;
    let StoppedArgs { cache, cores, changed_core } = stopped;
    let device = target::open(cache)?;
    let mut seen = stopped::look(&device)?;
    let mut known = cores::of_known(cache, &seen.stored, cores)?;
    for id in remove {
        remove_one(&device, &known, *changed_core, *id)?;
        known.retain(|core| core.id != *id);
    }
    if !remove.is_empty() {
        seen = stopped::look(&device)?;
    }
    for core in cores::of_added(cache, &seen.stored, &known, add)? {
        block_on(manage::add_core(&device, &known, &core)).map_err(|error| failed(&error))?;
        known.push(core);
    }
    let status = Status::of_label(&stopped::look(&device)?);
    json.tell(&render::status(&status))?;
    json.write(&status)?;
    Ok(Ending::Complete)
}

fn remove_one(
    device: &Arc<dyn Device>,
    known: &[Core],
    changed: ChangedCoreArg,
    id: CoreId,
) -> Result<(), Error> {
    let mut opened = stopped::open(device, known, changed)?;
    let cache = opened.cache.clone();
    let removed = stopped::destaging(&cache, || {
        block_on(opened.remove_core(id))?;
        // With all of the others destaged too.
        block_on(opened.stop(true))
    });
    removed.map_err(|error| match (error.kind(), Usage::of(&cache).dirty_bytes) {
        (ErrorKind::Setup, _) | (_, 0) => failed(&error),
        _ => Error::run(format!("{error}; {}", still_dirty(&cache))),
    })
}
