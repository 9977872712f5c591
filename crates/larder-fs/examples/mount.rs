//! Mounts a file system in memory, or on blocks in a file, until it is unmounted or a signal comes.
//!
//! ```sh
//! cargo run --release -p larder-fs --example mount -- /mnt --memory 1G
//! cargo run --release -p larder-fs --example mount -- /mnt --file blocks.img --bytes 4G --format
//! cargo run --release -p larder-fs --example mount -- --check --file blocks.img
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use larder_device::blocks::BlocksOptions;
use larder_device::{
    BlockStore, BlocksOnDevice, Device, FileDevice, FileOptions, MemoryBlocks, block_on,
};

/// Mounts a file system in memory, or on blocks in a file
#[derive(Debug, Parser)]
struct Options {
    /// Where to
    #[arg(required_unless_present = "check")]
    directory: Option<PathBuf>,
    /// In memory, so large
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "file")]
    memory: Option<u64>,
    /// On blocks in this file
    #[arg(long, value_name = "FILE", required_unless_present = "memory")]
    file: Option<PathBuf>,
    /// Make the file so large
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, requires = "file")]
    bytes: Option<u64>,
    /// Bytes of a block
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "1M")]
    block: u64,
    /// Begin with an empty file system
    #[arg(long)]
    format: bool,
    /// Check what is there, and do not mount it
    #[arg(long)]
    check: bool,
    /// Others than who mounts it may use it, and set-user-ID bits and devices count
    #[arg(long)]
    for_all: bool,
}

fn parse_bytes(text: &str) -> Result<u64, parse_size::Error> {
    parse_size::Config::new().with_binary().parse_size(text)
}

fn store(options: &Options) -> Result<Arc<dyn BlockStore>, Box<dyn Error>> {
    if let Some(bytes) = options.memory {
        return Ok(Arc::new(MemoryBlocks::new(bytes / options.block, options.block, 4096)?));
    }
    let path = options.file.as_ref().ok_or("neither memory nor a file")?;
    let capacity_bytes = options.bytes;
    let create = capacity_bytes.is_some();
    let how = FileOptions { capacity_bytes, create, ..FileOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path, &how)?);
    let layout = BlocksOptions { block_bytes: options.block, journal_log_pages: None };
    Ok(Arc::new(match options.format {
        true => block_on(BlocksOnDevice::format(device, &layout))?,
        false => block_on(BlocksOnDevice::open(device))?,
    }))
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn Error>> {
    use std::time::Duration;

    use larder_fs::{FileSystem, MountOptions, fsck, fsck::Fsck, mount};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let options = Options::parse();
    let store = store(&options)?;
    if options.check {
        let report = fsck(store, Fsck { data: true })?;
        println!("{report}");
        return if report.is_clean() { Ok(()) } else { Err("the file system is damaged".into()) };
    }
    let fs = match options.format || options.memory.is_some() {
        true => FileSystem::format(Arc::clone(&store), false, larder_fs::Options::default())?,
        false => FileSystem::open(Arc::clone(&store), larder_fs::Options::default())?,
    };
    let fs = Arc::new(fs);
    let directory = options.directory.ok_or("no directory")?;
    let how = MountOptions {
        for_all: options.for_all,
        trusted: options.for_all,
        ..MountOptions::default()
    };
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mounted = mount(Arc::clone(&fs), &directory, &how)?;
    println!("mounted");
    loop {
        if !mounted.is_mounted() {
            mounted.wait()?;
            break;
        }
        if signals.pending().next().is_some() {
            mounted.unmount()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("{:?}", fs.counts());
    let report = fsck(store, Fsck { data: true })?;
    println!("{report}");
    if report.is_clean() { Ok(()) } else { Err("the file system is damaged".into()) }
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn Error>> {
    store(&Options::parse())?;
    Err("file systems are mounted on Linux alone".into())
}
