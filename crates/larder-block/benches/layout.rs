//! What the log itself takes for a request of 4 KiB: without devices, every I/O ends at once, and no bytes are moved.
//! The checksum of what is appended is part of it. Medians and spread of five rounds, of processor time (Linux).
//!
//! `cargo bench -p larder-block --bench layout`; `-- quick` for a look whether it works. Instructions a request, on
//! machines that do not count them: `valgrind --tool=callgrind --toggle-collect='layout::measured*' BENCH -- only N`
//! with the number of a line of the table. That does one round.

#[path = "../tests/it/blind.rs"]
mod blind;

use std::hint::black_box;

use blind::{BYTE, Blind};
use larder_block::layout::log::{Geometry, LogIdentity, LogLayout, LogOptions};
use larder_block::layout::{CoreId, Data, Request, Span};
use larder_device::DeviceInfo;
use larder_workload::{Spread, machine};

type Failed = Box<dyn std::error::Error>;

const LINE: usize = 4096;
/// Lines that are cached: 1 GiB of them.
const LINES: u64 = 1 << 18;
const CACHE_BYTES: u64 = 5 << 28;
const ROUNDS: usize = 5;

#[derive(Clone, Copy)]
enum Load {
    Hit,
    FirstTouch,
    Rewrite,
}

fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let only = words.iter().position(|word| word == "only").and_then(|at| words.get(at + 1));
    let only: Option<usize> = only.map(|number| number.parse()).transpose()?;
    let is_quick = only.is_some() || words.iter().any(|word| word == "quick");
    let rounds = if is_quick { 1 } else { ROUNDS };
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "{LINES} lines of {LINE} bytes in a cache of {} MiB, segments of 16 MiB, {rounds} rounds; ns of processor time \
         a request",
        CACHE_BYTES >> 20
    );
    let loads =
        [("read hit", Load::Hit), ("first touch", Load::FirstTouch), ("rewrite", Load::Rewrite)];
    let mut number = 0;
    for (name, load) in loads {
        for order in ["in order", "at random"] {
            for depth in [1, 32] {
                if only.is_none_or(|only| only == number) {
                    let times = times(load, order == "at random", depth, rounds)?;
                    let spread = Spread::of(times).ok_or("no round")?;
                    println!("{number:2} {name:12} {order:10} depth {depth:2}  {spread:>24.0}");
                }
                number += 1;
            }
        }
    }
    Ok(())
}

/// Nanoseconds of processor time a request, of each round.
fn times(load: Load, is_random: bool, depth: usize, rounds: usize) -> Result<Vec<f64>, Failed> {
    let mut order: Vec<u64> = (0..LINES).collect();
    if is_random {
        fastrand::Rng::with_seed(1).shuffle(&mut order);
    }
    let mut blind = blank()?;
    if !matches!(load, Load::FirstTouch) {
        // Twice: only what a later header states as complete is overwritten in place.
        for _ in 0..2 {
            carry_out(&mut blind, Load::FirstTouch, &order, 32);
        }
    }
    let mut times = Vec::new();
    for _ in 0..rounds {
        if matches!(load, Load::FirstTouch) {
            blind = blank()?;
        }
        // Others may want the processor too.
        let on_cpu = || machine::thread_cpu("/proc/thread-self");
        let before = on_cpu()?;
        measured(&mut blind, load, &order, depth);
        #[allow(clippy::cast_precision_loss)]
        times.push((on_cpu()? - before).as_secs_f64() * 1e9 / LINES as f64);
    }
    Ok(times)
}

fn blank() -> Result<Blind<LogLayout>, Failed> {
    let info = DeviceInfo::new("cache", CACHE_BYTES, 512, 1 << 20);
    let info = DeviceInfo { atomic_write_bytes: Some(4096), ..info };
    let options = LogOptions { write_buffer_bytes: 0, ..LogOptions::default() };
    let geometry = Geometry::new(&info, 0, &options)?;
    let identity = LogIdentity { uuid: *b"a cache's UUID..", epoch: 1 };
    Ok(Blind::new(LogLayout::new(geometry, identity, &info, &options)))
}

/// By a name of its own for tools that count instructions.
#[inline(never)]
fn measured(blind: &mut Blind<LogLayout>, load: Load, order: &[u64], depth: usize) {
    carry_out(blind, load, order, depth);
}

/// Requests for the lines of `order`, `depth` at a time.
#[inline(always)]
fn carry_out(blind: &mut Blind<LogLayout>, load: Load, order: &[u64], depth: usize) {
    let data = Data::copy_of(&[BYTE; LINE]);
    let core = CoreId::new(0).expect("there is a first core");
    for lines in order.chunks(depth) {
        let requests = lines.iter().map(|line| {
            let span = Span { core, first: line * 8, sectors: 8 };
            match load {
                Load::Hit => Request::Read { span },
                Load::FirstTouch | Load::Rewrite => Request::Write { span, data: data.clone() },
            }
        });
        blind.run(requests, |io| {
            black_box(io);
        });
    }
}
