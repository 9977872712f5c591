//! What requests cost the processor, which does one thing at a time.

use larder_device::model::virtual_time::Moment;

/// What I/Os of a device cost the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    /// To send one and to hear of its end, in nanoseconds.
    pub io_ns: u64,
    /// Whether the processor moves the bytes itself, and so is held until the I/O has ended: persistent memory as a
    /// block device.
    pub is_held: bool,
}

/// What the processor has to do. All zeros: it is as if there were one for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorCost {
    /// For a request beside its I/Os, in nanoseconds.
    pub request_ns: u64,
    /// For I/Os of the cache device.
    pub cache: IoCost,
    /// For I/Os of the core.
    pub core: IoCost,
}

/// The processor of a run.
#[derive(Debug, Default)]
pub(super) struct Processor {
    pub(super) cost: ProcessorCost,
    free_at: Moment,
    busy_ns: u64,
}

impl Processor {
    pub(super) fn new(cost: ProcessorCost) -> Self {
        Self { cost, ..Self::default() }
    }

    /// When it is done with all that it was given by `now`.
    pub(super) fn free_at(&self, now: Moment) -> Moment {
        self.free_at.max(now)
    }

    pub(super) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Works as long on what comes at `now`. Returns when that is done.
    pub(super) fn work(&mut self, now: Moment, nanoseconds: u64) -> Moment {
        self.free_at = self.free_at(now).after(nanoseconds);
        self.busy_ns += nanoseconds;
        self.free_at
    }

    /// Is held until `end`, from when it was free last.
    pub(super) fn hold(&mut self, end: Moment) {
        self.busy_ns += end.as_nanos().saturating_sub(self.free_at.as_nanos());
        self.free_at = self.free_at.max(end);
    }
}
