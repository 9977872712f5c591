//! A cached core as a volume. Works like a device volume, and also reports which ranges are cached and which are
//! dirty.

use std::ops::Range;
use std::sync::Arc;

use larder_device::{Durability, IoBuffer, IoFuture, steps};
use larder_export::volume::{Context, DeviceVolume, Extent, Volume, VolumeInfo};

use crate::layout::{Piece, PieceState, SECTOR_BYTES, Span};
use crate::running::CachedCore;

/// Longest range that one lookup in the cache covers, in sectors.
const SPAN_SECTORS: u64 = 1 << 16;
/// Longest single read of [`Volume::cache`].
const READ_BYTES: u64 = 1 << 20;

/// A cached core as a volume, for requests of any length at any offset.
///
/// It has the contexts [`Context::Cached`] and [`Context::Dirty`] in addition to [`Context::Allocation`].
pub struct CachedVolume {
    core: CachedCore,
    volume: DeviceVolume,
    info: VolumeInfo,
}

impl CachedVolume {
    /// A volume of all of `core`.
    pub fn new(core: CachedCore) -> Self {
        let volume = DeviceVolume::new(Arc::new(core.clone()));
        let contexts = vec![Context::Allocation, Context::Cached, Context::Dirty];
        let info = VolumeInfo { contexts, caches: true, ..volume.info().clone() };
        Self { core, volume, info }
    }

    /// The flags of a piece in this context.
    fn flags(context: Context, state: PieceState) -> u32 {
        match (context, state) {
            (Context::Cached, PieceState::Clean | PieceState::Dirty) => Extent::CACHED,
            (Context::Dirty, PieceState::Dirty) => Extent::DIRTY,
            _ => 0,
        }
    }

    fn pieces(&self, range: &Range<u64>) -> Vec<Piece> {
        let sector = SECTOR_BYTES as u64;
        let (first, end) = (range.start / sector, range.end.div_ceil(sector));
        let sectors = u32::try_from((end - first).min(SPAN_SECTORS)).expect("no more than that");
        let mut pieces = Vec::new();
        let span = Span { core: self.core.id(), first, sectors };
        self.core.cache().with(|cache| cache.lookup(span, &mut pieces));
        pieces
    }
}

impl Volume for CachedVolume {
    fn info(&self) -> &VolumeInfo {
        &self.info
    }

    fn read(&self, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.volume.read(offset, buffer)
    }

    fn write(&self, offset: u64, buffer: IoBuffer, durability: Durability) -> IoFuture {
        self.volume.write(offset, buffer, durability)
    }

    fn flush(&self) -> IoFuture {
        self.volume.flush()
    }

    fn trim(&self, range: Range<u64>, durability: Durability) -> IoFuture {
        self.volume.trim(range, durability)
    }

    fn write_zeroes(
        &self,
        range: Range<u64>,
        keeps_room: bool,
        durability: Durability,
    ) -> IoFuture {
        self.volume.write_zeroes(range, keeps_room, durability)
    }

    /// Reads the range and drops the data. The cache keeps misses of these reads under the same mode and policies as
    /// for any other read.
    fn cache(&self, range: Range<u64>) -> IoFuture {
        let core = self.core.clone();
        steps::request(async move {
            let volume = DeviceVolume::new(Arc::new(core));
            let mut offset = range.start;
            while offset < range.end {
                let bytes = READ_BYTES.min(range.end - offset);
                let buffer = IoBuffer::zeroed(usize::try_from(bytes).expect("a MiB at most"));
                volume.read(offset, buffer).await?;
                offset += bytes;
            }
            Ok(IoBuffer::empty())
        })
    }

    fn status(&self, context: Context, range: Range<u64>, extents_max: usize) -> Vec<Extent> {
        if context == Context::Allocation {
            return self.volume.status(context, range, extents_max);
        }
        let sector = SECTOR_BYTES as u64;
        let mut extents: Vec<Extent> = Vec::new();
        for Piece { span, state } in self.pieces(&range) {
            let start = (span.first * sector).max(range.start);
            let end = (span.end() * sector).min(range.end);
            let flags = Self::flags(context, state);
            let goes_on = extents.last().is_some_and(|last| last.flags == flags);
            if goes_on && let Some(last) = extents.last_mut() {
                last.bytes += end - start;
            } else if extents.len() < extents_max {
                extents.push(Extent { bytes: end - start, flags });
            } else {
                break;
            }
        }
        extents
    }
}
