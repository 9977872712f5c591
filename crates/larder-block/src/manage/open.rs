//! Starts and stops a cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_device::label::{Kind, Labeller, Uuid};
use larder_device::{Claim, Device};

use super::Core;
use super::checked::{self, CheckedCore, FingerprintCheck, watches};
use super::create::{claim_all, format};
use super::front::{CacheLabel, look};
use super::recover::{RecoveredLayout, StartReport, recover};
use super::sample;
use super::stored::{StoredCache, StoredCore, StoredLayout};
use crate::cache::{Cache, CacheOptions, Mode};
use crate::fingerprint::{self, Watch};
use crate::layout::log::{LogOptions, LogSuperblock};
use crate::layout::{CoreId, Layout, SECTOR_BYTES};
use crate::running::{Handles, RunningCache};
use crate::{Error, ErrorKind};

/// Most dirty blocks of a core for which the fingerprint has what the core contains there.
const DIRTY_BLOCKS: usize = 64;

/// What to do if a core was written while the cache was away, and the cache has dirty data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangedCore {
    /// Refuse the start.
    #[default]
    Refuse,
    /// Destage the dirty data over what was written to the core, and drop clean data.
    DestageAndDrop,
}

/// How to start a cache.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Options of the cache. `mode` takes precedence over its mode.
    pub cache: CacheOptions,
    /// The mode; `None`: the previous one.
    pub mode: Option<Mode>,
    /// Placement handles for its writes.
    pub handles: Handles,
    /// Options that may change between two starts of a log.
    pub log: LogOptions,
    /// Whether a damaged cache is started nevertheless, with its undamaged data. Default: no.
    pub accept_loss: bool,
    /// What to do if a core has changed.
    pub changed: ChangedCore,
    /// Number of pieces of clean data that are compared with the cores. Default 64; 0: none.
    pub samples: u32,
    /// Selects these pieces.
    pub seed: u64,
    /// Cores that are accepted as they are, whatever their identity and content. Dirty data is destaged to them.
    pub force: Vec<CoreId>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache: CacheOptions::default(),
            mode: None,
            handles: Handles::default(),
            log: LogOptions::default(),
            accept_loss: false,
            changed: ChangedCore::default(),
            samples: 64,
            seed: 0,
            force: Vec::new(),
        }
    }
}

/// A cache that was started.
pub struct OpenCache {
    /// The running cache.
    pub cache: RunningCache,
    /// Its UUID.
    pub uuid: Uuid,
    /// The data that the start has found.
    pub started: StartReport,
    pub(super) keeper: Keeper,
    /// The cores that are present.
    pub(super) cores: Vec<Core>,
    pub(super) checked: Vec<CheckedCore>,
    /// Maintain the fingerprints of these cores.
    pub(super) watches: BTreeMap<CoreId, Arc<Watch>>,
    /// The claim of the cache device comes first, unless it was detached.
    pub(super) claims: Vec<Claim>,
    /// Smallest block size of the exports: a cache device must not have larger blocks.
    pub(super) block_bytes: u32,
}

/// A failed write of the label. `again` is the error of the attempt to restore the previous content, if that failed
/// too.
pub(super) struct LabelWriteFailure {
    pub(super) error: Error,
    pub(super) again: Option<Error>,
}

/// Writes the label.
pub(super) struct Keeper {
    /// `None` if the device with the label was detached.
    pub(super) labeller: Option<Labeller>,
    pub(super) uuid: Uuid,
    pub(super) stored: StoredCache,
    /// The label may say that the content is void, and could not be rewritten.
    pub(super) is_doubtful: bool,
}

impl Keeper {
    /// Begins to write a label that is newer than all begun before. The write goes on even if the future is dropped.
    fn write(&self) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let begun = self.labeller.as_ref().map(|labeller| {
            let content = self.stored.encode()?;
            Ok(labeller.write(content))
        });
        async move {
            let Some(begun) = begun else { return Ok(()) };
            begun?.await.map_err(|error| Error::of_device("writing the label", &error))
        }
    }
}

