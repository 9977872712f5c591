//! `larder block recover`: writes the data that only a cache has to its cores.

use larder_device::block_on;
use larder_workload::Error;
use serde::Serialize;

use super::control::{still_dirty, still_missing};
use super::cores;
use super::report::{Destaged, StartFindings, Usage};
use super::{render, stopped, target};
use crate::args::{RecoverArgs, StoppedArgs};
use crate::ending::Ending;
use crate::json::JsonTarget;

#[derive(Debug, Serialize)]
struct RecoveryReport {
    uuid: String,
    found: StartFindings,
    destaged: Destaged,
    core_written_bytes: u64,
}

pub(super) fn run(arguments: &RecoverArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let RecoverArgs {
        stopped: StoppedArgs { cache, cores, choice, changed_core, accept_loss },
        ..
    } = arguments;
    let device = target::open(cache)?;
    let stored = stopped::look(&device)?.stored;
    let cores = cores::of_known(cache, &stored, cores, &choice.without_core)?.some()?;
    let opened = stopped::open(&device, &cores, (*changed_core, *accept_loss), &choice.force_core)?;
    let stored = opened.stored().clone();
    let (cache, found) = (opened.cache.clone(), StartFindings::of(&opened.started));
    render::warn_of_damage(&found);
    let uuid = opened.uuid.to_string();
    stopped::destaging(&cache, || block_on(opened.stop(true)))
        .map_err(|error| Error::run(format!("{error}; {}", still_dirty(&cache))))?;
    let recovered = RecoveryReport {
        uuid,
        found,
        destaged: Destaged {
            // Includes what opening has destaged for a changed core.
            dirty_before_bytes: found.dirty_bytes,
            dirty_bytes: Usage::of(&cache).dirty_bytes,
        },
        core_written_bytes: cache.with(|cache| cache.statistics().core_written_bytes),
    };
    let left = still_missing(&cache, &stored);
    let has = if found.damaged > 0 { "all that was whole" } else { "everything" };
    let text = format!(
        "cache      {}\nfound      {}\n{}{}\n",
        recovered.uuid,
        render::found(&found),
        render::destaged(&recovered.destaged),
        match &left {
            None => format!("stopped; the cores have {has}"),
            Some(_) => format!("stopped; the cores that are there have {has}"),
        }
    );
    json.tell(&text)?;
    json.write(&recovered)?;
    left.map_or(Ok(Ending::Complete), |left| Err(Error::run(left)))
}
