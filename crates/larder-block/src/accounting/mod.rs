//! Runs a layout, or a cache on one, on devices in memory that count: measures the cost of a pattern of requests, to
//! the byte.
//!
//! No time passes: all I/Os of a turn are carried out, and then reported to the layout. The number of requests in
//! flight is the number of clients. A client that gets its answer sends its next request before the next turn.
//! [`timed`] has devices that take time, [`Blind`] has no devices.

mod blind;
mod counts;
mod driven;
mod image;
pub mod timed;

use std::collections::{BTreeMap, HashMap};

use crate::cache::RequestCompletion;
use crate::layout::{
    CoreId, Data, DeviceIo, Ending, IoId, LayoutRequest, Outcome, RequestId, SECTOR_BYTES, Span,
    Target,
};
pub use blind::{BLIND_BYTE, Blind};
pub use counts::Counts;
pub use driven::{ClientRequest, Driven};
pub use image::Image;

fn in_order(count: usize) -> Vec<usize> {
    (0..count).collect()
}

/// A client with one request at a time.
#[derive(Debug)]
struct ClientSlot<R> {
    span: Option<Span>,
    state: ClientState<R>,
}

#[derive(Debug)]
enum ClientState<R> {
    Waits(R),
    UnderWay(RequestId),
}

impl<R> ClientSlot<R> {
    fn id(&self) -> Option<RequestId> {
        match self.state {
            ClientState::Waits(_) => None,
            ClientState::UnderWay(id) => Some(id),
        }
    }
}

/// A layout, its devices, and the requests in flight.
#[derive(Debug)]
pub struct Accounting<L> {
    layout: L,
    cache: Image,
    cores: HashMap<CoreId, Image>,
    counts: Counts,
    next_request: u64,
    /// The data of reads up to now.
    reads: HashMap<RequestId, Vec<u8>>,
    ended: HashMap<RequestId, Ending>,
    /// With the number of the turn that issued it.
    under_way: Vec<(u64, IoId, DeviceIo)>,
    turns: u64,
    /// Writes that a power loss may undo, oldest first.
    unflushed: Vec<UnflushedWrite>,
    /// Devices randomly fail one in this number of I/Os.
    failures: Option<(fastrand::Rng, u32)>,
    /// The data of all reads, if the devices store nothing.
    zeros: Option<Data>,
    /// The unit that the cache device writes atomically; cores write sectors atomically.
    cache_whole_bytes: usize,
}

/// Most bytes of a read that a layout requests.
const READ_BYTES_MAX: usize = 1 << 20;

impl<L: Driven> Accounting<L> {
    /// A layout, or a cache, on a cache device with the content `cache`, and cores of zeros.
    pub fn new(layout: L, cache: Image) -> Self {
        Self {
            layout,
            cache,
            cores: HashMap::new(),
            counts: Counts::default(),
            next_request: 0,
            reads: HashMap::new(),
            ended: HashMap::new(),
            under_way: Vec::new(),
            turns: 0,
            unflushed: Vec::new(),
            failures: None,
            zeros: None,
            cache_whole_bytes: SECTOR_BYTES,
        }
    }

    /// Sets the unit at which a power loss tears writes to the cache device: a divisor of its block size, 512 by
    /// default. If the device keeps metadata, it must be its block size.
    #[must_use]
    pub fn tearing_between(self, bytes: usize) -> Self {
        Self { cache_whole_bytes: bytes, ..self }
    }

    /// The counts up to now.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The layout.
    pub fn layout(&self) -> &L {
        &self.layout
    }

    /// The layout; it may be changed while requests are in flight.
    pub fn layout_mut(&mut self) -> &mut L {
        &mut self.layout
    }

    /// Replaces the zeros of the cores by this content.
    #[must_use]
    pub fn with_cores(mut self, cores: HashMap<CoreId, Image>) -> Self {
        self.cores = cores;
        self
    }

    /// Stores no written data, and reads zeros: then counting needs no time and no memory for copies.
    #[must_use]
    pub fn without_bytes(mut self) -> Self {
        self.zeros = Some(Data::copy_of(&vec![0; READ_BYTES_MAX]));
        self
    }

