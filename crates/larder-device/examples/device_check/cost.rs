//! The cost of a request: processor time, elapsed time, allocations.

use std::collections::VecDeque;
use std::time::Instant;

use fastrand::Rng;
use larder_device::{BufferPool, Device, Io, IoBuffer, IoFuture, PlacementHandle};

use crate::{Arguments, BLOCK, Failure};

const COST_REQUESTS: u64 = 2_000;

/// One kind of request to measure, with `depth` of them in flight.
#[derive(Clone, Copy)]
struct CostOf {
    depth: usize,
    write: bool,
    /// The buffers come from a pool that has handed them out before, so the kernel may have registered them.
    pooled: bool,
}

/// Measures processor time and allocations of requests, at a queue depth of 1 and of 64, with buffers that the kernel
/// may have registered and with others. Prints medians of rounds that alternate; the first round only warms up.
pub(crate) fn measure(device: &dyn Device, arguments: &Arguments) -> Result<(), Failure> {
    let kinds = [(1, true), (1, false), (64, true), (64, false)].into_iter();
    let kinds: Vec<_> = kinds
        .flat_map(|(depth, write)| [false, true].map(|pooled| CostOf { depth, write, pooled }))
        .collect();
    // Both sets of buffers live as long as the measurement, so that nothing else differs between them.
    let pool = BufferPool::new();
    let of_pool = || (0..64).map(|_| pool.take(arguments.bytes)).collect::<Vec<_>>();
    drop(of_pool());
    let unknown = (0..64).map(|_| IoBuffer::zeroed(arguments.bytes)).collect();
    let mut buffers = [unknown, of_pool()];
    let mut rounds: Vec<Vec<Round>> = Vec::new();
    let mut fixed = 0;
    for number in 0..=arguments.rounds {
        fixed = if number == 1 { device.stats().fixed_buffer_pieces } else { fixed };
        let mut round = vec![Round::default(); kinds.len()];
        for at in 0..kinds.len() {
            // Each kind is measured once with a pooled buffer and once without; which comes first alternates by round.
            let at = at ^ usize::from(number % 2 == 1);
            let buffers = &mut buffers[usize::from(kinds[at].pooled)];
            round[at] = requests(device, kinds[at], buffers, arguments.seed + number)?;
        }
        rounds.push(round);
    }
    rounds.remove(0);
    for (at, kind) in kinds.iter().enumerate() {
        let median = |of: fn(&Round) -> u64| {
            let mut all: Vec<u64> = rounds.iter().map(|round| of(&round[at])).collect();
            all.sort_unstable();
            let last = all.len() - 1;
            #[allow(clippy::cast_precision_loss)]
            [all[last / 2], all[0], all[last]].map(|ns| ns as f64 / COST_REQUESTS as f64 / 1e3)
        };
        let [cpu, least, most] = median(|round| round.cpu_ns);
        println!(
            "{} KiB {}, {} under way, {} buffer: {cpu:.2} us of processor \
             ({least:.2} to {most:.2}), {:.1} us of time",
            arguments.bytes >> 10,
            if kind.write { "write" } else { "read" },
            kind.depth,
            if kind.pooled { "pool's" } else { "unknown" },
            median(|round| round.ns)[0],
        );
    }
    for (at, kind) in kinds.iter().enumerate().step_by(2) {
        let cpu = |of: &Round| i128::from(of.cpu_ns);
        let mut saved: Vec<i128> =
            rounds.iter().map(|round| cpu(&round[at]) - cpu(&round[at + 1])).collect();
        saved.sort_unstable();
        let last = saved.len() - 1;
        #[allow(clippy::cast_precision_loss)]
        let [half, first, third] = [last / 2, last / 4, last * 3 / 4]
            .map(|at| saved[at] as f64 / COST_REQUESTS as f64 / 1e3);
        println!(
            "{}, {} under way: the pool's save {half:.2} us a request in the same round \
             (quartiles {first:.2} and {third:.2})",
            if kind.write { "write" } else { "read" },
            kind.depth,
        );
    }
    let allocations: u64 = rounds.iter().flatten().map(|round| round.allocations).sum();
    let all = COST_REQUESTS * arguments.rounds * kinds.len() as u64;
    println!("allocations in {all} requests: {allocations}");
    let fixed = device.stats().fixed_buffer_pieces - fixed;
    println!("pieces with a registered buffer: {fixed}");
    Ok(())
}

/// The total cost of the requests of one kind in one round.
#[derive(Clone, Copy, Default)]
struct Round {
    cpu_ns: u64,
    ns: u64,
    allocations: u64,
}

fn requests(
    device: &dyn Device,
    kind: CostOf,
    spare: &mut Vec<IoBuffer>,
    seed: u64,
) -> Result<Round, Failure> {
    let bytes = spare.first().map_or(BLOCK, IoBuffer::len) as u64;
    let places = device.info().capacity_bytes / bytes;
    let mut rng = Rng::with_seed(seed);
    let mut under_way: VecDeque<IoFuture> = VecDeque::with_capacity(kind.depth);
    let mut all = || -> Result<(), Failure> {
        for _ in 0..COST_REQUESTS {
            if under_way.len() == kind.depth
                && let Some(oldest) = under_way.pop_front()
            {
                spare.push(oldest.wait()?);
            }
            let offset = rng.u64(..places) * bytes;
            let Some(buffer) = spare.pop() else { return Err("no buffer".into()) };
            under_way.push_back(device.submit(match kind.write {
                true => Io::write(offset, buffer, PlacementHandle::DEFAULT),
                false => Io::Read { offset, buffer },
            }));
        }
        for future in under_way.drain(..) {
            spare.push(future.wait()?);
        }
        Ok(())
    };
    let (cpu, begun) = (cpu_ns(), Instant::now());
    let mut outcome = Ok(());
    let allocations = allocation_counter::measure(|| outcome = all()).count_total;
    outcome?;
    let ns = u64::try_from(begun.elapsed().as_nanos())?;
    Ok(Round { cpu_ns: cpu_ns() - cpu, ns, allocations })
}

/// Processor time of this process in nanoseconds, including the kernel.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let [seconds, nanoseconds] =
        [time.tv_sec, time.tv_nsec].map(|it| u64::try_from(it).unwrap_or(0));
    seconds * 1_000_000_000 + nanoseconds
}
