//! `larder block recover`: what only a cache has goes to its cores.

use larder_block::layout::log::{LoadOptions, LogOptions};
use larder_block::manage::{self, OpenOptions};
use larder_device::block_on;
use larder_lab::Error;
use serde::Serialize;

use super::control::{Progress, still_dirty};
use super::cores::{self, failed};
use super::report::{Destaged, Found, Usage};
use super::{render, settings, target};
use crate::args::{ChangedCoreArg, RecoverArgs};
use crate::bars;
use crate::ending::Ending;
use crate::json::JsonTarget;

#[derive(Debug, Serialize)]
struct Recovered {
    uuid: String,
    found: Found,
    destaged: Destaged,
    core_written_bytes: u64,
}

/// How a cache is opened while nobody is served: all is loaded at once.
pub(super) fn quietly(changed: ChangedCoreArg) -> OpenOptions {
    let load = LoadOptions { at_start_max: usize::MAX, ..LoadOptions::default() };
    OpenOptions {
        changed: settings::changed_core(changed),
        seed: std::process::id().into(),
        log: LogOptions { load, ..LogOptions::default() },
        ..OpenOptions::default()
    }
}

pub(super) fn run(arguments: &RecoverArgs) -> Result<Ending, Error> {
    let json = JsonTarget::prepare(arguments.output.json.as_deref())?;
    let device = target::open(&arguments.cache)?;
    let seen = block_on(manage::look(&device)).map_err(|error| failed(&error))?;
    let cores = cores::of_known(&arguments.cache, &seen.stored, &arguments.cores)?;
    let opened = block_on(manage::open(&device, &cores, &quietly(arguments.changed_core)));
    let opened = opened.map_err(|error| failed(&error))?;
    let (cache, found) = (opened.cache.clone(), Found::of(&opened.started));
    let before_bytes = Usage::of(&cache).dirty_bytes;
    let share = || {
        let dirty_bytes = Usage::of(&cache).dirty_bytes;
        let progress = Progress { dirty_bytes, before_bytes };
        (progress.share(), format!("{dirty_bytes} bytes dirty"))
    };
    let uuid = opened.uuid.to_string();
    bars::watch_share("destaging", &share, || block_on(opened.stop(true)))
        .map_err(|error| Error::run(format!("{error}; {}", still_dirty(&cache))))?;
    let recovered = Recovered {
        uuid,
        found,
        destaged: Destaged {
            // What a changed core's start has destaged is among it.
            dirty_before_bytes: found.dirty_bytes,
            dirty_bytes: Usage::of(&cache).dirty_bytes,
        },
        core_written_bytes: cache.with(|cache| cache.statistics().core_written_bytes),
    };
    let text = format!(
        "cache      {}\nfound      {}\n{}stopped; the cores have everything\n",
        recovered.uuid,
        render::found(&found),
        render::destaged(&recovered.destaged)
    );
    json.tell(&text)?;
    json.write(&recovered)?;
    Ok(Ending::Complete)
}
