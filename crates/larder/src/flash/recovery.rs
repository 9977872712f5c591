//! Opening a cache: takes over what a clean shutdown or a crash has left.
//!
//! While a cache is open, its superblock does not have the clean mark. A clean shutdown first writes the snapshot, then
//! the superblock with the clean mark. The next opening removes the mark before it serves. If a tombstone log was kept
//! and is complete, the next opening continues with it as after a crash: large objects are found again by their footers
//! while the cache serves, and the snapshot does not list them. If there is no log, or it is not trusted, the snapshot
//! lists which records are current.
//!
//! A crash leaves no snapshot. If a tombstone log was kept, the opening reads that log and nothing else. Later, regions
//! are found again by their footers and buckets by their checksums, and the log says which of it is dead. Without a
//! log, or if the device has lost power since (unless the cache was written to survive that), nothing on flash is
//! trusted: the new epoch becomes the oldest valid one, and filters and index start empty.

use std::sync::Arc;
use std::time::Duration;

use larder_device::label::{
    self, FORMAT_VERSION, FRONT_BYTES, Found, Kind, Labeller, OldFormat, Uuid,
};
use larder_device::{Device, Io, IoBuffer};
use larder_log::CacheId;

use super::changes;
use super::dead_keys::DeadKeysSnapshot;
use super::engines::{Engines, call};
use super::label_area::LabelArea;
use super::snapshot::{self, SNAPSHOT_AT};
use crate::base::error::{Error, ErrorKind};
use crate::base::key::KeyHasher;
use crate::base::layout::Layout;
use crate::config::{Config, CrashSafety, OnChange};
use crate::engine::superblock::{EPOCH_MAX, Superblock};
use crate::engine::tombstones::{self, Inheritance, KeysIn, Tombstones};
use crate::engine::{DeadRecords, ShutdownMark};
use crate::observe::recovery::Recovery;
use crate::observe::stats::Counters;

const BLOCK: usize = 4096;
const STARTS_EMPTY: &str = "the configuration says to start empty";

/// What there is to take over.
pub(crate) enum RecoveredState {
    None,
    /// The snapshot of a clean shutdown, which is complete by itself.
    Snapshot(Vec<u8>),
    /// The snapshot of a clean shutdown, and the tombstone log, which says which large objects are dead.
    Closed(Vec<u8>, Inheritance),
    /// The tombstone log of an opening that ended in a crash.
    Log(Inheritance),
}

/// How an opening continues.
pub(crate) struct Start {
    /// To be written; without the clean mark.
    pub(super) superblock: Superblock,
    pub(super) labeller: Labeller,
    pub(super) recovered: RecoveredState,
    pub(super) recovery: Recovery,
}

impl Start {
    /// How the cache hashes its keys from now on.
    pub(crate) fn hasher(&self) -> KeyHasher {
        self.superblock.hasher
    }

    /// Start of a cache on an empty device.
    pub(super) fn empty_on(device: &Arc<dyn Device>, config: &Config) -> Result<Self, Error> {
        let (layout, uuid) = (Layout::plan(config, device.info())?, Uuid::draw());
        Ok(Self {
            superblock: Superblock::of_another_cache(1, &layout, Duration::ZERO, (config, uuid)),
            labeller: Labeller::new(Arc::clone(device), Kind::Cache, uuid, 0),
            recovered: RecoveredState::None,
            recovery: Recovery::Fresh,
        })
    }
}

impl Superblock {
    /// The superblock of a new, empty cache that starts at `now`.
    fn of_another_cache(
        epoch: u64,
        layout: &Layout,
        now: Duration,
        (config, uuid): (&Config, Uuid),
    ) -> Self {
        Self {
            clean: false,
            recoverable: layout.tombstones().is_some(),
            power: config.crash_safety == CrashSafety::Power,
            epoch,
            oldest_epoch: epoch,
            ring: u32::try_from(epoch).expect("epochs end at 2^32"),
            boot: None,
            second: u32::try_from(now.as_secs()).unwrap_or(u32::MAX),
            cache: CacheId::of(uuid),
            hasher: KeyHasher::seeded_or_drawn(config.hash_seed),
            layout: *layout,
        }
    }
}

