//! The state of the log, and the purposes of its I/Os in flight.

use larder_device::BufferPool;
use slab::Slab;

use super::appender::Appender;
use super::batch::CacheUuid;
use super::drain::Drain;
use super::eviction::Evicting;
use super::geometry::Geometry;
use super::grace::{Grace, Phase};
use super::index::{Found, Index};
use super::leaving::Leaving;
use super::range_cleaning::{Cleaning, Markers};
use super::segments::Segments;
use super::unloaded::Unloaded;
use super::waiting::{HeldWrite, Waiting};
use super::write_buffer::WriteBuffer;
use super::yielding::Yielding;
use crate::layout::requests::Requests;
use crate::layout::{CoreId, DeviceIo, IoId, RequestId, Shares, Span};
use crate::streams::Streams;

/// The identity of a cache, and of a start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The UUID of the cache's label.
    pub uuid: [u8; 16],
    /// Grows with each start. It must be durable in the label before the log starts.
    pub epoch: u32,
}

/// A log of segments: see the [module](super).
#[derive(Debug)]
pub struct LogLayout {
    pub(super) geometry: Geometry,
    pub(super) uuid: CacheUuid,
    pub(super) epoch: u32,
    pub(super) policy: Policy,
    pub(super) shares: Shares,
    /// How classes evict data to make room.
    pub(super) evicting: Evicting,
    /// Whether classes have different priorities, or are pinned.
    pub(super) has_ranks: bool,
    /// Bytes of high-priority data that reclaim may still reinsert; unused allowance carries over.
    pub(super) credit_bytes: u64,
    pub(super) index: Index,
    pub(super) segments: Segments,
    pub(super) appender: Appender,
    pub(super) requests: Requests,
    pub(super) streams: Streams,
    pub(super) buffer: WriteBuffer,
    pub(super) drain: Option<Drain>,
    /// Number of attempts to drain a segment.
    pub(super) drain_attempts: u64,
    /// Reclaim writes held back by bypass writes.
    pub(super) yielding: Yielding,
    pub(super) leaving: Leaving,
    /// Ranges that requests want clean.
    pub(super) cleanings: Vec<Cleaning>,
    pub(super) markers: Markers,
    pub(super) cores: Vec<CoreState>,
    /// Requests that wait until they may make data void.
    pub(super) waiting: Vec<Waiting>,
    /// Writes that wait until a header states that the data that they overwrite is complete.
    pub(super) held_writes: Vec<HeldWrite>,
    /// Overwrites in place in flight.
    pub(super) overwrites: usize,
    /// What a start has found and the index does not contain yet.
    pub(super) unloaded: Option<Unloaded>,
    /// Dirty data that was loaded since it was last queried.
    pub(super) loaded_dirty: Vec<Span>,
    /// Grace periods of overwrites and batches.
    pub(super) grace: Grace,
    pub(super) ios: Slab<Purpose>,
    /// Empty: a reusable buffer for look-ups of client requests.
    pub(super) found: Vec<Found>,
    /// Buffers for headers and footers.
    pub(super) headers: BufferPool,
    pub(super) issued: Vec<(IoId, DeviceIo)>,
    /// A stop has ensured that a start finds the data in drained segments.
    pub(super) is_prepared: bool,
    /// Something has changed since the last check for possible work.
    pub(super) has_changed: bool,
}

/// Settings that may change between two starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Dirty data may be overwritten in place if it is aligned to this; `None`: never.
    pub(super) overwrite_align_bytes: Option<u32>,
    pub(super) reinsert_bytes: usize,
}

