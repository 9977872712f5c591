//! Recovers what a cache device has at a start.

use std::collections::VecDeque;
use std::sync::Arc;

use larder_device::{BufferPool, Device, Io, IoBuffer, IoFuture};

use super::damage::{Damage, LostOfCore};
use super::stored::{StoredCache, StoredLayout};
use crate::cache::CacheShape;
use crate::layout::log::{self, LogOptions, LogRecovery};
use crate::layout::ocf::{self, OcfRecovery};
use crate::layout::{Layout, Usage};
use crate::{Error, ErrorKind};

/// Concurrent reads.
const READS: usize = 32;

/// The data that a start has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartReport {
    /// Cached sectors; an upper bound until everything is loaded.
    pub valid_sectors: u64,
    /// Of these, dirty sectors; an upper bound until everything is loaded.
    pub dirty_sectors: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Damaged parts of the metadata. Their loss was accepted.
    pub damaged: u64,
    /// Dirty sectors that were lost with them, as far as known.
    pub lost_sectors: u64,
    /// Reads that the device refused: dirty data may be lost.
    pub failed_reads: u64,
    /// Parts of the device whose content does not match its description: they were in flight when the cache ended, or
    /// are damaged.
    pub torn: u64,
    /// Clean runs that were compared with their core.
    pub compared: u32,
    /// Of these, the runs that differ.
    pub changed: u32,
}

/// A recovered layout.
pub(super) struct RecoveredLayout {
    pub(super) layout: Box<dyn Layout>,
    pub(super) shape: CacheShape,
    pub(super) started: StartReport,
    pub(super) damage: Damage,
}

/// Recovers the layout. `epoch`: that of this start, for a log. Only data of the listed cores is found.
///
/// # Errors
/// [`ErrorKind::Format`] if the data is of a later start than the label.
pub(super) async fn recover(
    device: &Arc<dyn Device>,
    stored: &StoredCache,
    (uuid, epoch): ([u8; 16], u32),
    options: &LogOptions,
) -> Result<RecoveredLayout, Error> {
    let (mut started, mut damage) = (StartReport::default(), Damage::default());
    // If no core was ever removed, there is no data of other cores.
    let cores = || stored.cores.iter().map(|core| core.id);
    let has_gone = stored.next_core > 0;
    let (layout, shape): (Box<dyn Layout>, CacheShape) = match &stored.layout {
        StoredLayout::Log(superblock) => {
            let geometry = superblock.geometry;
            let mut recovery = LogRecovery::new(geometry, uuid)
                .clean_up_to(superblock.clean_up_to)
                .settled_up_to(superblock.settled_up_to)
                .after_stop(superblock.left.filter(|_| stored.left.is_some()))
                .verifying_dirty(options.verifies_dirty);
            if has_gone {
                recovery = recovery.of_cores(cores());
            }
            let (next, completed) = (LogRecovery::next_read, LogRecovery::completed_with);
            let place = |read: &log::RecoveryRead| (read.offset, read.bytes, read.metadata_bytes);
            started.read_bytes = read_all(device, &mut recovery, next, place, completed).await;
            if recovery.last_epoch() >= epoch {
                let (name, last) = (&device.info().name, recovery.last_epoch());
                let message = format!(
                    "{name}: its label is of start {} and its data of start {last}: the newer copy of the label is \
                     damaged, and with it what says which data the cores have. Nothing was written; if what only the \
                     cache has may go, create the cache anew over it, by its UUID",
                    epoch - 1
                );
                return Err(Error::new(ErrorKind::Format, message));
            }
            let torn = recovery.torn();
            let (layout, found) = recovery.finish(epoch, device.info(), options);
            (damage.is_log, damage.failed_reads) = (found.is_damaged, found.failed_reads);
            damage.torn = if found.is_damaged { torn } else { Vec::new() };
            (damage.unsound, damage.missing_batches) = (found.unsound, found.missing_batches);
            (started.failed_reads, started.torn) = (found.failed_reads, found.torn_batches);
            let (capacity_bytes, line_bytes) = (geometry.capacity_bytes(), geometry.line_bytes);
            (Box::new(layout), CacheShape { capacity_bytes, line_bytes })
        }
        StoredLayout::Ocf(superblock) => {
            let geometry = superblock.geometry;
            let was_left = superblock.is_left && stored.left.is_some();
            let mut recovery =
                OcfRecovery::new(geometry, uuid).left(superblock.told_up_to, was_left);
            if has_gone {
                recovery = recovery.of_cores(cores());
            }
            let next = OcfRecovery::next_read;
            let completed = |recovery: &mut OcfRecovery, read, found: Option<(&[u8], &[u8])>| {
                recovery.completed(read, found.map(|(bytes, _)| bytes));
            };
            let place = |read: &ocf::RecoveryRead| (read.offset, read.bytes, 0);
            started.read_bytes = read_all(device, &mut recovery, next, place, completed).await;
            let (layout, found) = recovery.finish();
            (damage.sectors, damage.failed_reads) = (found.damaged_sectors, found.failed_reads);
            damage.refused_lines = if was_left { found.refused_lines } else { 0 };
            (started.failed_reads, started.torn) = (found.failed_reads, found.damaged_sectors);
            let (capacity_bytes, line_bytes) = (geometry.capacity_bytes(), geometry.line_bytes);
            (Box::new(layout), CacheShape { capacity_bytes, line_bytes })
        }
    };
    let mut recovered = RecoveredLayout { layout, shape, started, damage };
    recovered.look();
    Ok(recovered)
}