/// Reads the first block and decides how to continue. Writes nothing.
///
/// If the first block does not name an earlier epoch, the epoch is the current time in seconds. That is later than any
/// epoch of an earlier cache, unless that cache was opened more than once a second.
///
/// # Errors
/// [`ErrorKind::Config`] if the configuration is invalid, or if it would discard existing content without permission.
pub(crate) async fn examine(
    device: &Arc<dyn Device>,
    config: &Config,
    now: Duration,
) -> Result<Start, Error> {
    let planned = Layout::plan(config, device.info())?;
    let front = usize::try_from(device.info().capacity_bytes.min(FRONT_BYTES)).unwrap_or(0);
    let front = read(&**device, 0, front, "the label").await?;
    let first_epoch = now.as_secs().clamp(1, EPOCH_MAX - 1);
    let labeller =
        |uuid, generation| Labeller::new(Arc::clone(device), Kind::Cache, uuid, generation);
    let another = |epoch, uuid| Superblock {
        boot: device.boot(),
        ..Superblock::of_another_cache(epoch, &planned, now, (config, uuid))
    };
    // The new label has a newer generation than the existing one, so that no copy of the old label remains valid.
    let empty = |epoch, generation, recovery| {
        let uuid = Uuid::draw();
        let (superblock, labeller) = (another(epoch, uuid), labeller(uuid, generation));
        Ok(Start { superblock, labeller, recovered: RecoveredState::None, recovery })
    };
    let there = match look_at(front.as_slice(), &device.info().name, config.start_empty)? {
        Ok(there) => there,
        Err(recovery) => return empty(first_epoch, 0, recovery),
    };
    let EarlierCache { superblock: found, uuid, generation } = there;
    let next = found.epoch + 1;
    let discard =
        |reason: &str| empty(next, generation, Recovery::Discarded { reason: reason.to_owned() });
    if config.start_empty {
        return discard(STARTS_EMPTY);
    }
    let layout = match changes::reconcile(config, device.info(), &planned, &found.layout) {
        Ok(layout) => layout,
        Err(changes) => {
            if config.on_change == OnChange::Refuse && is_there(&**device, &found).await? {
                return Err(refused_change(&changes, &device.info().name));
            }
            let reason = "the configuration divides the device differently than before";
            return discard(&format!("{reason}: {changes}"));
        }
    };
    let next = another(next, uuid);
    let kept = Superblock {
        layout,
        oldest_epoch: found.oldest_epoch,
        // An earlier opening has reached this time, whatever the clock says now.
        second: found.second.max(next.second),
        hasher: found.hasher,
        ..next
    };
    let going_on = |log: &Inheritance| {
        let second = log.second().max(kept.second);
        Superblock { ring: found.ring, second, ..kept }
    };
    let (superblock, recovered, recovery) = match inherit(&**device, &found).await? {
        Ok(RecoveredState::Log(log)) => {
            let recovery = Recovery::Crashed { large_objects: 0, regions_left: 0 };
            (going_on(&log), RecoveredState::Log(log), recovery)
        }
        Ok(RecoveredState::Closed(snapshot, log)) => {
            let recovery = Recovery::Clean { large_objects: 0 };
            (going_on(&log), RecoveredState::Closed(snapshot, log), recovery)
        }
        Ok(recovered) => (kept, recovered, Recovery::Clean { large_objects: 0 }),
        Err(reason) => return discard(reason),
    };
    Ok(Start { superblock, labeller: labeller(uuid, generation), recovered, recovery })
}

/// A cache that an earlier opening has left.
struct EarlierCache {
    superblock: Superblock,
    uuid: Uuid,
    generation: u64,
}

/// Finds the cache in the front of a device. If there is none and an empty one may be started, returns the recovery
/// state for that.
fn look_at(
    front: &[u8],
    name: &str,
    start_empty: bool,
) -> Result<Result<EarlierCache, Recovery>, Error> {
    let foreign = |what: &str| {
        let message = format!(
            "{name} holds {what}; to use it for this cache, erase its first {FRONT_BYTES} bytes"
        );
        Error::new(ErrorKind::Foreign, message)
    };
    let discarded = |reason: &str| Ok(Err(Recovery::Discarded { reason: reason.to_owned() }));
    let another_version = |version: &str| {
        if start_empty {
            return discarded(&format!("{STARTS_EMPTY}; it was in format version {version}"));
        }
        Err(foreign(&format!(
            "a cache in format version {version}, and this program knows {FORMAT_VERSION} (open it with a \
             program that knows it, or set start_empty to begin a new one in its place)"
        )))
    };
    match label::find(front) {
        Found::Blank => Ok(Err(Recovery::Fresh)),
        Found::Label(label) if label.kind == Kind::Cache => {
            let (uuid, generation) = (label.uuid, label.generation);
            match Superblock::parse(&label.content, uuid) {
                Some(superblock) => Ok(Ok(EarlierCache { superblock, uuid, generation })),
                None => discarded("the superblock is none, behind a right checksum"),
            }
        }
        Found::Label(_) | Found::Old(OldFormat::Parts) => {
            Err(foreign("a partition table (open it as Tenants or Shards)"))
        }
        Found::Damaged => discarded("the label failed its checks in both copies"),
        Found::Later(version) => another_version(&version.to_string()),
        Found::Old(_) => another_version("8 or earlier"),
        _ => Err(foreign("data of another program")),
    }
}