/// Starts the cache on `device` with `cores`, which must be those for which it was made. Some may be missing: then the
/// others are served, and the dirty data of the missing ones stays in the cache ([`OpenCache::missing`]).
///
/// # Errors
/// [`ErrorKind::Format`] if there is no cache, [`ErrorKind::Setup`] if it does not match these cores or options,
/// [`ErrorKind::Changed`] if a core was written while the cache was away or is another device, [`ErrorKind::Damaged`]
/// if the content is damaged and that is not accepted, [`ErrorKind::Device`].
pub async fn open(
    device: &Arc<dyn Device>,
    cores: &[Core],
    options: &OpenOptions,
) -> Result<OpenCache, Error> {
    options.cache.check()?;
    let claims = claim_all(device, cores)?;
    let CacheLabel { uuid, generation, mut stored } = look(device).await?;
    check_cores(&stored, cores)?;
    check_blocks(&stored.layout, device)?;
    next_epoch(&mut stored.layout)?;
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    stored.mode = options.mode.unwrap_or(stored.mode);
    let left = stored.clone();
    stored.is_started();
    let checked = if stored.is_distrusted {
        FingerprintCheck::default()
    } else {
        checked::check(device, (uuid, &stored), cores, &options.force).await?
    };
    for known in &mut stored.cores {
        if let Some(given) = cores.iter().find(|core| core.id == known.id) {
            known.name.clone_from(&given.name);
        }
    }
    let mut keeper = Keeper { labeller: Some(labeller), uuid, stored, is_doubtful: false };
    let found = if keeper.stored.is_distrusted {
        anew(device, &mut keeper, &options.log).await?
    } else {
        find(device, cores, (options, &checked), (&left, &mut keeper)).await?
    };
    let cache_options = CacheOptions { mode: keeper.stored.mode, ..options.cache.clone() };
    let cache = Cache::new(found.layout, found.shape, cache_options)?;
    let watches = watches(device, (keeper.uuid, &keeper.stored), cores, &checked.slots);
    let cache = running(cache, device, cores, (options.handles, &watches));
    cache.set_missing(missing(&keeper.stored, cores));
    cache.with(|cache| cache.look_for_dirty(cores.iter().map(|core| core.id)));
    let (uuid, started) = (keeper.uuid, found.started);
    let of_export = |core: &Core| core.device.info().block_bytes.max(device.info().block_bytes);
    let block_bytes = cores.iter().map(of_export).min().unwrap_or_default().max(512);
    let cores = cores.to_vec();
    let checked = checked.cores;
    let opened =
        OpenCache { cache, uuid, started, keeper, cores, checked, watches, claims, block_bytes };
    opened.prepare_mark()?;
    // Write fingerprints that start from scratch, or whose core has another identity now.
    for (core, watch) in opened.watches.iter().filter(|(_, watch)| !watch.is_stored()) {
        note(*core, watch, &[]).await;
    }
    Ok(opened)
}

/// Recovers the layout, and compares it with the cores. If a core has changed, or if dirty data is damaged and that is
/// accepted, the dirty data is destaged if the options allow it, and the cache starts empty.
async fn find(
    device: &Arc<dyn Device>,
    cores: &[Core],
    (options, checked): (&OpenOptions, &FingerprintCheck),
    (left, keeper): (&StoredCache, &mut Keeper),
) -> Result<RecoveredLayout, Error> {
    let identity = identity(keeper.uuid, &keeper.stored.layout);
    let mut found = recover(device, left, identity, &options.log).await?;
    found.accept_loss(device, left, options.accept_loss)?;
    let samples = (options.samples, options.seed);
    sample::sample(&mut *found.layout, device, cores, samples, &mut found.started).await?;
    let has_changed = found.started.changed > 0 || checked.differing().next().is_some();
    let begins_anew = has_changed || found.has_unsound_data();
    if begins_anew {
        found.load_all();
    }
    let started = found.started;
    if has_changed && started.dirty_sectors > 0 {
        let is_forced = checked.differing().next().is_some()
            && checked.differing().all(|core| options.force.contains(&core.id));
        if options.changed == ChangedCore::Refuse && !is_forced {
            return Err(sample::refusal(&started, checked.complaint()));
        }
    }
    if begins_anew {
        check_missing(&*found.layout, &keeper.stored, cores)?;
    }
    checked.clear_unreadable().await?;
    // The label must have the epoch of this start before anything is written in it.
    keeper.write().await?;
    if !begins_anew {
        return Ok(found);
    }
    let passes_by = CacheOptions { mode: Mode::PassThrough, ..options.cache.clone() };
    let cache = Cache::new(found.layout, found.shape, passes_by)?;
    let of_cache = (keeper.uuid, &keeper.stored);
    let watches = watches(device, of_cache, cores, &checked.slots);
    running(cache, device, cores, (options.handles, &watches)).destage_all().await?;
    let fresh = anew(device, keeper, &options.log).await?;
    Ok(RecoveredLayout { started, ..fresh })
}

