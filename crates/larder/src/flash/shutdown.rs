//! What a clean shutdown writes when everything is on flash: the snapshot, then the superblock with the clean mark.

use super::dead_keys::DeadKeysSnapshot;
use super::engines::{AnyEngine, Engines, call};
use super::label_area::LabelArea;
use super::snapshot::{self, SNAPSHOT_AT};
use crate::base::error::Error;
use crate::base::side_by_side::together;
use crate::base::time::CacheClock;
use crate::engine::superblock::Superblock;
use crate::engine::tombstones::{KeysIn, Tombstones};
use crate::engine::{DeadRecords, Stop};
use crate::observe::stats::Counters;

const BLOCK: usize = 4096;
/// Buckets or tables that are read concurrently.
const LEARNT_AT_ONCE: usize = 32;

/// A clean shutdown, when everything is on flash.
pub(super) struct Shutdown<'a> {
    pub(super) front: &'a LabelArea,
    pub(super) engines: &'a Engines,
    pub(super) tombstones: Option<&'a Tombstones>,
    pub(super) counters: &'a Counters,
    pub(super) clock: &'a CacheClock,
    /// Says when there is no more time.
    pub(super) stop: Stop<'a>,
}

impl Shutdown<'_> {
    /// Collects the dead keys in buckets and tables for the snapshot. `None` if there are too many or `stop` returns
    /// true.
    async fn settle_dead_keys(&self) -> Option<DeadKeysSnapshot> {
        let Some(tombstones) = self.tombstones else {
            return Some(DeadKeysSnapshot::default());
        };
        let mut dead = DeadKeysSnapshot::default();
        for any in self.engines.iter() {
            if let Some(keys) = call!(any, keys_in()) {
                *dead.of_mut(keys) = self.settle_dead_of(any, (tombstones, keys)).await?;
            }
        }
        // Read it after all of them: buckets that were written without their dead keys have been stamped.
        dead.clock = tombstones.clock();
        Some(dead)
    }

    /// Collects the dead keys in the buckets or tables of an engine.
    async fn settle_dead_of(
        &self,
        any: &AnyEngine,
        (tombstones, keys): (&Tombstones, KeysIn),
    ) -> Option<Vec<u64>> {
        for hashes in tombstones.inherited(keys).chunks(LEARNT_AT_ONCE) {
            if (self.stop)() {
                return None;
            }
            together(hashes.iter().map(async |&hash| call!(any, learn_place_of(hash).await))).await;
        }
        let too_many = |hashes: &[u64]| hashes.len() as u64 > tombstones.keys_max(keys);
        let mut hashes = tombstones.dead(keys);
        if too_many(&hashes) {
            for hash in hashes {
                if (self.stop)() {
                    return None;
                }
                call!(any, write_without_dead(hash).await);
            }
            hashes = tombstones.dead(keys);
        }
        (!too_many(&hashes)).then_some(hashes)
    }

    /// Writes what a clean restart needs. Work that would take longer than `stop` allows is left out and counted. No
    /// write may follow.
    pub(super) async fn run(&self) -> Result<(), Error> {
        // First: writes in flight may still change buckets.
        for any in self.engines.iter() {
            call!(any, finish().await);
        }
        let Some(dead) = self.settle_dead_keys().await else {
            return self.leave_unclosed().await;
        };
        let Some(records) = self.settle_dead_records().await? else {
            return self.leave_unclosed().await;
        };
        let mut content = Vec::new();
        if self.tombstones.is_some() {
            dead.export(&mut content);
        }
        for any in self.engines.iter() {
            let part = call!(any, export(records).await);
            snapshot::put_part(&mut content, call!(any, section()), &part);
        }
        let Superblock { cache, epoch, .. } = self.front.superblock();
        let mut bytes = snapshot::encode(&content, records, (cache, epoch));
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        assert!(
            SNAPSHOT_AT + bytes.len() as u64 <= self.front.superblock().layout.metadata_bytes,
            "the layout reserves what the largest snapshot takes"
        );
        assert!(
            !self.front.superblock().clean,
            "the label vouches for no snapshot that is being written"
        );
        self.front.write(SNAPSHOT_AT, &bytes, "the snapshot").await?;
        self.front.flush().await?;
        let second = self.clock.now_s();
        self.front
            .write_superblock(Superblock { clean: true, second, ..self.front.superblock() })
            .await
    }

    /// Makes sure that the log names all dead records in regions, or else that the indexes are complete. `None` if
    /// neither is possible.
    async fn settle_dead_records(&self) -> Result<Option<DeadRecords>, Error> {
        if !self.engines.iter().any(|any| call!(any, has_records())) {
            return Ok(Some(DeadRecords::Listed)); // there are none
        }
        if let Some(tombstones) = self.tombstones {
            tombstones.commit(tombstones.all_so_far()).await?;
            // From here on nothing dies.
            if tombstones.is_trusted() {
                return Ok(Some(DeadRecords::InLog));
            }
        }
        let mut is_indexed = true;
        for any in self.engines.iter() {
            call!(any, index_until(self.stop).await);
            is_indexed &= call!(any, is_indexed());
        }
        if !is_indexed && self.tombstones.is_none() && (self.stop)() {
            // Only reading their regions would tell which of their objects are current.
            for any in self.engines.iter() {
                let objects = call!(any, unindexed_objects().await);
                self.counters.left_out_objects.add(objects);
            }
            return Ok(Some(DeadRecords::Listed));
        }
        Ok(is_indexed.then_some(DeadRecords::Listed))
    }

    /// Leaves the device in the state after a crash, for the next opening to take over: everything set is there, and
    /// everything dead is recorded.
    async fn leave_unclosed(&self) -> Result<(), Error> {
        assert!(!self.front.superblock().clean, "the label says that there is no snapshot");
        if let Some(tombstones) = self.tombstones {
            tombstones.commit(tombstones.all_so_far()).await?;
        }
        for any in self.engines.iter() {
            call!(any, persist().await);
        }
        self.front.flush().await
    }
}