/// Whether starting empty would lose content.
async fn is_there(device: &dyn Device, found: &Superblock) -> Result<bool, Error> {
    let cut_off = found.layout.usable_bytes > device.info().capacity_bytes;
    Ok(cut_off || inherit(device, found).await?.is_ok())
}

fn refused_change(changes: &str, name: &str) -> Error {
    Error::config(format!(
        "{changes}: that would empty the cache on {name}; go back to what it was made with, or set \
         on_change = Discard to begin with an empty one"
    ))
}

/// What a cache with this superblock has left, or the reason why none of it is trusted.
async fn inherit(
    device: &dyn Device,
    found: &Superblock,
) -> Result<Result<RecoveredState, &'static str>, Error> {
    if found.clean {
        let snapshot = read_snapshot(device, found).await?;
        // A correct checksum does not prove that this program wrote it, so check that it fits the layout too.
        let is_ours = |(records, snapshot): &(DeadRecords, Vec<u8>)| match found.layout.tombstones()
        {
            Some(_) => DeadKeysSnapshot::split_off(snapshot).is_some(),
            None => *records == DeadRecords::Listed,
        };
        let (records, snapshot) = match snapshot.filter(is_ours) {
            Some(snapshot) => snapshot,
            None => return Ok(Err("the snapshot failed its checks")),
        };
        let Some(place) = found.layout.tombstones().filter(|_| records == DeadRecords::InLog)
        else {
            return Ok(Ok(RecoveredState::Snapshot(snapshot)));
        };
        let log = tombstones::replay(device, place, (found.cache, found.ring)).await?;
        let closed = log.map(|log| RecoveredState::Closed(snapshot, log));
        return Ok(closed.ok_or("the tombstone log is damaged"));
    }
    let Some(place) = found.layout.tombstones() else {
        return Ok(Err("the cache was not shut down cleanly, and crash_safety is off"));
    };
    if !found.recoverable {
        return Ok(Err("the cache was not shut down cleanly after its tombstone log had failed"));
    }
    let is_powered_still = found.boot.is_some() && found.boot == device.boot();
    if !found.power && !is_powered_still {
        return Ok(Err("the device may have lost its power while the cache was in use"));
    }
    let log = tombstones::replay(device, place, (found.cache, found.ring)).await?;
    Ok(log.map(RecoveredState::Log).ok_or("the tombstone log is damaged"))
}

/// Reads the snapshot. `None` if no snapshot of this shutdown passes its checks.
async fn read_snapshot(
    device: &dyn Device,
    found: &Superblock,
) -> Result<Option<(DeadRecords, Vec<u8>)>, Error> {
    let Some(room) = found.layout.metadata_bytes.checked_sub(SNAPSHOT_AT) else { return Ok(None) };
    let header = read(device, SNAPSHOT_AT, BLOCK, "the snapshot").await?;
    let Some(length) = snapshot::announced_bytes(header.as_slice(), room) else {
        return Ok(None);
    };
    let whole = length.next_multiple_of(BLOCK);
    let whole = read(device, SNAPSHOT_AT, whole, "the snapshot").await?;
    let parsed = snapshot::parse(whole.as_slice(), found.cache, found.epoch);
    Ok(parsed.map(|(records, content)| (records, content.to_vec())))
}

async fn read(
    device: &dyn Device,
    offset: u64,
    bytes: usize,
    what: &str,
) -> Result<IoBuffer, Error> {
    let read = device.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) }).await;
    read.map_err(|f| Error::device(format!("cannot read {what}"), f.error))
}

/// The takeover of what a clean shutdown or a crash has left.
pub(super) struct Takeover<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) front: &'a LabelArea,
    pub(super) engines: &'a mut Engines,
    pub(super) tombstones: Option<&'a Tombstones>,
    pub(super) counters: &'a Counters,
}

