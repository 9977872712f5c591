//! Sequential cut-off: long streams pass by the cache, for a slow device is fast at them, and they would displace what
//! is asked for again. As in Open CAS (`ocf_seq_cutoff`), but for its two levels of streams: here are no queues.

use super::Direction;
use crate::layout::Span;
use crate::streams::{Run, Streams};

/// Streams of a cache that are remembered whatever comes, as of a queue of Open CAS.
const STREAMS: usize = 64;

/// Which streams pass by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOffPolicy {
    /// All that are long enough.
    Always,
    /// Those that come while the cache is full.
    #[default]
    Full,
    /// None.
    Never,
}

/// Sees every request, and says which ones pass by the cache.
///
/// A stream is of one core and one direction; each of its requests begins where another one ended. The 64 that were
/// continued last are remembered, and up to 127.
#[derive(Debug)]
pub struct SequentialCutOff {
    policy: CutOffPolicy,
    threshold_bytes: u64,
    streams: Streams,
    /// Bytes of the run that the last request goes on with.
    before: u64,
}

impl SequentialCutOff {
    /// [`threshold_bytes`](Self::set) as Open CAS has it.
    pub const THRESHOLD_BYTES: u64 = 1 << 20;

    /// One that cuts streams off from `threshold_bytes` on; see [`set`](Self::set).
    pub fn new(policy: CutOffPolicy, threshold_bytes: u64) -> Self {
        Self { policy, threshold_bytes, streams: Streams::remembering(STREAMS), before: 0 }
    }

    /// Has other parameters from the next request on; streams that are known stay known. A stream passes by with the
    /// request that makes it `threshold_bytes` long or longer: default 1 MiB, any number; 0 is every request.
    pub fn set(&mut self, policy: CutOffPolicy, threshold_bytes: u64) {
        (self.policy, self.threshold_bytes) = (policy, threshold_bytes);
    }

    /// Whether this request passes by the cache. To be asked of every request, once; `is_full` says that the cache
    /// would have to evict for it (Open CAS: it has free no more than 512 lines beyond those of the request).
    pub fn cuts_off(&mut self, span: Span, direction: Direction, is_full: bool) -> bool {
        // Seen under each policy, so that another one knows the streams that are there.
        let before = self.streams.saw(span, direction);
        self.before = before;
        let is_long = before.saturating_add(span.bytes() as u64) >= self.threshold_bytes;
        match self.policy {
            CutOffPolicy::Always => is_long,
            CutOffPolicy::Full => is_long && is_full,
            CutOffPolicy::Never => false,
        }
    }

    /// The run of a request that was asked of, unless another has gone on with it. Its bytes are those of the request
    /// too.
    pub(crate) fn run_mut(&mut self, span: Span, direction: Direction) -> Option<&mut Run> {
        self.streams.run_mut(span, direction)
    }

    /// How many more bytes a run that has `bytes` may become long before it passes by, if the cache stays as full.
    pub(crate) fn bytes_left(&self, bytes: u64, is_full: bool) -> u64 {
        let is_cut_off = match self.policy {
            CutOffPolicy::Always => true,
            CutOffPolicy::Full => is_full,
            CutOffPolicy::Never => false,
        };
        if is_cut_off { self.threshold_bytes.saturating_sub(bytes) } else { u64::MAX }
    }

    /// Whether the request that was asked of last goes on where another one ended.
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

    /// Of 64 KiB: a MiB is 16 of them.
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
        // What goes the other way, or lies on another core, or elsewhere, is another stream.
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
