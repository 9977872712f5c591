//! Rules that say which faults happen when, and the plan that they make.

use std::ops::Range;

use crate::io::Io;

/// One way for a device to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The request fails and has no effect.
    Error,
    /// The request is carried out and reported as failed: the drive continued after the host's timeout, or lost the
    /// completion.
    FailedButDone,
    /// Only the first blocks of a write reach the device. Writes only.
    TornWrite {
        /// Number of these blocks. If the write has no more than that, it is not torn. `None`: a seeded choice from
        /// none to all but one.
        blocks: Option<u32>,
        /// Whether the write is reported as done all the same.
        reported_done: bool,
    },
    /// Only the first 512-byte sectors of a write reach the device (8-byte words on a device with smaller blocks), the
    /// rest keeps its old content, and the write is reported as failed: a drive whose own unit is smaller than a block.
    /// Writes only.
    TornSectors,
    /// The write is reported as done but never happens. Writes only.
    LostWrite,
    /// One seeded bit of the transfer is flipped, on its way to the caller or to the device. Reads and writes only.
    BitFlip,
    /// The request is carried out, and its future completes, after this number of further submissions.
    Delay {
        /// Further submissions to let pass, at least 1.
        submissions: u32,
    },
    /// The request is carried out, and its future completes, only when
    /// [`FaultDevice::release_delayed`](super::FaultDevice::release_delayed) is called: a device that does not answer.
    Stall,
    /// Power is lost while the request is in flight. [`FaultDevice`](super::FaultDevice) says what survives.
    Crash,
    /// The device is pulled out, and does not come back.
    Gone,
}

/// When one fault happens: at which requests, and how often.
///
/// ```
/// use larder_device::{Fault, FaultRule};
///
/// let third_write = FaultRule::new(Fault::Error).on_writes().at_match(2);
/// let noise = FaultRule::new(Fault::BitFlip).on_reads().within(0..1 << 20).with_probability(0.01);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FaultRule {
    fault: Fault,
    when: FaultTrigger,
    /// Bits of [`kind_of`]; 0 means any kind.
    kinds: u8,
    range: Option<Range<u64>>,
    at_most: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum FaultTrigger {
    Always,
    /// Number among all submissions to the device.
    Io(u64),
    /// Number among the requests that the rule applies to.
    Match(u64),
    Probability(f64),
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const DEALLOCATE: u8 = 4;
const FLUSH: u8 = 8;

fn kind_of(io: &Io) -> u8 {
    match io {
        Io::Read { .. } => READ,
        Io::Write { .. } | Io::WriteZeroes { .. } => WRITE,
        Io::Deallocate { .. } => DEALLOCATE,
        Io::Flush => FLUSH,
    }
}

impl FaultRule {
    /// `fault` at every request that it can happen to.
    pub fn new(fault: Fault) -> Self {
        Self { fault, when: FaultTrigger::Always, kinds: 0, range: None, at_most: u64::MAX }
    }

    /// Only at submission number `number`, counted from 0 over all requests since the device was made.
    #[must_use]
    pub fn at_io(self, number: u64) -> Self {
        Self { when: FaultTrigger::Io(number), ..self }
    }

    /// Only at the request with this `number`, counted from 0 over the requests of the rule's kinds and range.
    #[must_use]
    pub fn at_match(self, number: u64) -> Self {
        Self { when: FaultTrigger::Match(number), ..self }
    }

    /// At each request with this probability, 0 to 1, by the plan's seed.
    #[must_use]
    pub fn with_probability(self, probability: f64) -> Self {
        Self { when: FaultTrigger::Probability(probability), ..self }
    }

    /// At reads (and at the other kinds that were named).
    #[must_use]
    pub fn on_reads(self) -> Self {
        Self { kinds: self.kinds | READ, ..self }
    }

    /// At writes, including writes of zeros (and at the other kinds that were named).
    #[must_use]
    pub fn on_writes(self) -> Self {
        Self { kinds: self.kinds | WRITE, ..self }
    }

    /// At deallocations (and at the other kinds that were named).
    #[must_use]
    pub fn on_deallocates(self) -> Self {
        Self { kinds: self.kinds | DEALLOCATE, ..self }
    }

    /// At flushes (and at the other kinds that were named).
    #[must_use]
    pub fn on_flushes(self) -> Self {
        Self { kinds: self.kinds | FLUSH, ..self }
    }

    /// Only at requests that touch these byte addresses.
    #[must_use]
    pub fn within(self, range: Range<u64>) -> Self {
        Self { range: Some(range), ..self }
    }

    /// No more than `times` times.
    #[must_use]
    pub fn at_most(self, times: u64) -> Self {
        Self { at_most: times, ..self }
    }

    fn is_about(&self, io: &Io) -> bool {
        let kind = kind_of(io);
        let (_, offset, bytes) = io.extent();
        let can_happen = match self.fault {
            Fault::TornWrite { .. } | Fault::TornSectors | Fault::LostWrite => kind == WRITE,
            Fault::BitFlip => kind & (READ | WRITE) != 0,
            _ => true,
        };
        let touches = |r: &Range<u64>| bytes > 0 && offset < r.end && r.start < offset + bytes;
        can_happen
            && (self.kinds == 0 || self.kinds & kind != 0)
            && self.range.as_ref().is_none_or(touches)
    }
}

/// All faults of one device. The same plan over the same requests gives the same faults.
#[derive(Clone, PartialEq, Debug)]
pub struct FaultPlan {
    pub(super) seed: u64,
    rules: Vec<FaultRule>,
    pub(super) volatile_writes: usize,
    pub(super) volatile_cache: bool,
    pub(super) atomic_write_bytes: Option<u32>,
    pub(super) held_back_max: u32,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rules: Vec::new(),
            volatile_writes: 1024,
            volatile_cache: true,
            atomic_write_bytes: None,
            held_back_max: 0,
        }
    }

    /// Adds a rule. At each request the first rule that applies counts.
    #[must_use]
    pub fn with(mut self, rule: FaultRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// How many of the latest unflushed writes a crash may lose. Older ones count as durable, and so do those before
    /// the latest 64 MiB. Default: 1024. With 0 every write is durable at once, and the device keeps no copies of
    /// written data.
    #[must_use]
    pub fn volatile_writes(self, writes: usize) -> Self {
        Self { volatile_writes: writes, ..self }
    }

    /// Whether the device has a cache that loses its content without power. Default: it has. Without one, completed
    /// writes stay, and a loss of power tears only those in flight.
    #[must_use]
    pub fn volatile_cache(self, has: bool) -> Self {
        Self { volatile_cache: has, ..self }
    }

    /// Lets requests complete out of order. Each request that no rule applies to is held back for a number of further
    /// submissions, drawn by seed from 0 to `submissions`. It is also drawn which of them are carried out at once and
    /// only reported later, and which are carried out later. A write that has not completed may be lost or torn when
    /// power is lost, and no flush that was submitted before covers it. Default: 0, all complete in order.
    ///
    /// As with [`Fault::Delay`], blocking on a request lets it complete.
    #[must_use]
    pub fn completing_out_of_order(self, submissions: u32) -> Self {
        Self { held_back_max: submissions, ..self }
    }

    /// Bytes that a loss of power leaves whole or not at all: a power of two of at least 512, or of at least 8 on a
    /// device with blocks of less than 512. The device reports it
    /// ([`DeviceInfo::atomic_write_bytes`](crate::DeviceInfo::atomic_write_bytes)). The default is a sector of 512
    /// bytes, which the device does not report, or a word of 8 bytes.
    #[must_use]
    pub fn atomic_write_bytes(self, bytes: u32) -> Self {
        Self { atomic_write_bytes: Some(bytes), ..self }
    }
}