impl RecoveredLayout {
    fn look(&mut self) {
        let Usage { valid_sectors, dirty_sectors } = self.layout.usage();
        (self.started.valid_sectors, self.started.dirty_sectors) = (valid_sectors, dirty_sectors);
    }

    /// Checks whether a damaged cache may be started.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] if it is damaged and that is not accepted.
    pub(super) fn accept_loss(
        &mut self,
        device: &Arc<dyn Device>,
        left: &StoredCache,
        accepts: bool,
    ) -> Result<(), Error> {
        if !self.damage.is_some() {
            return Ok(());
        }
        self.load_all();
        let lost = self.damage.lost(left, &*self.layout);
        self.started.damaged = self.damage.parts();
        let of_stop = lost.iter().map(|LostOfCore { sectors: (before, found), .. }| before - found);
        self.started.lost_sectors = of_stop.sum::<u64>().max(self.damage.unsound_sectors());
        if accepts {
            return Ok(());
        }
        Err(self.damage.refusal(&device.info().name, left.left.is_some(), &lost))
    }

    /// Whether the device has data that differs from what was written. Destaging leaves it out, and it must not be
    /// found again.
    pub(super) fn has_unsound_data(&self) -> bool {
        !self.damage.unsound.is_empty()
    }

    pub(super) fn load_all(&mut self) {
        self.layout.load_all();
        self.look();
    }
}

/// Carries out the reads of a recovery, [`READS`] at a time. Reports their completions in the order in which they
/// began. Returns the number of bytes read.
async fn read_all<R, Read>(
    device: &Arc<dyn Device>,
    recovery: &mut R,
    next: impl Fn(&mut R) -> Option<Read>,
    place: impl Fn(&Read) -> (u64, usize, usize),
    completed: impl Fn(&mut R, Read, Option<(&[u8], &[u8])>),
) -> u64 {
    let pool = BufferPool::new();
    let mut under_way: VecDeque<(Read, IoFuture)> = VecDeque::new();
    let mut read_bytes = 0;
    loop {
        while under_way.len() < READS
            && let Some(read) = next(recovery)
        {
            let (offset, bytes, metadata) = place(&read);
            read_bytes += bytes as u64;
            let mut buffer = pool.take(bytes);
            if metadata > 0 {
                buffer = buffer.with_metadata(pool.take(metadata));
            }
            under_way.push_back((read, device.submit(Io::Read { offset, buffer })));
        }
        let Some((read, future)) = under_way.pop_front() else { return read_bytes };
        let buffer = future.await.ok();
        completed(recovery, read, buffer.as_ref().map(found_in));
    }
}

/// The data and the metadata of a buffer.
fn found_in(buffer: &IoBuffer) -> (&[u8], &[u8]) {
    (buffer.as_slice(), buffer.metadata().unwrap_or_default())
}
