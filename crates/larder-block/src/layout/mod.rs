//! Where on the cache device the data of cores lie, and what has to be written beside them.
//!
//! A [`Layout`] decides and does no I/O: it takes requests of users and completions of device I/Os, and says which
//! I/Os are to be carried out and when a request has ended. So byte accounting, simulation and rings drive the same
//! code. What an I/O depends on is not written down: a layout asks for it when that has completed.
//!
//! ```text
//!             submit                     turn
//!   request ──────────►┌──────────┐──────────────► I/Os to be carried out, all at once
//!                      │  Layout  │
//!   completion ───────►└──────────┘──────────────► requests that have ended
//!             completed                  ended
//! ```
//!
//! *Always:* requests that overlap are not under way together, but for reads with reads (whoever calls has locks by
//! range), and for destaging with any: that what is destaged is overwritten meanwhile, or made void, is the layout's
//! matter. A request begins and ends with a block of the cache device. A write that has ended well is durable with
//! its mapping: what a crash leaves is found again.

mod boxed;
mod data;
mod dirty_sectors;
mod io_class;
mod line;
pub mod log;
pub mod ocf;
mod requests;
mod uncached;

use std::fmt;

pub use data::Data;
pub use io_class::{ClassId, Refusal, Share, Shares};
pub use uncached::Uncached;

/// Bytes of a sector, the unit in which data are valid and dirty.
pub const SECTOR_BYTES: usize = 512;

/// Cores of a cache, at most.
pub const CORES_MAX: u16 = 4096;

/// A core device of a cache, below [`CORES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(u16);

impl CoreId {
    /// The core of this number. `None` from [`CORES_MAX`] on.
    pub fn new(number: u16) -> Option<Self> {
        (number < CORES_MAX).then_some(Self(number))
    }

    /// Its number.
    pub fn get(self) -> u16 {
        self.0
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Some sectors of a core, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Whose.
    pub core: CoreId,
    /// The first.
    pub first: u64,
    /// How many.
    pub sectors: u32,
}

impl Span {
    /// The sector behind the last.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.sectors)
    }

    /// Length in bytes.
    pub fn bytes(self) -> usize {
        self.sectors as usize * SECTOR_BYTES
    }

    /// Where it begins on its core, in bytes.
    pub fn offset(self) -> u64 {
        self.first * SECTOR_BYTES as u64
    }

    /// Whether they have a sector in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.core == other.core && self.first < other.end() && other.first < self.end()
    }
}

/// Names a request among those under way; drawn by whoever submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a user, or the cache above, wants.
#[derive(Clone, Debug)]
pub enum Request {
    /// The data of these sectors: what is cached from the cache device, the rest from the core. They arrive with
    /// the reads that say so ([`DeviceIo::Read`]).
    Read {
        /// Which.
        span: Span,
    },
    /// As [`Read`](Self::Read), but what the core has too is read from the core: only what is dirty comes from the
    /// cache device.
    PassThroughRead {
        /// Which.
        span: Span,
    },
    /// Write-back: the data go to the cache device and are dirty. Ends when they are durable.
    Write {
        /// Where.
        span: Span,
        /// `span.bytes()` of them.
        data: Data,
    },
    /// What was read from the core may be kept, where nothing is cached yet.
    InsertClean {
        /// Where.
        span: Span,
        /// `span.bytes()` of them, as they are on the core.
        data: Data,
    },
    /// Write around: the data go to the core. What is cached of these sectors is void, and stays so after a crash,
    /// when this has ended.
    Bypass {
        /// Where.
        span: Span,
        /// `span.bytes()` of them.
        data: Data,
        /// Whether the core has to have them durably when this ends.
        durable: bool,
    },
    /// What is cached of these sectors is void, dirty or not, and stays so after a crash when this has ended.
    Discard {
        /// Which.
        span: Span,
    },
    /// Ends when the core has durably what of these sectors was dirty when this came. In sorted runs of dirty sectors.
    Destage {
        /// Which.
        span: Span,
    },
    /// The same, and the cache device says so durably: after a crash nothing of these sectors is dirty but what was
    /// written after this had come.
    Settle {
        /// Which.
        span: Span,
    },
    /// Ends when all that has ended before is durable.
    Flush,
    /// Nothing is asked any more. Ends when all that has ended before is durable, and the cache device has what a start
    /// after an orderly stop needs to find all that is cached.
    PrepareStop,
}

impl Request {
    /// The sectors that it is about; `None` of a flush, and of what prepares a stop.
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

/// What bytes on the cache device are, and with that how long they live. Each has a placement of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// What only says where others are.
    Metadata,
    /// Data that the core does not have yet, with what says whose they are.
    Dirty,
    /// Data that the core has too.
    Clean,
}

