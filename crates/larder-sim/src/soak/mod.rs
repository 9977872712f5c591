//! Deterministic simulation of the cache: a seed determines a cache, its device, its clients and its faults, and an
//! oracle judges every answer.
//!
//! One thread runs everything under virtual time. A scheduler picks by seed which of up to a thousand clients proceeds,
//! which request of the device ends, which client gives up, and when the whole cache is cut off in the middle of any
//! operation, including opening and closing. Then it is opened again on the remaining state of the device, and the
//! clients go on; for the oracle the crash is just another event. The guarantee under test: a value is returned intact,
//! for its own key, not expired and newest, or not at all.
//!
//! | module | content |
//! |---|---|
//! | `plan` | the decisions of a seed before the run |
//! | `theme` | special topics of some seeds |
//! | `device` | the SSD model with faults, whose completions the scheduler releases |
//! | `in_pages` | small objects in pages by set |
//! | `on_array` | large objects under an index on flash |
//! | `on_shards` | several drives with a shard each, and which of them an opening gets |
//! | `on_vssd` | blocks of a virtual SSD as the lowest layer |
//! | `process` | a device on blocks on top of it, for seeds that have one, and the process that opens it |
//! | `subject` | the cache, and defects to test the oracle |
//! | `request` | requests of clients, and what an answer tells about the key |
//! | `choose` | draws the next request |
//! | `run_time` | virtual time, and the wall clock, which may be set |
//! | `scheduler` | the scheduler, and each cache from its opening to its end |
//! | `history`, `oracle` | the history of each key, and its judge |
//! | `kept` | objects covered by flushes, which a power loss must not take |
//! | `value` | values that identify themselves |
//! | `totals` | totals of a run |

mod choose;
mod device;
mod drive;
mod history;
mod in_pages;
mod kept;
mod on_array;
mod on_shards;
mod on_vssd;
mod oracle;
mod plan;
mod process;
mod request;
mod run_time;
mod scheduler;
mod set_plan;
mod subject;
mod theme;
mod totals;
mod value;

use scheduler::About;
pub use subject::InjectedBug;
pub use totals::Totals;

/// The result of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedReport {
    /// Its totals.
    pub totals: Totals,
    /// The first wrong answer, with the history of its key.
    pub wrong: Option<String>,
    /// A hash of all events: equal for equal runs.
    pub digest: u64,
}

/// Runs one seed, with a cache that has this defect.
pub fn run_seed(seed: u64, bug: InjectedBug) -> SeedReport {
    scheduler::Scheduler::new(seed, bug, About::Anything).run()
}

/// Runs one seed about power loss, with a cache that must survive it.
pub fn run_power_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Power).run()
}

/// Runs one seed with a cache whose device is blocks on the drive.
pub fn run_blocks_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Blocks).run()
}

/// Runs one seed with a cache that keeps its large objects in the array engine.
pub fn run_array_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Array).run()
}

/// Runs one seed with a cache that keeps its small objects in pages by set.
pub fn run_pages_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Pages).run()
}

/// Runs one seed with a cache over several drives, which fail, recover, are replaced, added and removed.
pub fn run_shards_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Shards).run()
}

#[cfg(test)]
mod tests;
