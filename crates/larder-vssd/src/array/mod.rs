//! The array: creates, destroys and lists vSSDs, and says how worn its channels and dies are.
//!
//! | file | content |
//! |---|---|
//! | `ledger` | the state with the images that make it durable; stamps |
//! | `blocks` | logical blocks of vSSDs: allocate, append, read, free |
//! | `moves` | moves of parts of blocks; dies that swap their data |
//! | `old_copies` | blocks whose data has moved, and which wait to be erased |
//! | `loans`, `lending`, `loan_ends` | blocks of idle dies that are lent; which may be lent; how loans end |
//! | `reserve` | what lenders keep for themselves |
//! | `worn` | what levelling knows of the dies |
//! | `recovery` | opening an array after a power loss |
//! | `audit` | checks that map, drives and quotas agree |

mod audit;
mod blocks;
mod ledger;
mod lending;
mod loan_ends;
mod loans;
mod moves;
mod old_copies;
mod recovery;
mod reserve;
mod worn;

pub use blocks::{BlockState, Pages};
pub use loans::{EndedLoan, LoanEnd, LoanInfo, LoanTotals};
pub use moves::{Copied, OpenParts, Swap, channel_pairs};
pub use recovery::Recovered;
pub use reserve::LendingRules;

use std::fmt;

use larder_ssd::nand::{BlockIndex, ChannelIndex, DieIndex, PhysicalOp, Tag};
use larder_ssd::raw::{BlockTag, RawSsd};
use larder_ssd::{Error, ErrorKind};

use crate::images::{Images, Journal};
use crate::kind::{Isolation, LogicalBlock, NAME_BYTES_MAX, Request, Throughputs, VssdId};
use crate::levelling::UnitWear;
use crate::state::{GROUPS_MAX, LENT_SEAT, SOFT_PLANES, Seat, Shape, State, SwapState, Vssd};
use crate::table::BlockTable;
use crate::units::{Dies, FreeUnits, Place};
use ledger::Ledger;
use loans::Loans;
use moves::Moves;
use old_copies::OldCopies;

/// Virtual SSDs on one or more open-channel drives, all of one geometry.
///
/// Invariants: acknowledged changes are durable; a physical block is part of at most one logical block; on a die that
/// is not read-only, the quotas of all its vSSDs fit.
#[derive(Debug)]
pub struct Vssds<I> {
    drives: Vec<RawSsd>,
    ledger: Ledger<I>,
    free: FreeUnits,
    /// Remaining moves of the pair of dies that is being swapped.
    moves: Moves,
    old_copies: OldCopies,
    loans: Loans,
}

/// A read-only view of a virtual SSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VssdInfo {
    /// The vSSD.
    pub id: VssdId,
    /// What its owner is called; empty if it was not said.
    pub name: String,
    /// The request of its creation.
    pub request: Request,
    /// Number of its units: channels, dies or soft planes.
    pub units: u32,
    /// Drive and die of each part of its blocks, in the order in which stripes go round them.
    pub dies: Vec<(u32, DieIndex)>,
    /// Pages of a logical block.
    pub block_pages: u64,
    /// Maximum number of logical blocks.
    pub blocks: u32,
    /// Logical blocks in use.
    pub allocated: u32,
    /// Whether one of its dies lost more blocks than its spare covers: data can be read, but no block can be allocated.
    pub read_only: bool,
}

/// Wear of a channel or a die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WearSinceSwap {
    /// Erases of its blocks so far.
    pub erases: u64,
    /// Bytes of the blocks that were erased since the last swap of dies of the drive (c of FlashBlox §3.4.3), without
    /// the moves of the swap itself.
    pub erased_bytes: u64,
}

/// The error of an array that could not be created or opened, with its drives and images.
pub struct NotOpened<I>(Box<(Error, Vec<RawSsd>, I)>);

impl<I> NotOpened<I> {
    fn new(error: Error, drives: Vec<RawSsd>, images: I) -> Self {
        Self(Box::new((error, drives, images)))
    }

    /// The error.
    pub fn error(&self) -> &Error {
        &self.0.0
    }

    /// The drives and images, for another try.
    pub fn into_parts(self) -> (Vec<RawSsd>, I) {
        (self.0.1, self.0.2)
    }
}

impl<I> fmt::Debug for NotOpened<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.error(), f)
    }
}

