//! The list of files and the places of their bytes: a log of changes, on its own blocks.
//!
//! ```text
//!  block with tag of epoch n          a record, in whole pages:
//!  ┌──────────┬────────┬────────┬──┐  ┌──────────────┬─────────────┬──────┬───────┐
//!  │ snapshot │ change │ change │ …│  │ length u32 LE│ crc32c u32 LE│ JSON │ zeros │
//!  └──────────┴────────┴────────┴──┘  └──────────────┴─────────────┴──────┴───────┘
//! ```
//!
//! When a block is full, a block of the next epoch follows; it begins with a snapshot of everything. On opening, the
//! latest epoch with a complete snapshot is replayed up to the first incomplete record. Anything after that record was
//! never acknowledged. The opening itself begins a new epoch, so that nothing is appended after a torn record.

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_blocks::{BlockId, BlockStore, Stream};
use serde::{Deserialize, Serialize};

use super::pages::{self, Piece, Result, buffer_of, corrupt, of_store};

/// Prefix of the tags of this Env's blocks. It is followed by a bit for the directory, and then by an epoch or a file
/// number.
const MAGIC: u64 = 0x4c44 << 48;
const OF_DIRECTORY: u64 = 1 << 47;
const NUMBER: u64 = OF_DIRECTORY - 1;

/// Files by name, and pieces by file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Table {
    pub(super) names: BTreeMap<String, u64>,
    pub(super) files: BTreeMap<u64, Vec<Piece>>,
    /// The number of the next new file.
    next: u64,
}

/// A change of the directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Change {
    /// The whole table, at the beginning of an epoch.
    Snapshot(Table),
    /// Makes an empty file with this name.
    Make(String),
    /// Adds pieces at the end of a file.
    Grow(u64, Vec<Piece>),
    Rename(String, String),
    Remove(String),
}

pub(super) struct Directory {
    store: Arc<dyn BlockStore>,
    pub(super) table: Table,
    epoch: u64,
    block: BlockId,
    at: u64,
}

/// Returns the tag of a block of `file`.
pub(super) fn tag_of(file: u64) -> u64 {
    MAGIC | file & NUMBER
}

/// Whether a block with this tag lists the files.
pub fn lists_files(tag: u64) -> bool {
    tag & (u64::MAX << 48) == MAGIC && tag & OF_DIRECTORY != 0
}

impl Directory {
    /// Opens the directory on `store`, or makes an empty one if the store has no blocks. Frees blocks that belong to no
    /// file.
    pub(super) fn open(store: Arc<dyn BlockStore>) -> Result<Self> {
        let blocks = store.list();
        if let Some(other) = blocks.iter().find(|it| it.tag & (u64::MAX << 48) != MAGIC) {
            return Err(corrupt(&format!("block {} is of something else", other.block)));
        }
        let mut epochs: Vec<_> = blocks.iter().filter(|it| it.tag & OF_DIRECTORY != 0).collect();
        epochs.sort_by_key(|it| std::cmp::Reverse(it.tag & NUMBER));
        let read =
            |state: &&larder_blocks::BlockState| replay(&*store, state.block, state.written_bytes);
        let found = epochs.iter().find_map(read);
        if found.is_none() && blocks.iter().any(|it| it.written_bytes > 0) {
            return Err(corrupt("there are blocks, and no directory of them"));
        }
        let epoch = epochs.first().map_or(0, |it| it.tag & NUMBER);
        let table = found.unwrap_or_default();
        let block = alloc(&*store, epoch + 1)?;
        let mut directory = Self { store, table, epoch: epoch + 1, block, at: 0 };
        let snapshot = Change::Snapshot(directory.table.clone());
        directory.append(&record(&snapshot, directory.page_bytes())?)?;
        let pieces = directory.table.files.values().flatten();
        let used: std::collections::BTreeSet<u64> = pieces.map(|piece| piece.block).collect();
        let left = blocks.iter().filter(|it| !used.contains(&it.block.number()));
        for state in left {
            directory.store.free(state.block).wait().map_err(|it| of_store(&it.error))?;
        }
        Ok(directory)
    }

    fn page_bytes(&self) -> usize {
        self.store.info().page_bytes as usize
    }

