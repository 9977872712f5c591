//! Tests of workloads through the public interface, in one binary.
#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod trace_errors;
mod trace_files;
mod trace_formats;
mod trace_hostile;
mod trace_support;
mod workload_presets;
mod workload_records;
