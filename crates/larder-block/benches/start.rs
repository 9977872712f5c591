//! Processor time per record of starting from a full log: to read and check the log, until the first answer, and to
//! load the rest. Without devices; processor time of one thread (Linux), medians and spread of five rounds.
//!
//! `cargo bench -p larder-block --bench start [-- SEGMENTS]`: segments of 16 MiB, default 256: a million records.

#[path = "../tests/it/crashed.rs"]
#[allow(dead_code)] // A test stops it elsewhere.
mod crashed;

use std::time::Duration;

use crashed::{Crashed, IDENTITY};
use larder_block::layout::log::{LoadOptions, LogOptions, LogRecovery};
use larder_block::layout::{CoreId, Layout, LayoutRequest, RequestId, Span};
use larder_workload::{Spread, machine};

type Failed = Box<dyn std::error::Error>;

const ROUNDS: usize = 5;
/// Records of a cached terabyte, in lines of 4 KiB.
const TERABYTE_RECORDS: f64 = 1e12 / 4096.0;

fn main() -> Result<(), Failed> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let segments = words.next_back().map_or(Ok(256), |word| word.parse())?;
    for line in machine::describe(&std::env::current_dir()?) {
        println!("{line}");
    }
    println!(
        "{segments} segments of 16 MiB, lines of 4 KiB, {ROUNDS} rounds; ns of processor time a record"
    );
    let lines = segments * 4096;
    let mut rng = fastrand::Rng::with_seed(1);
    let is_full = |_: &Crashed, written| written >= lines * 3 / 2;
    let in_order = Crashed::written(segments, |number| number, is_full);
    let at_random = Crashed::written(
        segments,
        |_| rng.u64(..lines * 3 / 2),
        |_: &Crashed, written| written >= lines * 3,
    );
    for (name, crashed) in [("in order", in_order), ("at random", at_random)] {
        let rounds = (0..ROUNDS).map(|_| round(&crashed)).collect::<Result<Vec<_>, _>>()?;
        println!("{name}: {} records, {} parts", rounds[0].records, rounds[0].parts);
        let steps = ["read and checked", "until it serves", "the first answer", "the rest"];
        for (number, step) in steps.iter().enumerate() {
            let times: Vec<f64> = rounds.iter().map(|round| round.ns[number]).collect();
            let spread = Spread::of(times).ok_or("no round")?;
            println!("  {step:18} {spread:>24.1}");
        }
        let until: Vec<f64> = rounds.iter().map(|round| round.ns[..3].iter().sum()).collect();
        let median = Spread::of(until).ok_or("no round")?.median;
        println!("  a terabyte answers after {:.1} s of that", median * TERABYTE_RECORDS / 1e9);
    }
    Ok(())
}

struct Round {
    records: f64,
    parts: usize,
    /// Of each step, per record.
    ns: [f64; 4],
}

fn round(crashed: &Crashed) -> Result<Round, Failed> {
    let mut recovery = LogRecovery::new(crashed.geometry, IDENTITY.uuid);
    let mut clock = Clock::new()?;
    let mut reading = Duration::ZERO;
    loop {
        let mut reads = Vec::new();
        while let Some(read) = recovery.next_read() {
            let mut bytes = vec![0; read.bytes];
            crashed.read(read.offset, &mut bytes);
            reads.push((read, bytes));
        }
        if reads.is_empty() {
            break;
        }
        // The time to provide the bytes does not count.
        clock.lap()?;
        reads.into_iter().for_each(|(read, bytes)| recovery.completed(read, Some(&bytes)));
        reading += clock.lap()?;
    }
    let load = LoadOptions { at_start_max: 0, ..LoadOptions::default() };
    let options = LogOptions { load, ..LogOptions::default() };
    let info = Crashed::device(crashed.geometry.capacity_bytes());
    let (mut layout, found) = recovery.finish(2, &info, &options);
    let finishing = clock.lap()?;
    let parts = layout.unloaded_parts();
    let span = Span { core: CoreId::new(0).ok_or("no core")?, first: 0, sectors: 8 };
    layout.submit(RequestId(0), LayoutRequest::Read { span });
    let answering = clock.lap()?;
    layout.load_all();
    let loading = clock.lap()?;
    #[allow(clippy::cast_precision_loss)]
    let records = found.records as f64;
    let by_record = |time: Duration| time.as_secs_f64() * 1e9 / records;
    Ok(Round { records, parts, ns: [reading, finishing, answering, loading].map(by_record) })
}

/// Processor time of this thread.
struct Clock(Duration);

impl Clock {
    fn new() -> Result<Self, Failed> {
        Ok(Self(machine::thread_cpu("/proc/thread-self")?))
    }

    fn lap(&mut self) -> Result<Duration, Failed> {
        let now = machine::thread_cpu("/proc/thread-self")?;
        let before = std::mem::replace(&mut self.0, now);
        Ok(now.saturating_sub(before))
    }
}
