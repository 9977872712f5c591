//! Writes a file twice through a cache and measures the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use larder_block::cache::{CacheOptions, Mode};
use larder_block::manage::{CreateOptions, OpenCache, OpenOptions, Over, create, open};
use larder_block::policy::CutOffPolicy;
use larder_block::running::CachedCore;
use larder_device::{Device, Io, IoBuffer, IoFuture, PlacementHandle, block_on};

use super::super::counted::core;
use super::place::{Place, failed};
use super::point::Point;
use super::processor;
use crate::Error;
use crate::replay::Monitor;

/// The cost of one pass over the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// Bytes written to the cache.
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) time: Duration,
    /// Processor time of all threads of the process.
    pub(super) processor: Duration,
    /// Bytes written to the cache device.
    pub(super) cache_bytes: u64,
    /// Bytes written to the core.
    pub(super) core_bytes: u64,
}

/// The first and the second pass over a file of `file_bytes` bytes, through a new cache.
///
/// # Errors
/// [`Error::Run`] if a device fails, the processor time is not available, or the run was stopped.
pub(super) fn write_twice(
    place: &mut Place,
    point: &Point,
    file_bytes: u64,
    monitor: &Monitor,
) -> Result<[Pass; 2], Error> {
    let opened = cached(place, point)?;
    let missing = || failed("the cache has no core");
    let above = opened.cache.core(core()?).ok_or_else(missing)?;
    let first = pass(place, &above, point, file_bytes, monitor)?;
    let second = pass(place, &above, point, file_bytes, monitor)?;
    Ok([first, second])
}

/// Makes a new cache in place of the old one.
fn cached(place: &mut Place, point: &Point) -> Result<OpenCache, Error> {
    let cores = place.cores()?;
    let over = place.holds.map_or(Over::Blank, Over::Cache);
    let options = CreateOptions { layout: point.layout_options(), mode: Mode::WriteBack, over };
    let uuid = block_on(create(&place.cache, &cores, &options)).map_err(failed)?;
    place.holds = Some(uuid);
    let cache = CacheOptions { cut_off: CutOffPolicy::Never, ..CacheOptions::default() };
    let options = OpenOptions { cache, log: point.log_options(), ..OpenOptions::default() };
    block_on(open(&place.cache, &cores, &options)).map_err(failed)
}

fn pass(
    place: &Place,
    above: &CachedCore,
    point: &Point,
    file_bytes: u64,
    monitor: &Monitor,
) -> Result<Pass, Error> {
    let written = || [&place.cache, &place.core].map(|device| device.stats().host_written_bytes);
    let (bytes_before, processor_before) = (written(), processor::of_process()?);
    let began = Instant::now();
    let requests = ask(above, point, file_bytes, monitor)?;
    let time = began.elapsed();
    let processor = processor::of_process()?.saturating_sub(processor_before);
    let bytes_after = written();
    Ok(Pass {
        bytes: requests * u64::from(point.line_bytes),
        requests,
        time,
        processor,
        cache_bytes: bytes_after[0] - bytes_before[0],
        core_bytes: bytes_after[1] - bytes_before[1],
    })
}

/// Writes each line in the given order. Returns the number of lines.
fn ask(
    above: &CachedCore,
    point: &Point,
    file_bytes: u64,
    monitor: &Monitor,
) -> Result<u64, Error> {
    let length = point.line_bytes as usize;
    let mut under_way: VecDeque<IoFuture> = VecDeque::with_capacity(point.depth);
    let mut requests = 0;
    for offset in (0..file_bytes).step_by(length) {
        if monitor.is_stopped() {
            return Err(Error::run("interrupted"));
        }
        if under_way.len() == point.depth
            && let Some(first) = under_way.pop_front()
        {
            first.wait().map_err(|failure| failed(failure.error))?;
        }
        let io = Io::write(offset, IoBuffer::zeroed(length), PlacementHandle::DEFAULT);
        under_way.push_back(above.submit(io));
        requests += 1;
    }
    for future in under_way {
        future.wait().map_err(|failure| failed(failure.error))?;
    }
    Ok(requests)
}
