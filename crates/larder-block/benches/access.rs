//! First and second writes of a file through a write-back cache, on real files and in memory: megabytes a second,
//! processor time of a request, and what part of that is the cache's logic (the layout, which does no I/O, measured
//! alone). The log, and Open CAS's layout of 2022. HotStorage'23 has 45 and 38 % in Open CAS, of one job of fio on
//! ext4; here are neither, so parts of in-memory runs are of less, and those of files of about as much.
//!
//! `cargo bench -p larder-block --bench access -- [quick] [--cache FILE --core FILE] [--mib N]`. Files are made if they
//! are not given, in the current directory, and opened with `O_DIRECT` where they can be; those that are given must be
//! zeros or not exist, and hold a cache afterwards. Medians and spread of five rounds, in which all take turns.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use larder_block::accounting::Blind;
use larder_block::cache::{CacheOptions, Mode};
use larder_block::layout::log::{self, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::ocf::{self, OcfLayout, OcfOptions, OcfVersion};
use larder_block::layout::{CoreId, Data, Layout, Request, Span};
use larder_block::manage::{
    Core, CreateOptions, LayoutOptions, OpenOptions, Opened, Over, create, open,
};
use larder_block::policy::CutOffPolicy;
use larder_block::running::CachedCore;
use larder_device::label::Uuid;
use larder_device::{
    Device, DeviceInfo, FileDevice, FileOptions, Io, IoBuffer, MemoryDevice, PlacementHandle,
    block_on,
};
use larder_workload::{Spread, machine};

type Failed = Box<dyn std::error::Error>;

const LINE: usize = 4096;
/// Memory is as much faster as this, and time on a processor is known by ticks.
const IN_MEMORY: u64 = 16;
/// Length of the file for the logic alone.
const LOGIC_BYTES: u64 = 256 << 20;
const DEPTHS: [usize; 2] = [1, 32];
const PASSES: [&str; 2] = ["first", "second"];
const LAYOUTS: [&str; 2] = ["log", "ocf22"];

struct Options {
    rounds: usize,
    /// Length of the file that is written.
    bytes: u64,
    /// Cache and core.
    files: [PathBuf; 2],
}

/// A cache device and a core.
type Pair = [Arc<dyn Device>; 2];
/// Megabytes a second and processor time of a request in microseconds, of the first and the second pass.
type Measured = [[f64; 2]; 2];

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given =
        |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let is_quick = words.iter().any(|word| word == "quick");
    let directory = tempfile::tempdir_in(std::env::current_dir()?)?;
    let file =
        |name: &str| given(name).map_or_else(|| directory.path().join(&name[2..]), PathBuf::from);
    let mib =
        given("--mib").map_or(Ok(if is_quick { 1 } else { 4 }), |text| text.parse::<u64>())?;
    let options = Options {
        rounds: if is_quick { 1 } else { 5 },
        bytes: mib << 20,
        files: [file("--cache"), file("--core")],
    };
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "writes of 4 KiB in order, a file of {mib} MiB, in memory of {IN_MEMORY} times as much, a cache four times as \
         long, {} rounds",
        options.rounds
    );
    let mut logic = Vec::new();
    for layout in LAYOUTS {
        for depth in DEPTHS {
            let times: Result<Vec<_>, Failed> =
                (0..options.rounds).map(|_| logic_us(layout, depth, LOGIC_BYTES)).collect();
            logic.push((layout, depth, times?));
        }
    }
    for in_memory in [true, false] {
        compare(&options, in_memory, &logic)?;
    }
    Ok(())
}

/// Lets all take turns, and says how that went.
fn compare(
    options: &Options,
    in_memory: bool,
    logic: &[(&str, usize, Vec<[f64; 2]>)],
) -> Result<(), Failed> {
    let mut rounds: Vec<Vec<Measured>> = vec![Vec::new(); logic.len()];
    let bytes = options.bytes * if in_memory { IN_MEMORY } else { 1 };
    let mut uuid = None;
    let mut is_direct = "";
    for _ in 0..options.rounds {
        for ((layout, depth, _), measured) in logic.iter().zip(&mut rounds) {
            let (devices, direct) = devices(options, in_memory, bytes)?;
            is_direct = direct;
            let opened = cached(layout, &devices, uuid)?;
            uuid = Some(opened.uuid).filter(|_| !in_memory);
            let core = opened.cache.core(core_id()?).ok_or("the core")?;
            measured.push(write_twice(&core, *depth, bytes)?);
        }
    }
    println!("\n{}{is_direct}", if in_memory { "in memory" } else { "files" });
    for ((layout, depth, logic), measured) in logic.iter().zip(&rounds) {
        let of = |pass: usize, what: usize| {
            Spread::of(measured.iter().map(|round| round[pass][what])).ok_or("no round")
        };
        for (pass, name) in PASSES.iter().enumerate() {
            let own = Spread::of(logic.iter().map(|times| times[pass])).ok_or("no round")?;
            let (rate, all) = (of(pass, 0)?, of(pass, 1)?);
            let part = own.median / all.median * 100.0;
            println!(
                "{layout:5} depth {depth:2} {name:6}: {rate:>24.1} MB/s; {all:>22.2} us of processor a request, \
                 {:.2} of them logic: {part:.0} %",
                own.median
            );
        }
        let lost = (1.0 - of(0, 0)?.median / of(1, 0)?.median) * 100.0;
        println!("{layout:5} depth {depth:2}: the first access is slower by {lost:.0} %");
    }
    Ok(())
}

