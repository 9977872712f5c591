//! The array engine on a file with `O_DIRECT`, alternating with `fio` on the same file: how much of the device's
//! performance the engine's users get, and the processor time of a lookup.
//!
//! `cargo bench -p larder-lab --bench array_device [-- --help]`. Sequential writes: several tasks of one thread set
//! objects. The bytes that reach the device each second are compared with `fio` with blocks of the same length
//! ([`ArrayConfig::write_bytes`]), one at a time as the engine writes them, and four at a time. Lookups: keys on flash,
//! drawn uniformly, with the same concurrency as `fio`'s random reads; once with a DRAM entry for each object, and once
//! with the default, an eighth of them, where most lookups also read a page of a table. Everything runs on one thread
//! that hosts a ring, so that processor time is that of the process. Prints medians and spread of the rounds.

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
