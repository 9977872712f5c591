//! LevelDB in memory: what its operations do with blocks.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use larder_blocks::MemoryBlocks;
use rusty_leveldb::{DB, LdbIterator, Options, Status};

use super::recorded::{RecordedBlocks, Recording};
use super::workload::{Dice, Op, Workload, key};
use crate::Error;
use crate::leveldb::{BlockEnv, Time};

const VALUE_BYTES: usize = 1000;
/// Sizes of LevelDB's tables and memtable. They are small, as the data set is.
const TABLE_BYTES: usize = 256 << 10;
const CACHE_BYTES: usize = 64 << 10;

/// LevelDB, and the load on it. Operations are done at once and in order; their steps are for the drive.
pub(super) struct LevelDb {
    db: DB,
    blocks: Arc<RecordedBlocks>,
    dice: Dice,
    records: u64,
}

/// The clock of LevelDB, which times its compactions for its log alone.
#[derive(Default)]
struct NoTime(Cell<u64>);

impl Time for NoTime {
    fn micros(&self) -> u64 {
        self.0.replace(self.0.get() + 1)
    }

    fn sleep(&self, _: u32) {}
}

impl LevelDb {
    /// A store with `records` records. Returns also the steps that made it.
    pub(super) fn new(
        blocks: MemoryBlocks,
        records: u64,
        seed: u64,
    ) -> Result<(Self, Vec<Recording>), Error> {
        let blocks = Arc::new(RecordedBlocks::new(blocks));
        let env = BlockEnv::open(Arc::clone(&blocks) as _, Box::new(NoTime::default()));
        let options = Options {
            env: Rc::new(Box::new(env.map_err(failed)?)),
            write_buffer_size: TABLE_BYTES,
            max_file_size: TABLE_BYTES,
            block_cache_capacity_bytes: CACHE_BYTES,
            ..Options::default()
        };
        let db = DB::open("db", options).map_err(failed)?;
        let mut store = Self { db, blocks, dice: Dice::new(records, seed), records: 0 };
        let mut made = Vec::new();
        for _ in 0..records {
            store.insert()?;
            made.push(store.blocks.take());
        }
        Ok((store, made))
    }

    /// The next operation of `workload`.
    pub(super) fn draw(&mut self, workload: &Workload) -> Op {
        self.dice.op(workload)
    }

    /// Does `op`, and returns its steps.
    pub(super) fn make(&mut self, workload: &Workload, op: Op) -> Result<Recording, Error> {
        let record = self.dice.record(workload, self.records);
        match op {
            Op::Read => self.read(record)?,
            Op::Update => self.put(record)?,
            Op::Insert => self.insert()?,
            Op::Scan => self.scan(record)?,
            Op::ReadModifyWrite => {
                self.read(record)?;
                self.put(record)?;
            }
        }
        Ok(self.blocks.take())
    }

    fn insert(&mut self) -> Result<(), Error> {
        self.records += 1;
        self.put(self.records - 1)
    }

    fn put(&mut self, record: u64) -> Result<(), Error> {
        let value = self.dice.value(VALUE_BYTES);
        self.db.put(&key(record), &value).map_err(failed)
    }

    fn read(&mut self, record: u64) -> Result<(), Error> {
        match self.db.get(&key(record)) {
            Some(value) if value.len() == VALUE_BYTES => Ok(()),
            _ => Err(Error::run(format!("LevelDB lost record {record}"))),
        }
    }

    fn scan(&mut self, record: u64) -> Result<(), Error> {
        let length = self.dice.scan();
        let mut records = self.db.new_iter().map_err(failed)?;
        records.seek(&key(record));
        for _ in 0..length {
            if records.current().is_none() || !records.advance() {
                break;
            }
        }
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(status: Status) -> Error {
    Error::run(format!("LevelDB: {status}"))
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Step;
    use super::super::workload::WORKLOADS;
    use super::*;

    /// What a client does with blocks is told apart from what a compaction does: only compactions free blocks and
    /// write tables, and clients alone read for operations that find no full memtable.
    #[test]
    fn compactions_are_apart_from_the_operations_that_begin_them() {
        let blocks = MemoryBlocks::new(200, 256 << 10, 16 << 10).unwrap();
        let (mut store, made) = LevelDb::new(blocks, 2_000, 1).unwrap();
        let compactions = made.iter().filter(|it| !it.compaction.is_empty());
        assert!((6..=10).contains(&compactions.count()), "2 MB in memtables of 256 KB");
        let written = |steps: &[Step]| -> u64 {
            let bytes = |step: &Step| match step {
                Step::Append { bytes, .. } => *bytes,
                _ => 0,
            };
            steps.iter().map(bytes).sum()
        };
        let frees = |steps: &[Step]| steps.iter().any(|step| matches!(step, Step::Free { .. }));
        assert!(made.iter().all(|it| !frees(&it.client)), "a client frees nothing");
        assert!(made.iter().any(|it| frees(&it.compaction)), "a log is freed after its table");
        // The client's own appends are the log of each record.
        let log: u64 = made.iter().map(|it| written(&it.client)).sum();
        assert!((1_500_000..2_500_000).contains(&log), "{log}");
        let reads = (0..100).map(|_| store.make(&WORKLOADS[2], Op::Read).unwrap());
        let reads: Vec<_> = reads.filter(|it| !it.client.is_empty()).collect();
        assert!(!reads.is_empty() && reads.iter().all(|it| written(&it.client) == 0));
    }
}
