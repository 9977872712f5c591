//! A zoned block device below a cache, and under losses of a process:
//!
//! ```sh
//! cargo run --release -p larder-cli --example zones -- cache /dev/nvme0n1 --help
//! ```
//!
//! **What the device holds is lost**, unless it is a store of this program. `cache` fills a cache of large objects
//! whose regions are zones, compares what it finds of the time before, and ends at once, like a process that is
//! killed. `kills` starts `work` again and again, kills it at any moment, and compares what the zones then hold with
//! what it had acknowledged.

#[cfg(target_os = "linux")]
mod on_linux;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    on_linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("zones: zoned block devices are opened on Linux alone");
}
