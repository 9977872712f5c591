//! Selects the blocks of a core that have a fingerprint, and reads them.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use larder_device::label::Uuid;
use larder_device::{Device, Error, Identifier, IdentifierKind, Io, IoBuffer, IoFuture};

use super::slot::{Content, Entry};
use super::{BLOCK_BYTES, file_system as superblock};

/// Most blocks that are spread over a core.
pub(super) const SPREAD_MAX: u64 = 170;
/// On a small core one block in 8 has a fingerprint.
const SPARSE: u64 = 8;
/// Blocks in which file systems, partition tables and volumes store their identity.
pub(super) const SUPERBLOCKS: [u64; 2] = superblock::BLOCKS;
/// Concurrent reads.
const READS: usize = 32;

/// Blocks spread over a core of `core_bytes`. Cores of the same size get the same blocks, so that equal cores are
/// detected.
pub(super) fn spread(uuid: Uuid, core_bytes: u64) -> BTreeSet<u64> {
    let blocks = core_bytes / BLOCK_BYTES;
    let [a, b, c, d, e, f, g, h, ..] = uuid.bytes();
    let mut rng = fastrand::Rng::with_seed(u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ blocks);
    let superblocks = SUPERBLOCKS.into_iter().filter(|block| *block < blocks);
    let parts = (blocks / SPARSE).clamp(1, SPREAD_MAX - SUPERBLOCKS.len() as u64).min(blocks);
    let of_part = |part: u64| {
        let from =
            |part: u64| u64::try_from(u128::from(blocks) * u128::from(part) / u128::from(parts));
        let (start, end) = (from(part).unwrap_or(blocks), from(part + 1).unwrap_or(blocks));
        rng.u64(start..end.max(start + 1))
    };
    (0..parts).map(of_part).chain(superblocks).collect()
}

/// Reads blocks of a core. The results are in the order of `blocks`; `None` if a block cannot be read.
pub(super) async fn contents(
    core: &Arc<dyn Device>,
    blocks: impl Iterator<Item = u64>,
) -> Vec<Option<Content>> {
    let mut found = Vec::new();
    let mut under_way: VecDeque<Reading> = VecDeque::new();
    for block in blocks {
        if under_way.len() == READS
            && let Some(reading) = under_way.pop_front()
        {
            found.push(reading.ends().await.ok());
        }
        under_way.push_back(Reading::of(core, block));
    }
    for reading in under_way {
        found.push(reading.ends().await.ok());
    }
    found
}

/// A read of one block, as whole blocks of its device.
struct Reading {
    future: IoFuture,
    from: usize,
}

impl Reading {
    fn of(core: &Arc<dyn Device>, block: u64) -> Self {
        let unit = u64::from(core.info().block_bytes).max(BLOCK_BYTES);
        let offset = block * BLOCK_BYTES / unit * unit;
        let bytes = unit.min(core.info().capacity_bytes - offset);
        let buffer = IoBuffer::zeroed(usize::try_from(bytes).expect("a block"));
        let from = usize::try_from(block * BLOCK_BYTES - offset).expect("within a block");
        Self { future: core.submit(Io::Read { offset, buffer }), from }
    }

    /// Waits for the read, and applies `look` to the bytes.
    async fn seen<T>(self, look: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
        let buffer = self.future.await.map_err(|failure| failure.error)?;
        let all = buffer.as_slice();
        let end = self.from + usize::try_from(BLOCK_BYTES).expect("4 KiB");
        Ok(look(all.get(self.from..end).unwrap_or_default()))
    }

    async fn ends(self) -> Result<Content, Error> {
        self.seen(content).await
    }
}

/// The fingerprint of a block.
fn content(bytes: &[u8]) -> Content {
    let is_uniform = bytes.iter().all(|byte| Some(byte) == bytes.first());
    Content::Known { checksum: larder_checksum::crc32c(bytes), is_uniform }
}

/// The UUID of the file system on a device, from these superblocks; `None` if no known file system is found.
pub(super) async fn file_system_of(
    core: &Arc<dyn Device>,
    blocks: impl Iterator<Item = u64>,
) -> Option<Identifier> {
    for block in blocks {
        let read = Reading::of(core, block).seen(|bytes| superblock::uuid(block, bytes)).await;
        if let Some(value) = read.ok().flatten() {
            return Some(Identifier { kind: IdentifierKind::FileSystem, value });
        }
    }
    None
}

/// The UUID of the file system on a device, as `blkid` prints it; `None` if no known file system is found.
pub async fn file_system(core: &Arc<dyn Device>) -> Option<Identifier> {
    let ends = core.info().capacity_bytes / BLOCK_BYTES;
    file_system_of(core, SUPERBLOCKS.into_iter().filter(|block| *block < ends)).await
}

/// A device compared with a fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceComparison {
    /// Blocks that were compared.
    pub compared: u32,
    /// Of these, blocks that differ.
    pub differing: u32,
    /// Of the equal blocks, those that identify the core: their bytes are not all the same, and no other core of the
    /// cache has the same block there.
    pub distinguishing: u32,
}

/// Compares a core with its fingerprint. `is_of_others`: whether another core has the same block content there.
pub async fn compare(
    core: &Arc<dyn Device>,
    entries: &[Entry],
    is_of_others: impl Fn(&Entry) -> bool,
) -> DeviceComparison {
    let fits = |entry: &&Entry| (entry.block + 1) * BLOCK_BYTES <= core.info().capacity_bytes;
    let is_known = |entry: &&Entry| matches!(entry.content, Content::Known { .. });
    let known: Vec<&Entry> = entries.iter().filter(is_known).filter(fits).collect();
    let found = contents(core, known.iter().map(|entry| entry.block)).await;
    let mut compared = DeviceComparison::default();
    for (entry, found) in known.into_iter().zip(found) {
        // An unreadable block proves nothing. The first request that needs it reports the error.
        let Some(found) = found else { continue };
        compared.compared += 1;
        let tells = !matches!(found, Content::Known { is_uniform: true, .. });
        match found == entry.content {
            false => compared.differing += 1,
            true => compared.distinguishing += u32::from(tells && !is_of_others(entry)),
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_spread_over_all_of_a_core() {
        let uuid = Uuid::from_bytes([7; 16]);
        for blocks in [0, 1, 7, 100, 4096, 1 << 28, 1 << 40] {
            let found = spread(uuid, blocks * BLOCK_BYTES + 512);
            assert!(found.iter().all(|block| *block < blocks), "{blocks}");
            let wanted = (blocks / SPARSE).min(SPREAD_MAX - 2);
            assert!(found.len() as u64 >= wanted && found.len() as u64 <= SPREAD_MAX, "{blocks}");
            if blocks > 4096 {
                let behind = found.iter().filter(|block| **block > blocks / 2).count();
                assert!(behind >= 80, "{blocks}: {behind}");
            }
        }
    }
}