    /// Submits a request.
    pub fn submit(&mut self, request: L::Request) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        if let Some(bytes) = request.read_bytes() {
            let bytes = if self.zeros.is_some() { 0 } else { bytes };
            self.reads.insert(id, vec![0; bytes]);
        }
        self.counts.user_written_bytes += request.written_bytes() as u64;
        self.layout.submit(id, request);
        id
    }

    /// Carries out the I/Os in flight, in the order that `order` returns, and collects the requests that have ended.
    pub fn carry_out_all(&mut self, order: impl FnOnce(usize) -> Vec<usize>) {
        let issued = std::mem::take(&mut self.under_way);
        let mut issued: Vec<Option<(u64, IoId, DeviceIo)>> = issued.into_iter().map(Some).collect();
        for number in order(issued.len()) {
            if let Some((turn, id, io)) = issued[number].take() {
                let outcome =
                    if self.fails() { self.fail(turn, io) } else { self.carry_out(turn, io) };
                self.layout.completed(id, outcome);
            }
        }
        self.under_way.extend(issued.into_iter().flatten());
        self.hear_of_ended();
    }

    /// The I/Os in flight, as numbered by [`carry_out_all`](Self::carry_out_all).
    pub fn under_way(&self) -> impl Iterator<Item = &DeviceIo> {
        self.under_way.iter().map(|(_, _, io)| io)
    }

    /// From now on devices fail one in `one_in` I/Os; 0: none. A write that fails is either complete or absent.
    pub fn fail_one_in(&mut self, one_in: u32, seed: u64) {
        self.failures = (one_in > 0).then(|| (fastrand::Rng::with_seed(seed), one_in));
    }

    fn fails(&mut self) -> bool {
        self.failures.as_mut().is_some_and(|(rng, one_in)| rng.u32(..*one_in) == 0)
    }

    fn fail(&mut self, turn: u64, io: DeviceIo) -> Outcome {
        let is_there = self.failures.as_mut().is_some_and(|(rng, _)| rng.bool());
        if is_there && matches!(io, DeviceIo::Write { .. }) {
            self.carry_out(turn, io);
        }
        Outcome::Failed
    }

    /// Lets the layout retry what has failed.
    pub fn retry(&mut self) {
        self.layout.retry();
    }

    /// Collects the I/Os of the next turn. Returns whether any are in flight.
    pub fn turn(&mut self) -> bool {
        self.turns += 1;
        let mut ios = Vec::new();
        self.layout.turn(&mut ios);
        self.under_way.extend(ios.into_iter().map(|(id, io)| (self.turns, id, io)));
        self.hear_of_ended();
        !self.under_way.is_empty()
    }

    fn hear_of_ended(&mut self) {
        let mut ended = Vec::new();
        self.layout.ended(&mut ended);
        self.counts.requests += ended.len() as u64;
        for RequestCompletion { id, ending, keep } in ended {
            self.ended.insert(id, ending);
            if let Some(keep) = keep {
                let data = match &self.zeros {
                    Some(zeros) => zeros.slice(0..keep.bytes().len()),
                    None => Data::copy_of(&self.reads[&id][keep.bytes()]),
                };
                self.layout.keep(keep, Some(data));
            }
        }
    }

    /// The result of a request and the data that it read, if it has ended.
    pub fn take_ended(&mut self, id: RequestId) -> Option<(Ending, Vec<u8>)> {
        let ending = self.ended.remove(&id)?;
        Some((ending, self.reads.remove(&id).unwrap_or_default()))
    }

    /// Runs `request` alone.
    ///
    /// # Panics
    /// If the layout does not end the request.
    pub fn run(&mut self, request: L::Request) -> (Ending, Vec<u8>) {
        let id = self.submit(request);
        loop {
            let goes_on = self.turn();
            self.carry_out_all(in_order);
            if let Some(ended) = self.take_ended(id) {
                return ended;
            }
            assert!(goes_on, "nothing is under way, and request {} has not ended", id.0);
        }
    }

    /// Keeps `depth` of the requests in flight until all have ended. A request that overlaps an earlier one waits for
    /// it.
    ///
    /// # Panics
    /// If the layout does not end a request, or if one fails.
    pub fn run_all(&mut self, depth: usize, requests: impl IntoIterator<Item = L::Request>) {
        let mut requests = requests.into_iter().fuse();
        let mut clients: Vec<ClientSlot<L::Request>> = Vec::new();
        loop {
            let more = requests.by_ref().take(depth - clients.len());
            clients.extend(more.map(|request| ClientSlot {
                span: request.span(),
                state: ClientState::Waits(request),
            }));
            self.submit_free(&mut clients);
            if clients.is_empty() {
                return;
            }
            let goes_on = self.turn();
            self.carry_out_all(in_order);
            let before = clients.len();
            clients.retain(|client| {
                let ended = client.id().and_then(|id| self.take_ended(id));
                assert!(
                    ended.as_ref().is_none_or(|(ending, _)| *ending == Ending::Done),
                    "{client:?} has failed"
                );
                ended.is_none()
            });
            assert!(goes_on || clients.len() < before, "{before} requests that do not end");
        }
    }

    /// Runs the requests one after the other. The layout's own I/Os end before the next request begins.
    ///
    /// # Panics
    /// If the layout does not end a request, or if one fails.
    pub fn run_one_by_one(&mut self, requests: impl IntoIterator<Item = L::Request>) {
        for request in requests {
            let (ending, _) = self.run(request);
            assert_eq!(ending, Ending::Done, "a request has failed");
            self.settle();
        }
    }

    /// Submits the requests that overlap no earlier one.
    fn submit_free(&mut self, clients: &mut [ClientSlot<L::Request>]) {
        for number in 0..clients.len() {
            let (before, rest) = clients.split_at_mut(number);
            let client = &mut rest[0];
            let overlaps = |other: &ClientSlot<L::Request>| match (client.span, other.span) {
                (Some(a), Some(b)) => a.overlaps(b),
                _ => false,
            };
            if let ClientState::Waits(request) = &client.state
                && !before.iter().any(overlaps)
            {
                client.state = ClientState::UnderWay(self.submit(request.clone()));
            }
        }
    }

    /// Carries out I/Os until none are in flight.
    pub fn settle(&mut self) {
        while self.turn() {
            self.carry_out_all(in_order);
        }
    }

    fn image(&mut self, target: Target) -> &mut Image {
        match target {
            Target::Cache => &mut self.cache,
            Target::Core(core) => self.cores.entry(core).or_default(),
        }
    }

    fn carry_out(&mut self, turn: u64, io: DeviceIo) -> Outcome {
        self.counts.count(&io);
        if let Some(zeros) = &self.zeros {
            return match io {
                DeviceIo::Read { bytes, reader: None, .. } => Outcome::Read(zeros.slice(0..bytes)),
                _ => Outcome::Done,
            };
        }
        match io {
            DeviceIo::Read { target, offset, bytes, reader } => {
                let mut read = vec![0; bytes];
                self.image(target).read(offset, &mut read);
                let Some((request, at)) = reader else {
                    return Outcome::Read(Data::copy_of(&read));
                };
                let into = self.reads.get_mut(&request).expect("a read under way");
                into[at..at + bytes].copy_from_slice(&read);
            }
            DeviceIo::Write { target, offset, parts, beside, durable, .. } => {
                let block_bytes = self.cache_whole_bytes;
                let blocks = beside_each((offset, block_bytes), &parts, beside.as_deref());
                let mut at = offset;
                for part in parts {
                    self.put(target, at, part.bytes(), durable);
                    at += part.len() as u64;
                }
                let image = self.image(target);
                blocks.into_iter().for_each(|(at, bytes)| image.put_metadata(at, &bytes));
            }
            DeviceIo::Deallocate { target, offset, bytes } => {
                let zeros = vec![0; usize::try_from(bytes).expect("a request in memory")];
                self.put(target, offset, &zeros, false);
            }
            // It covers the writes that had completed before it was issued.
            DeviceIo::Flush { target } => {
                self.unflushed.retain(|one| one.target != target || one.turn >= turn)
            }
        }
        Outcome::Done
    }

    fn put(&mut self, target: Target, offset: u64, bytes: &[u8], durable: bool) {
        if !durable || self.unflushed.iter().any(|one| one.target == target) {
            let mut before = vec![0; bytes.len()];
            let image = self.image(target);
            image.read(offset, &mut before);
            let beside = image.metadata_in(offset..offset + bytes.len() as u64);
            let turn = self.turns;
            self.unflushed.push(UnflushedWrite { target, offset, before, beside, turn, durable });
        }
        self.image(target).write(offset, bytes);
    }

    /// Simulates a power loss. Of the writes in flight, and of writes that were not flushed, those sectors (or atomic
    /// units of the cache device) reach the devices for which `survives` returns true. Returns the cache device and
    /// the cores.
    pub fn lose_power(self, mut survives: impl FnMut() -> bool) -> (Image, HashMap<CoreId, Image>) {
        self.lose_power_where(|_, _| survives())
    }

    /// The same, where `survives` gets the device and the offset of the sector there, in bytes.
    pub fn lose_power_where(
        mut self,
        mut survives: impl FnMut(Target, u64) -> bool,
    ) -> (Image, HashMap<CoreId, Image>) {
        let mut kept = std::collections::HashSet::new();
        for UnflushedWrite { target, offset, before, beside, durable, .. } in
            std::mem::take(&mut self.unflushed).into_iter().rev()
        {
            let whole_bytes = self.whole_bytes(target);
            for (at, sector) in (offset..).step_by(whole_bytes).zip(before.chunks(whole_bytes)) {
                if kept.contains(&(target, at)) || durable || survives(target, at) {
                    kept.insert((target, at));
                } else {
                    let image = self.image(target);
                    image.write(at, sector);
                    let here =
                        |one: &&(u64, Vec<u8>)| (at..at + sector.len() as u64).contains(&one.0);
                    beside.iter().filter(here).for_each(|(at, own)| image.put_metadata(*at, own));
                }
            }
        }
        for (_, _, io) in std::mem::take(&mut self.under_way) {
            let DeviceIo::Write { target, mut offset, parts, beside, .. } = io else { continue };
            let whole_bytes = self.whole_bytes(target);
            let mut blocks = beside_each((offset, whole_bytes), &parts, beside.as_deref());
            for sector in parts.iter().flat_map(|part| part.bytes().chunks(whole_bytes)) {
                if survives(target, offset) {
                    let image = self.image(target);
                    image.write(offset, sector);
                    if let Some(own) = blocks.remove(&offset) {
                        image.put_metadata(offset, &own);
                    }
                }
                offset += whole_bytes as u64;
            }
        }
        (self.cache, self.cores)
    }

    fn whole_bytes(&self, target: Target) -> usize {
        if target == Target::Cache { self.cache_whole_bytes } else { SECTOR_BYTES }
    }
}

