//! Decides which objects share a region.
//!
//! ```text
//!   stream 0                 what fits no other
//!   stream 1 ..              a class of times to live each
//!   behind these             the upper segments of a segmented FIFO: what was kept at a reclaim
//! ```
//!
//! With several streams, the sequence numbers of fillings do not tell which of two records is newer: a region of one
//! stream may be filled long after a region of another stream was begun. So with several streams every forgotten record
//! needs a tombstone, even an expired one: then a crash finds at most one record of each key. With one stream, the
//! newest record is the valid one.

use std::time::Duration;

use larder_device::PlacementHandle;
use larder_device::plan::Class;
use larder_log::{Region, RegionEviction, SEGMENTS, Stream};

use super::LocPlace;
use crate::engine::flash_region::FlashRegion;

impl LocPlace {
    pub(super) fn streams(&self) -> usize {
        streams(self.ttl_classes.len(), self.log.eviction)
    }

    /// The stream of an object with this expiry.
    pub(super) fn stream_of(&self, expiry_s: u32, now_s: u32) -> usize {
        if expiry_s == 0 {
            return 0;
        }
        let left = expiry_s.saturating_sub(now_s);
        let class = self.ttl_classes.iter().position(|&bound| left <= bound);
        let stream = class.map_or(0, |class| class + 1);
        debug_assert!(stream < self.log.streams.len(), "stream {stream} has a handle");
        stream
    }

    /// The placement class of a stream.
    fn class_of(&self, stream: usize) -> Class {
        let narrow = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        let ttl_classes = self.ttl_classes.len();
        match stream {
            0 => Class::Loc,
            class if class <= ttl_classes => Class::LocTtl(narrow(class - 1)),
            segment => Class::LocKept(narrow(segment - ttl_classes)),
        }
    }

    /// The public description of a region.
    pub(super) fn describe(&self, number: u32, region: &Region) -> FlashRegion {
        let stream = region.stream();
        let handle_of = |stream: usize| self.log.streams.get(stream).map(|stream| stream.handle);
        FlashRegion {
            number,
            state: region.state(),
            sequence: region.sequence(),
            class: stream.map(|stream| self.class_of(stream)),
            handle: stream.and_then(handle_of),
            begun: region.begun_s().map(|seconds| Duration::from_secs(seconds.into())),
        }
    }

    /// The stream of an object that is kept at a reclaim, given its number of hits.
    pub(super) fn stream_of_kept(&self, expiry_s: u32, now_s: u32, hits: u8) -> usize {
        let segment = usize::from(hits).min(SEGMENTS - 1);
        debug_assert!(self.ttl_classes.is_sorted(), "the first class that fits is the shortest");
        match self.stream_of(expiry_s, now_s) {
            0 if segment > 0 && self.log.eviction == RegionEviction::SegmentedFifo => {
                self.ttl_classes.len() + segment
            }
            stream => stream,
        }
    }
}

/// Number of regions that are open at a time.
pub(crate) fn streams(ttl_classes: usize, eviction: RegionEviction) -> usize {
    let upper = if eviction == RegionEviction::SegmentedFifo { SEGMENTS - 1 } else { 0 };
    1 + ttl_classes + upper
}

/// The streams of an engine, one for each of these handles.
pub(crate) fn of_handles(handles: &[PlacementHandle], ttl_classes: usize) -> Vec<Stream> {
    let numbered = handles.iter().enumerate();
    let stream = |(number, &handle): (usize, &PlacementHandle)| Stream {
        handle,
        segment: number.saturating_sub(ttl_classes),
        stays: false,
    };
    numbered.map(stream).collect()
}