impl Takeover<'_> {
    /// Takes it over, or starts empty. Marks the device as in use.
    pub(super) async fn run(&mut self, recovered: RecoveredState) -> Result<(), Error> {
        // What an earlier opening left may still be in a volatile cache of the device, and this opening has read it.
        // Once the superblock is written, the cache builds on that content, so it must survive a power loss too. There
        // is nothing to flush if the cache starts empty.
        if self.front.superblock().power && !matches!(recovered, RecoveredState::None) {
            self.front.flush().await?;
        }
        match recovered {
            RecoveredState::None => self.begin_empty().await,
            RecoveredState::Snapshot(snapshot) => {
                self.import(&snapshot).await?;
                self.serve_again().await
            }
            RecoveredState::Closed(snapshot, log) => {
                self.take_over_log(&snapshot, log).await?;
                self.serve_again().await
            }
            RecoveredState::Log(mut log) => {
                debug_assert!(self.tombstones.is_some(), "its log says what a crash has left");
                // First, so that no epoch is ever used twice.
                self.front.write_superblock(self.front.superblock()).await?;
                if let Some(tombstones) = self.tombstones {
                    tombstones.inherit(&mut log);
                }
                let log = Arc::new(log);
                self.engines.iter_mut().for_each(|any| call!(any, inherit(&log)));
                for any in self.engines.iter() {
                    call!(any, recover().await)?;
                }
                Ok(())
            }
        }
    }

    /// Ends the takeover after a clean shutdown: marks the device as in use.
    async fn serve_again(&self) -> Result<(), Error> {
        // The new log may have failed already; without a log, nothing is trusted after a crash.
        let recoverable = self.tombstones.is_some_and(Tombstones::is_trusted);
        self.front.write_superblock(Superblock { recoverable, ..self.front.superblock() }).await?;
        for any in self.engines.iter() {
            call!(any, index_eagerly().await);
        }
        Ok(())
    }

    async fn begin_empty(&self) -> Result<(), Error> {
        let Superblock { epoch, oldest_epoch, .. } = self.front.superblock();
        debug_assert_eq!(oldest_epoch, epoch, "whatever the device holds is void");
        let Some(place) = self.front.superblock().layout.tombstones() else {
            return self.front.write_superblock(self.front.superblock()).await;
        };
        // While the log is being erased, an empty log must not make the content of the device look valid.
        self.front
            .write_superblock(Superblock { recoverable: false, ..self.front.superblock() })
            .await?;
        tombstones::erase(self.device, place).await?;
        self.counters
            .metadata_written_bytes
            .add(self.front.superblock().layout.tombstone_log_bytes);
        self.front.write_superblock(self.front.superblock()).await
    }

    /// Takes over what a clean shutdown left that relied on the log.
    async fn take_over_log(&mut self, snapshot: &[u8], mut log: Inheritance) -> Result<(), Error> {
        let (dead, rest) =
            DeadKeysSnapshot::split_off(snapshot).expect("the snapshot was looked at before");
        debug_assert!(self.tombstones.is_some(), "what relied on the log goes on with it");
        // For dead keys in buckets, the snapshot says more than the log: which of them are already gone from their
        // buckets.
        log.settle_keys(dead.clock, dead.of(KeysIn::Tables));
        if let Some(tombstones) = self.tombstones {
            tombstones.inherit(&mut log);
            // Add them again: a tombstone may be older than the stamp of a bucket whose write failed, or may not. For
            // dead keys in tables, the log has the indices, which are compared with stamps.
            invalidate_again(tombstones, KeysIn::Buckets, &dead);
        }
        self.import_engines(rest, &ShutdownMark::Log(Arc::new(log))).await
    }

    /// Takes over a snapshot that is complete by itself.
    async fn import(&mut self, snapshot: &[u8]) -> Result<(), Error> {
        let mut rest = snapshot;
        if let (Some(tombstones), Some(place)) =
            (self.tombstones, self.front.superblock().layout.tombstones())
        {
            // A new log starts among the blocks of the old one, which must not look damaged.
            let Superblock { cache, ring, .. } = self.front.superblock();
            let is_whole = tombstones::replay(self.device, place, (cache, ring)).await?;
            if is_whole.is_none() {
                tombstones::erase(self.device, place).await?;
            }
            let (dead, behind) =
                DeadKeysSnapshot::split_off(snapshot).expect("the snapshot was looked at before");
            tombstones.set_clock(dead.clock);
            for keys in KeysIn::ALL {
                invalidate_again(tombstones, keys, &dead);
            }
            rest = behind;
        }
        self.import_engines(rest, &ShutdownMark::Snapshot).await
    }

    async fn import_engines(&mut self, snapshot: &[u8], kept: &ShutdownMark) -> Result<(), Error> {
        for any in self.engines.iter_mut() {
            let part = snapshot::part(snapshot, call!(any, section()));
            call!(any, import(part, kept).await)?;
        }
        if let Some(tombstones) = self.tombstones {
            tombstones.commit(tombstones.all_so_far()).await?;
        }
        Ok(())
    }
}

/// Marks the keys dead that the snapshot of a clean shutdown lists; the commit comes later.
fn invalidate_again(tombstones: &Tombstones, keys: KeysIn, dead: &DeadKeysSnapshot) {
    for &hash in dead.of(keys) {
        let _later = tombstones.invalidate_key(keys, hash);
    }
}

/// Entry point for the fuzzer: parses any bytes as a snapshot.
pub(crate) fn fuzz_snapshot(bytes: &[u8]) {
    let _ = snapshot::announced_bytes(bytes, 1 << 20);
    let _ = snapshot::parse(bytes, CacheId::ZERO, 1);
}
