//! Tools to measure Larder: the replay, experiments, the plan, reports.
//!
//! | module | what it is |
//! |---|---|
//! | [`replay`] | replays a workload through the cache on a device, with and without placement |
//! | [`experiment`] | reproduces published results on the model, and judges them |
//! | [`leveldb`] | LevelDB's files on the blocks of any store |
//! | [`plan`] | predicts the cost of a drive under a workload, before it is bought |
//! | [`report`] | results as an HTML page |

pub mod experiment;
pub mod leveldb;
pub mod plan;
pub mod replay;
pub mod report;

pub use larder_workload::Error;