impl<I> fmt::Display for NotOpened<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl<I> std::error::Error for NotOpened<I> {}

/// Wear and health of the dies, for the choice of units.
struct Wear<'a> {
    drives: &'a [RawSsd],
    swap: Option<&'a SwapState>,
}

impl Dies for Wear<'_> {
    fn usable(&self, place: Place) -> bool {
        let swapping = self
            .swap
            .is_some_and(|swap| swap.drive == place.drive && swap.partner(place.die).is_some());
        let view = self.drives[place.drive as usize].die(place.die);
        !swapping && view.is_some_and(|view| !view.read_only)
    }

    fn erases(&self, place: Place) -> u64 {
        let view = self.drives[place.drive as usize].die(place.die);
        view.map_or(0, |view| view.counters.erases)
    }
}

/// The common shape of the drives; refuses drives that differ.
fn shape_of(drives: &[RawSsd]) -> Result<Shape, Error> {
    let fail = |message: &str| Err(Error::new(ErrorKind::Config, message));
    let (Some(first), Ok(count)) = (drives.first(), u32::try_from(drives.len())) else {
        return fail("no drives: an array has at least one");
    };
    let (geometry, capacity_blocks) = (*first.geometry(), first.capacity_blocks());
    let alike = |drive: &RawSsd| {
        *drive.geometry() == geometry && drive.capacity_blocks() == capacity_blocks
    };
    if !drives.iter().all(alike) {
        return fail("drives of different geometry or spare: make an array of each kind");
    }
    if count.checked_mul(geometry.array.dies()).is_none_or(|dies| dies > 1 << 20) {
        return fail("more than 2^20 dies: make several arrays");
    }
    Ok(Shape { drives: count, geometry, capacity_blocks })
}

impl<I: Images> Vssds<I> {
    /// Creates an array: erases all of `drives`, and writes an empty catalogue to both `images`. The caller draws the
    /// `identity`, which distinguishes arrays.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for drives that differ, or rates of 0; [`ErrorKind::InUse`] if an image already belongs to
    /// an array; [`ErrorKind::PowerLoss`].
    pub fn create(
        drives: Vec<RawSsd>,
        images: I,
        identity: [u8; 16],
        throughputs: Throughputs,
    ) -> Result<Self, NotOpened<I>> {
        let shape = match shape_of(&drives).and_then(|shape| throughputs.check().map(|()| shape)) {
            Ok(shape) => shape,
            Err(error) => return Err(NotOpened::new(error, drives, images)),
        };
        let journal = match Journal::create(images, identity) {
            Ok(journal) => journal,
            Err((images, error)) => return Err(NotOpened::new(error, drives, images)),
        };
        let mut array = Self::assemble(drives, journal, State::new(shape, throughputs));
        match array.erase_all().and_then(|()| array.ledger.write_catalogue()) {
            Ok(()) => Ok(array),
            Err(error) => Err(array.not_opened(error)),
        }
    }

    /// Previous content of the drives belongs to no vSSD.
    fn erase_all(&mut self) -> Result<(), Error> {
        for drive in &mut self.drives {
            for found in drive.power_on() {
                erase(drive, found.block)?;
            }
        }
        Ok(())
    }

    fn not_opened(self, error: Error) -> NotOpened<I> {
        let (drives, images) = self.into_parts();
        NotOpened::new(error, drives, images)
    }

    fn assemble(drives: Vec<RawSsd>, journal: Journal<I>, state: State) -> Self {
        let mut free = FreeUnits::new(state.shape);
        state.vssds.values().flat_map(|vssd| &vssd.seats).for_each(|seat| free.take(seat));
        Self {
            drives,
            ledger: Ledger::new(journal, state),
            free,
            moves: Moves::default(),
            old_copies: OldCopies::default(),
            loans: Loans::default(),
        }
    }

    /// Creates a vSSD with enough units for both its throughput and its capacity (FlashBlox §3.1). It is in the
    /// catalogue when this returns.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a request of 0 bytes or a weight of 0; [`ErrorKind::NoResources`] if there are not
    /// enough free units: the message says how many are free, and what they could provide; [`ErrorKind::PowerLoss`].
    pub fn alloc(&mut self, request: Request) -> Result<VssdId, Error> {
        self.alloc_named("", request)
    }

