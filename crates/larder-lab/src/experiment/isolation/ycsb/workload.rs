//! The operations of YCSB's workloads.

use larder_workload::generate::ZipfMandelbrot;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Op {
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Update | Self::Insert | Self::ReadModifyWrite)
    }
}

/// A workload of YCSB: its letter, and two kinds of operations with the percentage of the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    pub(super) letter: &'static str,
    first_percent: u32,
    ops: [Op; 2],
    /// Whether recently inserted records are the most popular.
    latest: bool,
    /// How many times the operations of the others it has. Those that seldom write need more, so that several memtables
    /// become full.
    pub(super) times: u64,
}

const fn of(letter: &'static str, first_percent: u32, ops: [Op; 2]) -> Workload {
    Workload { letter, first_percent, ops, latest: false, times: 1 }
}

/// In the order that YCSB recommends: workloads that insert come last.
pub(super) const WORKLOADS: [Workload; 6] = [
    of("a", 50, [Op::Read, Op::Update]),
    Workload { times: 10, ..of("b", 95, [Op::Read, Op::Update]) },
    of("c", 100, [Op::Read, Op::Read]),
    of("f", 50, [Op::Read, Op::ReadModifyWrite]),
    Workload { latest: true, times: 10, ..of("d", 95, [Op::Read, Op::Insert]) },
    of("e", 95, [Op::Scan, Op::Insert]),
];

const SCAN_MAX: u64 = 100;
const EXPONENT: f64 = 0.99;

/// Draws operations and their records.
#[derive(Debug)]
pub(super) struct Dice {
    rng: fastrand::Rng,
    popular: ZipfMandelbrot,
}

impl Dice {
    /// For a store that has `records` records at first.
    pub(super) fn new(records: u64, seed: u64) -> Self {
        let popular = ZipfMandelbrot::new(records, 0.0, EXPONENT);
        Self { rng: fastrand::Rng::with_seed(seed), popular }
    }

    /// The next operation of `workload`.
    pub(super) fn op(&mut self, workload: &Workload) -> Op {
        workload.ops[usize::from(self.rng.u32(..100) >= workload.first_percent)]
    }

    /// One of `records` records, by popularity: scattered over the keys, or the latest first.
    pub(super) fn record(&mut self, workload: &Workload, records: u64) -> u64 {
        let rank = (self.popular.draw(&mut self.rng) - 1).min(records - 1);
        if workload.latest { records - 1 - rank } else { scattered(rank) % records }
    }

    /// Records of a scan.
    pub(super) fn scan(&mut self) -> u64 {
        self.rng.u64(1..=SCAN_MAX)
    }

    /// A value of `bytes` random bytes, so nothing can be compressed.
    pub(super) fn value(&mut self, bytes: usize) -> Vec<u8> {
        let mut value = vec![0; bytes];
        self.rng.fill(&mut value);
        value
    }
}

/// Hashes the record number, as YCSB does, so that the order of keys is not that of the records.
pub(super) fn key(record: u64) -> Vec<u8> {
    format!("user{:020}", scattered(record)).into_bytes()
}

/// A bijection on numbers that leaves no order (the finalizer of SplitMix64).
fn scattered(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