/// Carries a plan out: which fault, if any, happens to which request.
pub(super) struct Injector {
    rules: Vec<ArmedRule>,
    held_back_max: u32,
    pub(super) rng: fastrand::Rng,
}

struct ArmedRule {
    rule: FaultRule,
    matches: u64,
    times: u64,
}

impl Injector {
    pub(super) fn new(plan: &FaultPlan) -> Self {
        let arm = |rule: &FaultRule| ArmedRule { rule: rule.clone(), matches: 0, times: 0 };
        let rules = plan.rules.iter().map(arm).collect();
        let (held_back_max, rng) = (plan.held_back_max, fastrand::Rng::with_seed(plan.seed));
        Self { rules, held_back_max, rng }
    }

    /// For how many further submissions a request is held back that no rule applies to.
    pub(super) fn holds_back(&mut self) -> u32 {
        if self.held_back_max == 0 { 0 } else { self.rng.u32(..=self.held_back_max) }
    }

    /// The fault that happens to `io`, which is submission number `number`.
    pub(super) fn decide(&mut self, number: u64, io: &Io) -> Option<Fault> {
        let mut decision = None;
        // Every rule counts and draws at every request, so that one rule's fault does not shift the others.
        for armed in self.rules.iter_mut().filter(|armed| armed.rule.is_about(io)) {
            let nth = armed.matches;
            armed.matches += 1;
            let applies = match armed.rule.when {
                FaultTrigger::Always => true,
                FaultTrigger::Io(n) => n == number,
                FaultTrigger::Match(n) => n == nth,
                FaultTrigger::Probability(p) => self.rng.f64() < p,
            };
            if applies && decision.is_none() && armed.times < armed.rule.at_most {
                armed.times += 1;
                decision = Some(armed.rule.fault);
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::IoBuffer;

    fn read(offset: u64) -> Io {
        Io::Read { offset, buffer: IoBuffer::zeroed(4096) }
    }

    fn hits(rule: FaultRule, seed: u64, ios: &[Io]) -> Vec<usize> {
        let mut injector = Injector::new(&FaultPlan::new(seed).with(rule));
        let decide = |(i, io)| injector.decide(i as u64, io).map(|_| i);
        ios.iter().enumerate().filter_map(decide).collect()
    }

    #[test]
    fn rules_hit_by_number_kind_range_and_count() {
        let ios = [read(0), Io::Flush, read(4096), read(8192), Io::Flush, read(4096)];
        let error = || FaultRule::new(Fault::Error);
        assert_eq!(hits(error(), 0, &ios), [0, 1, 2, 3, 4, 5]);
        assert_eq!(hits(error().at_io(3), 0, &ios), [3]);
        assert_eq!(hits(error().on_flushes(), 0, &ios), [1, 4]);
        assert_eq!(hits(error().on_flushes().at_match(1), 0, &ios), [4]);
        assert_eq!(hits(error().within(4096..8192), 0, &ios), [2, 5]);
        assert_eq!(hits(error().on_reads().at_most(2), 0, &ios), [0, 2]);
        assert_eq!(hits(FaultRule::new(Fault::LostWrite), 0, &ios), [] as [usize; 0]);
    }

    #[test]
    fn chance_follows_the_seed() {
        let ios: Vec<Io> = (0..1000).map(|_| read(0)).collect();
        let run = |seed| hits(FaultRule::new(Fault::Error).with_probability(0.1), seed, &ios);
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert!((60..140).contains(&run(1).len()));
    }
}
