//! Decides where on the cache device the data of cores is stored, and which metadata is written with it.
//!
//! A [`Layout`] only decides, and does no I/O. It takes client requests and completions of device I/Os, and says which
//! I/Os to carry out and when a request has ended. So byte accounting, simulation and rings drive the same code. There
//! is no explicit list of dependencies between I/Os: a layout issues an I/O when those on which it depends have
//! completed.
//!
//! ```text
//!             submit                     turn
//!   request ──────────►┌──────────┐──────────────► I/Os to be carried out, all at once
//!                      │  Layout  │
//!   completion ───────►└──────────┘──────────────► requests that have ended
//!             completed                  ended
//! ```
//!
//! *Always:* overlapping requests are not in flight together, with two exceptions. Reads may overlap reads (the caller
//! has range locks). Destages may overlap any request: the layout itself handles data that is overwritten or becomes
//! void while it is destaged. A request begins and ends at a block of the cache device. A write that has succeeded is
//! durable together with its mapping, so it is found after a crash.

mod boxed;
mod data;
mod dirty_sectors;
mod io_class;
mod io_queue;
mod line;
pub mod log;
pub mod ocf;
mod requests;
mod uncached;

use std::fmt;

pub use crate::span::{CORES_MAX, CoreId, SECTOR_BYTES, Span};
pub use data::Data;
pub use io_class::{ClassId, Refusal, Share, Shares};
pub use uncached::UncachedLayout;

/// Identifies a request among those in flight; chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A request of a client, or of the cache above.
#[derive(Clone, Debug)]
pub enum LayoutRequest {
    /// Reads these sectors: cached ones from the cache device, the rest from the core. The data arrives with the reads
    /// that name the request ([`DeviceIo::Read`]).
    Read {
        /// The sectors.
        span: Span,
    },
    /// Like [`Read`](Self::Read), but only dirty sectors are read from the cache device; all others from the core.
    PassThroughRead {
        /// The sectors.
        span: Span,
    },
    /// Write-back: the data goes to the cache device and is dirty. Ends when it is durable.
    Write {
        /// The sectors.
        span: Span,
        /// `span.bytes()` bytes.
        data: Data,
    },
    /// Caches data that was read from the core, where nothing is cached yet.
    InsertClean {
        /// The sectors.
        span: Span,
        /// `span.bytes()` bytes, as on the core.
        data: Data,
    },
    /// Write around: the data goes to the core. When this has ended, cached data of these sectors is void, and stays
    /// so after a crash.
    Bypass {
        /// The sectors.
        span: Span,
        /// `span.bytes()` bytes.
        data: Data,
        /// Whether the data must be durable on the core when this ends.
        durable: bool,
    },
    /// Makes cached data of these sectors void, dirty or not. When this has ended, it stays void after a crash.
    Discard {
        /// The sectors.
        span: Span,
    },
    /// Destages these sectors, in sorted runs of dirty sectors. Ends when the core durably has what was dirty at the
    /// start.
    Destage {
        /// The sectors.
        span: Span,
    },
    /// Like `Destage`, and the cache device durably records it: after a crash only data of these sectors that was
    /// written after the start of this is dirty.
    Settle {
        /// The sectors.
        span: Span,
    },
    /// Ends when everything that had ended before is durable.
    Flush,
    /// Prepares an orderly stop. No request may follow. Ends when everything that had ended before is durable, and the
    /// cache device has the metadata that a start after an orderly stop needs to find all cached data.
    PrepareStop,
}

impl LayoutRequest {
    /// The sectors that it is about; `None` for a flush and for the preparation of a stop.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Read { span }
            | Self::PassThroughRead { span }
            | Self::Destage { span }
            | Self::Settle { span }
            | Self::Write { span, .. }
            | Self::InsertClean { span, .. }
            | Self::Bypass { span, .. }
            | Self::Discard { span } => Some(*span),
            Self::Flush | Self::PrepareStop => None,
        }
    }
}

/// A device of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The cache device.
    Cache,
    /// A core.
    Core(CoreId),
}

/// The kind of bytes on the cache device, which determines their lifetime. Each has its own placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlacementClass {
    /// Metadata: bytes that only say where others are.
    Metadata,
    /// Data that the core does not have yet, with its metadata.
    Dirty,
    /// Data that the core also has.
    Clean,
}

/// Identifies an I/O in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub(crate) usize);

