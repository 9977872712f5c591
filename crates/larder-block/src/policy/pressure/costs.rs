//! Measured costs of writes to a core.
//!
//! A core serves several I/Os at a time, so the latency of one I/O says little about its cost. Instead each completion
//! is charged the time since the previous completion of any I/O of that core, or since its own start if that is later.
//! The sum of these times is the time in which the core was busy.

use std::time::Duration;

use crate::layout::{CoreId, DeviceIo, PlacementClass, SECTOR_BYTES, Span, Target};
use crate::streams::{Direction, Streams};

/// Number of I/Os of one kind after which the sums are halved, so that older I/Os weigh less.
const COUNTED: u64 = 64;
/// Lengths at which a new kind of write begins: the cost of writes to a core depends most on their length.
const LENGTHS: [u64; 3] = [16 << 10, 64 << 10, 256 << 10];
/// Number of kinds of writes around the cache: by length, and by whether they belong to a stream.
const KINDS: usize = 2 * (LENGTHS.len() + 1);
/// Number of runs of writes that are remembered.
const STREAMS: usize = 16;

/// Writes around the cache that cost about the same per byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind(usize);

impl Kind {
    pub(super) fn of(bytes: u64, is_stream: bool) -> Self {
        let length = LENGTHS.iter().filter(|from| bytes >= **from).count();
        Self(2 * length + usize::from(is_stream))
    }

    fn is_stream(self) -> bool {
        self.0 % 2 == 1
    }
}

/// An I/O of a core in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreIo {
    core: CoreId,
    what: CostKind,
    bytes: u64,
    began: Duration,
}

#[derive(Clone, Copy, Debug)]
enum CostKind {
    Destage,
    Around(Kind),
    Other,
}

/// The recent I/Os of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ios: u64,
    bytes: u64,
    nanoseconds: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64, time: Duration) {
        if self.ios >= COUNTED {
            *self = Self {
                ios: self.ios / 2,
                bytes: self.bytes / 2,
                nanoseconds: self.nanoseconds / 2,
            };
        }
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
    }

    /// The cost of `bytes` bytes, in nanoseconds. `None` if nothing was measured.
    fn of_bytes(&self, bytes: u64) -> Option<u64> {
        let cost = u128::from(self.nanoseconds) * u128::from(bytes);
        let cost = cost.checked_div(u128::from(self.bytes))?;
        Some(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

#[derive(Debug)]
struct CoreCosts {
    last_end: Duration,
    destaged: Sum,
    around: [Sum; KINDS],
    streams: Streams,
}

#[derive(Debug, Default)]
pub(super) struct Costs {
    cores: Vec<(CoreId, CoreCosts)>,
    /// Destages to all cores: which core's data gives way to a write is known only when that data is evicted.
    destaged: Sum,
}

impl Costs {
    /// An I/O is issued; `None` if it is not an I/O of a core.
    pub(super) fn begins(&mut self, io: &DeviceIo, now: Duration) -> Option<CoreIo> {
        let Target::Core(core) = io.target() else { return None };
        let of = self.of(core);
        let (what, bytes) = match io {
            DeviceIo::Write { offset, parts, class, .. } => {
                let bytes: usize = parts.iter().map(|part| part.len()).sum();
                let sectors = u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX);
                let span = Span { core, first: offset / SECTOR_BYTES as u64, sectors };
                let is_around = *class == PlacementClass::Clean;
                let what = if is_around {
                    let is_stream = of.streams.saw(span, Direction::Write) > 0;
                    CostKind::Around(Kind::of(bytes as u64, is_stream))
                } else {
                    CostKind::Destage
                };
                (what, bytes as u64)
            }
            _ => (CostKind::Other, 0),
        };
        Some(CoreIo { core, what, bytes, began: now })
    }

    /// An I/O has ended.
    pub(super) fn ended(&mut self, io: &CoreIo, now: Duration) {
        let of = self.of(io.core);
        let time = now.saturating_sub(of.last_end.max(io.began));
        of.last_end = now;
        match io.what {
            CostKind::Destage => {
                of.destaged.add(io.bytes, time);
                self.destaged.add(io.bytes, time);
            }
            CostKind::Around(Kind(kind)) => of.around[kind].add(io.bytes, time),
            CostKind::Other => {}
        }
    }

    /// The cost of destaging `bytes` bytes, in nanoseconds, averaged over the recent destages to all cores. `None` if
    /// nothing was measured.
    pub(super) fn of_destaging(&self, bytes: u64) -> Option<u64> {
        self.destaged.of_bytes(bytes)
    }

    /// The cost of writing `bytes` bytes around the cache, in nanoseconds. Before the first measurement it is guessed
    /// from the mean destage write to that core. A write of a stream needs no seek: half of that. Another write: twice
    /// that, because destages are sorted by address. If the guess is too low, the first measurements correct it. For a
    /// core without destages, the mean over all cores is used. `None` if nothing was measured.
    pub(super) fn of_writing(&mut self, core: CoreId, kind: Kind, bytes: u64) -> Option<u64> {
        let all = self.destaged;
        let of = self.of(core);
        let known = if of.destaged.ios > 0 { of.destaged } else { all };
        let guessed = || {
            let one = known.nanoseconds.checked_div(known.ios)?;
            Some(if kind.is_stream() { one / 2 } else { one.saturating_mul(2) })
        };
        of.around[kind.0].of_bytes(bytes).or_else(guessed)
    }

    /// Forgets the measured cost of this kind of write.
    pub(super) fn forget(&mut self, core: CoreId, kind: Kind) {
        self.of(core).around[kind.0] = Sum::default();
    }

    fn of(&mut self, core: CoreId) -> &mut CoreCosts {
        let at = self.cores.iter().position(|(known, _)| *known == core).unwrap_or_else(|| {
            let (last_end, destaged, around) = Default::default();
            let streams = Streams::remembering(STREAMS);
            self.cores.push((core, CoreCosts { last_end, destaged, around, streams }));
            self.cores.len() - 1
        });
        &mut self.cores[at].1
    }
}
