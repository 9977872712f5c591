//! `larder block cores`: adds and removes cores, of a running or of a stopped cache.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::layout::CoreId;
use larder_block::manage::{self, Core};
use larder_device::{Device, block_on};
use larder_workload::Error;

use super::control::{self, ControlClient, still_dirty};
use super::cores::{self, failed};
use super::report::{Status, Usage};
use super::{render, stopped, target};
use crate::args::{ChangedCoreArg, CoresArgs, TargetArg};
use crate::ending::Ending;
use crate::json::JsonTarget;

pub(super) fn run(arguments: &CoresArgs) -> Result<Ending, Error> {
    let CoresArgs { add, remove, attach, give_up, which, output, .. } = arguments;
    if add.is_empty() && remove.is_empty() && attach.is_empty() && give_up.is_empty() {
        let message = "nothing to change: --add [N=]PATH adds a core, --remove N takes one away, --attach N=PATH takes \
                       up one that was missing, --give-up N forgets it";
        return Err(Error::usage(message));
    }
    if let Some(unnumbered) = attach.iter().find(|core| core.id.is_none()) {
        return Err(Error::usage(format!("--attach {unnumbered}: give its number too, N=PATH")));
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

/// Sends the changes to the running cache one by one. If one is refused, the earlier ones stay.
fn of_running(arguments: &CoresArgs) -> Result<Status, Error> {
    let CoresArgs { which, choice, .. } = arguments;
    if !choice.force_core.is_empty() || !choice.without_core.is_empty() {
        let message =
            "--force-core and --without-core are for the start of a cache, and this one runs";
        return Err(Error::usage(message));
    }
    let ask = ControlClient::of_which(which);
    let mut status = None;
    for question in control::questions(arguments) {
        status = Some(control::ask(&ask, &question)?);
    }
    Ok(status.expect("there is something to change"))
}

fn of_stopped(cache: &TargetArg, arguments: &CoresArgs) -> Result<Status, Error> {
    let CoresArgs { add, remove, attach, give_up, cores, choice, changed_core, .. } = arguments;
    let device = target::open(cache)?;
    for id in give_up {
        give_up_one(&device, cache, arguments, *id)?;
    }
    let mut seen = stopped::look(&device)?;
    let given = [cores.as_slice(), attach].concat();
    let is_needed = !(add.is_empty() && remove.is_empty() && attach.is_empty());
    let mut known = match is_needed {
        true => cores::of_known(cache, &seen.stored, &given, &choice.without_core)?.some()?,
        false => Vec::new(),
    };
    if !attach.is_empty() {
        // Opening compares the core with its fingerprint, and notes its place on the label.
        let opened = stopped::open(&device, &known, (*changed_core, false), &choice.force_core)?;
        block_on(opened.stop(false)).map_err(|error| failed(&error))?;
    }
    for id in remove {
        remove_one(&device, &known, (*changed_core, &choice.force_core), *id)?;
        known.retain(|core| core.id != *id);
    }
    if !remove.is_empty() {
        seen = stopped::look(&device)?;
    }
    for core in cores::of_added(cache, &seen.stored, &known, add)? {
        block_on(manage::add_core(&device, &known, &core)).map_err(|error| failed(&error))?;
        known.push(core);
    }
    Ok(Status::of_device(&device, &stopped::look(&device)?))
}

fn remove_one(
    device: &Arc<dyn Device>,
    known: &[Core],
    (changed, force): (ChangedCoreArg, &[CoreId]),
    id: CoreId,
) -> Result<(), Error> {
    let mut opened = stopped::open(device, known, (changed, false), force)?;
    let cache = opened.cache.clone();
    let removed = stopped::destaging(&cache, || {
        block_on(opened.remove_core(id))?;
        // This also destages all other cores.
        block_on(opened.stop(true))
    });
    removed.map_err(|error| match (error.kind(), Usage::of(&cache).dirty_bytes) {
        (ErrorKind::Setup, _) | (_, 0) => failed(&error),
        _ => Error::run(format!("{error}; {}", still_dirty(&cache))),
    })
}

/// Only a missing core can be given up; one that is there gets its dirty data.
fn give_up_one(
    device: &Arc<dyn Device>,
    cache: &TargetArg,
    arguments: &CoresArgs,
    id: CoreId,
) -> Result<(), Error> {
    let stored = stopped::look(device)?.stored;
    let CoresArgs { cores, choice, .. } = arguments;
    let known = cores::of_known(cache, &stored, cores, &choice.without_core)?;
    if known.there.iter().any(|core| core.id == id) {
        let number = id.get();
        let message = format!(
            "--give-up {number}: core {number} is there: --remove {number} destages it first. If that device is \
             another one: --without-core {number}"
        );
        return Err(Error::usage(message));
    }
    drop(known);
    block_on(manage::give_up(device, id)).map_err(|error| failed(&error))
}