/// An I/O for a device.
#[derive(Clone, Debug)]
pub enum DeviceIo {
    /// Read `bytes` at `offset`.
    Read {
        /// The device.
        target: Target,
        /// Offset in bytes.
        offset: u64,
        /// Number of bytes.
        bytes: usize,
        /// The request that gets the data, and where in its data this belongs, in bytes. `None`: the completion gives
        /// the data to the layout.
        reader: Option<(RequestId, usize)>,
    },
    /// Write `parts` consecutively at `offset`, as one write.
    Write {
        /// The device.
        target: Target,
        /// Offset in bytes.
        offset: u64,
        /// Each is a multiple of the device's blocks.
        parts: Vec<Data>,
        /// The metadata of all its blocks, if the device keeps some; `None`: zeros. Boxed, because few writes have it.
        beside: Option<Box<Data>>,
        /// The kind of data on the cache device. For a core: `Dirty` for destages, `Clean` for writes that bypass the
        /// cache.
        class: PlacementClass,
        /// How many of the bytes are metadata.
        metadata_bytes: usize,
        /// Whether it must be durable when it completes.
        durable: bool,
    },
    /// Make all completed writes of the device durable.
    Flush {
        /// The device.
        target: Target,
    },
    /// Discard `bytes` at `offset`: they are no longer needed.
    Deallocate {
        /// The device.
        target: Target,
        /// Offset in bytes.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

impl DeviceIo {
    /// Writes `data` to its place on its core.
    pub fn core_write(span: Span, data: Data, class: PlacementClass, durable: bool) -> Self {
        Self::Write {
            target: Target::Core(span.core),
            offset: span.offset(),
            parts: vec![data],
            beside: None,
            class,
            metadata_bytes: 0,
            durable,
        }
    }
}

impl DeviceIo {
    /// The device of the I/O.
    pub fn target(&self) -> Target {
        match self {
            Self::Read { target, .. }
            | Self::Write { target, .. }
            | Self::Flush { target }
            | Self::Deallocate { target, .. } => *target,
        }
    }

    /// Whether it is a read.
    pub fn reads(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

/// The result of an I/O.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Success.
    Done,
    /// Success of a read without [`DeviceIo::Read::reader`], with its data.
    Read(Data),
    /// The device has failed. How much of a write has reached it is unknown.
    Failed,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Success.
    Done,
    /// A device that it needed has failed. Any of the sectors of a write may be written or not.
    Failed,
}

/// The state of some sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The sectors.
    pub span: Span,
    /// Whether they are cached, and if so whether they are dirty.
    pub state: PieceState,
}

/// The state of a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceState {
    /// Not on the cache device.
    Absent,
    /// On the cache device and on the core.
    Clean,
    /// Only on the cache device.
    Dirty,
}

/// The content of a layout, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cached sectors, both clean and dirty.
    pub valid_sectors: u64,
    /// Of these, dirty ones.
    pub dirty_sectors: u64,
}

/// What can be written before something must be destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Bytes that are made available at a time.
    pub step_bytes: u64,
}

/// The state in which an orderly stop leaves a layout: its part of the label says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownState {
    /// The sequence number of the last write, if the layout has such numbers.
    pub last: u64,
    /// For a log: the lowest generation of a segment that counts, drained or not.
    pub lowest: u64,
    /// For a log: the checksum of its segments.
    pub checksum: u32,
}

/// Decides where data is stored: see the [module](self).
pub trait Layout: Send + fmt::Debug {
    /// Submits a request without an IO class. The caller need not act before the next [`turn`](Self::turn).
    fn submit(&mut self, id: RequestId, request: LayoutRequest) {
        self.submit_of(ClassId::UNCLASSIFIED, id, request);
    }

    /// Submits a request of an IO class. Data cached for it gets that class, and so does cached data that it hits, as
    /// far as the class has room.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: LayoutRequest);

    /// Reports the result of an I/O of an earlier turn.
    fn completed(&mut self, io: IoId, outcome: Outcome);