/// A write that no flush covers yet.
#[derive(Debug)]
struct UnflushedWrite {
    target: Target,
    offset: u64,
    /// The previous content.
    before: Vec<u8>,
    /// The previous metadata.
    beside: Vec<(u64, Vec<u8>)>,
    /// The turn in which it completed.
    turn: u64,
    /// It is durable, and the content before it does not come back.
    durable: bool,
}

/// The metadata of a write, by the offsets of its blocks.
fn beside_each(
    (offset, block_bytes): (u64, usize),
    parts: &[Data],
    beside: Option<&Data>,
) -> BTreeMap<u64, Vec<u8>> {
    let Some(beside) = beside else { return BTreeMap::new() };
    let bytes: usize = parts.iter().map(Data::len).sum();
    let each = beside.len() / (bytes / block_bytes).max(1);
    let starts = (offset..).step_by(block_bytes);
    starts.zip(beside.bytes().chunks(each.max(1)).map(<[u8]>::to_vec)).collect()
}

/// A write of `sectors` from `first` on. Each sector contains its position and the version.
pub fn stamped(core: CoreId, first: u64, sectors: u32, version: u64) -> LayoutRequest {
    let span = Span { core, first, sectors };
    LayoutRequest::Write { span, data: stamps(span, version) }
}

/// The data of a write: each sector contains its place and the version.
pub fn stamps(span: Span, version: u64) -> Data {
    let mut bytes = vec![0; span.bytes()];
    for (sector, bytes) in (span.first..).zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
        bytes[..8].copy_from_slice(&sector.to_le_bytes());
        bytes[8..16].copy_from_slice(&version.to_le_bytes());
        bytes[16..18].copy_from_slice(&span.core.get().to_le_bytes());
    }
    Data::copy_of(&bytes)
}
