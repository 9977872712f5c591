//! Opens a cache device and its cores by their names, each once.

use std::path::PathBuf;
use std::sync::Arc;

use larder_block::layout::CoreId;
use larder_block::manage::{Core, OpenCache, StoredCache};
use larder_block::volume::CachedVolume;
use larder_block::{Error as BlockError, ErrorKind};
use larder_device::Device;
use larder_export::nbd::Export;
use larder_workload::Error;

use super::target;
use crate::args::{CoreArg, TargetArg};

/// Options that help with a core that has changed or is another device.
const CHANGED: &str =
    " (--core N=PATH, --without-core N, --force-core N; --changed-core destage-and-drop)";

/// Turns an error of the library into a usage error or a failure.
pub(super) fn failed(error: &BlockError) -> Error {
    match error.kind() {
        ErrorKind::Setup => Error::usage(error.to_string()),
        ErrorKind::Changed => Error::run(format!("{error}{CHANGED}")),
        _ => Error::run(error.to_string()),
    }
}

/// The cores of a cache that is about to be created.
pub(super) fn of_new(cache: &TargetArg, given: &[CoreArg]) -> Result<Vec<Core>, Error> {
    let named = numbered(given, (0..).filter_map(CoreId::new))?;
    that_stay(std::iter::once(cache).chain(named.iter().map(|(_, target)| target)))?;
    each_once(Some(cache), &named)?;
    open_new(&named)
}

/// A core to add to a running cache.
pub(super) fn of_running(stored: &StoredCache, given: &CoreArg) -> Result<Core, Error> {
    let known = stored.cores.iter().map(|core| (core.id, core.name.as_str()));
    Ok(added(None, stored, known, std::slice::from_ref(given))?.remove(0))
}

/// A core of a running cache that was missing.
pub(super) fn of_missing(stored: &StoredCache, id: CoreId, at: &TargetArg) -> Result<Core, Error> {
    let others = stored.cores.iter().filter(|core| core.id != id);
    let others = others.filter_map(|core| Some((core.id, core.name.parse().ok()?)));
    let all: Vec<(CoreId, TargetArg)> = others.chain([(id, at.clone())]).collect();
    that_stay([at])?;
    each_once(None, &all)?;
    open(id, target::absolute(at).to_string(), at)
}

/// Cores to add to an existing cache.
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
    // A name that does not parse as a target cannot be a given device.
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

/// The cores of an existing cache, as far as they are present.
pub(super) struct KnownCores {
    /// The cores that were opened.
    pub(super) there: Vec<Core>,
    /// The missing cores, and why they are missing.
    missing: Vec<(CoreId, String)>,
}

impl KnownCores {
    /// All cores; fails if one is missing.
    pub(super) fn all(self) -> Result<Vec<Core>, Error> {
        match self.missing.into_iter().next() {
            Some((_, why)) => Err(Error::run(why)),
            None => Ok(self.there),
        }
    }

    /// Reports which cores are missing; fails if all are.
    pub(super) fn some(self) -> Result<Vec<Core>, Error> {
        if self.there.is_empty() {
            return self.all();
        }
        for (id, why) in &self.missing {
            eprintln!(
                "note: {why}. It is MISSING: the others are there, and what only the cache has of it stays; `larder \
                 block cores --attach {0}=PATH` takes it up again, --give-up {0} forgets it",
                id.get()
            );
        }
        Ok(self.there)
    }
}

/// The cores of an existing cache, at the places on its label unless `given` names others. A core at the place on the
/// label may be missing; a core in `given` may not.
pub(super) fn of_known(
    cache: &TargetArg,
    stored: &StoredCache,
    given: &[CoreArg],
    without: &[CoreId],
) -> Result<KnownCores, Error> {
    let mut named = numbered(given, stored.cores.iter().map(|core| core.id))?;
    let mut missing = Vec::new();
    let mut names = Vec::new();
    if let Some(id) = without.iter().find(|id| stored.cores.iter().all(|core| core.id != **id)) {
        return Err(Error::usage(format!(
            "--without-core {}: the cache has no such core",
            id.get()
        )));
    }
    for known in &stored.cores {
        let number = known.id.get();
        if without.contains(&known.id) {
            missing.push((known.id, format!("core {number} ({}) is left aside", known.name)));
        } else if named.iter().all(|(id, _)| *id != known.id) {
            match known.name.parse() {
                Ok(target) => {
                    named.push((known.id, target));
                    names.push(known.id);
                }
                Err(error) => {
                    let why =
                        format!("core {number} is {:?}: {error}; say where it is", known.name);
                    missing.push((known.id, why));
                }
            }
        }
    }
    named.retain(|(id, _)| !without.contains(id));
    // The first one is served to clients that name no export.
    named.sort_by_key(|(id, _)| *id);
    each_once(Some(cache), &named)?;
    let mut there = Vec::new();
    for (id, target) in &named {
        match open(*id, target::absolute(target).to_string(), target) {
            Ok(core) => there.push(core),
            Err(error) if names.contains(id) => {
                let elsewhere = "; if it is elsewhere now, say where: --core";
                let why = format!("core {}: {error}{elsewhere} {0}=PATH", id.get());
                missing.push((*id, why));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(KnownCores { there, missing })
}

fn open(id: CoreId, name: String, target: &TargetArg) -> Result<Core, Error> {
    let device: Arc<dyn Device> = target::open(target)?;
    Ok(Core { id, name, device })
}

/// Prints the results of comparing the cores, and which cores could not be compared.
pub(super) fn tell_checked(opened: &OpenCache) {
    for checked in opened.checked() {
        if let Some(warning) = checked.warning().or_else(|| checked.note.clone()) {
            eprintln!("note: {warning}");
        }
    }
}

/// The NBD export of a core, named by its number.
pub(super) fn export(opened: &OpenCache, core: &Core) -> Result<Export, Error> {
    let name = core.id.get().to_string();
    opened.cache.with(|cache| cache.set_export(core.id, name.clone()));
    let cached = opened.cache.core(core.id).expect("it was opened with it");
    Export::new(name, Arc::new(CachedVolume::new(cached)))
        .and_then(|export| export.described(format!("{} behind a cache", core.name)))
        .map_err(|error| Error::usage(error.to_string()))
}

/// Cores without a number get the first number of `free` that no other has.
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

/// Refuses the same device twice, as far as that can be found out.
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
