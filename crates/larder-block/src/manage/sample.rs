//! Detects whether a core was written while its cache was away, by comparing some of its clean cached data with it.

use std::sync::Arc;

use larder_device::{Device, Io, IoBuffer};

use super::Core;
use super::recover::StartReport;
use crate::layout::{Layout, SECTOR_BYTES};
use crate::{Error, ErrorKind};

/// Compares `samples` clean runs of all cores, selected by `seed`, and counts those that differ.
///
/// # Errors
/// [`ErrorKind::Device`].
pub(super) async fn sample(
    layout: &mut dyn Layout,
    device: &Arc<dyn Device>,
    cores: &[Core],
    (samples, seed): (u32, u64),
    started: &mut StartReport,
) -> Result<(), Error> {
    // One part contains ranges from all over the cores, so it is a good sample.
    layout.load_part();
    let mut rng = fastrand::Rng::with_seed(seed);
    for number in 0..samples {
        let core = &cores[number as usize % cores.len()];
        let info = core.device.info();
        let blocks_of_both = info.block_bytes.max(device.info().block_bytes);
        let block_bytes = u64::from(blocks_of_both).max(SECTOR_BYTES as u64);
        let blocks = (info.capacity_bytes / block_bytes).max(1);
        let from = rng.u64(..blocks) * (block_bytes / SECTOR_BYTES as u64);
        let found = layout.clean_after(core.id, from).or_else(|| layout.clean_after(core.id, 0));
        let Some((span, at)) = found else { continue };
        let cached = read(device, at, span.bytes()).await?;
        let own = read(&core.device, span.offset(), span.bytes()).await?;
        started.compared += 1;
        started.changed += u32::from(cached.as_slice() != own.as_slice());
    }
    Ok(())
}

async fn read(device: &Arc<dyn Device>, offset: u64, bytes: usize) -> Result<IoBuffer, Error> {
    let read = device.submit(Io::Read { offset, buffer: IoBuffer::zeroed(bytes) }).await;
    read.map_err(|failure| {
        let what = format!("comparing what is cached with {}", device.info().name);
        Error::of_device(&what, &failure.error)
    })
}

/// The error for cores that have changed.
pub(super) fn refusal(started: &StartReport, of_fingerprints: Option<String>) -> Error {
    let of_fingerprints = of_fingerprints.map(|text| text + "; ").unwrap_or_default();
    let message = format!(
        "{of_fingerprints}of {} pieces of clean data that were compared {} differ from their core: a core was \
         written, replaced, or cached by another cache while the cache was away, or this is an old copy of the cache. \
         The cache has {} bytes that only it has, of a core that has gone on without them. Have it start all the same \
         with what it should do (destage them and drop the rest), or write over it by its UUID",
        started.compared,
        started.changed,
        started.dirty_sectors * SECTOR_BYTES as u64
    );
    Error::new(ErrorKind::Changed, message)
}
