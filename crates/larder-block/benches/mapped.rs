//! A durable write of 4 KiB to memory: by a mapped device, by the block cache's log on one, and by `pwrite` with
//! `O_DSYNC` on the same file system, in turns. Medians and spread of the rounds, of wall time on one thread (Linux).
//!
//! `cargo bench -p larder-block --bench mapped`; `-- quick` only checks that it works; `-- DIR` uses another directory
//! than `/dev/shm`.

use larder_workload::machine;

type Failed = Box<dyn std::error::Error>;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("files are mapped on Linux alone");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let is_quick = words.iter().any(|word| word == "quick");
    let place = words.iter().find(|word| *word != "quick").map_or("/dev/shm", String::as_str);
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    linux::run(place.as_ref(), if is_quick { 1 } else { 7 })
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Instant;

    use larder_block::layout::CoreId;
    use larder_block::manage::{self, Core, CreateOptions, OpenOptions};
    use larder_device::{
        Device, Durability, FileOptions, Io, IoBuffer, MappedDevice, MemoryDevice, PlacementHandle,
        block_on,
    };
    use larder_workload::Spread;

    use super::Failed;

    const BLOCK: usize = 4096;
    const FILE_BYTES: u64 = 256 << 20;
    const WRITES: u64 = 30_000;
    /// `O_DSYNC` of Linux, except on MIPS and SPARC.
    const O_DSYNC: i32 = 0o10000;

    pub(super) fn run(place: &Path, rounds: usize) -> Result<(), Failed> {
        let directory = tempfile::tempdir_in(place)?;
        let path = |name: &str| directory.path().join(name);
        let options =
            FileOptions { capacity_bytes: Some(FILE_BYTES), create: true, ..Default::default() };
        let mapped = MappedDevice::open(path("mapped"), &options)?;
        println!(
            "{}, {WRITES} writes a round, at random places, {rounds} rounds; us a write",
            mapped.info().name
        );
        let mut how = File::options();
        how.create(true).truncate(true).read(true).write(true).custom_flags(O_DSYNC);
        let file = how.open(path("file"))?;
        let cached = cached(&path("cache"), &options)?;
        let mut buffer = Some(IoBuffer::zeroed(BLOCK));
        let mut times = [const { Vec::new() }; 4];
        // The first round touches all pages for the first time, and does not count.
        for round in 0..=rounds {
            let each = [
                timed(|at| write(&mapped, at, Durability::Power, &mut buffer))?,
                timed(|at| write(&mapped, at, Durability::Device, &mut buffer))?,
                timed(|at| Ok(file.write_all_at(&[7; BLOCK], at)?))?,
                timed(|at| write(&*cached, at, Durability::Power, &mut buffer))?,
            ];
            if round > 0 {
                times.iter_mut().zip(each).for_each(|(times, us)| times.push(us));
            }
        }
        let names = [
            "mapped, durable",
            "mapped, a fence",
            "pwrite, O_DSYNC",
            "write-back cache in it, durable",
        ];
        for (name, times) in names.into_iter().zip(times) {
            println!("{name:32} {:>24.2}", Spread::of(times).ok_or("no round")?);
        }
        Ok(())
    }

    /// A core in memory behind a write-back cache on a mapped file.
    fn cached(path: &Path, options: &FileOptions) -> Result<Arc<dyn Device>, Failed> {
        let device: Arc<dyn Device> = Arc::new(MappedDevice::open(path, options)?);
        let bytes = usize::try_from(FILE_BYTES / 2)?;
        let core: Arc<dyn Device> = Arc::new(MemoryDevice::holding(vec![0; bytes]));
        let id = CoreId::new(0).ok_or("a core has a number")?;
        let cores = [Core { id, name: "core".to_owned(), device: core }];
        let mode = larder_block::cache::Mode::WriteBack;
        block_on(manage::create(&device, &cores, &CreateOptions { mode, ..Default::default() }))?;
        let opened = block_on(manage::open(&device, &cores, &OpenOptions::default()))?;
        let core = opened.cache.core(id).ok_or("the core that it was made for")?;
        Ok(Arc::new(core))
    }

    fn write(
        device: &dyn Device,
        offset: u64,
        durability: Durability,
        buffer: &mut Option<IoBuffer>,
    ) -> Result<(), Failed> {
        let handle = PlacementHandle::DEFAULT;
        let buffer_of = buffer.take().ok_or("a buffer that was lost")?;
        let io = Io::Write { offset, buffer: buffer_of, handle, durability };
        *buffer = Some(device.submit(io).wait()?);
        Ok(())
    }

    /// Microseconds per call, at random blocks of half the file.
    fn timed(mut call: impl FnMut(u64) -> Result<(), Failed>) -> Result<f64, Failed> {
        let mut rng = fastrand::Rng::with_seed(1);
        let begin = Instant::now();
        for _ in 0..WRITES {
            call(rng.u64(..FILE_BYTES / 2 / BLOCK as u64) * BLOCK as u64)?;
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(begin.elapsed().as_secs_f64() * 1e6 / WRITES as f64)
    }
}