/// A cache device and a core, and how they were opened.
fn devices(options: &Options, in_memory: bool, bytes: u64) -> Result<(Pair, &'static str), Failed> {
    let lengths = [bytes * 4 + (8 << 20), bytes * 2];
    if in_memory {
        let memory = |bytes: u64| -> Result<Arc<dyn Device>, Failed> {
            let mut memory = vec![0_u8; usize::try_from(bytes)?];
            // Else the first writes would pay for the pages.
            memory.iter_mut().step_by(LINE).for_each(|byte| *byte = std::hint::black_box(0));
            Ok(Arc::new(MemoryDevice::holding(memory)))
        };
        return Ok(([memory(lengths[0])?, memory(lengths[1])?], ""));
    }
    let open = |path: &Path, bytes: u64| {
        let capacity_bytes = Some(bytes);
        FileDevice::open(
            path,
            &FileOptions { capacity_bytes, create: true, ..FileOptions::default() },
        )
    };
    let [cache, core] =
        [open(&options.files[0], lengths[0])?, open(&options.files[1], lengths[1])?];
    let direct = if cache.direct() && core.direct() { ", O_DIRECT" } else { ", no O_DIRECT" };
    Ok(([Arc::new(cache), Arc::new(core)], direct))
}

/// A new cache on these devices, over that of `before`.
fn cached(layout: &str, [device, core]: &Pair, before: Option<Uuid>) -> Result<Opened, Failed> {
    let id = core_id()?;
    let cores = [Core { id, name: "core".to_owned(), device: Arc::clone(core) }];
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let kind = match layout {
        "log" => LayoutOptions::Log(log.clone()),
        _ => LayoutOptions::Ocf(ocf22()),
    };
    let over = before.map_or(Over::Blank, Over::Cache);
    let options = CreateOptions { layout: kind, mode: Mode::WriteBack, over };
    block_on(create(device, &cores, &options))?;
    let cache = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    let options = OpenOptions { cache, log, ..OpenOptions::default() };
    Ok(block_on(open(device, &cores, &options))?)
}

fn core_id() -> Result<CoreId, Failed> {
    Ok(CoreId::new(0).ok_or("a number of a core")?)
}

fn ocf22() -> OcfOptions {
    OcfOptions { version: OcfVersion::V22, ..OcfOptions::default() }
}

fn write_twice(core: &CachedCore, depth: usize, bytes: u64) -> Result<Measured, Failed> {
    let mut measured = [[0.0; 2]; 2];
    for pass in &mut measured {
        let (began, before) = (Instant::now(), machine::threads_cpu("/proc/self")?);
        let mut under_way = VecDeque::new();
        for offset in (0..bytes).step_by(LINE) {
            if under_way.len() == depth {
                let first: larder_device::IoFuture = under_way.pop_front().ok_or("one")?;
                first.wait()?;
            }
            let io = Io::write(offset, IoBuffer::zeroed(LINE), PlacementHandle::DEFAULT);
            under_way.push_back(core.submit(io));
        }
        for future in under_way {
            future.wait()?;
        }
        let (seconds, requests) = (began.elapsed().as_secs_f64(), bytes / LINE as u64);
        let used = machine::threads_cpu("/proc/self")?.saturating_sub(before);
        #[allow(clippy::cast_precision_loss)]
        let of_pass = [bytes as f64 / seconds / 1e6, used.as_secs_f64() * 1e6 / requests as f64];
        *pass = of_pass;
    }
    Ok(measured)
}

/// Microseconds of a request in the layout alone, of both passes.
fn logic_us(layout: &str, depth: usize, bytes: u64) -> Result<[f64; 2], Failed> {
    let info = DeviceInfo::new("cache", bytes * 4 + (8 << 20), 512, 1 << 20);
    let info = DeviceInfo { atomic_write_bytes: Some(4096), ..info };
    if layout == "log" {
        let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
        let geometry = log::Geometry::new(&info, 0, &options)?;
        let identity = LogIdentity { uuid: *b"a cache's UUID..", epoch: 1 };
        passes_us(LogLayout::new(geometry, identity, &info, &options), depth, bytes)
    } else {
        let geometry = ocf::Geometry::new(&info, 0, &ocf22())?;
        passes_us(OcfLayout::new(geometry, *b"a cache's UUID.."), depth, bytes)
    }
}

fn passes_us<L: Layout>(layout: L, depth: usize, bytes: u64) -> Result<[f64; 2], Failed> {
    let mut blind = Blind::new(layout);
    let (core, data) = (core_id()?, Data::copy_of(&[0; LINE]));
    let lines: Vec<u64> = (0..bytes / LINE as u64).collect();
    let mut times = [0.0; 2];
    for time in &mut times {
        let before = machine::thread_cpu("/proc/thread-self")?;
        for lines in lines.chunks(depth) {
            let requests = lines.iter().map(|line| {
                let span = Span { core, first: line * 8, sectors: 8 };
                Request::Write { span, data: data.clone() }
            });
            blind.run(requests, |io| {
                std::hint::black_box(io);
            });
        }
        #[allow(clippy::cast_precision_loss)]
        let of_pass = (machine::thread_cpu("/proc/thread-self")? - before).as_secs_f64() * 1e6
            / lines.len() as f64;
        *time = of_pass;
    }
    Ok(times)
}
