//! The cache as a whole, on the SSD model and on files, against what a cache may and may not do.

#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod admission;
mod array;
mod budgets;
mod clearing;
mod closing;
mod costs;
mod crash;
mod demoting;
mod drives;
mod each_fault;
#[cfg(feature = "tracing")]
mod events;
mod examples;
mod faults;
mod fetches;
mod flush;
mod hashing;
mod history;
mod history_threads;
mod in_order;
mod items;
mod iterate;
mod kept;
mod lending;
mod lessons;
mod limits;
mod long;
mod looks;
mod memory;
mod on_blocks;
mod openings;
mod own_devices;
mod pages;
mod parity;
mod pieces;
mod placement;
mod power;
mod reads;
mod removals;
mod resident;
mod restart;
mod rig;
mod shard_changes;
mod sharded_tenants;
mod shards;
mod soc_log;
mod stalls;
mod streams;
mod tenants;
mod threads;
mod tiers;
mod time;
mod typed;
mod updates;