fn running(
    cache: Cache,
    device: &Arc<dyn Device>,
    cores: &[Core],
    (handles, watches): (Handles, &BTreeMap<CoreId, Arc<Watch>>),
) -> RunningCache {
    let numbered = cores.iter().map(|core| (core.id, Arc::clone(&core.device)));
    let numbered = numbered.collect::<BTreeMap<_, _>>();
    let cache = RunningCache::new(cache, Arc::clone(device), numbered, handles);
    cache.watch(watches);
    cache
}

fn missing(stored: &StoredCache, cores: &[Core]) -> Vec<CoreId> {
    let ids = stored.cores.iter().map(|known| known.id);
    ids.filter(|id| cores.iter().all(|core| core.id != *id)).collect()
}

/// Refuses to start empty while there is dirty data of a missing core.
fn check_missing(layout: &dyn Layout, stored: &StoredCache, cores: &[Core]) -> Result<(), Error> {
    for id in missing(stored, cores) {
        let bytes = layout.dirty_sectors(id) * SECTOR_BYTES as u64;
        if bytes > 0 {
            let message = format!(
                "a core has changed or dirty data are damaged, so the cache begins anew; but core {} is missing, and \
                 {bytes} bytes of it are on the cache device alone: give that core too, or give it up first",
                id.get()
            );
            return Err(Error::new(ErrorKind::Setup, message));
        }
    }
    Ok(())
}

/// Empties the cache.
async fn anew(
    device: &Arc<dyn Device>,
    keeper: &mut Keeper,
    options: &LogOptions,
) -> Result<RecoveredLayout, Error> {
    let generation = look(device).await?.generation;
    let (blank, found) = blank(device, keeper.stored.clone(), generation, options).await?;
    *keeper = blank;
    Ok(found)
}

/// Formats a device and starts the cache on it under a new UUID, so that no earlier data is found again. `generation`:
/// that of the existing label.
pub(super) async fn blank(
    device: &Arc<dyn Device>,
    mut stored: StoredCache,
    generation: u64,
    options: &LogOptions,
) -> Result<(Keeper, RecoveredLayout), Error> {
    format(device, &stored.layout).await?;
    stored.is_started();
    stored.is_distrusted = false;
    // The sequence numbers of the log begin again, so a `clean_up_to` of the old ones must not apply to the new ones.
    stored.layout.forget();
    // No data of a removed core is left.
    stored.next_core = 0;
    next_epoch(&mut stored.layout)?;
    let uuid = Uuid::draw();
    let labeller = Labeller::new(Arc::clone(device), Kind::BlockCache, uuid, generation);
    let keeper = Keeper { labeller: Some(labeller), uuid, stored, is_doubtful: false };
    keeper.write().await?;
    let identity = identity(uuid, &keeper.stored.layout);
    let found = recover(device, &keeper.stored, identity, options).await?;
    Ok((keeper, found))
}

