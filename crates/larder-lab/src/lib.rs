//! What Larder is measured with: the replay, experiments, the plan, reports.
//!
//! | module | what it is |
//! |---|---|
//! | [`replay`] | a workload through the cache on a device, with and without placement |
//! | [`experiment`] | published results, reproduced on the model and judged |
//! | [`leveldb`] | LevelDB's files on the blocks of any store |
//! | [`plan`] | what a drive will cost with a workload, before it is bought |
//! | [`report`] | what came out of it, as a page to look at |

pub mod experiment;
pub mod leveldb;
pub mod plan;
pub mod replay;
pub mod report;

pub use larder_workload::Error;
