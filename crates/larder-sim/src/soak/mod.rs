//! Deterministic simulation of the cache: a seed makes a cache, its device, its clients and its
//! misfortunes, and an oracle judges every answer.
//!
//! One thread runs it all under virtual time. A scheduler picks by seed which of up to a thousand
//! clients goes on, which request of the device ends, who gives up, and when the whole cache is cut
//! off in the middle of whatever it does, opening and closing included. Then it is opened again on
//! what is left of the device, and the clients go on; for the oracle the crash was just another
//! moment. Larder's promise under test: a value is returned whole, for its own key, alive and
//! newest, or not at all.
//!
//! | module | what it is |
//! |---|---|
//! | `plan` | what a seed decides before anything runs |
//! | `theme` | what some seeds are about |
//! | `device` | the SSD model with faults, whose completions the scheduler releases |
//! | `on_array` | large objects under an index on flash |
//! | `on_shards` | several drives with a shard each, and which of them an opening gets |
//! | `misfortunes` | what happens to drives and shards meanwhile |
//! | `on_vssd` | blocks of a virtual SSD below that |
//! | `on_blocks`, `process` | a device on blocks above that one, for the seeds that have it, and who opens it |
//! | `subject` | the cache, and lies to try the oracle with |
//! | `request` | what clients ask, and what an answer says of the key |
//! | `choose` | which request comes next |
//! | `scheduler` | the scheduler |
//! | `incarnation` | a cache from its opening to its end, and its counters |
//! | `look` | a look at every key after an opening |
//! | `history`, `oracle` | what happened, by key, and the judgement |
//! | `kept` | what flushes have returned for, which a loss of power may not take |
//! | `value` | values that say whose they are |
//! | `totals` | what it adds up to |

mod choose;
mod device;
mod drive;
mod history;
mod incarnation;
mod kept;
mod look;
mod misfortunes;
mod on_array;
mod on_blocks;
mod on_shards;
mod on_vssd;
mod oracle;
mod plan;
mod process;
mod request;
mod scheduler;
mod set_plan;
mod subject;
mod theme;
mod totals;
mod value;

use scheduler::About;
pub use subject::InjectedBug;
pub use totals::Totals;

/// What came of one seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedReport {
    /// Its counts.
    pub totals: Totals,
    /// The first wrong answer, with the history of its key.
    pub wrong: Option<String>,
    /// A hash of everything that happened: equal for equal runs.
    pub digest: u64,
}

/// Runs one seed with a cache that has this defect, or none.
pub fn run_seed(seed: u64, bug: InjectedBug) -> SeedReport {
    scheduler::Scheduler::new(seed, bug, About::Anything).run()
}

/// Runs one seed of those that are about losses of power, with a cache that is to outlive them.
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

/// Runs one seed with a cache over several drives, which fail, come back, are replaced, are added and go.
pub fn run_shards_seed(seed: u64) -> SeedReport {
    scheduler::Scheduler::new(seed, InjectedBug::None, About::Shards).run()
}

#[cfg(test)]
mod tests;
