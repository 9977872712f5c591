//! A cache device and its cores, as they are named: opened, each once.

use std::path::PathBuf;
use std::sync::Arc;

use larder_block::export::nbd::Export;
use larder_block::layout::CoreId;
use larder_block::manage::{Core, Opened, StoredCache};
use larder_block::volume::CachedVolume;
use larder_block::{Error as BlockError, ErrorKind};
use larder_device::Device;
use larder_lab::Error;

use super::target;
use crate::args::{CoreArg, TargetArg};

/// What the library says, as a wrong question or as a failure.
pub(super) fn failed(error: &BlockError) -> Error {
    match error.kind() {
        ErrorKind::Setup => Error::usage(error.to_string()),
        _ => Error::run(error.to_string()),
    }
}

/// The cores of a cache that is about to be made.
pub(super) fn of_new(cache: &TargetArg, given: &[CoreArg]) -> Result<Vec<Core>, Error> {
    let named = numbered(given, (0..).filter_map(CoreId::new))?;
    that_stay(std::iter::once(cache).chain(named.iter().map(|(_, target)| target)))?;
    each_once(Some(cache), &named)?;
    open_new(&named)
}

/// A core that comes to those that a running cache has.
pub(super) fn of_running(stored: &StoredCache, given: &CoreArg) -> Result<Core, Error> {
    let known = stored.cores.iter().map(|core| (core.id, core.name.as_str()));
    Ok(added(None, stored, known, std::slice::from_ref(given))?.remove(0))
}

/// Cores that come to those that a cache has.
pub(super) fn of_added(
    cache: &TargetArg,
    stored: &StoredCache,
    known: &[Core],
    given: &[CoreArg],
) -> Result<Vec<Core>, Error> {
    let known = known.iter().map(|core| (core.id, core.name.as_str()));
    added(Some(cache), stored, known, given)
}

fn added<'a>(
    cache: Option<&TargetArg>,
    stored: &StoredCache,
    known: impl Iterator<Item = (CoreId, &'a str)>,
    given: &[CoreArg],
) -> Result<Vec<Core>, Error> {
    let named = numbered(given, stored.free_cores())?;
    that_stay(named.iter().map(|(_, target)| target))?;
    // A name that is no target can be no device that was given.
    let targets = known.filter_map(|(id, name)| Some((id, name.parse().ok()?)));
    let all: Vec<(CoreId, TargetArg)> = targets.chain(named.iter().cloned()).collect();
    each_once(cache, &all)?;
    open_new(&named)
}

fn that_stay<'a>(targets: impl IntoIterator<Item = &'a TargetArg>) -> Result<(), Error> {
    let passing = targets.into_iter().find(|target| !matches!(target, TargetArg::Device(_)));
    match passing {
        Some(target) => Err(Error::usage(format!(
            "{target}: it would end with this command; give a file or a device"
        ))),
        None => Ok(()),
    }
}

fn open_new(named: &[(CoreId, TargetArg)]) -> Result<Vec<Core>, Error> {
    let opened =
        named.iter().map(|(id, target)| open(*id, target::absolute(target).to_string(), target));
    opened.collect()
}

/// The cores of a cache that there is: where its label has them, unless it is said.
pub(super) fn of_known(
    cache: &TargetArg,
    stored: &StoredCache,
    given: &[CoreArg],
) -> Result<Vec<Core>, Error> {
    let mut named = numbered(given, stored.cores.iter().map(|core| core.id))?;
    let mut names = Vec::new();
    for known in &stored.cores {
        if named.iter().all(|(id, _)| *id != known.id) {
            let target = known.name.parse().map_err(|error| {
                let number = known.id.get();
                Error::run(format!("core {number} is {:?}: {error}; say where it is", known.name))
            })?;
            named.push((known.id, target));
            names.push(known.id);
        }
    }
    // The first one is served to who names none.
    named.sort_by_key(|(id, _)| *id);
    each_once(Some(cache), &named)?;
    named
        .iter()
        .map(|(id, target)| {
            open(*id, target.to_string(), target).map_err(|error| match names.contains(id) {
                true => Error::run(format!(
                    "core {}: {error}; if it is elsewhere now, say where: --core {0}=PATH",
                    id.get()
                )),
                false => error,
            })
        })
        .collect()
}

fn open(id: CoreId, name: String, target: &TargetArg) -> Result<Core, Error> {
    let device: Arc<dyn Device> = target::open(target)?;
    Ok(Core { id, name, device })
}

/// A core as NBD has it: by its number.
pub(super) fn export(opened: &Opened, core: &Core) -> Result<Export, Error> {
    let name = core.id.get().to_string();
    opened.cache.with(|cache| cache.set_export(core.id, name.clone()));
    let cached = opened.cache.core(core.id).expect("it was opened with it");
    Export::new(name, Arc::new(CachedVolume::new(cached)))
        .and_then(|export| export.described(format!("{} behind a cache", core.name)))
        .map_err(|error| Error::usage(error.to_string()))
}

/// Those without a number have the first of `free` that no other has.
fn numbered(
    given: &[CoreArg],
    free: impl Iterator<Item = CoreId>,
) -> Result<Vec<(CoreId, TargetArg)>, Error> {
    let taken: Vec<CoreId> = given.iter().filter_map(|core| core.id).collect();
    let mut free = free.filter(|id| !taken.contains(id));
    given
        .iter()
        .map(|core| {
            let id = core.id.or_else(|| free.next());
            let id = id.ok_or_else(|| {
                Error::usage(format!("--core {core}: the cache has no further core"))
            })?;
            Ok((id, core.target.clone()))
        })
        .collect()
}

/// Nothing is two of them, as far as it is known what they are.
fn each_once(cache: Option<&TargetArg>, cores: &[(CoreId, TargetArg)]) -> Result<(), Error> {
    let mut seen: Vec<(PathBuf, String)> = Vec::new();
    let of_cores = cores.iter().map(|(id, target)| (target, format!("core {}", id.get())));
    for (target, what) in
        cache.map(|cache| (cache, "the cache".to_owned())).into_iter().chain(of_cores)
    {
        let TargetArg::Device(device) = target else { continue };
        let Ok(path) = std::fs::canonicalize(&device.path) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == path) {
            let message =
                format!("{target} is {other} and {what}: a device is the cache or one core, once");
            return Err(Error::usage(message));
        }
        seen.push((path, what));
    }
    Ok(())
}
