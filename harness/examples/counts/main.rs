//! Makes a fixed number of requests of one kind, and counts the memory that they ask the allocator for.
//!
//! `cargo run --release -p larder-harness --example counts -- KIND REQUESTS DIR`. The kinds are those of
//! [`Kind`]. The program makes one thing ready (a cache, or a server with one client), warms it up, makes REQUESTS
//! requests one after the other, and prints the allocations and their bytes. A file on flash is made in DIR.
//!
//! `cargo xtask bench-gate` runs it. It also runs it twice under valgrind and under strace, once with N and once with
//! 2 N requests: the difference is what N requests cost in instructions and system calls, without start and warm-up.

mod allocations;
mod caches;
mod servers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Makes the request of this number. Numbers grow by one from 0 on.
type Request = Box<dyn FnMut(u64) -> Outcome<()>>;

/// Counts what requests of one kind cost.
#[derive(Debug, Parser)]
#[command(name = "counts", max_term_width = 100)]
struct Arguments {
    /// Kind of request
    #[arg(value_enum)]
    kind: Kind,
    /// Number of requests that are counted
    requests: u64,
    /// Directory for the file of a cache on flash, which is removed at the end
    dir: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A get of the library that DRAM answers
    DramHit,
    /// A set of a key that the cache does not have, with room in DRAM
    DramSetNew,
    /// A set of a key that the cache has, with a value of the same length
    DramOverwrite,
    /// A set of a new key when DRAM is full: others are evicted, without flash below
    DramEvict,
    /// A get of the library of an object in a region of a file
    FlashHit,
    /// A get of the library of a small object in a page of a file
    FlashHitSmall,
    /// A memcached get at pipeline 1, with sockets by epoll
    MemcachedGetEpoll,
    /// A memcached get at pipeline 1, with sockets by io_uring
    MemcachedGetIoUring,
    /// A write of 4 KiB by NBD to a device in memory, with sockets by epoll
    NbdWriteEpoll,
    /// A write of 4 KiB by NBD to a device in memory, with sockets by io_uring
    NbdWriteIoUring,
}

/// The requests of a kind, and the number of them that warm it up.
fn prepared(kind: Kind, dir: &Path) -> Outcome<(Request, u64)> {
    Ok(match kind {
        Kind::DramHit => (caches::dram_hit()?, 20_000),
        Kind::DramSetNew => (caches::dram_set(256 << 20)?, 20_000),
        Kind::DramOverwrite => (caches::dram_overwrite()?, 20_000),
        Kind::DramEvict => (caches::dram_set(16 << 20)?, 150_000),
        Kind::FlashHit => (caches::flash_hit(dir, 4096)?, 500),
        Kind::FlashHitSmall => (caches::flash_hit(dir, 400)?, 500),
        Kind::MemcachedGetEpoll => (servers::memcached_get(servers::EPOLL)?, 500),
        Kind::MemcachedGetIoUring => (servers::memcached_get(servers::IO_URING)?, 500),
        Kind::NbdWriteEpoll => (servers::nbd_write(servers::EPOLL)?, 500),
        Kind::NbdWriteIoUring => (servers::nbd_write(servers::IO_URING)?, 500),
    })
}

/// The kernel refuses io_uring.
#[derive(Debug)]
struct Refused;

/// The exit status then.
const REFUSED: u8 = 3;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kernel refuses sockets by io_uring")
    }
}

impl std::error::Error for Refused {}

fn main() -> ExitCode {
    let Err(error) = run(&Arguments::parse()) else { return ExitCode::SUCCESS };
    eprintln!("counts: {error}");
    if error.is::<Refused>() { ExitCode::from(REFUSED) } else { ExitCode::FAILURE }
}

fn run(arguments: &Arguments) -> Outcome<()> {
    let (mut request, warm) = prepared(arguments.kind, &arguments.dir)?;
    for number in 0..warm {
        request(number)?;
    }
    let before = allocations::so_far();
    for number in warm..warm + arguments.requests {
        request(number)?;
    }
    let after = allocations::so_far();
    println!("allocations {} bytes {}", after.calls - before.calls, after.bytes - before.bytes);
    // Exit without dropping anything: what ends a cache or a server is not counted, and returning memory needs the
    // page size, which rustix reads from a place where valgrind has nothing.
    std::process::exit(0)
}
