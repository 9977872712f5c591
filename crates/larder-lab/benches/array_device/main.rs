//! The array engine on a file with `O_DIRECT`, beside `fio` on the same file in turn: how much of what the device
//! carries is left to who stores and looks up objects, and what a look-up costs the processor.
//!
//! `cargo bench -p larder-lab --bench array_device [-- --help]`. Sequential writes: objects are set by several tasks
//! of one thread, and what reached the device a second stands beside `fio` with blocks of the same length
//! ([`ArrayConfig::write_bytes`]), one at a time as the engine writes them, and four at a time. Look-ups: keys that
//! are on flash, drawn uniformly, as many at a time as `fio` has random reads under way; once with an entry in DRAM
//! for each object, and once with the default, an eighth of them, where most look-ups read a page of a table too.
//! Everything runs on one thread that hosts a ring, so that processor time is that of the process. Medians and spread
//! of the rounds.

#[cfg(target_os = "linux")]
mod fio;

#[cfg(target_os = "linux")]
mod measure;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    measure::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("fio with io_uring runs on Linux only");
}
