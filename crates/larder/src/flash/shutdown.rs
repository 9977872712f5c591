//! What a clean shutdown writes, when everything is on flash: the snapshot, then the superblock with the
//! clean mark.

use super::Flash;
use super::dead_keys::DeadKeysSnapshot;
use super::metadata::{self, LargeDead, SNAPSHOT_HEADER_BYTES, SUPERBLOCK_BYTES, Superblock};
use super::recovery::UNKNOWN_OBJECTS;
use crate::error::Error;
use crate::side_by_side::together;

/// Whether somebody who has only so much time is to leave the rest out.
pub(super) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Buckets that are read side by side.
const LEARNT_AT_ONCE: usize = 32;

impl Flash {
    /// What is dead in buckets, for the snapshot. `None` if it is too much, or it is to `stop`.
    async fn settle_dead_keys(&self, stop: Stop<'_>) -> Option<DeadKeysSnapshot> {
        let (Some(tombstones), Some(soc)) = (&self.tombstones, &self.soc) else {
            let clock = self.tombstones.as_ref().map_or(0, |tombstones| tombstones.clock());
            return Some(DeadKeysSnapshot { clock, hashes: Vec::new() });
        };
        for hashes in tombstones.inherited().chunks(LEARNT_AT_ONCE) {
            if stop() {
                return None;
            }
            together(hashes.iter().map(|&hash| soc.learn_bucket_of(hash))).await;
        }
        let too_many = |hashes: &[u64]| hashes.len() as u64 > tombstones.keys_max();
        let mut hashes = tombstones.dead();
        if too_many(&hashes) {
            for hash in hashes {
                if stop() {
                    return None;
                }
                soc.work_off(hash).await;
            }
            hashes = tombstones.dead();
        }
        let clock = tombstones.clock();
        (!too_many(&hashes)).then_some(DeadKeysSnapshot { clock, hashes })
    }

    /// Writes what a clean restart needs; what would take longer than until `stop` is left out, and
    /// counted. Nothing may be written afterwards.
    pub(crate) async fn close(&self, stop: Stop<'_>) -> Result<(), Error> {
        // First: both may still change buckets.
        let log = match &self.soc {
            Some(soc) => {
                soc.finish_all().await;
                soc.export_log().await
            }
            None => Vec::new(),
        };
        let Some(dead) = self.settle_dead_keys(stop).await else {
            return self.leave_unclosed().await;
        };
        let Some(large) = self.settle_large_dead(stop).await? else {
            return self.leave_unclosed().await;
        };
        let mut bytes = vec![0; SNAPSHOT_HEADER_BYTES];
        if self.tombstones.is_some() {
            dead.export(&mut bytes);
        }
        if let Some(soc) = &self.soc {
            soc.export(&mut bytes);
            bytes.extend_from_slice(&log);
        }
        match (&self.loc, large) {
            (None, _) => {}
            (Some(loc), LargeDead::Listed) => loc.export(&mut bytes).await,
            (Some(loc), LargeDead::InLog) => {
                let known = if loc.is_indexed() { loc.len() as u64 } else { UNKNOWN_OBJECTS };
                bytes.extend_from_slice(&known.to_le_bytes());
            }
        }
        let Superblock { cache, epoch, .. } = self.superblock();
        metadata::encode_snapshot(&mut bytes, large, cache, epoch);
        bytes.resize(bytes.len().next_multiple_of(SUPERBLOCK_BYTES), 0);
        assert!(
            (SUPERBLOCK_BYTES + bytes.len()) as u64 <= self.layout.metadata_bytes,
            "the layout reserves what the largest snapshot takes"
        );
        self.write(SUPERBLOCK_BYTES as u64, &bytes, "the snapshot").await?;
        self.flush().await?;
        let second = self.clock.now_s();
        self.write_superblock(Superblock { clean: true, second, ..self.superblock() }).await
    }

    /// Seals what is in memory, and makes sure that the log says everything of what is dead, or else that
    /// the index knows. `None` if neither is to be had.
    async fn settle_large_dead(&self, stop: Stop<'_>) -> Result<Option<LargeDead>, Error> {
        let Some(loc) = &self.loc else { return Ok(Some(LargeDead::Listed)) };
        loc.seal().await;
        if let Some(tombstones) = &self.tombstones {
            tombstones.commit(tombstones.all_so_far()).await?;
            // From here on nothing dies.
            if tombstones.is_trusted() {
                return Ok(Some(LargeDead::InLog));
            }
        }
        loc.index_until(stop).await;
        if !loc.is_indexed() && self.tombstones.is_none() && stop() {
            // What of it is current only a look at its region would tell.
            self.counters.left_out_objects.add(loc.unindexed_objects().await);
            return Ok(Some(LargeDead::Listed));
        }
        Ok(loc.is_indexed().then_some(LargeDead::Listed))
    }

    /// Leaves what a crash would leave, for the next opening to take over: what was set is there, and
    /// what is dead is written down.
    async fn leave_unclosed(&self) -> Result<(), Error> {
        if let Some(tombstones) = &self.tombstones {
            tombstones.commit(tombstones.all_so_far()).await?;
        }
        self.persist().await
    }
}