/// Names an I/O that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub(crate) usize);

/// What a device has to do.
#[derive(Clone, Debug)]
pub enum DeviceIo {
    /// Read `bytes` at `offset`.
    Read {
        /// Of which device.
        target: Target,
        /// In bytes.
        offset: u64,
        /// How many.
        bytes: usize,
        /// Whose data this is, and where in them it belongs, in bytes. `None`: the completion gives it to the layout.
        reader: Option<(RequestId, usize)>,
    },
    /// Write `parts` one behind the other at `offset`, in one piece.
    Write {
        /// To which device.
        target: Target,
        /// In bytes.
        offset: u64,
        /// Whole blocks of the device each.
        parts: Vec<Data>,
        /// The metadata of all of its blocks, where the device keeps some; `None`: zeros. In a box, for few have some.
        beside: Option<Box<Data>>,
        /// What it is, on the cache device. Of a core: dirty what is destaged, clean what passes the cache by.
        class: Class,
        /// How many of the bytes only say where others are.
        metadata_bytes: usize,
        /// Whether it has to be durable when it completes.
        durable: bool,
    },
    /// Make durable what has completed.
    Flush {
        /// On which device.
        target: Target,
    },
    /// Forget `bytes` at `offset`: they are of no use any more.
    Deallocate {
        /// On which device.
        target: Target,
        /// In bytes.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}

impl DeviceIo {
    /// The device that has to do it.
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

/// How an I/O has ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Well.
    Done,
    /// Well; it was a read without [`DeviceIo::Read::reader`], and this is what it read.
    Read(Data),
    /// The device has failed. How much of a write is on it, nobody knows.
    Failed,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Done,
    /// A device that it needed has failed; of a write, any of its sectors may be there or not.
    Failed,
}

/// What a layout knows of some sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which.
    pub span: Span,
    /// Whether they are cached, and if so whether the core lacks them.
    pub state: PieceState,
}

/// See [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceState {
    /// Not on the cache device.
    Absent,
    /// There and on the core.
    Clean,
    /// There alone.
    Dirty,
}

/// What a layout holds, in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cached, dirty or not.
    pub valid_sectors: u64,
    /// Of these, those that the core lacks.
    pub dirty_sectors: u64,
}

/// What can be written before something has to be destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How much, in bytes.
    pub bytes: u64,
    /// How much is made at a time.
    pub step_bytes: u64,
}

/// How a layout is left by an orderly stop: what its part of the label says of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The number of the last of what was written, where the layout has such numbers.
    pub last: u64,
    /// Of a log: the lowest generation of a segment that counts, drained or not.
    pub lowest: u64,
    /// Of a log: the checksum of its segments.
    pub checksum: u32,
}

/// Decides where data lie: see the [module](self).
pub trait Layout: Send + fmt::Debug {
    /// Takes a request of no IO class in particular. Nothing is to be done before the next [`turn`](Self::turn).
    fn submit(&mut self, id: RequestId, request: Request) {
        self.submit_of(ClassId::UNCLASSIFIED, id, request);
    }

    /// Takes a request of an IO class. What is cached for it is of that class, and what it finds cached becomes so, as
    /// far as the class has room.
    fn submit_of(&mut self, class: ClassId, id: RequestId, request: Request);

    /// Says how an I/O of an earlier turn has ended.
    fn completed(&mut self, io: IoId, outcome: Outcome);

    /// Appends the requests that have ended since it was asked last. Whoever answers them before the next turn lets
    /// those who send the next ones at once be part of it.
    fn ended(&mut self, ended: &mut Vec<(RequestId, Ending)>);

    /// Appends what is to be carried out, now that all is known that came at one time: what is pending is written
    /// together. The I/Os may go side by side. Requests may end in a turn.
    fn turn(&mut self, ios: &mut Vec<(IoId, DeviceIo)>);

    /// Something was done to a core beside the layout, and is not durable there: a flush has to make it so, like a
    /// write around.
    fn core_was_written(&mut self, core: CoreId);

    /// A core is there no more, and has durably all that was written to it: no I/O goes there from now on. What is
    /// cached of it stays until it gives way, for nobody asks for it. Nothing is under way, and nothing of it dirty.
    fn core_is_gone(&mut self, core: CoreId);

    /// Whether the cores have durably all that is cached.
    fn is_on_cores(&self) -> bool {
        self.usage().dirty_sectors == 0
    }