fn identity(uuid: Uuid, layout: &StoredLayout) -> ([u8; 16], u32) {
    let epoch = match layout {
        StoredLayout::Log(LogSuperblock { epoch, .. }) => *epoch,
        StoredLayout::Ocf(_) => 0,
    };
    (uuid.bytes(), epoch)
}

fn next_epoch(layout: &mut StoredLayout) -> Result<(), Error> {
    if let StoredLayout::Log(LogSuperblock { epoch, .. }) = layout {
        *epoch = epoch.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::Format, "label of a block cache: its epoch is the last one")
        })?;
    }
    Ok(())
}

pub(super) fn check_cores(stored: &StoredCache, cores: &[Core]) -> Result<(), Error> {
    for known in &stored.cores {
        if let Some(given) = cores.iter().find(|core| core.id == known.id) {
            check_length(known, given)?;
        }
    }
    if let Some(other) =
        cores.iter().find(|core| stored.cores.iter().all(|known| known.id != core.id))
    {
        let message = format!(
            "core {} ({}) is none of the cache's {}: add it to them first, or create the cache with it",
            other.id.get(),
            other.name,
            stored.cores.len()
        );
        return Err(Error::new(ErrorKind::Setup, message));
    }
    if cores.is_empty() {
        let message = "none of the cache's cores is there: give at least one of them";
        return Err(Error::new(ErrorKind::Setup, message));
    }
    Ok(())
}

/// Checks that a core has the same length as before.
pub(super) fn check_length(known: &StoredCore, given: &Core) -> Result<(), Error> {
    let bytes = given.device.info().capacity_bytes;
    if bytes == known.bytes {
        return Ok(());
    }
    let message = format!(
        "core {} ({}) has {bytes} bytes and had {} when the cache was made: is it another device, or was it resized? \
         Give the one that it was, or stop the cache with a flush, and create it anew",
        known.id.get(),
        given.name,
        known.bytes
    );
    Err(Error::new(ErrorKind::Setup, message))
}

/// A layout for short blocks cannot be read with longer ones. And memory, whose blocks are shorter than a sector, can
/// tear writes that a layout for other devices assumes to be whole.
fn check_blocks(layout: &StoredLayout, device: &Arc<dyn Device>) -> Result<(), Error> {
    let info = device.info();
    let (made_for, has) = (layout.block_bytes(), info.block_bytes);
    let metadata = layout.metadata_bytes();
    if metadata > 0 && (!info.keeps_metadata || info.metadata_bytes != metadata || has != made_for)
    {
        let kept = if info.keeps_metadata { info.metadata_bytes } else { 0 };
        let message = format!(
            "{}: it keeps {kept} bytes of metadata beside blocks of {has} as it was opened, and the cache has headers \
             in {metadata} beside blocks of {made_for}: open it as it was when the cache was made, past the block \
             layer (nvme:PATH)",
            info.name
        );
        return Err(Error::new(ErrorKind::Setup, message));
    }
    let tears_sectors = |block_bytes: u32| (block_bytes as usize) < SECTOR_BYTES;
    if has <= made_for && tears_sectors(has) == tears_sectors(made_for) {
        return Ok(());
    }
    let message = format!(
        "{}: it has blocks of {has} bytes as it was opened, and the cache was made on blocks of {made_for}: open it as \
         it was when the cache was made (a drive by block:PATH, a file by its path, persistent memory by dax:PATH)",
        device.info().name
    );
    Err(Error::new(ErrorKind::Setup, message))
}

impl OpenCache {
    /// The content of its label.
    pub fn stored(&self) -> &StoredCache {
        &self.keeper.stored
    }

    /// The cores as the start has compared them; without those that were added later.
    pub fn checked(&self) -> &[CheckedCore] {
        &self.checked
    }

    /// Updates the fingerprints of the cores, while clients continue. Blocks that were destaged or written have new
    /// checksums. Reads at most some hundred changed blocks per core. A fingerprint that a device refuses stays as it
    /// was; then the next start compares fewer blocks.
    pub async fn note_fingerprints(&self) {
        for (core, watch) in &self.watches {
            let dirty = self.cache.with(|cache| some_dirty_blocks(cache, *core));
            note(*core, watch, &dirty).await;
        }
    }

