//! Tests a zoned block device below a cache, and with processes that are killed:
//!
//! ```sh
//! cargo run --release -p larder-cli --example zones -- cache /dev/nvme0n1 --help
//! ```
//!
//! **The content of the device is lost**, unless it is a store of this program. `cache` fills a cache of large objects
//! whose regions are zones, compares what it finds of the previous round, and ends at once, like a process that is
//! killed. `kills` starts `work` again and again, kills it at a random moment, and compares the content of the zones
//! with what it had acknowledged.

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
