//! The processor time of requests. The processor does one thing at a time.

use larder_device::model::virtual_time::Moment;

/// The processor time of I/Os of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    /// To issue an I/O and to handle its completion, in nanoseconds.
    pub io_ns: u64,
    /// Whether the processor moves the bytes itself, and is busy until the I/O has ended: persistent memory as a block
    /// device.
    pub is_held: bool,
}

/// The processor time of requests. All zeros: as if there were a processor for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorCost {
    /// For a request without its I/Os, in nanoseconds.
    pub request_ns: u64,
    /// Cost of an I/O of the cache device.
    pub cache: IoCost,
    /// Cost of an I/O of the core.
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

    /// When it has finished all work given to it by `now`.
    pub(super) fn free_at(&self, now: Moment) -> Moment {
        self.free_at.max(now)
    }

    pub(super) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// Adds work that arrives at `now` and takes `nanoseconds`. Returns when it is finished.
    pub(super) fn work(&mut self, now: Moment, nanoseconds: u64) -> Moment {
        self.free_at = self.free_at(now).after(nanoseconds);
        self.busy_ns += nanoseconds;
        self.free_at
    }

    /// Is busy until `end`, from when it was last free.
    pub(super) fn hold(&mut self, end: Moment) {
        self.busy_ns += end.as_nanos().saturating_sub(self.free_at.as_nanos());
        self.free_at = self.free_at.max(end);
    }
}