    /// Changes the mode permanently. On a change from a mode with dirty data to one without, the dirty data is
    /// destaged first if `destages` is set; no new dirty data appears during this.
    ///
    /// *Always:* the label durably names a mode with dirty data before the mode makes any data dirty, and until it no
    /// longer does. So a crash never leaves more dirty data than the label leads one to expect.
    ///
    /// # Errors
    /// [`ErrorKind::Device`]. The cache stays in its mode, except on a change from a mode with dirty data to one
    /// without: then it is in the new mode, and may have dirty data. The label has its previous content. If that could
    /// not be restored, which the error says, it may have either.
    pub async fn set_mode(&mut self, mode: Mode, destages: bool) -> Result<(), Error> {
        let set = |opened: &Self| opened.cache.with(|cache| cache.set_mode(mode));
        if !mode.may_be_dirty() && self.cache.with(|cache| cache.options().mode).may_be_dirty() {
            set(self);
        }
        if destages && !mode.may_be_dirty() {
            self.cache.destage_all().await?;
        }
        self.look_at_cache();
        let next = StoredCache { mode, ..self.keeper.stored.clone() };
        if let Err(LabelWriteFailure { error, again }) = self.relabel(next).await {
            let Some(again) = again else { return Err(error) };
            let message = format!(
                "{error}; and what it said before could not be written again ({again}): the next start may be in \
                 the mode {mode}"
            );
            return Err(Error::new(ErrorKind::Device, message));
        }
        set(self);
        self.prepare_mark()
    }

    /// Records in the label that the cores have all data, if that is true and not recorded yet: after a crash this
    /// data is then not taken for dirty. Or records that the content of the device is void, if the cache [was given
    /// up](Cache::has_marked). Call it when idle; it costs two writes of a block.
    ///
    /// # Errors
    /// [`ErrorKind::Device`]; the label then has its previous content, and the next call tries again.
    pub async fn note_clean(&mut self) -> Result<(), Error> {
        self.note_fingerprints().await;
        let before = self.keeper.stored.clone();
        self.look_at_cache();
        if self.keeper.stored == before && !self.keeper.is_doubtful {
            return Ok(());
        }
        let written = self.write_label().await;
        match written {
            Ok(()) => self.is_believed(),
            Err(_) => self.keeper.stored = before,
        }
        written
    }

    /// Updates the content of the label. If the cores have all data of a log, the next start need not take that data
    /// for dirty.
    pub(super) fn look_at_cache(&mut self) {
        let (told, settled, is_given_up) = self
            .cache
            .with(|cache| (cache.tell_clean(), cache.tell_settled(), cache.is_given_up()));
        let stored = &mut self.keeper.stored;
        stored.is_distrusted |= is_given_up;
        if let StoredLayout::Log(log) = &mut stored.layout {
            log.clean_up_to = told.unwrap_or(log.clean_up_to);
            log.settled_up_to = settled.unwrap_or(log.settled_up_to);
        }
    }

    /// Writes `next` to the label, or else restores the previous content: a write that failed may have reached the
    /// device.
    pub(super) async fn relabel(&mut self, next: StoredCache) -> Result<(), LabelWriteFailure> {
        let before = std::mem::replace(&mut self.keeper.stored, next);
        let Err(error) = self.write_label().await else {
            self.is_believed();
            return Ok(());
        };
        self.keeper.stored = before;
        let again = self.write_label().await.err();
        Err(LabelWriteFailure { error, again })
    }

    /// Writes the label. If the cache was given up before the write begins, the label says that its content is void.
    /// If the cache is given up later, the label that says so begins later too, and supersedes this one.
    async fn write_label(&mut self) -> Result<(), Error> {
        let keeper = &mut self.keeper;
        let begun = self.cache.with(|cache| {
            keeper.stored.is_distrusted |= cache.is_given_up();
            keeper.write()
        });
        begun.await
    }