impl Policy {
    /// Whether dirty data of a batch at `position` of its segment may ever be overwritten in place. If headers are in
    /// metadata, this excludes the first batch of a segment, whose metadata contains the first header.
    pub(super) fn may_overwrite(self, geometry: &Geometry, position: u32) -> bool {
        self.overwrite_align_bytes.is_some() && !(geometry.has_metadata() && position == 0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoreState {
    /// Number of writes around; a client flush must make them durable.
    pub(super) bypasses: u64,
    pub(super) bypasses_flushed: u64,
    /// Number of destaging writes; a drain must make them durable.
    pub(super) destages: u64,
    pub(super) destages_flushed: u64,
}

impl CoreState {
    /// The state with everything durable.
    pub(super) fn flushed(self) -> Self {
        Self { bypasses_flushed: self.bypasses, destages_flushed: self.destages, ..self }
    }
}

/// Why dirty data goes to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mover {
    /// From memory, because it belongs to a stream.
    Streams,
    /// Its segment is drained; the attempt.
    Drain(u64),
    /// A request wants it clean.
    Request(RequestId),
}

/// The purpose of an I/O.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A client read; the segment that it pins.
    Read { request: RequestId, segment: Option<u32> },
    /// An overwrite in place.
    Overwrite { request: RequestId, segment: u32, phase: Phase },
    /// The write of a batch. Ids of I/Os are reused after their completion; a batch lives longer than that.
    Append { sequence: u64 },
    /// A read of this data of a draining segment.
    DrainRead { found: Vec<Found>, attempt: u64 },
    /// A read for a cleaning request.
    CleaningRead { found: Vec<Found>, request: RequestId },
    /// A write of dirty data to the core.
    Destage { found: Vec<Found>, mover: Mover },
    /// A write around.
    Bypass { request: RequestId, span: Span, durable: bool },
    /// A flush of a core that a write around waits for.
    FlushBefore { core: CoreId, covers: CoreState, request: RequestId },
    /// The flush of a core that ends a cleaning, except for markers.
    FlushCleaned { core: CoreId, covers: CoreState, request: RequestId },
    /// A flush of a core: the counts that it covers, and the request that waits for it.
    Flush { core: CoreId, covers: CoreState, request: Option<RequestId> },
}

/// The distance of a part from the beginning of the whole, in bytes.
pub(super) fn bytes_between(whole: Span, part: Span) -> u64 {
    part.offset() - whole.offset()
}

impl LogLayout {
    pub(super) fn issue(&mut self, io: DeviceIo, purpose: Purpose) {
        let id = IoId(self.ios.insert(purpose));
        self.issued.push((id, io));
        self.has_changed = true;
    }

    pub(super) fn core(&mut self, core: CoreId) -> &mut CoreState {
        if self.cores.len() <= core.index() {
            self.cores.resize(core.index() + 1, CoreState::default());
        }
        &mut self.cores[core.index()]
    }

    /// Whether a crash leaves everything on a core that it has.
    pub(super) fn is_settled(&self, core: CoreId) -> bool {
        let is_settled = |one: &CoreState| {
            one.bypasses == one.bypasses_flushed && one.destages == one.destages_flushed
        };
        self.cores.get(core.index()).is_none_or(is_settled)
    }

    /// Whether the core is known to have the destaged data of `found` durably.
    pub(super) fn is_durable_on_core(&self, found: &Found) -> bool {
        let is_durable = |one: &CoreState| one.destages == one.destages_flushed;
        let (segment, position) = self.geometry.place_of(found.extent.location);
        self.cores.get(found.span.core.index()).is_none_or(is_durable)
            || self.segments.get(segment).is_told(position)
    }

    pub(super) fn find(&self, span: Span) -> Vec<Found> {
        let mut found = Vec::new();
        self.index.find(span, &mut found);
        found
    }

    /// What is cached of `span`, and what is evicted but would be found by a start.
    pub(super) fn find_recorded(&self, span: Span) -> Vec<Found> {
        let mut found = Vec::new();
        self.index.find_recorded(span, &mut found);
        found
    }

    /// The parts of `found` that are still at the same location.
    pub(super) fn still_there(&self, found: &Found) -> Vec<Found> {
        let mut now = self.find(found.span);
        now.retain(|one| {
            one.extent.location == found.extent.location + bytes_between(found.span, one.span)
        });
        now
    }
}