    /// Like [`Vssds::alloc`], for the owner `name`, which has no other vSSD.
    ///
    /// # Errors
    /// As there; [`ErrorKind::Config`] also for a name of more than [`NAME_BYTES_MAX`] bytes, one with a zero, or one
    /// that another vSSD has. The empty name is no name.
    pub fn alloc_named(&mut self, name: &str, request: Request) -> Result<VssdId, Error> {
        self.ledger.check()?;
        self.check_name(name)?;
        let units = self.units_of(&request)?;
        let wear = Wear { drives: &self.drives, swap: self.ledger.state().swap.as_ref() };
        let places = self.free.choose(request.isolation, units, &wear);
        let places = places.map_err(|free| self.no_resources(&request, units, free))?;
        let (seats, next_seat) = self.seats_at(request.isolation, places)?;
        let id = self.ledger.state().next_vssd;
        if id >= VssdId::COUNT {
            return Err(all_numbers_given());
        }
        let shape = &self.ledger.state().shape;
        let (slots, width) = (shape.quota(seats[0].planes), seats.len());
        let groups = shape.planes() / (seats[0].planes * u32::try_from(width).unwrap_or(u32::MAX));
        let stride = slots.saturating_mul(groups.clamp(1, GROUPS_MAX));
        let table = BlockTable::new(slots, stride, width);
        seats.iter().for_each(|seat| self.free.take(seat));
        let Request { isolation, mb_s, bytes } = request;
        let state = self.ledger.state_mut();
        let name = name.to_owned();
        state.vssds.insert(id, Vssd { name, isolation, mb_s, bytes, seats, table });
        (state.next_vssd, state.next_seat) = (id + 1, next_seat);
        self.ledger.write_catalogue()?;
        Ok(VssdId(id))
    }

    /// New logical dies at `places`, and the number after theirs.
    fn seats_at(
        &self,
        isolation: Isolation,
        mut places: Vec<Place>,
    ) -> Result<(Vec<Seat>, u32), Error> {
        // Consecutive dies are on different channels, because dies are numbered round-robin over them.
        places.sort_by_key(|place| (place.die, place.drive));
        let planes = match isolation {
            Isolation::Channel | Isolation::Die => SOFT_PLANES,
            Isolation::Software { .. } | Isolation::None => 1,
        };
        let first = self.ledger.state().next_seat;
        let seats = (first..).zip(&places);
        let seats: Vec<Seat> = seats
            .map(|(id, place)| Seat { id, drive: place.drive, die: place.die, planes })
            .collect();
        let next = first.checked_add(seats.len().try_into().unwrap_or(u32::MAX));
        let next = next.filter(|&next| next <= LENT_SEAT).ok_or_else(all_numbers_given)?;
        Ok((seats, next))
    }