    /// A label was written: its doubtful predecessor is gone.
    fn is_believed(&mut self) {
        if std::mem::take(&mut self.keeper.is_doubtful) {
            self.cache.with(|cache| cache.set_no_dirty(false));
        }
    }

    /// Handles a label that may be on the device although its write failed, while the previous content could not be
    /// restored. No data may become dirty from now on, because that label could make a start lose it.
    pub(super) fn doubt(&mut self, unwritten: LabelWriteFailure, says: &str) -> Error {
        let LabelWriteFailure { error, again } = unwritten;
        let Some(again) = again else { return error };
        self.keeper.is_doubtful = true;
        self.cache.with(|cache| cache.set_no_dirty(true));
        let message = format!(
            "{error}; and what it said before could not be written again ({again}): it may say that {says}; nothing \
             becomes dirty any more"
        );
        Error::new(ErrorKind::Device, message)
    }

    pub(super) fn prepare_mark(&self) -> Result<(), Error> {
        let Some(labeller) = self.keeper.labeller.clone() else {
            self.cache.set_mark(None);
            return Ok(());
        };
        let distrusted = StoredCache { is_distrusted: true, ..self.keeper.stored.clone() };
        self.cache.set_mark(Some((labeller, distrusted.encode()?)));
        Ok(())
    }

    /// Destages all dirty data if `destages` is set, makes writes around the cache durable on the cores, and records
    /// in the label the orderly stop, the mode, and what the cache has. No client may write any more.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] if data that was to be destaged is still dirty: the label has its previous content. Also
    /// if a core could not be flushed or the cache device could not be written: the label then records the stop, but
    /// the next start finds only what a crash would have left.
    pub async fn stop(mut self, destages: bool) -> Result<(), Error> {
        if destages {
            self.cache.destage_all().await?;
        }
        self.note_fingerprints().await;
        let prepared = self.cache.prepare_stop().await;
        let prepared = prepared.map_err(|failure| Error::of_device("stopping", &failure.error));
        let stored = &mut self.keeper.stored;
        stored.was_stopped = true;
        stored.mode = self.cache.with(|cache| cache.options().mode);
        self.look_at_cache();
        if prepared.is_ok() {
            self.say_what_is_left();
        }
        self.write_label().await.and(prepared)
    }

    /// Records in the label what a start will find, if there is room for it.
    fn say_what_is_left(&mut self) {
        let stored = &mut self.keeper.stored;
        let left = self.cache.with(|cache| {
            let dirty = stored.cores.iter().map(|core| (core.id, cache.dirty_when_left(core.id)));
            let dirty: Vec<_> = dirty.filter(|(_, sectors)| *sectors > 0).collect();
            cache.left().map(|left| (left, dirty))
        });
        let Some((left, mut dirty)) = left else { return };
        let mut said = stored.clone();
        // The label tells the next start that all data is clean.
        if matches!(&said.layout, StoredLayout::Log(log) if log.clean_up_to >= left.last) {
            dirty.clear();
        }
        said.layout.set_left(Some(left));
        said.left = Some(dirty);
        if said.encode().is_ok() {
            *stored = said;
        }
    }
}

async fn note(core: CoreId, watch: &Arc<Watch>, dirty: &[u64]) {
    if let Err(error) = watch.refresh(dirty).await {
        tracing::warn!(core = core.get(), %error, "its fingerprint stays as it was");
    }
}

/// Some dirty blocks of a core, among the loaded ones. The cache will destage them later. So if an old copy of the
/// cache device is started, the content of the core at these blocks reveals it.
fn some_dirty_blocks(cache: &Cache, core: CoreId) -> Vec<u64> {
    let sectors_of_block = fingerprint::BLOCK_BYTES / SECTOR_BYTES as u64;
    let mut blocks = Vec::new();
    let mut from = 0;
    while blocks.len() < DIRTY_BLOCKS
        && let Some(dirty) = cache.dirty_after(core, from)
    {
        blocks.push(dirty.first / sectors_of_block);
        from = dirty.end();
    }
    blocks
}
