//! The log: what it knows, and what the I/Os under way are for.

use larder_device::BufferPool;
use slab::Slab;

use super::appender::Appender;
use super::batch::CacheUuid;
use super::cleaning::{Cleaning, Markers};
use super::drain::Drain;
use super::evicting::Evicting;
use super::geometry::Geometry;
use super::grace::{Grace, Phase};
use super::index::{Found, Index};
use super::leaving::Leaving;
use super::segments::Segments;
use super::unloaded::Unloaded;
use super::waiting::{HeldWrite, Waiting};
use super::write_buffer::WriteBuffer;
use super::yielding::Yielding;
use crate::layout::requests::Requests;
use crate::layout::{CoreId, DeviceIo, IoId, RequestId, Shares, Span};
use crate::streams::Streams;

/// Which cache, and which start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// The UUID of the cache's label.
    pub uuid: [u8; 16],
    /// Grows with each start. Whoever starts a log has written the new one durably before.
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
    /// How classes make room for themselves.
    pub(super) evicting: Evicting,
    /// Whether classes have different priorities, or are pinned.
    pub(super) has_ranks: bool,
    /// What of higher priorities may be kept where segments give way: saved from those that kept less.
    pub(super) credit_bytes: u64,
    pub(super) index: Index,
    pub(super) segments: Segments,
    pub(super) appender: Appender,
    pub(super) requests: Requests,
    pub(super) streams: Streams,
    pub(super) buffer: WriteBuffer,
    pub(super) drain: Option<Drain>,
    /// Attempts to drain a segment, counted.
    pub(super) drain_attempts: u64,
    /// Who waits for what of a core.
    pub(super) yielding: Yielding,
    pub(super) leaving: Leaving,
    /// Ranges that somebody wants clean.
    pub(super) cleanings: Vec<Cleaning>,
    pub(super) markers: Markers,
    pub(super) cores: Vec<CoreState>,
    /// Requests that wait until what they make void may be.
    pub(super) waiting: Vec<Waiting>,
    /// Writes that wait until a header states that what they overwrite is complete.
    pub(super) held_writes: Vec<HeldWrite>,
    /// Overwrites in place under way.
    pub(super) overwrites: usize,
    /// What a start has found and the index does not say yet.
    pub(super) unloaded: Option<Unloaded>,
    /// What was loaded, and is dirty, since it was asked for last.
    pub(super) loaded_dirty: Vec<Span>,
    /// Of overwrites and batches.
    pub(super) grace: Grace,
    pub(super) ios: Slab<Purpose>,
    /// Empty: room for what users' requests find.
    pub(super) found: Vec<Found>,
    /// Of headers and footers.
    pub(super) headers: BufferPool,
    pub(super) issued: Vec<(IoId, DeviceIo)>,
    /// A stop has made sure that a start finds what drained segments hold.
    pub(super) is_prepared: bool,
    /// Something has changed since the last look at what might be done.
    pub(super) has_changed: bool,
}

/// What may change between two starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Dirty data may be overwritten in place where they are aligned to this; `None`: nowhere.
    pub(super) overwrite_align_bytes: Option<u32>,
    pub(super) reinsert_bytes: usize,
}

impl Policy {
    /// Whether dirty data of a batch that begins at `position` of its segment may ever be overwritten in place. Those
    /// that a segment begins with have its first header beside them, where that is in metadata.
    pub(super) fn may_overwrite(self, geometry: &Geometry, position: u32) -> bool {
        self.overwrite_align_bytes.is_some() && !(geometry.has_metadata() && position == 0)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CoreState {
    /// Writes of a bypass that a user's flush has to make durable, counted.
    pub(super) bypasses: u64,
    pub(super) bypasses_flushed: u64,
    /// Destaging writes that a drain has to make durable, counted.
    pub(super) destages: u64,
    pub(super) destages_flushed: u64,
}

impl CoreState {
    /// With all of it durable.
    pub(super) fn flushed(self) -> Self {
        Self { bypasses_flushed: self.bypasses, destages_flushed: self.destages, ..self }
    }
}

/// Why dirty data go to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mover {
    /// From memory, for they are of a stream.
    Streams,
    /// Their segment gives way; the attempt to drain it.
    Drain(u64),
    /// Somebody wants them clean.
    Request(RequestId),
}

/// What an I/O is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A user's read; the segment that it pins.
    Read { request: RequestId, segment: Option<u32> },
    /// An overwrite in place.
    Overwrite { request: RequestId, segment: u32, phase: Phase },
    /// The write of a batch. I/Os are named again when they have ended, which a batch outlives.
    Append { sequence: u64 },
    /// A read of a draining segment, of these.
    DrainRead { found: Vec<Found>, attempt: u64 },
    /// A read of what somebody wants clean.
    CleaningRead { found: Vec<Found>, request: RequestId },
    /// A write of dirty data to the core.
    Destage { found: Vec<Found>, mover: Mover },
    /// A write around.
    Bypass { request: RequestId, span: Span, durable: bool },
    /// A flush of a core that a write around waits for.
    FlushBefore { core: CoreId, covers: CoreState, request: RequestId },
    /// A flush of a core that ends a cleaning, but for markers.
    FlushCleaned { core: CoreId, covers: CoreState, request: RequestId },
    /// A flush of a core: up to which counts, and for whom.
    Flush { core: CoreId, covers: CoreState, request: Option<RequestId> },
}

/// How far a part begins behind the whole, in bytes.
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

    /// Whether a crash leaves on a core what it has.
    pub(super) fn is_settled(&self, core: CoreId) -> bool {
        let is_settled = |one: &CoreState| {
            one.bypasses == one.bypasses_flushed && one.destages == one.destages_flushed
        };
        self.cores.get(core.index()).is_none_or(is_settled)
    }

    /// Whether it is known that a core has durably what was destaged of `found`.
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

    /// What is cached of `span`, and what is evicted and would be found by a start.
    pub(super) fn find_recorded(&self, span: Span) -> Vec<Found> {
        let mut found = Vec::new();
        self.index.find_recorded(span, &mut found);
        found
    }

    /// The parts of `found` that are still where it says.
    pub(super) fn still_there(&self, found: &Found) -> Vec<Found> {
        let mut now = self.find(found.span);
        now.retain(|one| {
            one.extent.location == found.extent.location + bytes_between(found.span, one.span)
        });
        now
    }
}
