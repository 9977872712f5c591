//! `larder block cores`: cores come and go, of a cache that runs and of one that does not.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::layout::CoreId;
use larder_block::manage::{self, Core};
use larder_device::{Device, block_on};
use larder_lab::Error;

use super::control::{self, Ask, still_dirty};
use super::cores::{self, failed};
use super::report::{Status, Usage};
use super::{render, stopped, target};
use crate::args::{ChangedCoreArg, CoresArgs, TargetArg};
use crate::ending::Ending;
use crate::json::JsonTarget;

pub(super) fn run(arguments: &CoresArgs) -> Result<Ending, Error> {
    let CoresArgs { add, remove, which, output, .. } = arguments;
    if add.is_empty() && remove.is_empty() {
        let message = "nothing to change: --add [N=]PATH adds a core, --remove N takes one away";
        return Err(Error::usage(message));
    }
    let json = JsonTarget::prepare(output.json.as_deref())?;
    let status = match &which.cache {
        Some(cache) => of_stopped(cache, arguments)?,
        None => of_running(arguments)?,
    };
    json.tell(&render::status(&status))?;
    json.write(&status)?;
    Ok(Ending::Complete)
}

/// Asks it for one after the other. What was done before one is refused stays done.
fn of_running(arguments: &CoresArgs) -> Result<Status, Error> {
    let CoresArgs { add, remove, which, .. } = arguments;
    let ask = Ask::of_which(which);
    let mut status = None;
    for question in control::questions(add, remove) {
        status = Some(control::ask(&ask, &question)?);
    }
    Ok(status.expect("there is something to change"))
}

fn of_stopped(cache: &TargetArg, arguments: &CoresArgs) -> Result<Status, Error> {
    let CoresArgs { add, remove, cores, changed_core, .. } = arguments;
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
    Ok(Status::of_label(&stopped::look(&device)?))
}

fn remove_one(
    device: &Arc<dyn Device>,
    known: &[Core],
    changed: ChangedCoreArg,
    id: CoreId,
) -> Result<(), Error> {
    let mut opened = stopped::open(device, known, (changed, false))?;
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
