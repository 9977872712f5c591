//! Integration tests of the lab, in one binary.
#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod broken_mechanisms;
mod experiment_docs;
mod experiment_goods;
mod experiment_judges;
mod experiment_runs;
mod experiment_settings;
mod leveldb;
mod replay_passes;
mod replay_segments;
mod vssd_isolation;
mod wear;
