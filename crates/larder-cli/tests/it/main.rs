//! Tests of the `larder` command from outside, in one binary: output, files, exit status.
#![allow(clippy::unwrap_used, reason = "a test that fails panics, in its helpers too")]

mod array_command;
#[cfg(target_os = "linux")]
mod array_of_server;
#[cfg(target_os = "linux")]
mod block_cache;
#[cfg(target_os = "linux")]
mod block_command;
#[cfg(target_os = "linux")]
mod block_cores;
#[cfg(target_os = "linux")]
mod block_of_server;
#[cfg(target_os = "linux")]
mod device_command;
mod device_file;
mod documented;
mod errors_of_options;
mod errors_of_places;
mod errors_of_traces;
#[cfg(target_os = "linux")]
mod errors_page;
#[cfg(target_os = "linux")]
mod events_of_serve;
mod exact_counts;
mod file_system_in_time;
mod full_disk;
mod interrupt;
mod isolated_tenants;
mod json_page;
mod lab_command;
#[cfg(target_os = "linux")]
mod levelling_of_server;
#[cfg(target_os = "linux")]
mod memory_of_clients;
mod place;
mod placed_server;
mod plan_command;
mod plan_json;
mod replay_json;
mod replay_shards;
mod report_page;
#[cfg(target_os = "linux")]
mod serve_command;
#[cfg(target_os = "linux")]
mod serve_protected;
#[cfg(target_os = "linux")]
mod served_block;
mod shell_command;
mod streams;
#[cfg(target_os = "linux")]
mod tutorials;
mod vssd_command;
#[cfg(target_os = "linux")]
mod vssd_mount;
mod workload_command;