    /// Makes a change, which is durable when the call returns. If the change removes a file, returns its pieces, so
    /// that their blocks can be freed.
    pub(super) fn change(&mut self, change: &Change) -> Result<Vec<Piece>> {
        let bytes = record(change, self.page_bytes())?;
        let room = self.store.info().block_bytes - self.at;
        // Change the memory first: if a snapshot is written instead, it includes the change.
        let gone = self.table.apply(change);
        if bytes.len() as u64 <= room {
            self.append(&bytes)?;
        } else {
            self.begin_epoch()?;
        }
        Ok(gone)
    }

    fn begin_epoch(&mut self) -> Result<()> {
        let bytes = record(&Change::Snapshot(self.table.clone()), self.page_bytes())?;
        if bytes.len() as u64 > self.store.info().block_bytes {
            return Err(corrupt(
                "more files than a block can list: use larger blocks or fewer files",
            ));
        }
        let before = self.block;
        self.epoch += 1;
        (self.block, self.at) = (alloc(&*self.store, self.epoch)?, 0);
        self.append(&bytes)?;
        self.store.free(before).wait().map_err(|it| of_store(&it.error))?;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let buffer = buffer_of(bytes);
        let appended = self.store.append(self.block, self.at, buffer).wait();
        appended.map_err(|failure| of_store(&failure.error))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

fn alloc(store: &dyn BlockStore, epoch: u64) -> Result<BlockId> {
    let tag = MAGIC | OF_DIRECTORY | epoch & NUMBER;
    store.alloc(Stream::DEFAULT, tag).wait().map_err(|error| of_store(&error))
}

impl Table {
    pub(super) fn pieces(&self, name: &str) -> Option<&Vec<Piece>> {
        self.files.get(self.names.get(name)?)
    }

    fn apply(&mut self, change: &Change) -> Vec<Piece> {
        let gone = match change {
            Change::Snapshot(table) => {
                *self = table.clone();
                None
            }
            Change::Make(name) => {
                let file = self.next;
                self.next += 1;
                self.files.insert(file, Vec::new());
                self.names.insert(name.clone(), file)
            }
            Change::Grow(file, pieces) => {
                self.files.entry(*file).or_default().extend(pieces);
                None
            }
            Change::Rename(from, to) => {
                let file = self.names.remove(from);
                file.and_then(|file| self.names.insert(to.clone(), file))
            }
            Change::Remove(name) => self.names.remove(name),
        };
        gone.and_then(|file| self.files.remove(&file)).unwrap_or_default()
    }
}

fn record(change: &Change, page_bytes: usize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(change).map_err(|error| corrupt(&error.to_string()))?;
    let length = u32::try_from(json.len()).map_err(|_| corrupt("a record of 4 GiB"))?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(larder_checksum::crc32c(&json).to_le_bytes());
    bytes.extend(json);
    bytes.resize(bytes.len().next_multiple_of(page_bytes), 0);
    Ok(bytes)
}

/// Rebuilds the table from an epoch's block; `None` if its snapshot is incomplete.
fn replay(store: &dyn BlockStore, block: BlockId, written: u64) -> Option<Table> {
    let length = usize::try_from(written).ok()?;
    let mut bytes = vec![0; length];
    pages::read(store, block, 0, &mut bytes).ok()?;
    let (mut table, mut rest) = (None, bytes.as_slice());
    while let Some(change) = next_record(&mut rest, store.info().page_bytes as usize) {
        match (&mut table, change) {
            (None, Change::Snapshot(first)) => table = Some(first),
            (None, _) => return None,
            (Some(table), change) => drop(Table::apply(table, &change)),
        }
    }
    table
}

fn next_record(rest: &mut &[u8], page_bytes: usize) -> Option<Change> {
    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    let checksum = u32::from_le_bytes(*rest.get(4..)?.first_chunk()?);
    let json = rest.get(8..)?.get(..length)?;
    if length == 0 || larder_checksum::crc32c(json) != checksum {
        return None;
    }
    let change = serde_json::from_slice(json).ok()?;
    *rest = rest.get((8 + length).next_multiple_of(page_bytes)..)?;
    Some(change)
}
