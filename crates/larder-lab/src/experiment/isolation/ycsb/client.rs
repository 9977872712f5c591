//! A client: LevelDB on its vSSD, and the operations of YCSB's workloads.

use std::rc::Rc;
use std::sync::Arc;

use larder_blocks::TimedBlocks;
use larder_workload::Latencies;
use larder_workload::generate::ZipfMandelbrot;
use rusty_leveldb::{DB, LdbIterator, Options, Status};

use crate::Error;
use crate::leveldb::{BlockEnv, Time};
use crate::replay::Monitor;

/// The kind of an operation.
#[derive(Debug, Clone, Copy)]
enum Op {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// A workload of YCSB: its letter, and two kinds of operations with the percentage of the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) letter: &'static str,
    first_percent: u32,
    ops: [Op; 2],
    /// Whether recently inserted records are the most popular.
    latest: bool,
}

const fn of(letter: &'static str, first_percent: u32, ops: [Op; 2]) -> Workload {
    Workload { letter, first_percent, ops, latest: false }
}

/// In the order that YCSB recommends: workloads that insert come last.
pub(super) const WORKLOADS: [Workload; 6] = [
    of("a", 50, [Op::Read, Op::Update]),
    of("b", 95, [Op::Read, Op::Update]),
    of("c", 100, [Op::Read, Op::Read]),
    of("f", 50, [Op::Read, Op::ReadModifyWrite]),
    Workload { latest: true, ..of("d", 95, [Op::Read, Op::Insert]) },
    of("e", 95, [Op::Scan, Op::Insert]),
];

const VALUE_BYTES: usize = 1000;
const SCAN_MAX: u64 = 100;
const EXPONENT: f64 = 0.99;
/// Sizes of LevelDB's tables and memtable. They are small, as the data set is.
const TABLE_BYTES: usize = 512 << 10;
const CACHE_BYTES: usize = 256 << 10;

/// The load of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) records: u64,
    pub(super) ops: u64,
    /// Time of an operation outside the drive, in nanoseconds.
    pub(super) op_ns: u64,
    pub(super) seed: u64,
}

/// The results of a workload.
#[derive(Debug)]
pub(super) struct WorkloadResult {
    pub(super) ops: u64,
    pub(super) seconds: f64,
    pub(super) took: Latencies,
}

/// The clock of the client's store.
struct StoreTime(Arc<TimedBlocks>);

impl Time for StoreTime {
    fn micros(&self) -> u64 {
        self.0.now_ns() / 1000
    }

    fn sleep(&self, micros: u32) {
        self.0.spend(u64::from(micros) * 1000);
    }
}

struct Client {
    store: Arc<TimedBlocks>,
    db: DB,
    load: Load,
    rng: fastrand::Rng,
    records: u64,
    popular: ZipfMandelbrot,
}

/// Runs a client from start to end: it loads its records, then runs all workloads, each at the same time as the other
/// clients.
pub(super) fn run(
    store: TimedBlocks,
    load: Load,
    monitor: &Monitor,
) -> Result<Vec<WorkloadResult>, Error> {
    let store = Arc::new(store);
    store.enter();
    let env = BlockEnv::open(Arc::clone(&store) as _, Box::new(StoreTime(Arc::clone(&store))));
    let options = Options {
        env: Rc::new(Box::new(env.map_err(failed)?)),
        write_buffer_size: TABLE_BYTES,
        max_file_size: TABLE_BYTES,
        block_cache_capacity_bytes: CACHE_BYTES,
        ..Options::default()
    };
    let db = DB::open("db", options).map_err(failed)?;
    let mut client = Client {
        db,
        load,
        rng: fastrand::Rng::with_seed(load.seed),
        records: 0,
        popular: ZipfMandelbrot::new(load.records, 0.0, EXPONENT),
        store,
    };
    for _ in 0..load.records {
        client.insert()?;
    }
    WORKLOADS.iter().map(|workload| client.play(workload, monitor)).collect()
}

impl Client {
    #[allow(clippy::cast_precision_loss)] // hours in nanoseconds
    fn play(&mut self, workload: &Workload, monitor: &Monitor) -> Result<WorkloadResult, Error> {
        self.store.meet();
        let begun = self.store.now_ns();
        let mut took = Latencies::default();
        for _ in 0..self.load.ops {
            if monitor.is_stopped() {
                return Err(Error::run("interrupted"));
            }
            let asked = self.store.now_ns();
            self.make(workload)?;
            took.record_ns(self.store.now_ns() - asked);
        }
        let seconds = (self.store.now_ns() - begun) as f64 / 1e9;
        Ok(WorkloadResult { ops: self.load.ops, seconds, took })
    }

    fn make(&mut self, workload: &Workload) -> Result<(), Error> {
        let first = self.rng.u32(..100) < workload.first_percent;
        let record = self.draw(workload.latest);
        self.store.spend(self.load.op_ns);
        match workload.ops[usize::from(!first)] {
            Op::Read => self.read(record),
            Op::Update => self.put(record),
            Op::Insert => self.insert(),
            Op::Scan => self.scan(record),
            Op::ReadModifyWrite => {
                self.read(record)?;
                self.put(record)
            }
        }
    }

    /// Draws a record by popularity: scattered over the keys, or the latest first.
    fn draw(&mut self, latest: bool) -> u64 {
        let rank = (self.popular.draw(&mut self.rng) - 1).min(self.records - 1);
        if latest { self.records - 1 - rank } else { scattered(rank) % self.records }
    }

    fn insert(&mut self) -> Result<(), Error> {
        self.records += 1;
        self.put(self.records - 1)
    }

    fn put(&mut self, record: u64) -> Result<(), Error> {
        // Random bytes, so nothing can be compressed.
        let value: Vec<u8> = std::iter::repeat_with(|| self.rng.u8(..)).take(VALUE_BYTES).collect();
        self.db.put(&key(record), &value).map_err(failed)
    }

    fn read(&mut self, record: u64) -> Result<(), Error> {
        match self.db.get(&key(record)) {
            Some(value) if value.len() == VALUE_BYTES => Ok(()),
            _ => Err(Error::run(format!("LevelDB lost record {record}"))),
        }
    }

    fn scan(&mut self, record: u64) -> Result<(), Error> {
        let length = self.rng.u64(1..=SCAN_MAX);
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

/// Hashes the record number, as YCSB does, so that the order of keys is not that of the records.
fn key(record: u64) -> Vec<u8> {
    format!("user{:020}", scattered(record)).into_bytes()
}

/// A bijection on numbers that leaves no order (the finalizer of SplitMix64).
fn scattered(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn failed(status: Status) -> Error {
    Error::run(format!("LevelDB: {status}"))
}