    /// Adds units to a vSSD, which gets more blocks of the same size; existing blocks stay where they are. When this
    /// returns the growth is in the catalogue. The new units are chosen as for a new vSSD.
    ///
    /// A block has a part on each die that the vSSD was made with, so a vSSD grows by as many units as it was made
    /// with, or a multiple of them, up to 16 times that.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD; [`ErrorKind::Config`] for another number of units: the message
    /// names those that are possible; [`ErrorKind::NoResources`] if too few are free, or the vSSD cannot grow so far;
    /// [`ErrorKind::PowerLoss`]: it may have grown or not.
    pub fn grow(&mut self, id: VssdId, units: u32) -> Result<(), Error> {
        self.ledger.check()?;
        let fail = |kind, message: String| Err(Error::new(kind, message));
        let shape = &self.ledger.state().shape;
        let vssd = self.vssd(id)?;
        let isolation = vssd.isolation;
        let of_unit = match isolation {
            Isolation::Channel => shape.geometry.array.dies_per_channel,
            _ => 1,
        };
        let made_with = u32::try_from(vssd.table.width()).unwrap_or(u32::MAX) / of_unit;
        let unit = isolation.unit_name();
        if units == 0 || !units.is_multiple_of(made_with) {
            let message = format!(
                "{units} more {unit}s for vSSD {}: it was made with {made_with}, and grows by {made_with}, {} or \
                 another multiple",
                id.0,
                made_with * 2
            );
            return fail(ErrorKind::Config, message);
        }
        let of_group = shape.quota(vssd.seats[0].planes);
        let slots = (units / made_with).saturating_mul(of_group);
        let room = vssd.table.stride() - vssd.table.slots();
        if slots > room {
            let message = format!(
                "{units} more {unit}s for vSSD {}: it can grow by {} more; make another vSSD",
                id.0,
                room / of_group * made_with
            );
            return fail(ErrorKind::NoResources, message);
        }
        let wear = Wear { drives: &self.drives, swap: self.ledger.state().swap.as_ref() };
        let places = self.free.choose(isolation, units, &wear).map_err(|free| {
            let message = format!("{units} more {unit}s for vSSD {}: {free} are free", id.0);
            Error::new(ErrorKind::NoResources, message)
        })?;
        let (seats, next_seat) = self.seats_at(isolation, places)?;
        seats.iter().for_each(|seat| self.free.take(seat));
        let state = self.ledger.state_mut();
        state.next_seat = next_seat;
        let Some(vssd) = state.vssds.get_mut(&id.0) else { unreachable!("it is there") };
        vssd.seats.extend(seats);
        vssd.table.grow(slots);
        self.ledger.write_catalogue()
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        if name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return fail(format!(
                "vSSD {name:?}: a name has at most {NAME_BYTES_MAX} bytes, none of them 0"
            ));
        }
        let vssds = &self.ledger.state().vssds;
        match vssds.iter().find(|(_, vssd)| !name.is_empty() && vssd.name == name) {
            None => Ok(()),
            Some((id, _)) => fail(format!("vSSD {name:?}: vSSD {id} has this name; take another")),
        }
    }

    /// Units for a request: the maximum of those for its throughput and those for its capacity.
    fn units_of(&self, request: &Request) -> Result<u32, Error> {
        let fail = |kind, message: String| Err(Error::new(kind, message));
        let Request { isolation, mb_s, bytes } = *request;
        if bytes == 0 {
            return fail(ErrorKind::Config, "a vSSD of 0 bytes: ask for at least 1".to_owned());
        }
        if isolation == (Isolation::Software { weight: 0 }) {
            return fail(ErrorKind::Config, "a weight of 0: the least share is 1".to_owned());
        }
        let unit_bytes = self.unit_bytes(isolation);
        if unit_bytes == 0 {
            let message = format!(
                "a soft plane of dies that serve with {} blocks has none: use dies of more blocks",
                self.ledger.state().shape.capacity_blocks
            );
            return fail(ErrorKind::Config, message);
        }
        let for_rate = u64::from(mb_s.div_ceil(self.ledger.state().throughputs.of(isolation)));
        let units = for_rate.max(bytes.div_ceil(unit_bytes));
        Ok(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Capacity of a unit in bytes.
    pub fn unit_bytes(&self, isolation: Isolation) -> u64 {
        let shape = &self.ledger.state().shape;
        let blocks = match isolation {
            Isolation::Channel => shape.quota(SOFT_PLANES) * shape.geometry.array.dies_per_channel,
            Isolation::Die => shape.quota(SOFT_PLANES),
            Isolation::Software { .. } | Isolation::None => shape.quota(1),
        };
        u64::from(blocks) * self.block_bytes()
    }

    /// Bytes of a physical block.
    fn block_bytes(&self) -> u64 {
        let geometry = &self.ledger.state().shape.geometry;
        u64::from(geometry.block_pages()) * u64::from(geometry.mapping_bytes)
    }

    #[cold]
    fn no_resources(&self, request: &Request, units: u32, free: u32) -> Error {
        let name = request.isolation.unit_name();
        let bytes = self.unit_bytes(request.isolation);
        let rate = self.ledger.state().throughputs.of(request.isolation);
        let message = format!(
            "{} MB/s and {} bytes take {units} {name}s of {rate} MB/s and {bytes} bytes: {free} are \
             free, enough for {} MB/s and {} bytes",
            request.mb_s,
            request.bytes,
            u64::from(free) * u64::from(rate),
            u64::from(free) * bytes
        );
        Error::new(ErrorKind::NoResources, message)
    }

    /// Ends a vSSD without blocks.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`] if it has blocks; else as [`Self::destroy`].
    pub fn dealloc(&mut self, id: VssdId) -> Result<(), Error> {
        let live = self.vssd(id)?.table.live();
        if live > 0 {
            let message = format!(
                "vSSD {} has {live} blocks: free them, or destroy it with what it holds",
                id.0
            );
            return Err(Error::new(ErrorKind::InUse, message));
        }
        self.destroy(id)
    }

    /// Ends a vSSD with all its data. When this returns it is gone permanently, its units are free, and its blocks are
    /// erased.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD. [`ErrorKind::PowerLoss`]: it may be gone or not; if it is
    /// gone, opening the array erases its remaining blocks.
    pub fn destroy(&mut self, id: VssdId) -> Result<(), Error> {
        self.ledger.check()?;
        self.vssd(id)?;
        self.erase_old_copies()?;
        self.end_loans_of(id)?;
        let Some(vssd) = self.ledger.state_mut().vssds.remove(&id.0) else {
            unreachable!("it is there")
        };
        self.ledger.write_catalogue()?;
        // No table refers to these blocks any more, so they cannot be read. Erase them before the units are free, so
        // that they do not take room from the next owner.
        for slot in vssd.table.live_slots() {
            for member in 0..vssd.table.width() {
                let seat = vssd.seat(slot, member);
                if let Some(block) = vssd.table.member(slot, member) {
                    erase(&mut self.drives[seat.drive as usize], block)?;
                }
            }
        }
        vssd.seats.iter().for_each(|seat| self.free.give(seat));
        Ok(())
    }

    /// All vSSDs, in order of their numbers.
    pub fn list(&self) -> impl Iterator<Item = VssdInfo> + '_ {
        self.ledger.state().vssds.keys().filter_map(|&id| self.info(VssdId(id)).ok())
    }

    /// The state of a vSSD.
    ///
    /// # Errors
    /// [`ErrorKind::NotOwned`] if there is no such vSSD.
    pub fn info(&self, id: VssdId) -> Result<VssdInfo, Error> {
        let vssd = self.vssd(id)?;
        let Vssd { isolation, mb_s, bytes, .. } = *vssd;
        let seats = u32::try_from(vssd.seats.len()).unwrap_or(u32::MAX);
        let units = match isolation {
            Isolation::Channel => seats / self.ledger.state().shape.geometry.array.dies_per_channel,
            _ => seats,
        };
        Ok(VssdInfo {
            id,
            name: vssd.name.clone(),
            request: Request { isolation, mb_s, bytes },
            units,
            dies: vssd.seats.iter().map(|seat| (seat.drive, seat.die)).collect(),
            block_pages: self.ledger.state().superblock_pages(vssd),
            blocks: vssd.table.slots(),
            allocated: vssd.table.live(),
            read_only: self.read_only_seat(vssd).is_some(),
        })
    }

    /// A die of `vssd` that accepts no more blocks.
    fn read_only_seat(&self, vssd: &Vssd) -> Option<Seat> {
        let read_only = |seat: &&Seat| {
            let view = self.drives[seat.drive as usize].die(seat.die);
            view.is_none_or(|view| view.read_only)
        };
        vssd.seats.iter().find(read_only).copied()
    }

    fn vssd(&self, id: VssdId) -> Result<&Vssd, Error> {
        self.ledger.state().vssd(id).ok_or_else(|| {
            let message = format!("there is no vSSD {}: list says which there are", id.0);
            Error::new(ErrorKind::NotOwned, message)
        })
    }

    /// Free units of `isolation`.
    pub fn free_units(&self, isolation: Isolation) -> u32 {
        let wear = Wear { drives: &self.drives, swap: self.ledger.state().swap.as_ref() };
        self.free.count_free(isolation, &wear)
    }

    /// Wear of each die of `drive`, in order; empty if the drive does not exist.
    pub fn die_wear(&self, drive: u32) -> Vec<WearSinceSwap> {
        let at = drive as usize;
        let (Some(raw), Some(baselines)) =
            (self.drives.get(at), self.ledger.state().erases_at_swap.get(at))
        else {
            return Vec::new();
        };
        let wear = |(die, baseline): (u32, &u64)| {
            let erases = raw.die(DieIndex(die)).map_or(0, |view| view.counters.erases);
            let since = erases.saturating_sub(*baseline);
            WearSinceSwap { erases, erased_bytes: since * self.block_bytes() }
        };
        (0..).zip(baselines).map(wear).collect()
    }

    /// Wear of each channel of `drive`, in order: the sums over its dies.
    pub fn channel_wear(&self, drive: u32) -> Vec<WearSinceSwap> {
        let dies = self.die_wear(drive);
        if dies.is_empty() {
            return Vec::new();
        }
        let array = self.ledger.state().shape.geometry.array;
        let of_channel = |channel| {
            let dies = array.dies_of(ChannelIndex(channel)).map(|die| dies[die.at()]);
            dies.fold(WearSinceSwap::default(), |sum, die| WearSinceSwap {
                erases: sum.erases + die.erases,
                erased_bytes: sum.erased_bytes + die.erased_bytes,
            })
        };
        (0..array.channels).map(of_channel).collect()
    }

    /// The channels of `drive` as input of the levelling rules. Rates count from the last swap of dies of the drive; if
    /// nothing was erased since, all rates are unknown.
    #[allow(clippy::cast_precision_loss)] // a share needs no more than 52 bits
    pub fn channel_units(&self, drive: u32) -> Vec<UnitWear> {
        let wear = self.channel_wear(drive);
        let since = |unit: &WearSinceSwap| unit.erased_bytes / self.block_bytes();
        let all: u64 = wear.iter().map(since).sum();
        let unit = |unit: &WearSinceSwap| UnitWear {
            erases: unit.erases,
            since_turn: since(unit),
            rate: (all > 0).then(|| since(unit) as f64 / all as f64),
        };
        wear.iter().map(unit).collect()
    }

    /// The common shape of the drives.
    pub(crate) fn shape(&self) -> &Shape {
        &self.ledger.state().shape
    }

    /// The promised throughput of each kind of unit.
    pub fn throughputs(&self) -> Throughputs {
        self.ledger.state().throughputs
    }

    /// The identity of this array.
    pub fn identity(&self) -> [u8; 16] {
        self.ledger.identity()
    }

    /// Read access to a drive.
    pub fn drive(&self, drive: u32) -> Option<&RawSsd> {
        self.drives.get(drive as usize)
    }

    /// Bytes of memory of the map from logical to physical blocks: at most 16 for each physical block.
    pub fn map_bytes(&self) -> u64 {
        self.ledger.state().vssds.values().map(|vssd| vssd.table.memory_bytes()).sum()
    }

    /// The drives, for a caller that stores their content. The caller must not change their state.
    pub fn drives_mut(&mut self) -> &mut [RawSsd] {
        &mut self.drives
    }

    /// Starts or stops recording the operations on the media of `drive`.
    pub fn record_ops(&mut self, drive: u32, record: bool) {
        if let Some(drive) = self.drives.get_mut(drive as usize) {
            drive.record_ops(record);
        }
    }

    /// Appends the operations of `drive` recorded since the last call to `ops`.
    pub fn take_ops(&mut self, drive: u32, ops: &mut Vec<PhysicalOp>) {
        if let Some(drive) = self.drives.get_mut(drive as usize) {
            drive.take_ops(ops);
        }
    }

    /// Makes the power of `drive` fail during the operation after the next `operations`.
    pub fn cut_power_after(&mut self, drive: u32, operations: u64) {
        if let Some(drive) = self.drives.get_mut(drive as usize) {
            drive.cut_power_after(operations);
        }
    }

    /// The images, for the caller that stores them.
    pub fn images_mut(&mut self) -> &mut I {
        self.ledger.images_mut()
    }

    /// Returns drives and images unchanged. Without preparation this is equivalent to a power loss.
    pub fn into_parts(self) -> (Vec<RawSsd>, I) {
        (self.drives, self.ledger.into_images())
    }

    /// The tag of a block of seat `seat` on a physical block with `erases` erases. The stamp must be reserved.
    fn tag(stamp: u64, seat: u32, block: LogicalBlock, erases: u32) -> Tag {
        let erases = BlockTag::saturated(erases);
        BlockTag { die: seat, block: block.block(), erases, stamp }.encode()
    }
}

#[cold]
fn all_numbers_given() -> Error {
    let message = "all numbers of vSSDs or logical dies were given out: make a new array";
    Error::new(ErrorKind::NoResources, message)
}

/// Erases `block` if possible. A block that fails is out of use, and no table refers to it.
fn erase(drive: &mut RawSsd, block: BlockIndex) -> Result<(), Error> {
    match drive.erase(block) {
        Err(error) if error.kind() != ErrorKind::BadBlock => Err(error),
        _ => Ok(()),
    }
}