    /// If the cores have durably all that is cached: the number of the last of what was written, where the layout has
    /// such numbers. What is dirty by a record up to it may be told to be clean
    /// ([`log::LogSuperblock::clean_up_to`]), for from now on nothing of that is overwritten in place.
    fn tell_clean(&mut self) -> Option<u64> {
        None
    }

    /// If the cores have durably all that was written around: the number of the last of what was written, where the
    /// layout has such numbers ([`log::LogSuperblock::settled_up_to`]).
    fn tell_settled(&self) -> Option<u64> {
        None
    }

    /// How it is left, once [`Request::PrepareStop`] has ended well; `None` if a start has to take it as after a crash.
    fn left(&self) -> Option<Left> {
        None
    }

    /// How much of a core a start finds dirty then, in sectors.
    fn dirty_when_left(&self, core: CoreId) -> u64 {
        self.dirty_sectors(core)
    }

    /// Tries once more what a device has refused: the destaging of dirty data.
    fn retry(&mut self);

    /// What is known of some sectors, in their order, without holes.
    fn lookup(&mut self, span: Span, pieces: &mut Vec<Piece>);

    /// The first run of dirty sectors of a core at `sector` or behind it, within a line, of what is loaded.
    fn dirty_after(&self, core: CoreId, sector: u64) -> Option<Span>;

    /// The first run of sectors of a core at `sector` or behind it, within a line, of what is loaded, that a crash
    /// would leave dirty: what is dirty, and what was and is not said to be clean on the cache device.
    fn looks_dirty_after(&self, core: CoreId, sector: u64) -> Option<Span> {
        self.dirty_after(core, sector)
    }

    /// The first run of clean sectors of a core at `sector` or behind it, within a line, of what is loaded, and where
    /// on the cache device it lies, in bytes. A layout whose clean data do not outlive a crash need not tell.
    fn clean_after(&self, _core: CoreId, _sector: u64) -> Option<(Span, u64)> {
        None
    }

    /// What is cached; of what is not loaded, what may be at most.
    fn usage(&self) -> Usage;

    /// How much of a core is dirty, in sectors, of what is loaded.
    fn dirty_sectors(&self, core: CoreId) -> u64;

    /// A layout may serve before all that a start has found is in its index: parts that are not. What a request is
    /// about is loaded when it comes. 0 once all is loaded.
    fn unloaded_parts(&self) -> usize {
        0
    }

    /// Loads one of them, in a few milliseconds.
    fn load_part(&mut self) {}

    /// Loads all of them.
    fn load_all(&mut self) {
        while self.unloaded_parts() > 0 {
            self.load_part();
        }
    }

    /// What was loaded since this was asked last and is dirty, in no order.
    fn take_loaded_dirty(&mut self) -> Vec<Span> {
        Vec::new()
    }

    /// Says what IO classes may have from now on, and in which order they give way. By default each may have all.
    /// Classes that have more then give way before others.
    fn set_shares(&mut self, shares: Shares);

    /// Why so many more sectors of a class cannot be kept just now; `None` if they can, as far as classes go. It may
    /// turn out that there is no room all the same.
    fn refuses(&self, class: ClassId, sectors: u32) -> Option<Refusal>;

    /// Makes room for so many more sectors of a class that are about to be written, where that is to be done before: a
    /// class that has its share gives up what it cached first. `false`: there is none, and they must not be kept.
    fn make_room(&mut self, _class: ClassId, _sectors: u32) -> bool {
        true
    }

    /// A class that was refused room since this was asked, for what it could give up is dirty; each once. `None`: there
    /// is none more. A layout that sees to that by itself names none.
    fn take_full_of_dirty(&mut self) -> Option<ClassId> {
        None
    }

    /// Begins to destage what of a class has been dirty for longest: about so many sectors, and nothing of other
    /// classes. How many; 0: none was found, and nothing has begun. Else it ends as a request of this name, whether the
    /// cores have it durably then or not.
    fn destage_oldest(&mut self, _id: RequestId, _class: ClassId, _sectors: u64) -> u64 {
        0
    }

    /// The sectors of a class that are cached and valid. At any time the sum over all classes is
    /// [`Usage::valid_sectors`]: what a start has found and not loaded counts in both, for class 0.
    fn occupied_sectors(&self, class: ClassId) -> u64;

    /// What writes find before something has to be destaged. `None` of a layout that makes no room ahead: what finds
    /// none there goes around by itself.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Users' writes that it has taken around the cache by itself, because there was no line to be had. 0 of a layout
    /// that makes room ahead.
    fn writes_around(&self) -> u64 {
        0
    }

    /// Bytes of memory that grow with what is cached.
    fn memory_bytes(&self) -> usize;
}
