//! Sequential cut-off: long streams bypass the cache. A slow device serves them fast, and in the cache they would
//! displace data that is requested again. As in Open CAS (`ocf_seq_cutoff`), but without its two levels of streams,
//! because there are no queues here.

use super::Direction;
use crate::layout::Span;
use crate::streams::{Run, Streams};

/// Streams that are always remembered, as many as per queue in Open CAS.
const STREAMS: usize = 64;

/// Which streams bypass the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOffPolicy {
    /// All streams that have reached the threshold.
    Always,
    /// Those that arrive while the cache is full.
    #[default]
    Full,
    /// No stream bypasses the cache.
    Never,
}

/// Sees every request, and decides which ones bypass the cache.
///
/// A stream belongs to one core and one direction; each of its requests begins where an earlier one ended. The 64 most
/// recently continued streams are remembered, and up to 127.
#[derive(Debug)]
pub struct SequentialCutOff {
    policy: CutOffPolicy,
    threshold_bytes: u64,
    streams: Streams,
    /// Bytes of the run that the last request continues.
    before: u64,
}

impl SequentialCutOff {
    /// [`threshold_bytes`](Self::set) of Open CAS.
    pub const THRESHOLD_BYTES: u64 = 1 << 20;

    /// Cuts streams off from `threshold_bytes` on; see [`set`](Self::set).
    pub fn new(policy: CutOffPolicy, threshold_bytes: u64) -> Self {
        Self { policy, threshold_bytes, streams: Streams::remembering(STREAMS), before: 0 }
    }

    /// Changes the parameters from the next request on. Known streams stay known. A stream bypasses the cache from the
    /// request on that makes it at least `threshold_bytes` long. Default 1 MiB; any number is allowed; 0 cuts off
    /// every request.
    pub fn set(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        (self.policy, self.threshold_bytes) = (policy, threshold_bytes);
    }

    /// Whether this request bypasses the cache. Call it once for every request. `is_full` says that the cache would
    /// have to evict for it (Open CAS: it has at most 512 free lines beyond those of the request).
    pub fn cuts_off(&mut self, span: Span, direction: Direction, is_full: bool) -> bool {
        // Track streams under each policy, so that a new policy knows the existing streams.
        let before = self.streams.saw(span, direction);
        self.before = before;
        let is_long = before.saturating_add(span.bytes() as u64) >= self.threshold_bytes;
        match self.policy {
            CutOffPolicy::Always => is_long,
            CutOffPolicy::Full => is_long && is_full,
            CutOffPolicy::Never => false,
        }
    }

    /// The run of a request that was seen, unless another request has continued it. Its bytes include the request.
    pub(crate) fn run_mut(&mut self, span: Span, direction: Direction) -> Option<&mut Run> {
        self.streams.run_mut(span, direction)
    }

    /// Number of bytes by which a run of `bytes` may still grow before it bypasses the cache, if the cache stays as
    /// full as it is.
    pub(crate) fn bytes_left(&self, bytes: u64, is_full: bool) -> u64 {
        let is_cut_off = match self.policy {
            CutOffPolicy::Always => true,
            CutOffPolicy::Full => is_full,
            CutOffPolicy::Never => false,
        };
        if is_cut_off { self.threshold_bytes.saturating_sub(bytes) } else { u64::MAX }
    }

    /// Whether the last request that was seen continues an earlier one.
    pub(crate) fn goes_on(&self) -> bool {
        self.before > 0
    }
}

impl Default for SequentialCutOff {
    fn default() -> Self {
        Self::new(CutOffPolicy::default(), Self::THRESHOLD_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::CoreId;

    /// A span of 64 KiB; 16 of them are a MiB.
    fn at(core: u16, number: u64) -> Span {
        Span { core: CoreId::new(core).unwrap(), first: number * 128, sectors: 128 }
    }

    fn cut(cut_off: &mut SequentialCutOff, requests: u64, is_full: bool) -> Vec<bool> {
        (0..requests).map(|it| cut_off.cuts_off(at(0, it), Direction::Read, is_full)).collect()
    }

    #[test]
    fn a_stream_passes_by_from_the_threshold_on() {
        let mut cut_off = SequentialCutOff::new(CutOffPolicy::Always, 1 << 20);
        let expected: Vec<bool> = (0..20).map(|number| number >= 15).collect();
        assert_eq!(cut(&mut cut_off, 20, false), expected);
        // The other direction, another core, or another place: each is another stream.
        assert!(!cut_off.cuts_off(at(0, 20), Direction::Write, false));
        assert!(!cut_off.cuts_off(at(1, 20), Direction::Read, false));
        assert!(!cut_off.cuts_off(at(0, 22), Direction::Read, false));
        assert!(cut_off.cuts_off(at(0, 20), Direction::Read, false), "and this one goes on");
    }

    #[test]
    fn a_request_alone_can_be_long_enough() {
        let mut cut_off = SequentialCutOff::new(CutOffPolicy::Always, 1 << 20);
        let core = CoreId::new(0).unwrap();
        assert!(!cut_off.cuts_off(Span { core, first: 0, sectors: 2047 }, Direction::Write, false));
        assert!(cut_off.cuts_off(
            Span { core, first: 9999, sectors: 2048 },
            Direction::Write,
            false
        ));
    }

    #[test]
    fn by_default_only_a_full_cache_is_passed_by() {
        let mut cut_off = SequentialCutOff::default();
        assert_eq!(cut(&mut cut_off, 40, false), [false; 40]);
        assert!(
            cut_off.cuts_off(at(0, 40), Direction::Read, true),
            "known from before it was full"
        );
        assert!(!cut_off.cuts_off(at(0, 41), Direction::Read, false), "there is room again");
    }

    #[test]
    fn parameters_change_in_the_middle_of_a_stream() {
        let mut cut_off = SequentialCutOff::new(CutOffPolicy::Never, 1 << 20);
        assert_eq!(cut(&mut cut_off, 40, true), [false; 40]);
        cut_off.set(CutOffPolicy::Always, 64 << 20);
        assert!(!cut_off.cuts_off(at(0, 40), Direction::Read, true));
        cut_off.set(CutOffPolicy::Always, 1 << 20);
        assert!(cut_off.cuts_off(at(0, 41), Direction::Read, true));
    }
}