    /// Appends the requests that have ended since the last call. If the caller answers them before the next turn,
    /// clients that send the next request at once take part in that turn.
    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>);

    /// Appends the I/Os to carry out, after everything that arrived at one time was submitted: pending data is written
    /// together. The I/Os may run concurrently. Requests may end in a turn.
    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>);

    /// A core was written past the layout, and the data is not durable there: a flush must make it so, as for a write
    /// around.
    fn core_was_written(&mut self, core: CoreId);

    /// A core was removed, and durably has everything written to it: no I/O goes there from now on. Its cached data
    /// stays until it is evicted, because no request asks for it. Nothing may be in flight, and none of its data
    /// dirty.
    fn core_is_gone(&mut self, core: CoreId);

    /// Whether the cores durably have everything that is cached.
    fn is_on_cores(&self) -> bool {
        self.usage().dirty_sectors == 0
    }

    /// If the cores durably have everything that is cached: the sequence number of the last write, if the layout has
    /// such numbers. Data that is dirty by a record up to it may be declared clean
    /// ([`log::LogSuperblock::clean_up_to`]), because from now on none of it is overwritten in place.
    fn tell_clean(&mut self) -> Option<u64> {
        None
    }

    /// If the cores durably have everything that was written around: the sequence number of the last write, if the
    /// layout has such numbers ([`log::LogSuperblock::settled_up_to`]).
    fn tell_settled(&self) -> Option<u64> {
        None
    }

    /// The state in which it is left, once [`LayoutRequest::PrepareStop`] has succeeded; `None` if a start must treat
    /// it as after a crash.
    fn left(&self) -> Option<ShutdownState> {
        None
    }

    /// The sectors of a core that a start then finds dirty.
    fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.dirty_sectors(core)
    }

    /// Retries destages that a device has refused.
    fn retry(&mut self);

    /// The state of some sectors, ascending, without gaps.
    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>);

    /// The first run of dirty sectors of a core at or after `sector`, within a line, among what is loaded.
    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span>;

    /// The first run of sectors of a core at or after `sector`, within a line, among what is loaded, that would be
    /// dirty after a crash: dirty sectors, and formerly dirty ones that are not recorded as clean on the cache device.
    fn looks_dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.dirty_after(core, sector)
    }

    /// The first run of clean sectors of a core at or after `sector`, within a line, among what is loaded, and its
    /// offset on the cache device in bytes. A layout whose clean data does not survive a crash need not implement
    /// this.
    fn clean_after(&self, _core: CoreId, _sector: u64) -> Option<(Span, u64)> {
        None
    }

    /// What is cached; for parts that are not loaded, an upper bound.
    fn usage(&self) -> Usage;

    /// The dirty sectors of a core, among what is loaded.
    fn dirty_sectors(&self, core: CoreId) -> u64;

    /// The number of parts that are not loaded yet: a layout may serve before everything that a start has found is in
    /// its index. A request loads the parts that it needs. 0 once all are loaded.
    fn unloaded_parts(&self) -> usize {
        0
    }

    /// Loads one part, in a few milliseconds.
    fn load_part(&mut self) {}

    /// Loads all parts.
    fn load_all(&mut self) {
        while self.unloaded_parts() > 0 {
            self.load_part();
        }
    }

    /// The dirty data that was loaded since the last call, in no particular order.
    fn take_loaded_dirty(&mut self) -> Vec<Span> {
        Vec::new()
    }

    /// Sets the shares of IO classes, and the order in which they are evicted. By default each may use everything.
    /// Classes that exceed their share are evicted before others.
    fn set_shares(&mut self, shares: Shares);

    /// Why `sectors` more sectors of a class cannot be cached now; `None` if they can as far as classes are concerned.
    /// There may still be no room.
    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal>;

    /// Makes room for `sectors` more sectors of a class that are about to be written, if that must be done in advance:
    /// a class that has used up its share evicts its oldest data. `false`: there is no room, and they must not be
    /// cached.
    fn make_room(&mut self, _class: ClassId, _sectors: u32) -> bool {
        true
    }

    /// A class that was refused room since the last call because the data that it could give up is dirty; each is
    /// returned once. `None`: there are no more. A layout that handles this by itself returns none.
    fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        None
    }

    /// Begins to destage the oldest dirty data of a class: about `sectors` sectors, and none of other classes. Returns
    /// the number of sectors; 0: none was found, and nothing has begun. Otherwise it ends as a request with this id,
    /// which does not mean that the data is durable on the cores.
    fn destage_oldest(&mut self, _id: RequestId, _class: ClassId, _sectors: u64) -> u64 {
        0
    }

    /// The valid cached sectors of a class. The sum over all classes is always [`Usage::valid_sectors`]: data that a
    /// start has found and that is not loaded counts in both, for class 0.
    fn occupied_sectors(&self, class: ClassId) -> u64;

    /// The room for writes before something must be destaged. `None` for a layout that makes no room in advance:
    /// there, writes without room go around the cache by themselves.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Client writes that the layout itself has sent around the cache, because no line was available. 0 for a layout
    /// that makes room in advance.
    fn writes_around(&self) -> u64 {
        0
    }

    /// Bytes of memory that grow with the cached data.
    fn memory_bytes(&self) -> usize;
}
