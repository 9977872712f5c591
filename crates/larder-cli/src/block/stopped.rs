//! A stopped cache: opened without serving any client, and destaged.

use std::sync::Arc;

use larder_block::layout::CoreId;
use larder_block::layout::log::{LoadOptions, LogOptions};
use larder_block::manage::{self, CacheLabel, Core, OpenCache, OpenOptions};
use larder_block::running::RunningCache;
use larder_device::{Device, block_on};
use larder_workload::Error;

use super::control::Progress;
use super::cores::{self, failed};
use super::report::Usage;
use super::settings;
use crate::args::ChangedCoreArg;
use crate::bars;

/// Reads its label.
pub(super) fn look(device: &Arc<dyn Device>) -> Result<CacheLabel, Error> {
    block_on(manage::look(device)).map_err(|error| failed(&error))
}

/// Opens it; loads everything at once, and verifies dirty data.
pub(super) fn open(
    device: &Arc<dyn Device>,
    cores: &[Core],
    (changed, accept_loss): (ChangedCoreArg, bool),
    force: &[CoreId],
) -> Result<OpenCache, Error> {
    let load = LoadOptions { at_start_max: usize::MAX, ..LoadOptions::default() };
    let options = OpenOptions {
        changed: settings::changed_core(changed),
        accept_loss,
        seed: std::process::id().into(),
        log: LogOptions { load, verifies_dirty: true, ..LogOptions::default() },
        force: force.to_vec(),
        ..OpenOptions::default()
    };
    let opened = block_on(manage::open(device, cores, &options)).map_err(|error| failed(&error))?;
    cores::tell_checked(&opened);
    Ok(opened)
}

/// Runs `work`, which destages, while a bar shows how much of `cache` is still dirty.
pub(super) fn destaging<T: Send>(cache: &RunningCache, work: impl FnOnce() -> T + Send) -> T {
    let before_bytes = Usage::of(cache).dirty_bytes;
    let share = || {
        let dirty_bytes = Usage::of(cache).dirty_bytes;
        let progress = Progress { dirty_bytes, before_bytes };
        (progress.share(), format!("{dirty_bytes} bytes dirty"))
    };
    bars::watch_share("destaging", &share, work)
}
